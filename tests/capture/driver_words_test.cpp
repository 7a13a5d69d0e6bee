// SPDX-License-Identifier: Apache-2.0
// What the driver says of itself: lines of the kernel log, sentences of nvidia-smi.
#include <utility>

#include "capture/reading.hpp"
#include "gpuwarden/capture/capture.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::capture {
namespace {

using namespace gpuwarden::testing;
using ::testing::HasSubstr;

TEST(KernelLog, XidsOfEveryLogFormat) {
  const auto snapshot = snapshot_of(
      "[Sun Feb 23 16:24:18 2025] NVRM: GPU at PCI:0000:9b:00: GPU-aa\n"
      "[Sun Feb 23 16:24:18 2025] NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, Timeout\n"
      "Nov 20 10:00:00 node7 kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', GPU has fallen off the bus.\n"
      "3,1234,5678,-;nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48\n"
      "[    1.0] NVRM: Xid (PCI:0000:9b:00): 13");
  ASSERT_TRUE(snapshot.kernel_faults);
  ASSERT_EQ(snapshot.kernel_faults->size(), 3U) << "a last line that was cut proves no code";
  EXPECT_EQ(snapshot.kernel_faults->at(0).pid, Pid{2024380});
  EXPECT_EQ(snapshot.kernel_faults->at(1).code, 79U);
  EXPECT_EQ(snapshot.kernel_faults->at(1).line, 3U);
  EXPECT_EQ(snapshot.kernel_faults->at(2).kind, "sxid");
  EXPECT_EQ(snapshot.host, "node7");
}

TEST(KernelLog, OldDriversNameThePlaceWithoutItsBus) {
  const auto snapshot = snapshot_of("kernel: NVRM: Xid (0000:02:00): 13, 0001 00000000\n");
  EXPECT_EQ(snapshot.kernel_faults->at(0).pci_bus_id, "0000:02:00");
}

TEST(KernelLog, AMismatchIsAProblemOfTheDriver) {
  const auto snapshot = snapshot_of(
      "NVRM: API mismatch: the client has the version 470.129.06, but\n"
      "NVRM: this kernel module has the version 470.103.01.  Please\n");
  ASSERT_TRUE(snapshot.problem);
  EXPECT_THAT(snapshot.problem->message, HasSubstr("470.129.06"));
  EXPECT_EQ(snapshot.problem->kind, facts::DriverProblem::Kind::mismatch);
  EXPECT_EQ(snapshot.kernel_module_version, "470.103.01");
}

TEST(SmiErrors, SayWhatTheyMean) {
  const auto snapshot = snapshot_of("Failed to initialize NVML: Driver/library version mismatch\n");
  ASSERT_TRUE(snapshot.problem);
  EXPECT_THAT(snapshot.problem->message, HasSubstr("different versions"));
  EXPECT_THAT(snapshot.problem->hint, HasSubstr("reboot"));
}

TEST(SmiErrors, HaveKinds) {
  using Kind = facts::DriverProblem::Kind;
  const std::pair<const char*, Kind> rows[] = {
      {"Failed to initialize NVML: Driver/library version mismatch\n", Kind::mismatch},
      {"Failed to initialize NVML: Unknown Error\n", Kind::unknown_error},
      {"Failed to initialize NVML: Driver Not Loaded\n", Kind::not_loaded},
      {"Failed to initialize NVML: Insufficient Permissions\n", Kind::no_permission},
      {"No devices were found\n", Kind::no_devices},
  };
  for (const auto& [text, kind] : rows) {
    const auto snapshot = snapshot_of(text);
    ASSERT_TRUE(snapshot.problem) << text;
    EXPECT_EQ(snapshot.problem->kind, kind) << text;
  }
}

}  // namespace
}  // namespace gpuwarden::capture
