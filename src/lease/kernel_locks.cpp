// SPDX-License-Identifier: Apache-2.0
#include "lease/kernel_locks.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::lease {
namespace {

namespace fs = std::filesystem;

template <class Number>
std::optional<Number> number_in(std::string_view text, int base) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// What stands behind "KEY:" in a file of such lines.
std::string field_of(std::string_view text, std::string_view key) {
  for (const auto line : split(text, '\n')) {
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ':')
      return std::string(trim(line.substr(key.size() + 1)));
  }
  return "";
}

/// "00:16:4777": numbers of the device in hexadecimal, the inode in decimal.
std::optional<FileKey> parse_key(std::string_view text) {
  const auto parts = split(text, ':');
  if (parts.size() != 3) return std::nullopt;
  const auto major = number_in<std::uint32_t>(parts[0], 16);
  const auto minor = number_in<std::uint32_t>(parts[1], 16);
  const auto inode = number_in<std::uint64_t>(parts[2], 10);
  if (!major || !minor || !inode) return std::nullopt;
  return FileKey{*major, *minor, *inode};
}

/// The numbers of the device that is mounted there: the third word of its line.
std::optional<std::pair<std::uint32_t, std::uint32_t>> device_of_mount(std::string_view mount_id) {
  const auto mounts = read_file("/proc/self/mountinfo");
  if (!mounts || mount_id.empty()) return std::nullopt;
  for (const auto line : split(*mounts, '\n')) {
    const auto words = split_words(line);
    if (words.size() < 3 || words[0] != mount_id) continue;
    const auto parts = split(words[2], ':');
    if (parts.size() != 2) return std::nullopt;
    const auto major = number_in<std::uint32_t>(parts[0], 10);
    const auto minor = number_in<std::uint32_t>(parts[1], 10);
    if (!major || !minor) return std::nullopt;
    return std::pair(*major, *minor);
  }
  return std::nullopt;
}

using Folder = std::unique_ptr<DIR, int (*)(DIR*)>;

Folder open_folder(const fs::path& path) { return {::opendir(path.c_str()), ::closedir}; }

bool has_lock_line(std::string_view descriptor_info, const FileKey& key) {
  return std::ranges::any_of(split(descriptor_info, '\n'), [&](std::string_view line) {
    if (!line.starts_with("lock:")) return false;
    const auto lock = parse_lock(trim(line.substr(5)));
    return lock && lock->file == key;
  });
}

enum class Holds { yes, no, not_told };

/// Whether one of a process's descriptors holds a lock of the open file; not_told where its descriptors are hidden.
Holds holds_lock(const fs::path& proc_root, Pid pid, const UniqueFd& file, const FileKey& key) {
  struct stat wanted{};
  if (::fstat(file.get(), &wanted) != 0) return Holds::not_told;
  const fs::path process = proc_root / std::to_string(pid.value);
  const Folder descriptors = open_folder(process / "fd");
  if (!descriptors) return Holds::not_told;
  Holds answer = Holds::no;
  while (const dirent* entry = ::readdir(descriptors.get())) {
    if (entry->d_name[0] == '.') continue;
    struct stat open{};
    if (::stat((process / "fd" / entry->d_name).c_str(), &open) != 0) {
      if (errno == EACCES) return Holds::not_told;
      continue;
    }
    if (open.st_dev != wanted.st_dev || open.st_ino != wanted.st_ino) continue;
    const auto told = read_file(process / "fdinfo" / entry->d_name);
    if (!told) answer = Holds::not_told;
    if (told && has_lock_line(*told, key)) return Holds::yes;
  }
  return answer;
}

}  // namespace

std::optional<KernelLock> parse_lock(std::string_view line) {
  const auto words = split_words(line);
  if (words.size() < 6 || words[1] != "FLOCK") return std::nullopt;
  const auto pid = number_in<std::int32_t>(words[4], 10);
  const auto key = parse_key(words[5]);
  if (!pid || !key) return std::nullopt;
  return KernelLock{Pid{*pid}, *key};
}

std::optional<Process> find_process(const fs::path& proc_root, Pid pid) {
  if (pid.value <= 0) return std::nullopt;
  const fs::path folder = proc_root / std::to_string(pid.value);
  const auto status = read_file(folder / "status");
  if (!status) return std::nullopt;
  const std::string state = field_of(*status, "State");
  if (state.starts_with('Z') || state.starts_with('X')) return std::nullopt;  // what it held has been closed
  const std::string uids = field_of(*status, "Uid");                          // real, effective, saved, of file systems
  const auto words = split_words(uids);
  const auto uid = words.size() < 2 ? std::nullopt : number_in<std::uint32_t>(words[1], 10);
  if (!uid) return std::nullopt;
  std::string command = read_file(folder / "cmdline").value_or("");
  std::ranges::replace(command, '\0', ' ');
  command = printable(trim(command));
  return Process{pid, *uid, command.empty() ? printable(field_of(*status, "Name")) : command};
}

std::vector<Pid> ancestors_of(const fs::path& proc_root, Pid pid) {
  constexpr std::size_t kMost = 256;
  std::vector<Pid> ancestors;
  while (ancestors.size() < kMost) {
    const auto status = read_file(proc_root / std::to_string(pid.value) / "status");
    const auto parent = status ? number_in<std::int32_t>(field_of(*status, "PPid"), 10) : std::nullopt;
    if (!parent || *parent <= 1) break;
    pid = Pid{*parent};
    ancestors.push_back(pid);
  }
  return ancestors;
}

bool is_of_user(const fs::path& proc_root, Pid pid, std::uint32_t uid) {
  struct stat info{};
  if (::stat((proc_root / std::to_string(pid.value)).c_str(), &info) == 0 && info.st_uid == uid) return true;
  // The folder of a process that may not be traced is root's.
  const auto process = find_process(proc_root, pid);
  return process && process->uid == uid;
}

LockTable::LockTable(fs::path proc_root) : proc_root_(std::move(proc_root)) {
  const auto text = read_file(proc_root_ / "locks");
  if (!text) return;
  for (const auto line : split(*text, '\n')) {
    if (const auto lock = parse_lock(line)) locks_.push_back(*lock);
  }
}

std::optional<FileKey> LockTable::key_of(const UniqueFd& file) const {
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return std::nullopt;
  const auto told = std::pair(major(info.st_dev), minor(info.st_dev));
  const auto known = devices_.find(info.st_dev);
  if (known != devices_.end() && known->second == told) return FileKey{told.first, told.second, info.st_ino};
  const std::string details = read_file(fmt::format("/proc/self/fdinfo/{}", file.get())).value_or("");
  const auto device =
      known != devices_.end() ? known->second : device_of_mount(field_of(details, "mnt_id")).value_or(told);
  devices_.emplace(info.st_dev, device);
  const auto inode = number_in<std::uint64_t>(field_of(details, "ino"), 10);
  return FileKey{device.first, device.second, inode.value_or(info.st_ino)};
}

std::vector<Pid> LockTable::on(const UniqueFd& file) const {
  std::vector<Pid> pids;
  const auto key = key_of(file);
  for (const KernelLock& lock : locks_) {
    if (key && lock.file == *key) pids.push_back(lock.pid);
  }
  return pids;
}

std::vector<Process> LockTable::takers_of(const UniqueFd& file) const {
  std::vector<Process> takers;
  const auto key = key_of(file);
  if (!key) return takers;
  for (const Pid pid : on(file)) {
    if (std::ranges::find(takers, pid, &Process::pid) != takers.end()) continue;
    auto process = find_process(proc_root_, pid);
    // A number may belong to another process by now, or its process may have closed the lock and others keep it.
    if (process && holds_lock(proc_root_, pid, file, *key) != Holds::no) takers.push_back(std::move(*process));
  }
  return takers;
}

bool LockTable::is_held_by(Pid pid, const UniqueFd& file) const {
  const auto key = key_of(file);
  return key && holds_lock(proc_root_, pid, file, *key) == Holds::yes;
}

std::vector<Process> LockTable::holders_of(const UniqueFd& file) const {
  std::vector<Process> holders = takers_of(file);
  const auto key = key_of(file);
  if (!key) return holders;
  const auto is_known = [&](Pid pid) { return std::ranges::find(holders, pid, &Process::pid) != holders.end(); };
  if (!holders.empty() && std::ranges::all_of(on(file), is_known)) return holders;
  const Folder processes = open_folder(proc_root_);
  if (!processes) return holders;
  while (const dirent* entry = ::readdir(processes.get())) {
    const auto pid = number_in<std::int32_t>(static_cast<const char*>(entry->d_name), 10);
    if (!pid || is_known(Pid{*pid})) continue;
    if (holds_lock(proc_root_, Pid{*pid}, file, *key) != Holds::yes) continue;
    if (auto process = find_process(proc_root_, Pid{*pid})) holders.push_back(std::move(*process));
  }
  std::ranges::sort(holders, {}, &Process::pid);
  return holders;
}

std::string user_name(std::uint32_t uid) {
  // Asking a directory service may take long, and this is asked under the gate.
  static std::mutex mutex;
  static std::map<std::uint32_t, std::string> names;
  const std::scoped_lock lock(mutex);
  const auto known = names.find(uid);
  if (known != names.end()) return known->second;
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> buffer{};
  const bool named = ::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr;
  return names.emplace(uid, named ? printable(found->pw_name) : std::to_string(uid)).first->second;
}

}  // namespace gpuwarden::lease
