// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/probe/power_limit.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/probe/child_process.hpp"
#include "probe/nvml_call.hpp"
#include "probe/nvml_library.hpp"

namespace gpuwarden::probe {
namespace {

using Json = nlohmann::json;

std::unexpected<Error> not_set(const nvml::Functions& nvml, nvml::Return code, const Uuid& gpu) {
  const std::string name = printable(gpu.value);
  if (code == nvml::kNotFound || code == nvml::kInvalidArgument)
    return fail(ErrorCode::not_found, fmt::format("there is no GPU '{}'", name), "gpuwarden list");
  if (code == nvml::kNoPermission)
    return fail(ErrorCode::permission_denied, fmt::format("no permission to set the power limit of {}", name),
                "only root may: see --keep power of gpuwarden serve");
  if (code == nvml::kNotSupported || code == nvml::kFunctionNotFound)
    return fail(ErrorCode::unavailable, fmt::format("{} has no power limit that can be set", name));
  const std::string why =
      nvml.nvmlErrorString != nullptr ? printable(nvml.nvmlErrorString(code)) : std::string("unknown");
  return fail(ErrorCode::unavailable,
              fmt::format("the power limit of {} was not set: NVML code {} ({})", name, code, why));
}

Result<Milliwatts> set_through(const nvml::Functions& nvml, const Uuid& gpu, Milliwatts limit) {
  nvml::Device device = nullptr;
  unsigned low = 0;
  unsigned high = 0;
  nvml::Return code = call(nvml.nvmlDeviceGetHandleByUUID, gpu.value.c_str(), &device);
  if (code == nvml::kSuccess) code = call(nvml.nvmlDeviceGetPowerManagementLimitConstraints, device, &low, &high);
  if (code != nvml::kSuccess) return not_set(nvml, code, gpu);
  if (limit.value < low || limit.value > high)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} W is not between {} and {} W, the range of this GPU",
                            static_cast<double>(limit.value) / 1000, low / 1000.0, high / 1000.0));
  code = call(nvml.nvmlDeviceSetPowerManagementLimit, device, static_cast<unsigned>(limit.value));
  if (code != nvml::kSuccess) return not_set(nvml, code, gpu);
  return read_number<Milliwatts>(nvml.nvmlDeviceGetPowerManagementLimit, device).value_or(limit);
}

Result<Milliwatts> set_here(const ReaderOptions& options, const Uuid& gpu, Milliwatts limit) {
  for (const auto& [name, value] : options.variables) ::setenv(name.c_str(), value.c_str(), 1);
  const auto nvml = open_nvml(options.nvml_library);
  if (!nvml) return std::unexpected(static_cast<Error>(nvml.error()));
  const auto code = nvml->nvmlInit_v2 != nullptr ? nvml->nvmlInit_v2() : nvml->nvmlInit();
  if (code != nvml::kSuccess) return not_set(*nvml, code, gpu);
  auto result = set_through(*nvml, gpu, limit);
  call(nvml->nvmlShutdown);
  return result;
}

Json to_message(const Result<Milliwatts>& result) {
  if (result) return {{"limit", result->value}};
  return {{"code", static_cast<int>(result.error().code)},
          {"message", result.error().message},
          {"hint", result.error().hint}};
}

}  // namespace

Result<Milliwatts> set_power_limit(const ReaderOptions& options, const Uuid& gpu, Milliwatts limit) {
  const auto child = ChildProcess::start([&](int fd) { send_message(fd, to_message(set_here(options, gpu, limit))); });
  if (child == nullptr) return fail(ErrorCode::failed, "no process can be started that asks the driver");
  const auto answer = child->receive(options.timeout);
  if (!answer)
    return fail(ErrorCode::timed_out,
                child->closed() ? "the driver ended the process that asked it"
                                : fmt::format("the driver did not answer within {}", format_duration(options.timeout)),
                "gpuwarden doctor");
  if (answer->contains("limit")) return Milliwatts(answer->value("limit", std::int64_t{0}));
  return fail(static_cast<ErrorCode>(answer->value("code", static_cast<int>(ErrorCode::failed))),
              answer->value("message", ""), answer->value("hint", ""));
}

}  // namespace gpuwarden::probe
