// SPDX-License-Identifier: Apache-2.0
// How schedulers choose GPUs of a machine: ours, and what others do, written anew from their descriptions.
#pragma once

#include <span>
#include <string_view>

#include "placement/rings.hpp"

namespace gpuwarden::bench {

using placement::DeviceSet;
using placement::LinkGraph;

/// What is asked for.
struct Ask {
  std::size_t count = 1;
  bool bandwidth_sensitive = true;  ///< only MAPA's policy is told
};

struct Policy {
  std::string_view name;
  std::string_view source;
  /// `free` has as many as are asked for.
  DeviceSet (*choose)(const LinkGraph& links, DeviceSet free, const Ask& ask);
};

std::span<const Policy> policies();

}  // namespace gpuwarden::bench
