// SPDX-License-Identifier: Apache-2.0
// The folders of live fleets: who uses them, when they go away, and the stand-in /sys and /proc in them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "sim/core/fleet_spec.hpp"

namespace gpuwarden::sim {

/// $GPUWARDEN_SIM_DIR, else /dev/shm/gpuwarden-sim-UID.
std::filesystem::path default_root();

/// A fleet folder that this process uses; the last user to leave removes it.
class FleetFolder {
 public:
  FleetFolder() = default;
  FleetFolder(FleetFolder&& other) noexcept = default;
  FleetFolder& operator=(FleetFolder&&) = delete;
  ~FleetFolder();

  /// Joins ROOT/ID if somebody uses it, else makes it anew (what a crashed process left is removed first).
  static Result<FleetFolder> join_or_make(const std::filesystem::path& root, const std::string& id,
                                          std::string_view fleet_yaml, const FleetSpec& spec);
  /// Joins a folder that somebody uses; not_found otherwise.
  static Result<FleetFolder> join(const std::filesystem::path& folder);

  /// The programs that this process becomes or starts keep the folder in use too, until the last of them has ended.
  Result<void> bequeath() const;

  const std::filesystem::path& path() const { return path_; }
  /// True when join_or_make made it.
  bool is_new() const { return is_new_; }

 private:
  std::filesystem::path path_;
  UniqueFd users_;  // shared flock: "in use"
  int owner_ = 0;   // the process that joined; forked children do not clean up
  bool is_new_ = false;
};

/// Ids of the fleets in use under a root.
std::vector<std::string> live_fleets(const std::filesystem::path& root);

/// (Re)writes FOLDER/proc/driver/nvidia/version: removed where no driver is loaded.
void write_driver_version(const std::filesystem::path& folder, std::string_view kernel_module, bool loaded);

}  // namespace gpuwarden::sim
