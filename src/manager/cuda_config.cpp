// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/manager/cuda_manager.hpp"
#include "manager/config_table.hpp"

namespace gpuwarden::manager {
namespace {

const std::vector<ConfigRow<CudaConfig>>& cuda_rows() {
  using C = CudaConfig;
  constexpr NumberRange kInterval{0.01, 3600};
  constexpr NumberRange kDelay{0, 3600};
  static const std::vector<ConfigRow<C>> kRows{
      indices_row<C, &C::device_ids>("device_ids"),
      flag_row<C, &C::enable_health_check>("enable_health_check"),
      seconds_row<C, &C::health_check_interval, kInterval>("health_check_interval", "0.01 to 3600 seconds"),
      count_row<C, &C::max_retries, NumberRange{1, 100}>("max_retries", "1 to 100 attempts"),
      seconds_row<C, &C::retry_delay, kDelay>("retry_delay", "0 to 3600 seconds"),
      number_row<C, &C::retry_backoff, NumberRange{1, 100}>("retry_backoff", "a factor from 1 to 100"),
      seconds_row<C, &C::retry_max_delay, kDelay>("retry_max_delay", "0 to 3600 seconds"),
      number_row<C, &C::retry_jitter, NumberRange{0, 1}>("retry_jitter", "a share from 0 to 1"),
      flag_row<C, &C::enable_failover>("enable_failover"),
      seconds_row<C, &C::recovery_delay, kDelay>("recovery_delay", "0 to 3600 seconds"),
      seconds_row<C, &C::recovery_max_delay, kDelay>("recovery_max_delay", "0 to 3600 seconds"),
  };
  return kRows;
}

nlohmann::json bytes_or_null(const std::optional<Bytes>& bytes) {
  return bytes ? nlohmann::json(bytes->value) : nlohmann::json();
}

}  // namespace

nlohmann::json to_json(const CudaConfig& config) { return write_config(config, cuda_rows()); }
Result<CudaConfig> cuda_config_from_json(const nlohmann::json& json) { return read_config(json, cuda_rows()); }

RetryPolicy retry_policy(const CudaConfig& config) {
  return {config.max_retries, config.retry_delay, config.retry_backoff, config.retry_max_delay, config.retry_jitter};
}

nlohmann::json to_json(const DeviceStatus& status) {
  nlohmann::json json = to_json(status.device);
  json["state"] = to_string(status.health.state);
  json["health"] = facts::to_json(status.health);
  json["score"] = status.score ? nlohmann::json(*status.score) : nlohmann::json();
  json["in_use"] = status.in_use;
  const auto& capability = status.compute_capability;
  json["compute_capability"] =
      capability ? nlohmann::json(fmt::format("{}.{}", capability->major, capability->minor)) : nlohmann::json();
  json["memory_total_bytes"] = bytes_or_null(status.memory_total);
  json["memory_used_bytes"] = bytes_or_null(status.memory_used);
  return json;
}

nlohmann::json to_json(const DeviceError& error) {
  return {{"device", to_json(error.device)},
          {"operation", error.operation},
          {"error", facts::to_json(error.error)},
          {"attempt", error.attempt},
          {"will_retry", error.will_retry},
          {"failover", error.failover ? to_json(*error.failover) : nlohmann::json()}};
}

}  // namespace gpuwarden::manager
