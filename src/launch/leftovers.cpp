// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/leftovers.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <optional>
#include <utility>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/lease/grounds.hpp"
#include "gpuwarden/lease/lease_store.hpp"
#include "launch/cgroup.hpp"
#include "launch/guardian.hpp"
#include "launch/parts.hpp"
#include "launch/process.hpp"
#include "launch/record.hpp"

namespace gpuwarden::launch {
namespace {

namespace fs = std::filesystem;

/// A record whose lock nobody else held when it was opened; the lock is ours meanwhile.
struct DeadRecord {
  UniqueFd fd;
  uid_t owner = 0;
  fs::path group;  ///< empty where there was none, or what the record names is no group of this run and its owner
  std::vector<lease::Ground> grounds;  ///< of its leases
};

/// A group is believed where the kernel says so: a cgroup of this run's name that belongs to the record's owner.
fs::path believed_group(const std::string& text, const std::string& run_id, uid_t owner) {
  const fs::path group(std::string(trim(text)));
  struct stat info{};
  if (group.empty() || !is_group_of_run(group, run_id) || ::stat(group.c_str(), &info) != 0) return {};
  return info.st_uid == owner ? group : fs::path();
}

std::optional<DeadRecord> open_dead(const fs::path& path, const std::string& run_id) {
  DeadRecord record{UniqueFd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)), 0, {}, {}};
  struct stat info{};
  if (!record.fd || ::fstat(record.fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  if (::flock(record.fd.get(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  const auto text = read_descriptor(record.fd.get(), path.string(), 65536);
  if (!text || text->empty()) return std::nullopt;
  record.owner = info.st_uid;
  record.group = believed_group(text->substr(0, text->find('\n')), run_id, info.st_uid);
  record.grounds = lease::grounds_in(*text);
  return record;
}

/// The record owner's processes that were started within the run's leases. They need not carry its id: the kernel tells
/// who has the leases' grounds open, also those of leases within others and after their locks were closed. Of a shared
/// lease, which has no ground, nobody can tell which of its runs a process has it from.
std::vector<pid_t> lease_holders(const DeadRecord& record) {
  std::vector<pid_t> pids;
  for (const Pid pid : lease::processes_on(record.grounds)) {
    if (pid.value != ::getpid() && belongs_to(pid.value, record.owner)) pids.push_back(pid.value);
  }
  return pids;
}

/// Taken hold of before it is looked at: what is signalled is what was looked at.
std::vector<Process> take_hold_of_lease_holders(const DeadRecord& record) {
  std::vector<Process> processes;
  for (const pid_t pid : lease_holders(record)) {
    if (auto process = Process::open(pid)) processes.push_back(std::move(*process));
  }
  if (processes.empty()) return processes;
  const auto still = lease_holders(record);
  std::erase_if(processes, [&](const Process& process) {
    return !process.is_running() || std::ranges::find(still, process.pid()) == still.end();
  });
  return processes;
}

void end_lease_holders(const DeadRecord& record, Clock& clock) {
  end_processes([&] { return take_hold_of_lease_holders(record); },
                {kSweepGrace, kSweepPatience, std::chrono::milliseconds(50)}, clock);
}

std::vector<pid_t> processes_of(const DeadRecord& record, const std::string& run_id) {
  std::vector<pid_t> pids = record.group.empty() ? std::vector<pid_t>{} : processes_in_group(record.group);
  const auto add = [&](const std::vector<pid_t>& more) {
    for (const pid_t pid : more) {
      if (std::ranges::find(pids, pid) == pids.end()) pids.push_back(pid);
    }
  };
  add(processes_of_run(run_id, record.owner));
  add(lease_holders(record));
  return pids;
}

/// Why there is nothing to end: the run lives, or there is no such run.
Error no_leftovers(const fs::path& path, const std::string& run_id) {
  const auto supervisors = path.empty() ? std::vector<Pid>{} : lease::processes_locking(path);
  if (supervisors.empty())
    return {ErrorCode::not_found, fmt::format("nothing is left of a run '{}'", printable(run_id)),
            "gpuwarden list names the runs of which something is left"};
  // The launcher, which took the lock; where it has ended, a guardian that still clears up.
  const int pid = supervisors.front().value;
  if (read_line(fmt::format("/proc/{}/comm", pid)) == kGuardianName)
    return {ErrorCode::unavailable,
            fmt::format("the run {} has lost its launcher and is being cleared up (pid {})", printable(run_id), pid),
            "try again in some seconds"};
  return {ErrorCode::invalid_argument,
          fmt::format("the run {} still runs, and its launcher (pid {}) looks after it", printable(run_id), pid),
          fmt::format("kill {} ends it", pid)};
}

/// The id in a record's name, or nothing where the name is none of a record.
std::string id_in(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kRecordPrefix) || !name.ends_with(kRecordEnding)) return {};
  const std::size_t around = kRecordPrefix.size() + kRecordEnding.size();
  if (name.size() <= around) return {};
  return name.substr(kRecordPrefix.size(), name.size() - around);
}

void remove_record(const fs::path& path, const DeadRecord& record) {
  if (!record.group.empty()) remove_group(record.group);
  ::unlink(path.c_str());
}

}  // namespace

std::vector<Leftover> find_leftovers(const fs::path& folder) {
  std::vector<Leftover> found;
  for (const fs::path& path : list_directory(folder)) {
    const std::string id = id_in(path);
    const auto record = id.empty() ? std::nullopt : open_dead(path, id);
    if (!record) continue;
    Leftover leftover{id, record->owner, {}, !record->group.empty()};
    for (const pid_t pid : processes_of(*record, id)) leftover.processes.push_back(Pid{pid});
    if (leftover.processes.empty())
      remove_record(path, *record);
    else
      found.push_back(std::move(leftover));
  }
  return found;
}

Result<std::vector<Pid>> end_leftover(const fs::path& folder, const std::string& run_id, Clock& clock) {
  if (run_id.empty() || run_id.contains('/')) return std::unexpected(no_leftovers({}, run_id));
  const fs::path path = folder / std::string(kRecordPrefix).append(run_id).append(kRecordEnding);
  const auto record = open_dead(path, run_id);
  if (!record) return std::unexpected(no_leftovers(path, run_id));
  if (::geteuid() != 0 && ::geteuid() != record->owner) {
    return fail(ErrorCode::permission_denied, fmt::format("the run {} is another user's", printable(run_id)),
                "ask its owner or an administrator to end it");
  }
  std::vector<Pid> ended;
  for (const pid_t pid : processes_of(*record, run_id)) ended.push_back(Pid{pid});
  sweep_run(run_id, kSweepGrace, kSweepPatience, clock, record->owner);
  end_lease_holders(*record, clock);
  const auto start = clock.now();
  while (!record->group.empty() && !processes_in_group(record->group).empty() && clock.now() - start < kSweepPatience) {
    kill_group(record->group);
    clock.sleep_for(std::chrono::milliseconds(10));
  }
  if (const auto left = processes_of(*record, run_id); !left.empty()) {
    return fail(ErrorCode::failed,
                fmt::format("{} processes of the run {} could not be ended", left.size(), printable(run_id)),
                "they may be waiting in the kernel for a GPU that is lost");
  }
  remove_record(path, *record);
  return ended;
}

std::vector<Leftover> end_own_leftovers(const fs::path& folder, Clock& clock) {
  std::vector<Leftover> leftovers = find_leftovers(folder);
  for (Leftover& one : leftovers)
    one.ended = one.grouped && one.user == ::geteuid() && end_leftover(folder, one.run_id, clock).has_value();
  return leftovers;
}

}  // namespace gpuwarden::launch
