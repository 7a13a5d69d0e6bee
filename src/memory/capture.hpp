// SPDX-License-Identifier: Apache-2.0
// One graph's memory: the lanes that are kept for it, and which streams are being captured into it now.
#pragma once

#include <utility>
#include <vector>

#include "gpuwarden/memory/types.hpp"
#include "memory/lane.hpp"

namespace gpuwarden::memory {

/// Behind the pool's lock for slow work.
struct Capture {
  CaptureId id;
  std::vector<Lane*> lanes;
  /// A stream's usual lane, and the one that stands in for it while the stream is being captured.
  std::vector<std::pair<Lane*, Lane*>> routed;
};

}  // namespace gpuwarden::memory
