// SPDX-License-Identifier: Apache-2.0
#include "launch/record.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/lease/grounds.hpp"

namespace gpuwarden::launch {

std::optional<RunRecord> RunRecord::make(const std::filesystem::path& folder, const std::string& run_id,
                                         const std::filesystem::path& group, std::span<const int> held) {
  if (folder.empty() || run_id.empty()) return std::nullopt;
  auto path = folder / std::string(kRecordPrefix).append(run_id).append(kRecordEnding);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!fd) return std::nullopt;
  const std::string text = group.string() + "\n" + lease::to_lines(lease::own_grounds(held));
  // The text comes after the lock: a record without text is not a run that has lost its supervisors.
  if (::flock(fd.get(), LOCK_EX) != 0 || !write_descriptor(fd.get(), text, path.string())) {
    ::unlink(path.c_str());
    return std::nullopt;
  }
  return RunRecord(std::move(path), std::move(fd));
}

void RunRecord::remove() const { ::unlink(path_.c_str()); }

}  // namespace gpuwarden::launch
