// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/toolkits/start_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/toolkits/activation.hpp"

namespace gpuwarden::toolkits {

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
          fmt::format("gpuwarden's block stands between \"{}\" and \"{}\"; put the marks in order, or take all of "
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
    if (links == 40) return fail(ErrorCode::invalid_argument, file.string() + ": its links form a loop");
    const fs::path target = fs::read_symlink(real, error);
    if (error) return std::unexpected(error_from_errno(error.value(), "cannot read the link " + real.string()));
    real = target.is_absolute() ? target : real.parent_path() / target;
  }
  return real;
}

/// A start file as it was found: text, owner and permissions of one and the same file.
struct Found {
  std::string text;
  struct stat status{};
};

Result<std::optional<Found>> read_if_there(const fs::path& file) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd && errno == ENOENT) return std::optional<Found>();
  Found found;
  if (!fd || ::fstat(fd.get(), &found.status) != 0)
    return std::unexpected(error_from_errno(errno, "cannot read " + file.string()));
  if (!S_ISREG(found.status.st_mode))
    return fail(ErrorCode::invalid_argument, file.string() + " is not a regular file",
                "--file FILE names a start file");
  GPUWARDEN_TRY(found.text, read_descriptor(fd.get(), file.string()));
  return std::optional(std::move(found));
}

/// Owner and permissions for a descriptor. Only root can give files away, so then the group is tried; where even that
/// is not possible, the group that the file gets instead may do no more than everybody.
bool take_after(int fd, const struct stat& original) {
  mode_t mode = original.st_mode & 07777U;
  if (::fchown(fd, original.st_uid, original.st_gid) != 0) {
    mode &= 01777U;
    if (::fchown(fd, static_cast<uid_t>(-1), original.st_gid) != 0) mode = (mode & ~070U) | ((mode & 07U) << 3U);
  }
  return ::fchmod(fd, mode) == 0;
}

/// Writes under a new name that nobody can foresee, for nobody else to read, gives it owner and permissions of the
/// original, and renames it: at no time is the content open to more people than the original is.
Result<void> write_like(const fs::path& file, std::string_view content, const struct stat& original) {
  std::string temporary = file.string() + ".XXXXXX";
  const UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return std::unexpected(error_from_errno(errno, "cannot write " + file.string()));
  const auto written = write_descriptor(fd.get(), content, file.string());
  if (written && take_after(fd.get(), original) && ::fsync(fd.get()) == 0 &&
      ::rename(temporary.c_str(), file.c_str()) == 0)
    return {};
  Error error = written ? error_from_errno(errno, "cannot write " + file.string()) : written.error();
  ::unlink(temporary.c_str());
  return std::unexpected(std::move(error));
}

Result<void> replace(const fs::path& file, std::string_view content, const Found& found) {
  if (::access(file.c_str(), W_OK) != 0)
    return std::unexpected(error_from_errno(errno, "cannot write " + file.string()));
  return write_like(file, content, found.status);
}

/// The file as it was before gpuwarden first wrote to it. A backup that has the block itself is none of that.
Result<fs::path> back_up(const fs::path& file, const Found& found) {
  fs::path backup = file.string() + ".gpuwarden-backup";
  struct stat there{};
  if (::lstat(backup.c_str(), &there) == 0 && S_ISREG(there.st_mode)) {
    GPUWARDEN_TRY(const std::string first, read_file(backup));
    if (!first.contains(kBegin)) return backup;
  }
  GPUWARDEN_CHECK(write_like(backup, found.text, found.status));
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
  GPUWARDEN_TRY(const auto found, read_if_there(change.file));
  const auto text = found ? std::optional(found->text) : std::nullopt;
  GPUWARDEN_TRY(const std::string renewed, in_file(with_block(text, commands), change.file));
  if (text == renewed) return change;
  if (found) {
    GPUWARDEN_TRY(change.backup, back_up(change.file, *found));
    GPUWARDEN_CHECK(replace(change.file, renewed, *found));
  } else {
    std::error_code error;
    fs::create_directories(change.file.parent_path(), error);  // ~/.config/fish; a failure shows when writing
    GPUWARDEN_CHECK(write_file_atomically(change.file, renewed));
  }
  change.changed = true;
  return change;
}

Result<StartFileChange> unpersist(const fs::path& file) {
  StartFileChange change;
  GPUWARDEN_TRY(change.file, behind_links(file));
  GPUWARDEN_TRY(const auto found, read_if_there(change.file));
  GPUWARDEN_TRY(const auto rest, in_file(without_block(found ? found->text : ""), change.file));
  if (!found || rest == found->text)
    return fail(ErrorCode::not_found, fmt::format("{} has no gpuwarden block", change.file.string()),
                "--shell SHELL or --file FILE names another start file");
  GPUWARDEN_TRY(change.backup, back_up(change.file, *found));
  if (rest) {
    GPUWARDEN_CHECK(replace(change.file, *rest, *found));
  } else if (::unlink(change.file.c_str()) != 0) {
    return std::unexpected(error_from_errno(errno, "cannot remove " + change.file.string()));
  }
  change.changed = true;
  return change;
}

}  // namespace gpuwarden::toolkits
