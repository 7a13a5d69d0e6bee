// SPDX-License-Identifier: Apache-2.0
// Several files of one machine.
#include <gtest/gtest.h>

#include <string>

#include "gpuwarden/capture/capture.hpp"

namespace gpuwarden::capture {
namespace {

TEST(KernelLog, FaultsOfEveryFileCount) {
  const std::string xid = "[  1.5] NVRM: Xid (PCI:0000:2d:00): 79, pid=77, name=python, GPU has fallen off the bus.\n";
  auto whole = read_capture("GPU 0: NVIDIA RTX A4000 (UUID: GPU-aaaaaaaa-1111-2222-3333-444444444440)\n", "smi.txt");
  ASSERT_TRUE(whole);
  for (const char* name : {"kern.log", "kern.log.1"}) {
    auto part = read_capture(xid, name);
    ASSERT_TRUE(part);
    add_capture(*whole, std::move(*part));
  }
  ASSERT_TRUE(whole->snapshot.kernel_faults);
  EXPECT_EQ(whole->snapshot.kernel_faults->size(), 2U);
}

}  // namespace
}  // namespace gpuwarden::capture
