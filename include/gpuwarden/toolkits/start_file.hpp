// SPDX-License-Identifier: Apache-2.0
// A marked block in a shell's start file: put in, renewed, and taken out again without a trace.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/facts/environment.hpp"
#include "gpuwarden/toolkits/shell.hpp"

namespace gpuwarden::toolkits {

/// The shell's start file for interactive use: ~/.bashrc, ~/.zshrc ($ZDOTDIR), ~/.config/fish/config.fish
/// ($XDG_CONFIG_HOME). Fails with invalid_argument where HOME is not set to an absolute path.
Result<std::filesystem::path> start_file_of(Shell shell, const Environment& variables);

/// The commands that choose a toolkit in every new shell: they add to PATH what is not in it yet.
std::string lasting_commands(Shell shell, const facts::Toolkit& toolkit);

/// The start file's text with `commands` in the marked block: in its place where there is one, else at the end. `text`
/// is empty where there is no file. Fails with corrupt (naming the line) where marks are missing or repeated.
Result<std::string> with_block(const std::optional<std::string>& text, std::string_view commands);

/// The text without the block, byte for byte what it was before it; empty optional: the file itself came with the block
/// and goes with it. A text without a block stays as it is.
Result<std::optional<std::string>> without_block(std::string_view text);

/// What has been done to a start file.
struct StartFileChange {
  std::filesystem::path file;  ///< with links resolved
  bool changed = false;
  std::optional<std::filesystem::path> backup;  ///< the first state that was kept; none where there was no file
};

/// Puts the block into the file: written beside it and renamed over it, with its owner and permissions; through links.
/// FILE.gpuwarden-backup keeps what was there before the first block; a later change leaves it alone. Nothing is
/// written where nothing would change. Fails with invalid_argument where it is not a regular file.
Result<StartFileChange> persist(const std::filesystem::path& file, std::string_view commands);
/// Takes it out again. Fails with not_found where there is no block.
Result<StartFileChange> unpersist(const std::filesystem::path& file);

}  // namespace gpuwarden::toolkits
