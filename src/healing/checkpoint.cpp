// SPDX-License-Identifier: Apache-2.0
#include "healing/checkpoint.hpp"

#include <sys/stat.h>

namespace gpuwarden::healing {

Checkpoint::Stamp Checkpoint::stamp() const {
  struct stat info{};
  if (file_.empty() || ::stat(file_.c_str(), &info) != 0) return std::nullopt;
  constexpr std::int64_t kNanoseconds = 1000000000;
  return std::pair(info.st_mtim.tv_sec * kNanoseconds + info.st_mtim.tv_nsec, std::int64_t{info.st_size});
}

bool Checkpoint::was_written() {
  const Stamp now = stamp();
  const bool whole = now && now == seen_;
  seen_ = now;
  if (!whole || now == done_) return false;
  done_ = now;
  return true;
}

}  // namespace gpuwarden::healing
