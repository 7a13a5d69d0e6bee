// SPDX-License-Identifier: Apache-2.0
// Whether what a job stands on runs out: the machine's memory, its control group's, the disk of its logs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/quantity.hpp"

namespace gpuwarden::launch {

/// Memory that can still be had, of how much.
struct MemoryRoom {
  Bytes left;
  Bytes whole;
  std::string of;  ///< "this machine", "its control group"
};

/// From /proc/meminfo: what is available, and free swap.
std::optional<MemoryRoom> machine_room(std::string_view meminfo);
/// The least room of the control groups above this process that have a limit (cgroup v2, and v1's memory controller).
/// What the page cache holds can be had. `own`: /proc/self/cgroup's text; `root`: where the hierarchies are mounted.
std::optional<MemoryRoom> group_room(std::string_view own, const std::filesystem::path& root);
/// A two-hundredth is left, at least 32 and at most 512 MiB.
bool is_nearly_out(const MemoryRoom& room);

/// Where /proc and the control groups are mounted.
struct EmergencyPlaces {
  std::filesystem::path proc = "/proc";
  std::filesystem::path groups = "/sys/fs/cgroup";
};

/// Looks, seldom enough to cost nothing. What is found twice in a row is an emergency.
class EmergencyWatch {
 public:
  /// `logs`: the folder whose disk is watched; empty: none. A disk that is full at the start is no news.
  explicit EmergencyWatch(std::filesystem::path logs, EmergencyPlaces places = {});
  /// A sentence; empty: none. Memory that others than `ranks` and what they started hold is not this job's to give
  /// back: nothing is said where the job has less than a quarter of what is used.
  std::string look(const std::vector<Pid>& ranks);
  /// Whether the last sentence was about memory.
  bool of_memory() const { return of_memory_; }

 private:
  std::string memory_trouble(const std::vector<Pid>& ranks) const;
  std::string disk_trouble() const;

  const std::filesystem::path logs_;
  const EmergencyPlaces places_;
  bool disk_counts_ = false;
  bool of_memory_ = false;
  int seen_ = 0;
};

}  // namespace gpuwarden::launch
