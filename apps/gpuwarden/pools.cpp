// SPDX-License-Identifier: Apache-2.0
#include "pools.hpp"

namespace gpuwarden::cli {

pools::Pools read_pools(const machine::Machine& machine) {
  if (machine.captured()) return {};
  const Environment& environment = machine.options().environment;
  const auto named = environment.find("GPUWARDEN_MEMORY_DIR");
  if (named == environment.end() || named->second.empty()) return pools::published_pools(pools::all_pools_folders());
  return pools::published_pools({named->second});
}

}  // namespace gpuwarden::cli
