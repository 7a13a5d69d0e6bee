// SPDX-License-Identifier: Apache-2.0
// Keys while a question stands in the last line.
#pragma once

#include "gpuwarden/view/keys.hpp"

namespace gpuwarden::view {

/// Whether there was a question, to which the key then belonged.
bool apply_to_prompt(const Key& key, ViewState& state);
/// Asks whether the tagged processes, else the selected one, are to get a signal.
void ask_for_signal(ViewState& state, const Situation& situation, int signal);

}  // namespace gpuwarden::view
