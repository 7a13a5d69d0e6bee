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
  auto content = read_file(path, std::size_t{1} << 20U);
  if (!content) return std::nullopt;
  return std::string(trim(std::string_view(*content).substr(0, content->find('\n'))));
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
  namespace fs = std::filesystem;
  if (path == "-") {
    std::fflush(stdout);
    return write_descriptor(STDOUT_FILENO, content, "standard output");
  }
  std::error_code ignored;
  const fs::path whole = fs::absolute(path, ignored).lexically_normal();
  const bool of_system = whole.native().starts_with("/dev/") || whole.native().starts_with("/proc/");
  const fs::file_status there = fs::status(path, ignored);
  if (of_system || (fs::exists(there) && !fs::is_regular_file(there))) {
    // What stands before in a file behind /dev/stdout stays.
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC));
    if (!fd) return std::unexpected(error_from_errno(errno, "cannot write " + path.string()));
    return write_descriptor(fd.get(), content, path.string());
  }
  const bool link = fs::is_symlink(fs::symlink_status(path, ignored));
  return write_file_atomically(link ? fs::weakly_canonical(path, ignored) : path, content);
}

bool can_write_output(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (path == "-") return true;
  if (path.empty() || fs::is_directory(path, ignored)) return false;
  const bool into = fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  return into ? ::access(path.c_str(), W_OK) == 0 : ::access(folder.c_str(), W_OK | X_OK) == 0;
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
