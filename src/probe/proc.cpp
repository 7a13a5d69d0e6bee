// SPDX-License-Identifier: Apache-2.0
#include "probe/proc.hpp"

#include <pwd.h>

#include <array>
#include <string>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "probe/cgroup.hpp"

namespace gpuwarden::probe {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFileCap = std::size_t{4} << 20U;

/// The value behind "KEY:" in /proc/PID/status.
std::optional<std::string> status_field(std::string_view status, std::string_view key) {
  for (const auto line : split(status, '\n')) {
    if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == ':') {
      return std::string(trim(line.substr(key.size() + 1)));
    }
  }
  return std::nullopt;
}

/// A name from a passwd file beside the stand-in, else from the system.
std::string user_name(const fs::path& root, std::uint32_t uid) {
  if (const auto passwd = read_file(root / "passwd", kFileCap)) {
    for (const auto line : split(*passwd, '\n')) {
      const auto fields = split(line, ':');
      if (fields.size() > 2 && parse_integer(fields[2]) == uid) return printable(fields[0]);
    }
  }
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> buffer{};
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
    return printable(found->pw_name);
  return std::to_string(uid);
}

/// The arguments joined by blanks; the short name for a process without any (a kernel thread, a zombie).
std::optional<std::string> command_of(const fs::path& folder, std::string_view status) {
  auto arguments = read_file(folder / "cmdline", kFileCap);
  if (arguments && !arguments->empty()) {
    for (char& c : *arguments) c = c == '\0' ? ' ' : c;
    std::string text = printable(trim(*arguments));
    if (!text.empty()) return text;
  }
  return status_field(status, "Name");
}

/// On whose behalf it runs.
void read_owner(const fs::path& folder, facts::GpuProcess& process) {
  const auto cgroup = read_file(folder / "cgroup", kFileCap);
  if (!cgroup) return;
  CgroupOwner owner = owner_from_cgroup(*cgroup);
  process.container = std::move(owner.container);
  process.pod = std::move(owner.pod);
  process.slurm_job = std::move(owner.slurm_job);
}

}  // namespace

void name_process(const std::vector<fs::path>& proc_roots, facts::GpuProcess& process) {
  for (const fs::path& root : proc_roots) {
    const fs::path folder = root / std::to_string(process.pid.value);
    const auto status = read_file(folder / "status", kFileCap);
    if (!status) continue;
    process.command = command_of(folder, *status);
    read_owner(folder, process);
    const auto uids = status_field(*status, "Uid");
    if (!uids) return;
    const auto words = split_words(*uids);
    const auto uid = words.empty() ? std::nullopt : parse_integer(words[0]);
    if (uid) process.user = user_name(root, static_cast<std::uint32_t>(*uid));
    return;
  }
}

}  // namespace gpuwarden::probe
