// SPDX-License-Identifier: Apache-2.0
// The files of a machine below a root folder: links never lead out of it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden::probe {

/// Paths are the machine's own ("/etc/os-release"), whatever the root.
class Tree {
 public:
  explicit Tree(std::filesystem::path root) : root_(std::move(root)) {}

  bool is_live() const { return root_ == "/"; }
  /// The path with all links resolved, as the machine sees it; empty where a part is missing or links go in circles.
  std::optional<std::filesystem::path> resolve(const std::filesystem::path& path) const;
  /// The file's bytes, at most `cap` of them; empty where it is no readable regular file.
  std::optional<std::string> read(const std::filesystem::path& path, std::size_t cap = std::size_t{1} << 20U) const;
  /// Shows a large file's bytes block by block, each beginning with the last `overlap` bytes of the one before, so that
  /// nothing shorter than that is cut, until `look` gives false. False where it is no readable regular file.
  bool scan(const std::filesystem::path& path, std::size_t overlap,
            const std::function<bool(std::string_view)>& look) const;
  /// The first line, without white space at its ends.
  std::optional<std::string> line(const std::filesystem::path& path) const;
  /// Names in a folder, sorted; at most 4096.
  std::vector<std::string> names(const std::filesystem::path& folder) const;
  bool is_folder(const std::filesystem::path& path) const;
  bool is_file(const std::filesystem::path& path) const;
  bool exists(const std::filesystem::path& path) const;
  /// Where a path of the machine lies on this one.
  std::filesystem::path outside(const std::filesystem::path& path) const;

 private:
  UniqueFd open(const std::filesystem::path& path) const;

  std::filesystem::path root_;
};

}  // namespace gpuwarden::probe
