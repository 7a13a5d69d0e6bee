// SPDX-License-Identifier: Apache-2.0
// A reading while the book of alerts judges it.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "gpuwarden/telemetry/alerts.hpp"

namespace gpuwarden::telemetry {

struct AlertBook::Moment {
  Time now;
  Time before;  ///< the reading before
  const Reading& reading;
  std::span<const facts::Health> health;
  std::map<std::string, std::vector<facts::GpuEvent>> events;
  std::vector<std::string> seen;
  std::vector<AlertChange> changes;
  bool gpu_is_missing = false;  ///< of the GPU that is being judged
};

}  // namespace gpuwarden::telemetry
