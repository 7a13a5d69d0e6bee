// SPDX-License-Identifier: Apache-2.0
// What the options of `gpuwarden top` mean.
#pragma once

#include <chrono>

#include "command.hpp"
#include "gpuwarden/telemetry/alert_rules.hpp"
#include "gpuwarden/view/canvas.hpp"
#include "gpuwarden/view/state.hpp"

namespace gpuwarden::cli {

/// What the options say.
struct TopSettings {
  view::ViewState state;
  std::chrono::milliseconds interval = std::chrono::seconds(1);
  view::Extent size;
  bool colour = false;
  telemetry::AlertConfig alerts;  ///< its rules alone: a view tells nobody
};

/// Fails with invalid_argument naming the option, also for those that contradict each other.
Result<TopSettings> read_top_settings(const Context& context);
/// Whether other machines are to be shown instead of this one.
bool shows_others(const Args& args);

}  // namespace gpuwarden::cli
