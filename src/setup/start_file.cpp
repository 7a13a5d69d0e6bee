// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/setup/start_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/setup/activation.hpp"

namespace gpuwarden::setup {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBegin = "# >>> gpuwarden env >>>";
constexpr std::string_view kEnd = "# <<< gpuwarden env <<<";
constexpr std::string_view kAdvice = "# Written by gpuwarden env persist; gpuwarden env persist --remove takes it out.";
/// How taking the block out knows what was there before it.
constexpr std::string_view kNoNewline = "# The text before this block had no newline at its end.";
constexpr std::string_view kNoFile = "# There was no file before this block.";

/// Where the block stands: from the first byte of its first mark to behind the newline of its last.
struct Place {
  std::size_t begin = 0;
  std::size_t end = 0;
};

Error broken(int line, std::string_view what) {
  return {ErrorCode::corrupt, fmt::format("line {}: {}", line, what),
          fmt::format("the block of gpuwarden stands between \"{}\" and \"{}\"; put the marks in order, or take all of "
                      "it out by hand",
                      kBegin, kEnd)};
}

Result<std::optional<Place>> find_block(std::string_view text) {
  std::optional<Place> place;
  bool open = false;
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    ++number;
    const std::size_t newline = text.find('\n', at);
    const std::size_t next = newline == std::string_view::npos ? text.size() : newline + 1;
    const std::string_view line = trim(text.substr(at, next - at));
    if (line == kBegin) {
      if (place) return std::unexpected(broken(number, "the block begins a second time"));
      place = Place{at, text.size()};
      open = true;
    } else if (line == kEnd) {
      if (!open) return std::unexpected(broken(number, "the block ends, but does not begin"));
      place->end = next;
      open = false;
    }
    at = next;
  }
  if (open) return std::unexpected(broken(number, "the block does not end"));
  return place;
}

std::string block_of(std::string_view commands, std::string_view note) {
  return fmt::format("{}\n{}\n{}{}{}{}\n", kBegin, kAdvice, note, note.empty() ? "" : "\n", commands, kEnd);
}

/// The note in a block that is already there.
std::string_view note_in(std::string_view block) {
  for (const std::string_view note : {kNoNewline, kNoFile}) {
    if (block.contains(note)) return note;
  }
  return "";
}

/// The file that is meant, behind all links; it need not exist.
Result<fs::path> behind_links(const fs::path& file) {
  std::error_code error;
  fs::path real = file;
  for (int links = 0; fs::is_symlink(fs::symlink_status(real, error)); ++links) {
    if (links == 40) return fail(ErrorCode::invalid_argument, file.string() + ": its links go in circles");
    const fs::path target = fs::read_symlink(real, error);
    if (error) return std::unexpected(error_from_errno(error.value(), "cannot read the link " + real.string()));
    real = target.is_absolute() ? target : real.parent_path() / target;
  }
  return real;
}

Result<std::optional<std::string>> read_if_there(const fs::path& file) {
  auto text = read_file(file);
  if (text) return std::optional(std::move(*text));
  if (text.error().code == ErrorCode::not_found) return std::optional<std::string>();
  return std::unexpected(std::move(text).error());
}

/// The permissions and owner of a file, given to another. Only root can give files away; its group is tried.
void take_after(const fs::path& copy, const struct stat& original) {
  if (::chown(copy.c_str(), original.st_uid, original.st_gid) != 0) [[maybe_unused]]
    const int group = ::chown(copy.c_str(), static_cast<uid_t>(-1), original.st_gid);
  ::chmod(copy.c_str(), original.st_mode & 07777);
}

/// Writes the whole file beside `file`, gives it the same owner and permissions, and renames it.
Result<void> replace(const fs::path& file, std::string_view content) {
  struct stat original{};
  const bool there = ::stat(file.c_str(), &original) == 0;
  if (there && ::access(file.c_str(), W_OK) != 0)
    return std::unexpected(error_from_errno(errno, "cannot write " + file.string()));
  if (!there) return write_file_atomically(file, content);
  const fs::path beside = file.string() + ".gpuwarden-new";
  GPUWARDEN_CHECK(write_file_atomically(beside, content));
  take_after(beside, original);
  if (::rename(beside.c_str(), file.c_str()) == 0) return {};
  Error error = error_from_errno(errno, "cannot write " + file.string());
  ::unlink(beside.c_str());
  return std::unexpected(std::move(error));
}

Result<fs::path> back_up(const fs::path& file, std::string_view content) {
  fs::path backup = file.string() + ".gpuwarden-backup";
  GPUWARDEN_CHECK(write_file_atomically(backup, content));
  struct stat original{};
  if (::stat(file.c_str(), &original) == 0) take_after(backup, original);
  return backup;
}

std::string fish_folder(std::string_view list, const std::string& folder) {
  const std::string word = quoted(Shell::fish, folder);
  return fmt::format("contains -- {} ${}; or set -gx {} {} ${}\n", word, list, list, word, list);
}

std::string posix_folder(Shell shell, std::string_view list, const std::string& folder) {
  const std::string word = quoted(shell, folder);
  return fmt::format("case \":${{{0}-}}:\" in *:{1}:*) ;; *) export {0}={1}\"${{{0}:+:${{{0}}}}}\" ;; esac\n", list,
                     word);
}

}  // namespace

Result<fs::path> start_file_of(Shell shell, const Environment& variables) {
  const auto folder = [&](const char* name) -> fs::path {
    const auto found = variables.find(name);
    return found != variables.end() && found->second.starts_with('/') ? fs::path(found->second) : fs::path();
  };
  const fs::path home = folder("HOME");
  if (home.empty())
    return fail(ErrorCode::invalid_argument, "HOME is not set, so the shell's start file is not known",
                "--file FILE names it");
  if (shell == Shell::bash) return home / ".bashrc";
  if (shell == Shell::zsh) return (folder("ZDOTDIR").empty() ? home : folder("ZDOTDIR")) / ".zshrc";
  return (folder("XDG_CONFIG_HOME").empty() ? home / ".config" : folder("XDG_CONFIG_HOME")) / "fish/config.fish";
}

std::string lasting_commands(Shell shell, const facts::Toolkit& toolkit) {
  const ToolkitFolders folders = folders_of(toolkit);
  std::string text = commands_for(shell, {{"CUDA_HOME", folders.home}, {"CUDA_PATH", folders.home}});
  const auto add = [&](std::string_view list, const std::vector<std::string>& its) {
    for (const std::string& folder : its)
      text += shell == Shell::fish ? fish_folder(list, folder) : posix_folder(shell, list, folder);
  };
  add("PATH", folders.programs);
  add("LD_LIBRARY_PATH", folders.libraries);
  return text;
}

Result<std::string> with_block(const std::optional<std::string>& text, std::string_view commands) {
  if (!text) return block_of(commands, kNoFile);
  GPUWARDEN_TRY(const auto place, find_block(*text));
  if (!place) {
    const bool ended = text->empty() || text->ends_with('\n');
    return *text + (ended ? "" : "\n") + block_of(commands, ended ? "" : kNoNewline);
  }
  const std::string_view old = std::string_view(*text).substr(place->begin, place->end - place->begin);
  return text->substr(0, place->begin) + block_of(commands, note_in(old)) + text->substr(place->end);
}

Result<std::optional<std::string>> without_block(std::string_view text) {
  GPUWARDEN_TRY(const auto place, find_block(text));
  if (!place) return std::optional(std::string(text));
  const std::string_view note = note_in(text.substr(place->begin, place->end - place->begin));
  std::string before(text.substr(0, place->begin));
  const std::string after(text.substr(place->end));
  if (note == kNoFile && before.empty() && after.empty()) return std::optional<std::string>();
  // Where something was written behind the block, the newline has become a part of it.
  if (note == kNoNewline && after.empty() && before.ends_with('\n')) before.pop_back();
  return std::optional(before + after);
}

namespace {

/// What an error in the marks belongs to.
template <class T>
Result<T> in_file(Result<T> result, const fs::path& file) {
  if (!result) result.error().message = fmt::format("{}: {}", file.string(), result.error().message);
  return result;
}

}  // namespace

Result<StartFileChange> persist(const fs::path& file, std::string_view commands) {
  StartFileChange change;
  GPUWARDEN_TRY(change.file, behind_links(file));
  GPUWARDEN_TRY(const auto text, read_if_there(change.file));
  GPUWARDEN_TRY(const std::string renewed, in_file(with_block(text, commands), change.file));
  if (text == renewed) return change;
  if (text) {
    GPUWARDEN_TRY(change.backup, back_up(change.file, *text));
  } else {
    std::error_code error;
    fs::create_directories(change.file.parent_path(), error);  // ~/.config/fish; a failure shows when writing
  }
  GPUWARDEN_CHECK(replace(change.file, renewed));
  change.changed = true;
  return change;
}

Result<StartFileChange> unpersist(const fs::path& file) {
  StartFileChange change;
  GPUWARDEN_TRY(change.file, behind_links(file));
  GPUWARDEN_TRY(const auto text, read_if_there(change.file));
  GPUWARDEN_TRY(const auto rest, in_file(without_block(text.value_or("")), change.file));
  if (!text || rest == text)
    return fail(ErrorCode::not_found, fmt::format("{} has no block of gpuwarden", change.file.string()),
                "--shell SHELL or --file FILE names another start file");
  GPUWARDEN_TRY(change.backup, back_up(change.file, *text));
  if (rest) {
    GPUWARDEN_CHECK(replace(change.file, *rest));
  } else if (::unlink(change.file.c_str()) != 0) {
    return std::unexpected(error_from_errno(errno, "cannot remove " + change.file.string()));
  }
  change.changed = true;
  return change;
}

}  // namespace gpuwarden::setup
