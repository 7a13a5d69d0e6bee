// SPDX-License-Identifier: Apache-2.0
// Draws a view. Pure: the same state, scene and extent give the same cells.
#pragma once

#include "gpuwarden/view/canvas.hpp"
#include "gpuwarden/view/scene.hpp"
#include "gpuwarden/view/state.hpp"

namespace gpuwarden::view {

/// The smallest terminal in which something useful can be shown; in a smaller one that is said.
inline constexpr Extent kLeast{20, 5};

Canvas draw(const ViewState& state, const Scene& scene, Extent extent);

/// Brings a state in order before it is drawn: what is selected exists and is scrolled into sight.
void settle(ViewState& state, const Scene& scene, Extent extent);

/// The processes within sight, which alone are worth looking up.
std::vector<Pid> processes_in_sight(const ViewState& state, const Scene& scene, Extent extent);

}  // namespace gpuwarden::view
