// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/subprocess.hpp"
#include "sim_cuda/program.hpp"
#include "support/patience.hpp"

namespace gpuwarden {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

/// The names that a library exports, as nm prints them; empty without nm.
std::vector<std::string> exports_of(const std::string& library) {
  const auto done = testing::run_patiently({.argv = {"nm", "-D", "--defined-only", library}});
  std::vector<std::string> names;
  if (!done || done->exit_code != 0) return names;
  for (const auto line : split(trim(done->standard_output), '\n')) names.emplace_back(line.substr(line.rfind(' ') + 1));
  return names;
}

class CLibraryTest : public cuda::Programs {};

TEST_F(CLibraryTest, AProgramInCFindsAllAsTheHeaderSays) {
  // Found by the loader, as on a machine with a driver.
  ::setenv("LD_LIBRARY_PATH", cuda::library_of(580).parent_path().c_str(), 1);
  const auto done = testing::run_patiently({.argv = {GPUWARDEN_C_PROGRAM}});
  ::unsetenv("LD_LIBRARY_PATH");
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->exit_code, 0) << done->standard_error;
  EXPECT_EQ(done->standard_output, "all as expected\n");
}

TEST_F(CLibraryTest, AMachineWithoutADriverIsTold) {
  ::setenv("LD_LIBRARY_PATH", "/nowhere", 1);
  const auto done = testing::run_patiently({.argv = {GPUWARDEN_C_PROGRAM}});
  ::unsetenv("LD_LIBRARY_PATH");
  ASSERT_TRUE(done) << done.error().message;
  if (done->exit_code == 0) GTEST_SKIP() << "this machine has a driver";
  EXPECT_THAT(done->standard_error, HasSubstr("CUDA's driver library cannot be opened"));
}

TEST_F(CLibraryTest, TheLibrariesExportNothingElse) {
  const auto c = exports_of(GPUWARDEN_C_LIBRARY);
  if (c.empty()) GTEST_SKIP() << "no nm";
  EXPECT_THAT(c, AllOf(SizeIs(10), Each(::testing::StartsWith("gpuwarden_"))));
  EXPECT_THAT(exports_of(GPUWARDEN_TORCH_LIBRARY), AllOf(SizeIs(11), Each(::testing::StartsWith("gpuwarden_"))));
}

}  // namespace
}  // namespace gpuwarden
