// SPDX-License-Identifier: Apache-2.0
#include "support/temp_dir.hpp"

#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace gpuwarden::testing {

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "gpuwarden-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void put(const std::filesystem::path& path, std::string_view content) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

}  // namespace gpuwarden::testing
