// SPDX-License-Identifier: Apache-2.0
#include "launch/cgroup.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "gpuwarden-";

bool is_on_cgroup2(const fs::path& path) {
  struct statfs info{};
  return ::statfs(path.c_str(), &info) == 0 && info.f_type == CGROUP2_SUPER_MAGIC;
}

/// The group that this process is in, as a folder; the two places where systemd and container engines mount them.
std::optional<fs::path> own_group() {
  const auto memberships = read_file("/proc/self/cgroup");
  if (!memberships) return std::nullopt;
  for (const auto line : split(*memberships, '\n')) {
    if (!line.starts_with("0::/")) continue;
    for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      fs::path folder = fs::path(mount) / std::string(line.substr(4));
      if (is_on_cgroup2(folder)) return folder;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<JobGroup> JobGroup::make(const std::string& run_id) {
  const auto own = own_group();
  if (!own || run_id.empty() || run_id.contains('/')) return std::nullopt;
  fs::path path = *own / (std::string(kPrefix) + run_id);
  if (::mkdir(path.c_str(), 0755) != 0) return std::nullopt;
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) {
    ::rmdir(path.c_str());
    return std::nullopt;
  }
  return JobGroup(std::move(path), std::move(fd));
}

void remove_group(const fs::path& folder) {
  // The job may have made groups of its own below.
  for (const auto& entry : list_directory(folder)) {
    struct stat info{};
    if (::lstat(entry.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) remove_group(entry);
  }
  ::rmdir(folder.c_str());
}

bool is_group_of_run(const fs::path& folder, const std::string& run_id) {
  return !run_id.empty() && folder.filename() == std::string(kPrefix) + run_id && is_on_cgroup2(folder);
}

std::vector<pid_t> processes_in_group(const fs::path& folder) {
  std::vector<pid_t> pids;
  const auto list = read_file(folder / "cgroup.procs");
  if (!list) return pids;
  for (const auto word : split_words(*list)) {
    if (const auto pid = parse_integer(word); pid && *pid > 0) pids.push_back(static_cast<pid_t>(*pid));
  }
  return pids;
}

void kill_group(const fs::path& folder) {
  const UniqueFd fd(::open((folder / "cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC));
  if (fd && ::write(fd.get(), "1", 1) == 1) return;
  // Before 5.14 one by one; who is in the list is in the group, since nobody else may be put there.
  for (const pid_t pid : processes_in_group(folder)) ::kill(pid, SIGKILL);
}

}  // namespace gpuwarden::launch
