// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/status_file.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::launch {

std::string status_json(const facts::Snapshot& snapshot, const std::vector<Uuid>& gpus) {
  using nlohmann::json;
  const auto number = [](const auto& value) { return value ? json(value->value) : json(); };
  json rows = json::array();
  for (const facts::GpuRecord& record : snapshot.gpus) {
    const auto is_own = [&](const Uuid& uuid) {
      return uuid == record.gpu.uuid ||
             std::ranges::find(record.mig_devices, uuid, &facts::MigDevice::uuid) != record.mig_devices.end();
    };
    if (std::ranges::none_of(gpus, is_own)) continue;
    const facts::GpuSample& sample = record.sample;
    rows.push_back({{"index", record.gpu.index.value},
                    {"name", record.gpu.name},
                    {"state", std::string(facts::to_string(record.state))},
                    {"usable", facts::is_usable(record)},
                    {"utilization_percent", number(sample.utilization_gpu)},
                    {"memory_used_bytes", number(sample.memory_used)},
                    {"memory_total_bytes", number(sample.memory_total)},
                    {"temperature_celsius", number(sample.temperature)},
                    {"power_watts", sample.power ? json(static_cast<double>(sample.power->value) / 1000) : json()}});
  }
  const json document{{"schema", facts::kJsonSchema},
                      {"simulated", snapshot.simulated},
                      {"time", format_utc(snapshot.taken_at)},
                      {"gpus", std::move(rows)}};
  return document.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

void StatusFile::hear(const telemetry::Reading& reading, const std::vector<Uuid>& gpus) {
  if (problem_ || (written_ && reading.when - *written_ < kStatusPeriod)) return;
  written_ = reading.when;
  if (auto done = write_file_atomically(file_, status_json(reading.snapshot, gpus)); !done) problem_ = done.error();
}

}  // namespace gpuwarden::launch
