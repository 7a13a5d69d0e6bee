// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/device.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace gpuwarden::manager {

std::string device_name(const Device& device) {
  return device.gpu && device.ordinal ? fmt::format("cuda:{}", device.ordinal->value) : "cpu";
}

std::string spoken_name(const Device& device) {
  return device.gpu ? fmt::format("GPU {}", device.gpu->value) : "the CPU";
}

nlohmann::json to_json(const Device& device) {
  nlohmann::json json{{"device", device_name(device)}, {"name", device.name}};
  json["gpu"] = device.gpu ? nlohmann::json(device.gpu->value) : nlohmann::json();
  json["uuid"] = device.gpu ? nlohmann::json(device.uuid.value) : nlohmann::json();
  json["cuda_ordinal"] = device.ordinal ? nlohmann::json(device.ordinal->value) : nlohmann::json();
  return json;
}

}  // namespace gpuwarden::manager
