// SPDX-License-Identifier: Apache-2.0
#include "probe/survey/tree.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <deque>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::probe {

namespace fs = std::filesystem;

namespace {

constexpr int kMostLinks = 40;
constexpr std::size_t kMostNames = 4096;
constexpr std::size_t kBlock = 65536;
constexpr std::size_t kScanned = std::size_t{1} << 20U;
/// Libraries and modules of a GPU's software stay below this.
constexpr std::size_t kMostScanned = std::size_t{256} << 20U;

std::deque<fs::path> parts_of(const fs::path& path) {
  std::deque<fs::path> parts;
  for (const fs::path& part : path.relative_path()) parts.push_back(part);
  return parts;
}

}  // namespace

fs::path Tree::outside(const fs::path& path) const { return is_live() ? path : root_ / path.relative_path(); }

std::optional<fs::path> Tree::resolve(const fs::path& path) const {
  std::error_code error;
  if (is_live()) {
    fs::path real = fs::canonical(path, error);
    return error ? std::nullopt : std::optional(std::move(real));
  }
  fs::path real = "/";
  std::deque<fs::path> rest = parts_of(path);
  for (int links = 0; !rest.empty();) {
    const fs::path part = rest.front();
    rest.pop_front();
    if (part == "." || part.empty()) continue;
    if (part == "..") {
      real = real.parent_path();
      continue;
    }
    const fs::path next = real / part;
    const fs::file_status status = fs::symlink_status(outside(next), error);
    if (error || status.type() == fs::file_type::not_found) return std::nullopt;
    if (status.type() != fs::file_type::symlink) {
      real = next;
      continue;
    }
    if (++links > kMostLinks) return std::nullopt;
    const fs::path target = fs::read_symlink(outside(next), error);
    if (error) return std::nullopt;
    if (target.is_absolute()) real = "/";
    auto inner = parts_of(target);
    rest.insert(rest.begin(), inner.begin(), inner.end());
  }
  return real;
}

/// The regular file, opened; nothing else ever is. Not blocking: a FIFO in a file's place must not hold anyone up.
UniqueFd Tree::open(const fs::path& path) const {
  const auto real = resolve(path);
  if (!real) return {};
  UniqueFd file(::open(outside(*real).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return file;
}

std::optional<std::string> Tree::read(const fs::path& path, std::size_t cap) const {
  const UniqueFd file = open(path);
  if (!file) return std::nullopt;
  std::string text;
  while (text.size() < cap) {
    const std::size_t before = text.size();
    text.resize(std::min(cap, before + kBlock));
    const ssize_t got = ::read(file.get(), text.data() + before, text.size() - before);
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got <= 0) break;
  }
  return text;
}

bool Tree::scan(const fs::path& path, std::size_t overlap, const std::function<bool(std::string_view)>& look) const {
  const UniqueFd file = open(path);
  if (!file) return false;
  std::string block(overlap + kScanned, '\0');
  std::size_t kept = 0;
  for (std::size_t all = 0; all < kMostScanned;) {
    const ssize_t got = ::read(file.get(), block.data() + kept, block.size() - kept);
    if (got <= 0) break;
    all += static_cast<std::size_t>(got);
    const std::size_t filled = kept + static_cast<std::size_t>(got);
    if (!look(std::string_view(block).substr(0, filled))) break;
    kept = std::min(overlap, filled);
    std::copy_n(block.begin() + static_cast<std::ptrdiff_t>(filled - kept), kept, block.begin());
  }
  return true;
}

std::optional<std::string> Tree::line(const fs::path& path) const {
  const auto text = read(path, 4096);
  if (!text) return std::nullopt;
  return std::string(trim(std::string_view(*text).substr(0, text->find('\n'))));
}

std::vector<std::string> Tree::names(const fs::path& folder) const {
  std::vector<std::string> names;
  const auto real = resolve(folder);
  if (!real) return names;
  for (const fs::path& entry : list_directory(outside(*real))) {
    if (names.size() == kMostNames) break;
    names.push_back(entry.filename().string());
  }
  return names;
}

bool Tree::is_folder(const fs::path& path) const {
  std::error_code error;
  const auto real = resolve(path);
  return real && fs::is_directory(outside(*real), error);
}

bool Tree::is_file(const fs::path& path) const {
  std::error_code error;
  const auto real = resolve(path);
  return real && fs::is_regular_file(outside(*real), error);
}

bool Tree::exists(const fs::path& path) const { return resolve(path).has_value(); }

}  // namespace gpuwarden::probe
