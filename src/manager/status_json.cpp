// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/manager/gpu_manager.hpp"

namespace gpuwarden::manager {

nlohmann::json to_json(const ManagerStatus& status) {
  using Json = nlohmann::json;
  Json gpus = Json::array();
  for (const DeviceStatus& gpu : status.gpus) gpus.push_back(to_json(gpu));
  Json memory = Json::array();
  for (const MemoryStatus& one : status.memory) memory.push_back(to_json(one));
  Json alerts = Json::array();
  for (const telemetry::Alert& alert : status.alerts) alerts.push_back(telemetry::to_json(alert));
  Json json{{"initialized", status.initialized},
            {"cuda_available", status.cuda_available},
            {"simulated", status.simulated},
            {"problem", status.problem},
            {"current", to_json(status.current)},
            {"gpus", std::move(gpus)},
            {"memory", std::move(memory)},
            {"monitoring", status.monitoring},
            {"alerts", std::move(alerts)},
            {"operations", profile::to_json(status.operations).at("operations")},
            {"optimization", to_json(status.optimization)},
            {"releasable", status.releasable},
            {"config", to_json(status.config)}};
  json["driver_version"] = status.driver_version ? Json(*status.driver_version) : Json();
  json["distributed"] = status.distributed ? to_json(*status.distributed) : Json();
  return facts::document(std::move(json));
}

}  // namespace gpuwarden::manager
