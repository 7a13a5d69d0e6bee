// SPDX-License-Identifier: Apache-2.0
// Small files that processes of several users read: whose word counts, and one writer at a time.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden::lease {

/// What a file says, and whose word that is.
struct StateFile {
  bool there = false;
  std::string text;
  bool of_root = false;
  uid_t owner = 0;
  std::string warning;  ///< why it is not believed: another user's, open to others, a link; `text` is empty then
};
/// Reads a file, never waiting for a pipe and following no link. Fails where one that counts cannot be read.
Result<StateFile> read_state_file(const std::filesystem::path& file, std::size_t largest);

/// Makes the folder (root's for all to read).
Result<void> make_state_folder(const std::filesystem::path& folder);
/// Makes the folder, and keeps other writers out while the descriptor lives.
Result<UniqueFd> lock_state_folder(const std::filesystem::path& folder, const char* lock_name);
/// Replaces the file, for all to read where root writes it.
Result<void> write_state_file(const std::filesystem::path& file, const std::string& text);

}  // namespace gpuwarden::lease
