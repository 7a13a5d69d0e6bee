// SPDX-License-Identifier: Apache-2.0
#include "trace_log.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <unordered_map>

namespace gpuwarden::preload {
namespace {

std::uint64_t microseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(now.tv_nsec) / 1000;
}

/// Memory of one handle, and how many hold it: the handle itself and each mapping.
struct Physical {
  Noted noted;
  unsigned holders = 1;
};
struct Mapping {
  std::uint64_t handle = 0;
  std::uint64_t size = 0;
};

class Log {
 public:
  std::mutex mutex;
  std::unordered_map<std::uint64_t, Noted> blocks;
  std::unordered_map<std::uint64_t, Physical> handles;
  std::map<std::uint64_t, Mapping> mappings;

  std::uint64_t next_id() { return ++last_id_; }

  void write(char operation, const Noted& noted, std::uint64_t stream) {
    if (!open()) return;
    const std::uint64_t now = microseconds();
    if (start_ == 0) start_ = now;
    used_ += static_cast<std::size_t>(std::snprintf(
        buffer_ + used_, sizeof(buffer_) - used_, "%c,%llu,%llu,%llu,%llu,rec,%d\n", operation,
        static_cast<unsigned long long>(noted.id), static_cast<unsigned long long>(noted.size),
        static_cast<unsigned long long>(stream), static_cast<unsigned long long>(now - start_), noted.device));
    // A program that is killed shall leave all but its last moment behind.
    constexpr std::uint64_t kDelay = 100'000;
    if (used_ + kLongest > sizeof(buffer_) || now - flushed_ > kDelay) flush(now);
  }

  void flush(std::uint64_t now) {
    flushed_ = now;
    for (std::size_t at = 0; file_ >= 0 && at < used_;) {
      const ssize_t written = ::write(file_, buffer_ + at, used_ - at);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return give_up("cannot write");
      at += static_cast<std::size_t>(written);
    }
    used_ = 0;
  }

  /// In a forked child: its parent's blocks are not its own.
  void begin_anew() {
    if (file_ >= 0) ::close(file_);
    file_ = -1;
    used_ = 0;
    start_ = 0;
    gave_up_ = false;
    blocks.clear();
    handles.clear();
    mappings.clear();
  }

 private:
  static constexpr std::size_t kLongest = 160;

  bool open() {
    if (file_ >= 0 || gave_up_) return !gave_up_;
    const char* const name = std::getenv("GPUWARDEN_MEMTRACE_FILE");
    const char* const owner = std::getenv("GPUWARDEN_MEMTRACE_PID");
    if (name == nullptr || *name == '\0') return gave_up_ = true, false;
    char path[4096];
    const bool own = owner != nullptr && std::strtol(owner, nullptr, 10) == ::getpid();
    const int size = own ? std::snprintf(path, sizeof(path), "%s", name)
                         : std::snprintf(path, sizeof(path), "%s.%d", name, static_cast<int>(::getpid()));
    if (size < 0 || static_cast<std::size_t>(size) >= sizeof(path)) return gave_up_ = true, false;
    file_ = ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file_ < 0) return give_up("cannot open"), false;
    static constexpr char kHeading[] = "op,id,size,stream,time_us,phase,device\n";
    std::memcpy(buffer_, kHeading, sizeof(kHeading) - 1);
    used_ = sizeof(kHeading) - 1;
    return true;
  }

  void give_up(const char* what) {
    std::fprintf(stderr, "gpuwarden: %s the memory trace: %s\n", what, std::strerror(errno));
    gave_up_ = true;
    used_ = 0;
  }

  int file_ = -1;
  bool gave_up_ = false;
  std::uint64_t last_id_ = 0;
  std::uint64_t start_ = 0;
  std::uint64_t flushed_ = 0;
  std::size_t used_ = 0;
  char buffer_[1 << 16];
};

/// Never destroyed: other libraries free memory while the process ends.
Log& log() {
  static Log* const one = [] {
    auto* const made = new Log;
    static Log* const known = made;
    ::pthread_atfork([] { known->mutex.lock(); }, [] { known->mutex.unlock(); },
                     [] {
                       known->begin_anew();
                       known->mutex.unlock();
                     });
    return made;
  }();
  return *one;
}

[[gnu::destructor]] void at_exit() {
  const std::lock_guard lock(log().mutex);
  log().flush(0);
}

void release(Log& all, std::uint64_t handle) {
  const auto found = all.handles.find(handle);
  if (found == all.handles.end() || --found->second.holders > 0) return;
  all.write('f', found->second.noted, 0);
  all.handles.erase(found);
}

}  // namespace

void note_allocation(std::uint64_t address, std::uint64_t size, std::uint64_t stream, int device) {
  Log& all = log();
  const std::lock_guard lock(all.mutex);
  Noted& noted = all.blocks[address];
  // Its context was destroyed meanwhile, or it was freed past us.
  if (noted.id != 0) all.write('f', noted, stream);
  noted = {all.next_id(), size, device};
  all.write('a', noted, stream);
}

std::optional<Noted> forget(std::uint64_t address) {
  Log& all = log();
  const std::lock_guard lock(all.mutex);
  const auto found = all.blocks.find(address);
  if (found == all.blocks.end()) return std::nullopt;
  const Noted noted = found->second;
  all.blocks.erase(found);
  return noted;
}

void remember(std::uint64_t address, const Noted& noted) {
  Log& all = log();
  const std::lock_guard lock(all.mutex);
  all.blocks.emplace(address, noted);
}

void note_free(const Noted& noted, std::uint64_t stream) {
  Log& all = log();
  const std::lock_guard lock(all.mutex);
  all.write('f', noted, stream);
}

void note_handle(std::uint64_t handle, std::uint64_t size, int device) {
  Log& all = log();
  const std::lock_guard lock(all.mutex);
  Physical& physical = all.handles[handle];
  physical = {{all.next_id(), size, device}, 1};
  all.write('a', physical.noted, 0);
}

void note_handle_used(std::uint64_t handle, std::uint64_t address, std::uint64_t size) {
  Log& all = log();
  const std::lock_guard lock(all.mutex);
  const auto found = all.handles.find(handle);
  if (found == all.handles.end()) return;
  ++found->second.holders;
  all.mappings[address] = {handle, size};
}

void note_handle_released(std::uint64_t handle) {
  Log& all = log();
  const std::lock_guard lock(all.mutex);
  release(all, handle);
}

void note_unmapped(std::uint64_t address, std::uint64_t size) {
  Log& all = log();
  const std::lock_guard lock(all.mutex);
  for (auto at = all.mappings.lower_bound(address); at != all.mappings.end() && at->first - address < size;) {
    release(all, at->second.handle);
    at = all.mappings.erase(at);
  }
}

}  // namespace gpuwarden::preload
