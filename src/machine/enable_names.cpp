// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/enable_names.hpp"

#include "gpuwarden/facts/use.hpp"
#include "gpuwarden/placement/names.hpp"

namespace gpuwarden::machine {

Result<std::vector<Uuid>> gpus_to_enable(const std::vector<std::string>& names, const facts::Snapshot& snapshot,
                                         std::span<const facts::Disabling> out_of_use) {
  std::vector<Uuid> gpus;
  std::vector<std::string> others;
  for (const std::string& name : names) {
    if (const auto* word = facts::find_disabling(out_of_use, Uuid(name)); word != nullptr)
      gpus.push_back(word->uuid);
    else
      others.push_back(name);
  }
  if (others.empty()) return gpus;
  facts::Snapshot named = snapshot;
  GPUWARDEN_CHECK(placement::keep_named(placement::expand_ranges(others), named));
  for (const facts::GpuRecord& record : named.gpus) gpus.push_back(facts::identity_of(record));
  return gpus;
}

std::vector<Uuid> all_to_enable(std::span<const facts::Disabling> out_of_use, bool is_root) {
  std::vector<Uuid> gpus;
  for (const facts::Disabling& one : out_of_use) {
    // What a look shows, by nobody, everybody may accept for himself.
    if (one.for_everybody && !one.by.empty() && !is_root) continue;
    gpus.push_back(one.uuid);
  }
  return gpus;
}

}  // namespace gpuwarden::machine
