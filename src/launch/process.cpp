// SPDX-License-Identifier: Apache-2.0
#include "launch/process.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <map>
#include <set>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::launch {
namespace {

/// The children that the kernel lists for us, if it was built to.
std::optional<std::vector<pid_t>> listed_children() {
  const auto list = read_file(fmt::format("/proc/self/task/{}/children", ::getpid()));
  if (!list) return std::nullopt;
  std::vector<pid_t> children;
  for (const auto word : split_words(*list)) children.push_back(static_cast<pid_t>(parse_integer(word).value_or(0)));
  return children;
}

}  // namespace

std::optional<ProcessStat> process_stat(pid_t pid) {
  // Read for every process of the machine, one after the other, while a job is ended: no stream, no allocation.
  std::array<char, 32> path{};
  fmt::format_to_n(path.data(), path.size() - 1, "/proc/{}/stat", pid);
  const UniqueFd fd(::open(path.data(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> text{};
  const ssize_t got = fd ? ::read(fd.get(), text.data(), text.size()) : 0;
  const std::string_view line(text.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  // The name in parentheses may hold anything, parentheses and spaces included.
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string_view::npos || line.size() < name_end + 5) return std::nullopt;
  ProcessStat stat;
  stat.state = line[name_end + 2];
  std::from_chars(line.data() + name_end + 4, line.data() + line.size(), stat.parent);
  // Counted from the name, which is the second.
  constexpr int kFlags = 7;
  constexpr int kStarted = 20;
  std::size_t at = name_end;
  for (int field = 1; field <= kStarted; ++field) {
    at = line.find(' ', at + 1);
    if (at == std::string_view::npos) return std::nullopt;
    if (field == kFlags) std::from_chars(line.data() + at + 1, line.data() + line.size(), stat.flags);
  }
  std::from_chars(line.data() + at + 1, line.data() + line.size(), stat.started);
  return stat;
}

bool has_executed(pid_t pid) {
  // PF_FORKNOEXEC of Linux's include/linux/sched.h.
  constexpr unsigned kForkedOnly = 0x40;
  const auto stat = process_stat(pid);
  return stat && stat->flags != 0 && (stat->flags & kForkedOnly) == 0;
}

std::optional<Process> Process::open(pid_t pid) {
  if (pid <= 0) return std::nullopt;
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (fd) return Process(pid, std::move(fd), 0);
  if (errno == ESRCH) return std::nullopt;
  const auto stat = process_stat(pid);
  if (!stat) return std::nullopt;
  return Process(pid, UniqueFd(), stat->started);
}

bool Process::is_running() const {
  if (fd_) {
    pollfd poll{fd_.get(), POLLIN, 0};
    return ::poll(&poll, 1, 0) == 0;
  }
  const auto stat = process_stat(pid_);
  return stat && stat->started == started_ && stat->state != 'Z' && stat->state != 'X';
}

bool Process::signal(int signal) const {
  if (fd_) return ::syscall(SYS_pidfd_send_signal, fd_.get(), signal, nullptr, 0) == 0;
  return is_running() && ::kill(pid_, signal) == 0;
}

std::vector<pid_t> all_pids() {
  std::vector<pid_t> pids;
  DIR* folder = ::opendir("/proc");
  if (folder == nullptr) return pids;
  while (const dirent* entry = ::readdir(folder)) {
    if (const auto pid = parse_integer(entry->d_name)) pids.push_back(static_cast<pid_t>(*pid));
  }
  ::closedir(folder);
  return pids;
}

std::vector<pid_t> own_children() {
  if (auto listed = listed_children()) return *listed;
  std::vector<pid_t> children;
  for (const pid_t pid : all_pids()) {
    const auto stat = process_stat(pid);
    if (stat && stat->parent == ::getpid()) children.push_back(pid);
  }
  return children;
}

std::multimap<pid_t, pid_t> children_by_parent() {
  std::multimap<pid_t, pid_t> children;
  for (const pid_t pid : all_pids()) {
    if (const auto stat = process_stat(pid); stat && stat->state != 'Z') children.emplace(stat->parent, pid);
  }
  return children;
}

std::vector<pid_t> with_descendants(const std::vector<pid_t>& roots, const std::multimap<pid_t, pid_t>& children) {
  std::vector<pid_t> all;
  std::set<pid_t> known;
  for (const pid_t root : roots) {
    if (known.insert(root).second) all.push_back(root);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto [begin, end] = children.equal_range(all[i]);
    for (auto child = begin; child != end; ++child) {
      if (known.insert(child->second).second) all.push_back(child->second);
    }
  }
  return all;
}

std::vector<Process> descendants(pid_t root) {
  const auto below = children_by_parent();
  std::vector<Process> found;
  std::vector<pid_t> parents{root};
  for (std::size_t i = 0; i < parents.size(); ++i) {
    const auto [begin, end] = below.equal_range(parents[i]);
    for (auto child = begin; child != end; ++child) {
      auto process = Process::open(child->second);
      // Who has the number now is the same child still, or the descriptor is of one that is gone and hears nothing.
      const auto stat = process_stat(child->second);
      if (!process || !stat || stat->parent != parents[i]) continue;
      found.push_back(std::move(*process));
      parents.push_back(child->second);
    }
  }
  return found;
}

}  // namespace gpuwarden::launch
