// SPDX-License-Identifier: Apache-2.0
#include "lease/inherited.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <string>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/lease/grounds.hpp"
#include "lease/device_locks.hpp"
#include "lease/kernel_locks.hpp"
#include "lease/lock_file.hpp"

namespace gpuwarden::lease {
namespace {

namespace fs = std::filesystem;

/// Stands before the UUID in the names of the next level's files, once for each level.
constexpr const char* kWithin = "within-";
constexpr int kMostLevels = 16;
/// Behind the name of a file that has none any more (proc_pid_fd(5)).
constexpr std::string_view kRemoved = " (deleted)";
/// How the names of grounds begin.
constexpr const char* kGroundPrefix = "gpuwarden:";

struct OpenLock {
  int descriptor = -1;
  dev_t device = 0;
  ino_t inode = 0;
  /// Whether its file was seen to be one of a device: any other lock is the user's own affair.
  mutable bool is_of_lease = false;
};

/// "lock:  1: FLOCK  ADVISORY  WRITE 16300 00:16:4777 0 EOF": told of the very open file that has the lock.
bool has_exclusive_lock(int descriptor) {
  const auto told = read_file(fmt::format("/proc/self/fdinfo/{}", descriptor));
  if (!told) return false;
  return std::ranges::any_of(split(*told, '\n'), [](std::string_view line) {
    return line.starts_with("lock:") && line.contains(" FLOCK ") && line.contains(" WRITE ");
  });
}

/// A file in memory that came with a lease.
struct OpenGround {
  int descriptor = -1;
  Ground file;
};

std::string ground_name(const StoreOptions& options, const Uuid& uuid) {
  return fmt::format("{}{}{}", kGroundPrefix, options.prefix, uuid.value);
}

struct Inherited {
  std::vector<OpenLock> locks;
  std::vector<OpenGround> grounds;
};

/// The file in memory that a descriptor of some process is, by its path in /proc.
std::optional<Ground> ground_at(const fs::path& descriptor) {
  constexpr std::string_view kInMemory = "/memfd:";
  std::error_code unreadable;
  std::string name = fs::read_symlink(descriptor, unreadable).string();
  struct stat info{};
  if (!name.starts_with(std::string(kInMemory) + kGroundPrefix) || ::stat(descriptor.c_str(), &info) != 0)
    return std::nullopt;
  name.erase(0, kInMemory.size());
  if (name.ends_with(kRemoved)) name.erase(name.size() - kRemoved.size());
  return Ground{info.st_ino, std::move(name)};
}

Inherited find_inherited() {
  Inherited found;
  for (const fs::path& path : list_directory("/proc/self/fd")) {
    const auto number = parse_integer(path.filename().string());
    struct stat info{};
    // By name, not by number: other threads may open and close theirs at the same time.
    if (!number || *number < 3 || ::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    const int descriptor = static_cast<int>(*number);
    if (has_exclusive_lock(descriptor)) found.locks.push_back({descriptor, info.st_dev, info.st_ino});
    if (auto ground = ground_at(path)) found.grounds.push_back({descriptor, std::move(*ground)});
  }
  return found;
}

std::atomic<const Inherited*>& noted() {
  static std::atomic<const Inherited*> inherited = nullptr;
  return inherited;
}

/// What the first to look has found holds for all threads: a lock that is seen after that may be this process's own.
/// No mutex, since a child that was forked meanwhile would wait for it forever.
const Inherited& what_was_inherited() {
  const Inherited* known = noted().load();
  if (known != nullptr) return *known;
  auto found = std::make_unique<const Inherited>(find_inherited());
  if (!noted().compare_exchange_strong(known, found.get())) return *known;
  return *found.release();
}

/// Whether the descriptor still is what was inherited: its number may have been given to another file since.
bool has_still(const OpenLock& lock) {
  struct stat open{};
  return ::fstat(lock.descriptor, &open) == 0 && open.st_dev == lock.device && open.st_ino == lock.inode &&
         has_exclusive_lock(lock.descriptor);
}

/// Of a device's file.
int known_of_lease(const OpenLock& lock) {
  std::atomic_ref(lock.is_of_lease).store(true);
  return lock.descriptor;
}

std::vector<OpenLock> locks_of_leases() {
  std::vector<OpenLock> locks;
  for (const OpenLock& lock : what_was_inherited().locks) {
    if (std::atomic_ref(lock.is_of_lease).load() && has_still(lock)) locks.push_back(lock);
  }
  return locks;
}

/// The descriptor that was inherited with a lock of the file, and still has it.
std::optional<int> inherited_lock_of(const fs::path& path) {
  struct stat named{};
  if (what_was_inherited().locks.empty()) return std::nullopt;
  const bool is_ground = is_path_of_descriptor(path);
  if ((is_ground ? ::stat(path.c_str(), &named) : ::lstat(path.c_str(), &named)) != 0) return std::nullopt;
  for (const OpenLock& lock : what_was_inherited().locks) {
    const bool is_it = lock.device == named.st_dev && lock.inode == named.st_ino;
    if (is_it && has_still(lock)) return known_of_lease(lock);
  }
  return std::nullopt;
}

/// The descriptor that was inherited with a lock of the file that had this name and was removed since.
std::optional<int> inherited_lock_of_removed(const fs::path& path) {
  std::error_code unknown;
  const std::string removed = fs::weakly_canonical(path, unknown).string().append(kRemoved);
  for (const OpenLock& lock : what_was_inherited().locks) {
    const fs::path link = fs::read_symlink(path_of_descriptor(lock.descriptor), unknown);
    if (link == removed && has_still(lock)) return known_of_lease(lock);
  }
  return std::nullopt;
}

/// Whether those alone hold the file who hold what was inherited, or started this process: a holder whose file was
/// removed has locked a new one since (HeldLeases::repair).
bool is_held_beside(const StoreOptions& options, const fs::path& path, int inherited) {
  const auto file = open_existing_lock_file(path);
  const UniqueFd above(::fcntl(inherited, F_DUPFD_CLOEXEC, 3));
  if (!file || !above) return false;
  const LockTable locks(options.proc_root);
  const auto holders = locks.holders_of(*file);
  const auto own = locks.holders_of(above);
  const auto line = own_ancestors();
  return !holders.empty() && std::ranges::all_of(holders, [&](const Process& holder) {
    return std::ranges::find(own, holder.pid, &Process::pid) != own.end() ||
           std::ranges::find(line, holder.pid) != line.end();
  });
}

/// Those that hold the device; none where somebody else holds one of its files.
std::vector<int> inherited_of(const StoreOptions& options, const Device& device) {
  std::vector<int> descriptors;
  if (what_was_inherited().locks.empty()) return descriptors;
  bool is_anothers = false;
  for (const fs::path& path : lock_files(options, device)) {
    const auto own = inherited_lock_of(path);
    if (own) descriptors.push_back(*own);
    if (own || glance_at(path).value_or(LockState::free) == LockState::free) continue;
    // Where the kernel has no file of the device, the removed one is all that was inherited.
    const auto removed = inherited_lock_of_removed(path);
    const auto above = descriptors.empty() ? removed : std::optional(descriptors.front());
    is_anothers = is_anothers || !above || !is_held_beside(options, path, *above);
    if (above && descriptors.empty()) descriptors.push_back(*above);
  }
  return is_anothers ? std::vector<int>{} : descriptors;
}

/// What came with the lease for claims within it.
const OpenGround* ground_of(const StoreOptions& options, const Uuid& uuid) {
  for (const OpenGround& ground : what_was_inherited().grounds) {
    struct stat open{};
    if (ground.file.name != ground_name(options, uuid)) continue;
    if (::fstat(ground.descriptor, &open) == 0 && open.st_ino == ground.file.inode) return &ground;
  }
  return nullptr;
}

}  // namespace

void note_inherited_locks() { what_was_inherited(); }

void forget_inherited_locks() { delete noted().exchange(nullptr); }

std::vector<Pid> holders_above() {
  constexpr Pid kInit{1};
  std::vector<Pid> found;
  const auto inherited = locks_of_leases();
  if (inherited.empty()) return found;
  const LockTable locks("/proc");
  for (const OpenLock& lock : inherited) {
    const UniqueFd file(::fcntl(lock.descriptor, F_DUPFD_CLOEXEC, 3));
    if (!file || !has_exclusive_lock(file.get())) continue;
    for (const Process& process : locks.takers_of(file)) found.push_back(process.pid);
    if (locks.is_held_by(kInit, file)) found.push_back(kInit);
  }
  return found;
}

Level level_of(const StoreOptions& options, const Device& device) {
  Level level{options, device, {}};
  for (int i = 0; i < kMostLevels; ++i) {
    const std::vector<int> own = inherited_of(level.options, level.device);
    if (own.empty()) break;
    level.inherited.insert(level.inherited.end(), own.begin(), own.end());
    const OpenGround* ground = ground_of(level.options, device.uuid);
    if (ground != nullptr) level.inherited.push_back(ground->descriptor);
    level.device.kernel_file = ground != nullptr ? path_of_descriptor(ground->descriptor) : fs::path();
    level.options.prefix += kWithin;
  }
  return level;
}

bool is_within(const StoreOptions& options) { return options.prefix.ends_with(kWithin); }

Result<UniqueFd> make_ground(const StoreOptions& options, const Uuid& uuid) {
  UniqueFd ground(::memfd_create(ground_name(options, uuid).c_str(), 0));
  if (!ground && (errno == EMFILE || errno == ENFILE))
    return std::unexpected(error_from_errno(errno, "cannot keep a lease of " + uuid.value));
  return ground;
}

std::vector<Ground> own_grounds(std::span<const int> descriptors) {
  std::vector<Ground> own;
  for (const int descriptor : descriptors) {
    auto ground = ground_at(path_of_descriptor(descriptor));
    const auto is_it = [&](const OpenGround& above) { return above.file == *ground; };
    if (ground && std::ranges::none_of(what_was_inherited().grounds, is_it)) own.push_back(std::move(*ground));
  }
  return own;
}

std::vector<int> inherited_descriptors() {
  std::vector<int> descriptors;
  for (const OpenLock& lock : locks_of_leases()) descriptors.push_back(lock.descriptor);
  for (const OpenGround& ground : what_was_inherited().grounds) {
    // The lock of a claim within a lease is of such a file, too.
    const bool is_new = std::ranges::find(descriptors, ground.descriptor) == descriptors.end();
    if (is_new && ground_at(path_of_descriptor(ground.descriptor)) == ground.file)
      descriptors.push_back(ground.descriptor);
  }
  return descriptors;
}

void leave_outer_leases() {
  for (const int descriptor : inherited_descriptors()) ::close(descriptor);
}

std::string to_lines(std::span<const Ground> grounds) {
  std::string lines;
  for (const Ground& ground : grounds) lines += fmt::format("{} {}\n", ground.inode, ground.name);
  return lines;
}

std::vector<Ground> grounds_in(std::string_view lines) {
  std::vector<Ground> grounds;
  for (const std::string_view line : split(lines, '\n')) {
    const auto words = split_words(line);
    const auto inode = words.size() == 2 ? parse_integer(words[0]) : std::nullopt;
    if (inode && *inode > 0 && words[1].starts_with(kGroundPrefix))
      grounds.push_back({static_cast<std::uint64_t>(*inode), std::string(words[1])});
  }
  return grounds;
}

std::vector<Pid> processes_on(std::span<const Ground> grounds, const fs::path& proc_root) {
  std::vector<Pid> pids;
  if (grounds.empty()) return pids;
  for (const fs::path& process : list_directory(proc_root)) {
    const auto pid = parse_integer(process.filename().string());
    if (!pid) continue;
    const auto descriptors = list_directory(process / "fd");
    const bool has_one = std::ranges::any_of(descriptors, [&](const fs::path& descriptor) {
      const auto ground = ground_at(descriptor);
      return ground && std::ranges::find(grounds, *ground) != grounds.end();
    });
    if (has_one) pids.push_back(Pid{static_cast<std::int32_t>(*pid)});
  }
  return pids;
}

}  // namespace gpuwarden::lease
