// SPDX-License-Identifier: Apache-2.0
#include "probe/holders.hpp"

#include "support/fleet_builder.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::probe {
namespace {

using namespace gpuwarden::testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

::testing::Matcher<const Holder&> is_holder(std::int32_t pid, const std::vector<std::uint32_t>& minors) {
  return ::testing::AllOf(::testing::Field(&Holder::process, ::testing::Field(&facts::GpuProcess::pid, Pid{pid})),
                          ::testing::Field(&Holder::minors, minors));
}

/// A stand-in /proc.
class Holders : public ::testing::Test {
 protected:
  void process(int pid, const std::vector<std::string>& open, const std::string& cgroup = "0::/\n") const {
    const auto folder = dir_ / std::to_string(pid);
    put(folder / "status", "Name:\tpython\nPPid:\t1\nUid:\t4242\t4242\t4242\t4242\n");
    put(folder / "cmdline", std::string("python\0train.py\0", 16));
    put(folder / "cgroup", cgroup);
    std::filesystem::create_directories(folder / "fd");
    int number = 3;
    for (const auto& target : open) std::filesystem::create_symlink(target, folder / "fd" / std::to_string(number++));
  }
  static facts::Snapshot machine() {
    facts::Snapshot snapshot = fleet(2);
    snapshot.gpus[0].gpu.minor_number = Count(1);  // minor numbers need not follow NVML's order
    snapshot.gpus[1].gpu.minor_number = Count(0);
    return snapshot;
  }

  TempDir dir_;
};

TEST_F(Holders, OnlyAGpusOwnDeviceFileCounts) {
  EXPECT_EQ(minor_of("/dev/nvidia0"), 0U);
  EXPECT_EQ(minor_of("/dev/nvidia15"), 15U);
  for (const char* other : {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-modeset", "/dev/nvidia", "/dev/nvidia-1",
                            "/dev/nvidia-caps/nvidia-cap1", "/home/dev/nvidia0", "socket:[12]", ""})
    EXPECT_EQ(minor_of(other), std::nullopt) << other;
}

TEST_F(Holders, AreFoundByTheirDescriptorsWithEachGpuOnce) {
  process(4194001, {"/dev/null", "/dev/nvidiactl", "/dev/nvidia1", "/dev/nvidia0", "/dev/nvidia1"});
  process(4194002, {"/dev/nvidiactl", "/dev/nvidia-uvm"});
  put(dir_ / "4194003/status", "Name:\tnot permitted\n");
  put(dir_ / "cpuinfo", "");
  EXPECT_THAT(find_holders(dir_.path(), {dir_.path()}), ElementsAre(is_holder(4194001, {0, 1})));
  EXPECT_THAT(find_holders(dir_ / "nothing", {}), IsEmpty());
}

TEST_F(Holders, ThoseThatNvmlListsAreNotAddedTwice) {
  process(4194001, {"/dev/nvidia1"});
  process(4194002, {"/dev/nvidia0", "/dev/nvidia1"}, "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n");
  auto snapshot = machine();
  snapshot.gpus[0].processes = {{.pid = Pid{4194001}, .compute = true}};
  snapshot.gpus[1].processes = std::nullopt;
  add_holders(find_holders(dir_.path(), {dir_.path()}), snapshot);
  ASSERT_EQ(snapshot.gpus[0].processes->size(), 2U);
  EXPECT_TRUE(snapshot.gpus[0].processes->at(0).listed);
  const auto& added = snapshot.gpus[0].processes->at(1);
  EXPECT_EQ(added.pid, Pid{4194002});
  EXPECT_FALSE(added.listed);
  EXPECT_EQ(facts::type_of(added), "-");
  EXPECT_EQ(added.user, "4242");
  EXPECT_EQ(added.command, "python train.py");
  EXPECT_EQ(added.slurm_job, "4711");
  ASSERT_TRUE(snapshot.gpus[1].processes);
  EXPECT_EQ(snapshot.gpus[1].processes->size(), 1U);
  EXPECT_EQ(snapshot.gpus[1].state, facts::GpuState::available) << "an open file alone is no work";
}

TEST_F(Holders, ThoseThatHaveEndedSinceHoldNothing) {
  process(4194001, {"/dev/nvidia0"});
  process(4194002, {"/dev/nvidia0"});
  auto holders = find_holders(dir_.path(), {dir_.path()});
  std::filesystem::remove_all(dir_ / "4194001");
  drop_ended(dir_.path(), holders);
  EXPECT_THAT(holders, ElementsAre(is_holder(4194002, {0})));
}

TEST_F(Holders, ReadersOfGpuwardenAreNone) {
  process(4194001, {"/dev/nvidia0"});
  put(dir_ / "4194001/comm", "gpuwarden-probe\n");
  EXPECT_THAT(find_holders(dir_.path(), {dir_.path()}), IsEmpty());
}

TEST_F(Holders, AGpuWithoutAMinorNumberOrOfAnotherVendorHasNone) {
  process(4194001, {"/dev/nvidia0", "/dev/nvidia1"});
  auto snapshot = machine();
  snapshot.gpus[0].gpu.minor_number = std::nullopt;
  snapshot.gpus[1].gpu.vendor = "AMD";
  add_holders(find_holders(dir_.path(), {dir_.path()}), snapshot);
  EXPECT_THAT(*snapshot.gpus[0].processes, IsEmpty());
  EXPECT_THAT(*snapshot.gpus[1].processes, IsEmpty());
}

}  // namespace
}  // namespace gpuwarden::probe
