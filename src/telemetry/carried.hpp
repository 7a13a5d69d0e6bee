// SPDX-License-Identifier: Apache-2.0
// What is read more seldom than the rest of a series, and put into every snapshot: topology, and processes that NVML
// does not list.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::telemetry {

class Carried {
 public:
  bool has_links() const { return links_.has_value(); }
  /// Keeps the snapshot's topology where it has one, else adds the one that was kept.
  void join_links(facts::Snapshot& snapshot);
  /// Keeps the unlisted processes of a snapshot for which they were looked up.
  void keep_holders(const facts::Snapshot& snapshot);
  /// Adds those that were kept and still run.
  void add_holders(facts::Snapshot& snapshot, const std::filesystem::path& proc_root) const;

 private:
  std::optional<std::vector<facts::Link>> links_;
  std::vector<facts::Nic> nics_;
  std::map<std::string, std::vector<facts::GpuProcess>> holders_;  ///< by UUID
};

}  // namespace gpuwarden::telemetry
