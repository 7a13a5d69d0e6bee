// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

/// Where what is written goes: into what stands there, or in the place of a file.
struct Target {
  fs::path path;
  bool into = false;
};

/// As the kernel has it (fs.protected_symlinks): in a folder that all may write to, a link is its maker's trap for
/// others.
bool is_trap(const fs::path& link, const struct stat& made) {
  struct stat folder{};
  if (::stat(folder_of(link).c_str(), &folder) != 0) return true;
  const bool shared = (folder.st_mode & S_ISVTX) != 0 && (folder.st_mode & S_IWOTH) != 0;
  return shared && made.st_uid != ::geteuid() && made.st_uid != folder.st_uid;
}

Result<Target> target_of(const fs::path& path) {
  std::error_code ignored;
  const std::string whole = fs::absolute(path, ignored).lexically_normal().native();
  for (const char* stream : {"/proc/", "/dev/fd/", "/dev/stdin", "/dev/stdout", "/dev/stderr"}) {
    if (whole.starts_with(stream)) return Target{path, true};
  }
  fs::path at = path;
  constexpr int kMostLinks = 40;
  for (int links = 0; links <= kMostLinks; ++links) {
    struct stat info{};
    if (::lstat(at.c_str(), &info) != 0) return Target{at, false};
    if (!S_ISLNK(info.st_mode)) return Target{at, !S_ISREG(info.st_mode)};
    if (is_trap(at, info))
      return fail(ErrorCode::permission_denied,
                  fmt::format("cannot write {}: it is another user's link in a folder that all may write to",
                              printable(path.string())));
    at = folder_of(at) / fs::read_symlink(at, ignored);
  }
  return std::unexpected(error_from_errno(ELOOP, "cannot write " + path.string()));
}

}  // namespace

Result<void> write_descriptor(int fd, std::string_view content, const std::string& name) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return std::unexpected(error_from_errno(errno, "cannot write " + name));
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Result<std::string> read_descriptor(int fd, const std::string& name, std::size_t cap) {
  std::string content;
  std::array<char, 65536> block;  // not zeroed: most files are a line, and a listing reads hundreds
  for (;;) {
    const ssize_t got = ::read(fd, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::unexpected(error_from_errno(errno, "cannot read " + name));
    if (got == 0) return content;
    content.append(block.data(), static_cast<std::size_t>(got));
    if (content.size() > cap)
      return fail(ErrorCode::invalid_argument, fmt::format("{} is larger than {}", name, format_size(Bytes(cap))),
                  "cut out the part that matters, with head -c, tail -c or grep");
  }
}

Result<std::string> read_file(const std::filesystem::path& path, std::size_t cap) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return std::unexpected(error_from_errno(errno, "cannot read " + path.string()));
  return read_descriptor(fd.get(), path.string(), cap);
}

std::optional<std::string> read_line(const std::filesystem::path& path) {
  constexpr std::size_t kLongest = std::size_t{1} << 20U;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return std::nullopt;
  std::string content;
  std::array<char, 1024> block;  // not zeroed, as above
  // No further than the line: to see where the file ends would take another call.
  while (content.size() <= kLongest) {
    const ssize_t got = ::read(fd.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    const std::size_t before = content.size();
    content.append(block.data(), static_cast<std::size_t>(got));
    const std::size_t end = content.find('\n', before);
    if (got == 0 || end != std::string::npos) return std::string(trim(std::string_view(content).substr(0, end)));
  }
  return std::nullopt;
}

Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view content, unsigned mode) {
  static std::atomic<unsigned> next = 0;
  std::string temporary;
  UniqueFd fd;
  // Opened with its mode, so that the kernel takes the umask off: to ask for it means to change it for all threads.
  do {
    temporary = fmt::format("{}.{}-{}", path.string(), ::getpid(), next.fetch_add(1));
    fd.reset(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  } while (!fd && errno == EEXIST);
  if (!fd) return std::unexpected(error_from_errno(errno, "cannot write " + path.string()));
  auto written = write_descriptor(fd.get(), content, path.string());
  if (written && ::rename(temporary.c_str(), path.c_str()) == 0) return {};
  Error error = written ? error_from_errno(errno, "cannot write " + path.string()) : written.error();
  ::unlink(temporary.c_str());
  return std::unexpected(std::move(error));
}

Result<void> write_output(const std::filesystem::path& path, std::string_view content) {
  if (path == "-") {
    std::fflush(stdout);
    return write_descriptor(STDOUT_FILENO, content, "standard output");
  }
  const auto target = target_of(path);
  if (!target) return std::unexpected(target.error());
  if (!target->into) return write_file_atomically(target->path, content);
  // What stands before in a file behind /dev/stdout stays.
  const UniqueFd fd(::open(target->path.c_str(), O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC));
  if (!fd) return std::unexpected(error_from_errno(errno, "cannot write " + path.string()));
  return write_descriptor(fd.get(), content, path.string());
}

bool can_write_output(const std::filesystem::path& path) {
  if (path == "-") return true;
  const auto target = target_of(path);
  std::error_code ignored;
  if (path.empty() || !target || fs::is_directory(target->path, ignored)) return false;
  if (target->into) return ::access(target->path.c_str(), W_OK) == 0;
  return ::access(folder_of(target->path).c_str(), W_OK | X_OK) == 0;
}

std::vector<std::filesystem::path> list_directory(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code error;
  std::filesystem::directory_iterator at(folder, error);
  while (!error && at != std::filesystem::directory_iterator()) {
    entries.push_back(at->path());
    at.increment(error);
  }
  std::ranges::sort(entries);
  return entries;
}

}  // namespace gpuwarden
