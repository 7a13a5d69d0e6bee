// SPDX-License-Identifier: Apache-2.0
#include "healing/checkpoint.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <system_error>

namespace gpuwarden::healing {

namespace {

namespace fs = std::filesystem;

/// A program that writes a checkpoint rests between two files, or waits for a slow disk, for less than that.
constexpr std::chrono::seconds kRest(3);
/// A folder's first so many files stand for it: it is looked at each second.
constexpr int kMostFiles = 4096;

std::int64_t time_of(const struct stat& info) {
  constexpr std::int64_t kNanoseconds = 1000000000;
  return info.st_mtim.tv_sec * kNanoseconds + info.st_mtim.tv_nsec;
}

}  // namespace

Checkpoint::Stamp Checkpoint::stamp() const {
  struct stat info{};
  if (file_.empty() || ::stat(file_.c_str(), &info) != 0) return std::nullopt;
  std::pair whole(time_of(info), std::int64_t{info.st_size});
  if (!S_ISDIR(info.st_mode)) return whole;
  // A folder's own time rests while the files in it are written.
  std::error_code error;
  fs::recursive_directory_iterator entry(file_, fs::directory_options::skip_permission_denied, error);
  for (int files = 0; !error && entry != fs::recursive_directory_iterator() && files < kMostFiles; ++files) {
    if (::lstat(entry->path().c_str(), &info) == 0) {
      whole.first = std::max(whole.first, time_of(info));
      whole.second += info.st_size;
    }
    entry.increment(error);
  }
  return whole;
}

void Checkpoint::begin() {
  done_ = seen_ = stamp();
  seen_since_ = clock_.now();
}

bool Checkpoint::was_written() {
  const Stamp now = stamp();
  if (now != seen_) {
    seen_ = now;
    seen_since_ = clock_.now();
  }
  if (!now || now == done_ || clock_.now() - seen_since_ < kRest) return false;
  done_ = now;
  return true;
}

}  // namespace gpuwarden::healing
