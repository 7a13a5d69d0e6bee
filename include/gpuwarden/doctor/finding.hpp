// SPDX-License-Identifier: Apache-2.0
// What the doctor says: findings, and the verdict over them.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/knowledge/platform_steps.hpp"

namespace gpuwarden::doctor {

enum class Severity { ok, info, warning, error, critical };
std::string_view to_string(Severity severity);
std::optional<Severity> severity_from(std::string_view name);

/// The part of the machine that a check looks at.
enum class Area { driver, device, toolkit, frameworks, libraries, containers, multi_gpu, system, cluster };
std::string_view to_string(Area area);
std::optional<Area> area_from(std::string_view name);

/// As operators say it; not_judged where no fact of the area is known.
enum class Status { not_judged, optimal, compatible, needs_update, incompatible };
std::string_view to_string(Status status);

using knowledge::is_command;

/// One thing that was found.
struct Finding {
  std::string id;  ///< of the check: "driver-too-old-for-framework"
  Area area = Area::system;
  Severity severity = Severity::warning;
  std::string title;  ///< what was found, with the numbers
  std::string why;    ///< why it matters, a sentence
  /// Commands or steps, in order; exact for this distribution where it is known. Checks write each with its kind
  /// (knowledge::MarkedStep); what the doctor hands over is as the platform has it.
  std::vector<std::string> fix;
  bool safe = false;   ///< the fix may be run by `doctor --fix --apply`: it undoes easily and stops no work
  std::string source;  ///< where the rule comes from
  std::string link;    ///< documentation; may be empty

  bool operator==(const Finding&) const = default;
};

}  // namespace gpuwarden::doctor
