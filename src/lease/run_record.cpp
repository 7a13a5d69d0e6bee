// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/lease/run_record.hpp"

#include <sys/file.h>
#include <sys/stat.h>

#include "lease/lock_file.hpp"

namespace gpuwarden::lease {

std::filesystem::path run_record(const std::filesystem::path& directory, const std::string& run_id) {
  if (run_id.empty() || run_id.contains('/')) return {};
  return directory / std::string(kRunRecordPrefix).append(run_id).append(kRunRecordEnding);
}

bool is_unsupervised(const std::filesystem::path& directory, const std::string& run_id, std::uint32_t user) {
  const auto path = run_record(directory, run_id);
  if (path.empty()) return false;
  const auto fd = open_existing_lock_file(path);
  struct stat info{};
  // Without text it is not locked yet.
  if (!fd || ::fstat(fd->get(), &info) != 0 || info.st_uid != user || info.st_size == 0) return false;
  // Shared, so that several who look at once do not take each other for supervisors.
  if (::flock(fd->get(), LOCK_SH | LOCK_NB) != 0) return false;
  ::flock(fd->get(), LOCK_UN);  // a process that another thread forks meanwhile would keep it
  return true;
}

}  // namespace gpuwarden::lease
