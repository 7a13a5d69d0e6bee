// SPDX-License-Identifier: Apache-2.0
// Everything that the library exports, by name and version.
#pragma once

#include <span>
#include <string_view>

namespace gpuwarden::cuda::server {

struct EntryPoint {
  std::string_view symbol;  ///< cuMemcpyHtoD_v2_ptds
  std::string_view base;    ///< cuMemcpyHtoD
  std::string_view suffix;  ///< "", "ptds" or "ptsz"
  int since;                ///< CUDA version, 1000 * major + 10 * minor
  void* address;
};
std::span<const EntryPoint> entry_points();

}  // namespace gpuwarden::cuda::server
