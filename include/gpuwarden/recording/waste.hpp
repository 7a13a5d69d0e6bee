// SPDX-License-Identifier: Apache-2.0
// What was wasted, without any rule of a site: GPUs that were held and not used, idle time, untouched memory,
// throttling, lost GPUs. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/telemetry/alert_rules.hpp"

namespace gpuwarden::recording {

struct Summary;

/// A finding.
struct Waste {
  std::string id;  ///< of its check
  telemetry::AlertLevel level = telemetry::AlertLevel::warning;
  std::string message;
  std::string next_step;
  std::vector<GpuIndex> gpus;

  bool operator==(const Waste&) const = default;
};

/// A row of the table of checks. `test` gives a finding for each thing to say, with message and GPUs; what its row says
/// (id, level, next step) is filled in where it left that empty.
struct WasteCheck {
  std::string_view id;
  std::string_view title;  ///< what it looks for, for documents
  telemetry::AlertLevel level = telemetry::AlertLevel::warning;
  std::string_view next_step;
  std::vector<Waste> (*test)(const Summary&);
};
std::span<const WasteCheck> waste_checks();

/// What the checks find, worst first. What is not known is no finding.
std::vector<Waste> judge_waste(const Summary& summary);

nlohmann::json to_json(const Waste& waste);
/// Fails with corrupt, naming the key.
Result<Waste> waste_from_json(const nlohmann::json& json);

}  // namespace gpuwarden::recording
