// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sim/core/fleet_spec.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto spec = gpuwarden::sim::parse_fleet({reinterpret_cast<const char*>(data), size}, "fuzz", "fuzz");
  if (!spec && spec.error().message.empty()) std::abort();
  if (spec && spec->gpus.size() > gpuwarden::sim::kMaxGpus) std::abort();
  return 0;
}
