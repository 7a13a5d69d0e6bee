// SPDX-License-Identifier: Apache-2.0
#include "probe/survey/tree.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <deque>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden::probe {

namespace fs = std::filesystem;

namespace {

constexpr int kMostLinks = 40;
constexpr std::size_t kMostNames = 4096;

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

std::optional<std::string> Tree::read(const fs::path& path, std::size_t cap) const {
  const auto real = resolve(path);
  if (!real) return std::nullopt;
  // Not blocking: a FIFO in a file's place must not hold anyone up.
  const UniqueFd file(::open(outside(*real).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  std::string text;
  while (text.size() < cap) {
    const std::size_t before = text.size();
    text.resize(std::min(cap, before + 65536));
    const ssize_t got = ::read(file.get(), text.data() + before, text.size() - before);
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got <= 0) break;
  }
  return text;
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
