// SPDX-License-Identifier: Apache-2.0
// Which files the operands of `gpuwarden diagnose` mean.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::logs {

/// A file to read as a log.
struct LogFile {
  std::string path;                  ///< "-": standard input
  std::optional<std::int64_t> rank;  ///< as its path tells
  bool named = true;                 ///< by the user; false: found in a folder
};

struct LogFiles {
  std::vector<LogFile> files;   ///< each file once, whatever names it has
  std::vector<Error> problems;  ///< what could not be looked at
};

/// The operands, with folders replaced by the logs in them: plain files, not hidden, not sources or documents, down to
/// three folders deep (torchrun makes RUN/attempt_0/RANK/stderr.log).
LogFiles find_logs(const std::vector<std::string>& operands);

/// Whether a file of this name is read where nobody named it: not hidden, no source, no document.
bool may_be_log(const std::filesystem::path& path);

/// The rank that a path names: "rank-3.err", "3/stderr.log", "worker-3", "stdout_3.txt".
std::optional<std::int64_t> rank_of(const std::filesystem::path& path);

}  // namespace gpuwarden::logs
