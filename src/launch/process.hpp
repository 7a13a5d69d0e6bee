// SPDX-License-Identifier: Apache-2.0
// Processes by descriptor instead of by number: a number can become somebody else's, a descriptor cannot.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden::launch {

/// A process that need not be a child of ours.
class Process {
 public:
  /// Takes hold of the process that has this number now; nothing where there is none.
  static std::optional<Process> open(pid_t pid);

  pid_t pid() const { return pid_; }
  /// Readable once it has ended; -1 where the kernel has no descriptors for processes (before 5.3, some sandboxes).
  int fd() const { return fd_.get(); }
  /// Has not ended yet; a zombie has.
  bool is_running() const;
  /// Sends to this process and no other; false where it is gone.
  bool signal(int signal) const;

 private:
  Process(pid_t pid, UniqueFd fd, std::uint64_t started) : pid_(pid), fd_(std::move(fd)), started_(started) {}
  pid_t pid_;
  UniqueFd fd_;
  std::uint64_t started_;  ///< tells two bearers of a number apart where there is no descriptor
};

/// What /proc/PID/stat tells.
struct ProcessStat {
  pid_t parent = 0;
  char state = '?';
  unsigned flags = 0;         ///< the kernel's own; 0 where it does not tell (gVisor)
  std::uint64_t started = 0;  ///< ticks since the machine's start
};
std::optional<ProcessStat> process_stat(pid_t pid);

/// Whether a process runs a program of its own since it was forked; false where that cannot be known.
bool has_executed(pid_t pid);

/// The numbers of all processes that /proc shows.
std::vector<pid_t> all_pids();

/// The direct children of the caller, alive or not.
std::vector<pid_t> own_children();

/// Everything below `root` that runs, nearest first; `root` itself is not among them.
std::vector<Process> descendants(pid_t root);

/// The processes that run now, by the number of their parent.
std::multimap<pid_t, pid_t> children_by_parent();

/// `roots` and everything below them, each once, by numbers that may be somebody else's by the time they are used: for
/// looking alone.
std::vector<pid_t> with_descendants(const std::vector<pid_t>& roots, const std::multimap<pid_t, pid_t>& children);

}  // namespace gpuwarden::launch
