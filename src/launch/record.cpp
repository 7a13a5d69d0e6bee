// SPDX-License-Identifier: Apache-2.0
#include "launch/record.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "gpuwarden/base/file.hpp"

namespace gpuwarden::launch {

std::optional<RunRecord> RunRecord::make(const std::filesystem::path& folder, const std::string& run_id,
                                         const std::filesystem::path& group) {
  if (folder.empty() || run_id.empty()) return std::nullopt;
  auto path = folder / std::string(kRecordPrefix).append(run_id).append(kRecordEnding);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!fd) return std::nullopt;
  // The text comes after the lock: a record without text is not a run that has lost its supervisors.
  if (::flock(fd.get(), LOCK_EX) != 0 || !write_descriptor(fd.get(), group.string() + "\n", path.string())) {
    ::unlink(path.c_str());
    return std::nullopt;
  }
  return RunRecord(std::move(path), std::move(fd));
}

void RunRecord::remove() const { ::unlink(path_.c_str()); }

}  // namespace gpuwarden::launch
