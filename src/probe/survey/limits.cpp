// SPDX-License-Identifier: Apache-2.0
// What this process may use: its cgroup's memory and processors, limits, file systems, groups.
#include <grp.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "probe/survey/probes.hpp"

namespace gpuwarden::probe {

namespace {

using facts::Environment;
using facts::Host;

void lower_memory(std::string_view text, Host& host) {
  constexpr std::int64_t kUnlimited = std::int64_t{1} << 60U;  // version 1 says a huge number for "no limit"
  const auto number = parse_integer(text);
  if (!number || *number <= 0 || *number >= kUnlimited) return;
  const Bytes limit(static_cast<std::uint64_t>(*number));
  host.memory_limit = host.memory_limit ? std::min(*host.memory_limit, limit) : limit;
}

/// A quota of time in a period, rounded up to whole processors.
void lower_processors(std::string_view quota, std::string_view period, Host& host) {
  const auto time = parse_integer(quota);
  const auto of = parse_integer(period);
  if (!time || !of || *time <= 0 || *of <= 0 || *time / *of >= 100'000) return;
  const auto count = static_cast<int>((*time - 1) / *of + 1);
  host.cpus_allowed = host.cpus_allowed ? std::min(*host.cpus_allowed, count) : count;
}

/// One folder of a control group; version 2 has all controllers in one.
void read_cgroup(const Tree& tree, const std::string& folder, bool unified, Host& host) {
  lower_memory(tree.line(folder + (unified ? "/memory.max" : "/memory.limit_in_bytes")).value_or(""), host);
  if (!unified) {
    lower_processors(tree.line(folder + "/cpu.cfs_quota_us").value_or(""),
                     tree.line(folder + "/cpu.cfs_period_us").value_or(""), host);
    return;
  }
  const std::string text = tree.line(folder + "/cpu.max").value_or("");
  const auto words = split_words(text);
  if (words.size() == 2) lower_processors(words[0], words[1], host);
}

/// The smallest limits on the way up from this process's control group.
void read_cgroups(const Tree& tree, Host& host) {
  constexpr int kMostLevels = 32;
  const std::string text = tree.read("/proc/self/cgroup").value_or("");
  for (const auto line : split(text, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    const bool memory = controllers == "memory";
    if (!unified && !memory && !controllers.starts_with("cpu,")) continue;
    const std::string base = unified  ? "/sys/fs/cgroup"
                             : memory ? "/sys/fs/cgroup/memory"
                                      : "/sys/fs/cgroup/" + std::string(controllers);
    std::filesystem::path path(std::string(line.substr(second + 1)));
    for (int level = 0; level < kMostLevels; ++level, path = path.parent_path()) {
      read_cgroup(tree, base + path.string(), unified, host);
      if (path == "/" || path.empty()) break;
    }
  }
}

void read_groups(Host& host) {
  std::array<gid_t, 256> ids{};
  const int count = ::getgroups(static_cast<int>(ids.size()), ids.data());
  for (int i = 0; i < count; ++i) {
    const gid_t id = ids[static_cast<std::size_t>(i)];
    const group* entry = ::getgrgid(id);
    host.groups.push_back(entry != nullptr ? entry->gr_name : std::to_string(id));
  }
  host.root = ::geteuid() == 0;
}

}  // namespace

void survey_limits(const Scene& scene, Environment& environment) {
  Host& host = environment.host;
  if (scene.tree.is_live()) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
      host.memlock_limit = Bytes(limit.rlim_cur == RLIM_INFINITY ? ~std::uint64_t{0} : limit.rlim_cur);
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) host.open_files_limit = limit.rlim_cur;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(0, sizeof set, &set) == 0) host.cpus_allowed = CPU_COUNT(&set);
    read_groups(host);
  }
  read_cgroups(scene.tree, host);
}

void survey_file_systems(const Scene& scene, Environment& environment) {
  if (!scene.tree.is_live()) return;
  for (const std::string& mount : {std::string("/"), std::string("/tmp"), scene.home(), std::string("/dev/shm")}) {
    struct statvfs status{};
    if (::statvfs(mount.c_str(), &status) != 0 || status.f_blocks == 0) continue;
    const Bytes total(std::uint64_t{status.f_blocks} * status.f_frsize);
    const Bytes free(std::uint64_t{status.f_bavail} * status.f_frsize);
    environment.host.file_systems.push_back({mount, total, free});
  }
}

}  // namespace gpuwarden::probe
