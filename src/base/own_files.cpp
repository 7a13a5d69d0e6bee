// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/own_files.hpp"

#include <system_error>

namespace gpuwarden {

namespace fs = std::filesystem;

fs::path own_file(const fs::path& name) {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  return program.parent_path().parent_path() / "lib/gpuwarden" / name;
}

}  // namespace gpuwarden
