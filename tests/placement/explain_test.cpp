// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "gpuwarden/placement/select.hpp"

namespace gpuwarden::placement {
namespace {

TEST(Explain, EveryDeviceHasALineWithItsReason) {
  Decision decision;
  decision.verdicts.push_back({.device = {.index = GpuIndex{0}, .name = "A"}, .chosen = true});
  decision.verdicts.push_back({.device = {.index = GpuIndex{1}, .name = "B"}, .reason = "in use"});
  decision.verdicts.push_back({.device = {.index = GpuIndex{2}, .name = "C"}});
  EXPECT_EQ(explain(decision),
            "GPU 0 A: chosen\nGPU 1 B: no: in use\nGPU 2 C: no: would do, but the rest is missing\n");
}

}  // namespace
}  // namespace gpuwarden::placement
