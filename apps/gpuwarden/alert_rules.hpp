// SPDX-License-Identifier: Apache-2.0
// The alert rules that `top` and `serve` judge by.
#pragma once

#include "command.hpp"
#include "gpuwarden/telemetry/rules_file.hpp"

namespace gpuwarden::cli {

/// The file of --rules; without it telemetry::find_alert_rules().
inline std::filesystem::path alert_rules_file(const Context& context) {
  const auto named = context.args.text("rules");
  return named ? std::filesystem::path(*named) : telemetry::find_alert_rules(context.environment);
}

}  // namespace gpuwarden::cli
