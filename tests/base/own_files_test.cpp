// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/own_files.hpp"

namespace gpuwarden {
namespace {

TEST(OwnFile, LiesInTheLibFolderBesideTheProgramsFolder) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  const auto file = own_file("sim/550");
  EXPECT_TRUE(file.is_absolute());
  EXPECT_TRUE(file.string().ends_with("/lib/gpuwarden/sim/550")) << file;
  EXPECT_TRUE(program.string().starts_with(file.parent_path().parent_path().parent_path().parent_path().string()));
}

}  // namespace
}  // namespace gpuwarden
