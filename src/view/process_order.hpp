// SPDX-License-Identifier: Apache-2.0
// The order in which processes are listed.
#pragma once

#include "gpuwarden/view/scene.hpp"

namespace gpuwarden::view {

void sort_processes(const ViewState& state, Rows& rows);
/// Puts each process below its nearest ancestor in the list, and says how deep it stands there.
void put_into_tree(std::vector<ProcessRow>& processes);

}  // namespace gpuwarden::view
