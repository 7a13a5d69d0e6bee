// SPDX-License-Identifier: Apache-2.0
// Moving what is selected.
#pragma once

#include "gpuwarden/view/keys.hpp"

namespace gpuwarden::view {

/// So many rows down (negative: up) in the list that has the focus; stops at its ends.
void move_selection(ViewState& state, const Situation& situation, int rows);
void move_sideways(ViewState& state, const Situation& situation, int steps);
/// So many moments forward (negative: back); pauses, and at the newest goes on.
void step_through_history(ViewState& state, const Situation& situation, int moments);
/// A click selects, a turn of the wheel moves; false for what is no doing of the mouse.
bool apply_mouse(const Key& key, ViewState& state, const Situation& situation);

}  // namespace gpuwarden::view
