// SPDX-License-Identifier: Apache-2.0
#include "launch/emergency.hpp"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <utility>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "launch/process.hpp"

namespace gpuwarden::launch {
namespace {

namespace fs = std::filesystem;

/// Less room than that on the disk of the logs is none.
constexpr Bytes kLeastDisk = 16_MiB;
constexpr int kLooks = 2;
constexpr std::uint64_t kShareOfUsed = 4;  ///< a quarter of what is used has to be the job's

/// "MemAvailable:  123 kB" of a text of such lines.
std::optional<Bytes> kilobytes_of(std::string_view text, std::string_view name) {
  for (const std::string_view line : split(text, '\n')) {
    const auto words = split_words(line);
    if (words.size() < 2 || words[0] != name) continue;
    const auto number = parse_integer(words[1]);
    if (number && *number >= 0) return Bytes(static_cast<std::uint64_t>(*number) * 1024);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number_in(const fs::path& file) {
  const auto line = read_line(file);
  const auto number = line ? parse_integer(trim(*line)) : std::nullopt;
  return number && *number >= 0 ? std::optional(static_cast<std::uint64_t>(*number)) : std::nullopt;
}

/// "file 123" of a memory.stat.
std::uint64_t figure_of(const fs::path& file, std::string_view name) {
  const std::string text = read_file(file).value_or("");
  for (const std::string_view line : split(text, '\n')) {
    const auto words = split_words(line);
    if (words.size() == 2 && words[0] == name)
      return static_cast<std::uint64_t>(std::max<std::int64_t>(parse_integer(words[1]).value_or(0), 0));
  }
  return 0;
}

/// The files of one version of control groups.
struct GroupFiles {
  const char* limit;
  const char* used;
  const char* cache;
  const char* shared;
};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "file", "shmem"};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache", "total_shmem"};

std::optional<MemoryRoom> room_in(const fs::path& group, const GroupFiles& files) {
  const auto limit = number_in(group / files.limit);
  const auto used = number_in(group / files.used);
  // Version 1 has a number near the greatest for "no limit".
  constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60U;
  if (!limit || !used || *limit >= kNoLimit) return std::nullopt;
  const std::uint64_t cache = figure_of(group / "memory.stat", files.cache);
  const std::uint64_t shared = figure_of(group / "memory.stat", files.shared);
  const std::uint64_t given_back = std::min(*used, cache - std::min(cache, shared));
  const std::uint64_t held = *used - given_back;
  return MemoryRoom{Bytes(*limit - std::min(*limit, held)), Bytes(*limit), "its control group"};
}

/// What the ranks and their descendants hold of memory that cannot be had without ending them.
std::uint64_t held_by(const std::vector<Pid>& ranks, const fs::path& proc) {
  std::vector<pid_t> roots;
  for (const Pid rank : ranks) roots.push_back(rank.value);
  std::uint64_t held = 0;
  for (const pid_t pid : with_descendants(roots, children_by_parent())) {
    const std::string status = read_file(proc / std::to_string(pid) / "status").value_or("");
    held += kilobytes_of(status, "RssAnon:").value_or(Bytes(0)).value;
    held += kilobytes_of(status, "RssShmem:").value_or(Bytes(0)).value;
  }
  return held;
}

std::optional<Bytes> disk_room(const fs::path& folder) {
  struct statvfs info{};
  if (::statvfs(folder.c_str(), &info) != 0 || info.f_blocks == 0) return std::nullopt;
  return Bytes(std::uint64_t{info.f_bavail} * info.f_frsize);
}

}  // namespace

std::optional<MemoryRoom> machine_room(std::string_view meminfo) {
  const auto whole = kilobytes_of(meminfo, "MemTotal:");
  const auto left = kilobytes_of(meminfo, "MemAvailable:");
  if (!whole || !left) return std::nullopt;
  return MemoryRoom{Bytes(left->value + kilobytes_of(meminfo, "SwapFree:").value_or(Bytes(0)).value), *whole,
                    "this machine"};
}

std::optional<MemoryRoom> group_room(std::string_view own, const fs::path& root) {
  std::optional<MemoryRoom> least;
  for (const std::string_view line : split(own, '\n')) {
    // "0::/user.slice" is version 2's, "4:memory:/docker/x" version 1's.
    const auto parts = split(line, ':');
    if (parts.size() < 3) continue;
    const bool version2 = parts[0] == "0" && parts[1].empty();
    if (!version2 && parts[1] != "memory") continue;
    const fs::path base = version2 ? root : root / "memory";
    fs::path group = fs::path(parts[2]).relative_path();
    for (;; group = group.parent_path()) {
      const auto room = room_in(base / group, version2 ? kVersion2 : kVersion1);
      if (room && (!least || room->left < least->left)) least = room;
      if (group.empty()) break;
    }
  }
  return least;
}

bool is_nearly_out(const MemoryRoom& room) {
  return room.left.value < std::clamp<std::uint64_t>(room.whole.value / 200, (32_MiB).value, (512_MiB).value);
}

EmergencyWatch::EmergencyWatch(fs::path logs, EmergencyPlaces places)
    : logs_(std::move(logs)), places_(std::move(places)) {
  const auto room = logs_.empty() ? std::nullopt : disk_room(logs_);
  disk_counts_ = room && *room >= kLeastDisk;
}

std::string EmergencyWatch::look(const std::vector<Pid>& ranks) {
  std::string trouble = memory_trouble(ranks);
  of_memory_ = !trouble.empty();
  if (trouble.empty()) trouble = disk_trouble();
  seen_ = trouble.empty() ? 0 : seen_ + 1;
  return seen_ < kLooks ? "" : trouble;
}

std::string EmergencyWatch::memory_trouble(const std::vector<Pid>& ranks) const {
  const std::string meminfo = read_file(places_.proc / "meminfo").value_or("");
  const std::string own = read_file(places_.proc / "self/cgroup").value_or("");
  std::optional<std::uint64_t> held;  // counted once, and only where it matters
  for (const auto& room : {group_room(own, places_.groups), machine_room(meminfo)}) {
    if (!room || !is_nearly_out(*room)) continue;
    const std::uint64_t used = room->whole.value - std::min(room->whole.value, room->left.value);
    if (!held) held = held_by(ranks, places_.proc);
    if (*held < used / kShareOfUsed) continue;
    return fmt::format("the memory of {} is nearly used up ({} of {} are left, the job holds {}): the job is ended",
                       room->of, format_size(room->left), format_size(room->whole), format_size(Bytes(*held)));
  }
  return "";
}

std::string EmergencyWatch::disk_trouble() const {
  if (!disk_counts_) return "";
  const auto room = disk_room(logs_);
  if (!room || *room >= kLeastDisk) return "";
  return fmt::format("the disk of the logs in {} is full ({} are left): the job is ended", logs_.string(),
                     format_size(*room));
}

}  // namespace gpuwarden::launch
