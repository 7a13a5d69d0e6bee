// SPDX-License-Identifier: Apache-2.0
// A folder of a test's own, removed at its end.
#pragma once

#include <filesystem>

namespace gpuwarden::testing {

class TempDir {
 public:
  TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir();
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Writes a file, making its folders.
void put(const std::filesystem::path& path, std::string_view content);

}  // namespace gpuwarden::testing
