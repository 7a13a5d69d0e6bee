// SPDX-License-Identifier: Apache-2.0
// The driver is replaced while a reader has a session open.
#include <cstdlib>

#include "gpuwarden/probe/nvml_reader.hpp"
#include "support/sim_control.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::probe {
namespace {

using namespace gpuwarden::testing;
using ::testing::HasSubstr;
using ::testing::Not;

/// On a library without GPUs.
class DriverReplaced : public ::testing::Test {
 protected:
  DriverReplaced() : reader_(options()) { ::setenv("FAKE_NVML", dir_.path().c_str(), 1); }
  ReaderOptions options() const {
    ReaderOptions options;
    options.nvml_library = GPUWARDEN_FAKE_NVML;
    options.sys_root = dir_ / "sys";
    options.driver_proc_root = dir_ / "proc";
    return options;
  }

  TempDir dir_;
  NvmlReader reader_;
};

TEST_F(DriverReplaced, ASessionThatBreaksIsOpenedAnew) {
  EXPECT_EQ(reader_.read().driver_version, "550.54.15");
  put(dir_ / "replaced", "");
  const auto after = reader_.read();
  EXPECT_FALSE(after.problem);
  EXPECT_EQ(after.driver_version, "580.65.06");
  EXPECT_EQ(reader_.read().driver_version, "580.65.06");
}

TEST_F(DriverReplaced, WhereTheOldModuleStaysTheMessageSaysWhatIsDue) {
  EXPECT_FALSE(reader_.read().problem);
  put(dir_ / "replaced", "");
  put(dir_ / "mismatch", "");
  const auto broken = reader_.read();
  ASSERT_TRUE(broken.problem);
  EXPECT_THAT(broken.problem->message, HasSubstr("was replaced while this program was running"));
  EXPECT_THAT(broken.problem->message, HasSubstr("version mismatch"));
  EXPECT_THAT(broken.problem->hint, HasSubstr("reboot"));
  EXPECT_THAT(broken.problem->hint, HasSubstr("modprobe nvidia"));
  std::filesystem::remove(dir_ / "mismatch");
  EXPECT_FALSE(reader_.read().problem) << "the new module has been loaded";
}

TEST_F(DriverReplaced, AMismatchFromTheBeginningIsNoReplacement) {
  put(dir_ / "mismatch", "");
  const auto broken = reader_.read();
  ASSERT_TRUE(broken.problem);
  EXPECT_THAT(broken.problem->message, Not(HasSubstr("replaced")));
}

TEST(DriverReplacedInAFleet, ANewModuleVersionIsNoticedThoughTheSessionStillAnswers) {
  const TempDir dir;
  ::setenv("GPUWARDEN_SIM_DIR", (dir / "sim").c_str(), 1);
  put(dir / "fleet.yaml", "gpus: [{model: Tesla T4, count: 2}]\n");
  const auto library = std::filesystem::path(GPUWARDEN_SIM_LIB_DIR) / "550/libnvidia-ml.so.1";
  const SimControl fleet(library, (dir / "fleet.yaml").string());
  ::setenv("GPUWARDEN_SIM_FLEET", fleet.folder().c_str(), 1);
  ReaderOptions options;
  options.nvml_library = library;
  options.driver_proc_root = fleet.proc_root();
  options.sys_root = fleet.folder() + "/sys";
  NvmlReader reader(options);
  const auto before = reader.read();
  ASSERT_FALSE(before.problem) << before.problem->message;
  EXPECT_EQ(before.gpus.size(), 2U);
  fleet.fault(0, "mismatch");
  const auto broken = reader.read();
  ASSERT_TRUE(broken.problem);
  EXPECT_THAT(broken.problem->message, HasSubstr("was replaced while this program was running"));
  EXPECT_EQ(broken.gpus.size(), 2U) << "they are listed from /sys";
  fleet.call({{"op", "clear_faults"}});
  EXPECT_FALSE(reader.read().problem);
}

}  // namespace
}  // namespace gpuwarden::probe
