// SPDX-License-Identifier: Apache-2.0
// A control group of its own for a job, where the kernel and the machine's owner let us make one.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden::launch {

/// A group below the caller's own in the version 2 hierarchy. What is born in it stays in it, whatever it does to its
/// session, environment and descriptors, unless it writes itself into another group on purpose.
class JobGroup {
 public:
  /// Nothing where there is no version 2 hierarchy, or it is not ours to write (a login session, most containers).
  static std::optional<JobGroup> make(const std::string& run_id);

  const std::filesystem::path& path() const { return path_; }
  int fd() const { return fd_.get(); }

 private:
  JobGroup(std::filesystem::path path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::filesystem::path path_;
  UniqueFd fd_;
};

/// Whether a folder is a group that make() made for this run: on a cgroup file system, and named so.
bool is_group_of_run(const std::filesystem::path& folder, const std::string& run_id);
/// What runs in it; empty where it is gone.
std::vector<pid_t> processes_in_group(const std::filesystem::path& folder);
/// Kills all that is in it at once (kernel 5.14), and what is below.
void kill_group(const std::filesystem::path& folder);
/// Removes it with the groups below; nothing happens where one of them is not empty.
void remove_group(const std::filesystem::path& folder);

}  // namespace gpuwarden::launch
