// SPDX-License-Identifier: Apache-2.0
// What nvidia-smi prints on a Jetson.
#include <gtest/gtest.h>

#include <string_view>

#include "capture/reading.hpp"

namespace gpuwarden::capture {
namespace {

using namespace gpuwarden::testing;

constexpr std::string_view kOrinTable =
    "+---------------------------------------------------------------------------------------+\n"
    "| NVIDIA-SMI 540.4.0                Driver Version: 540.4.0      CUDA Version: 12.6     |\n"
    "|-----------------------------------------+----------------------+----------------------+\n"
    "| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |\n"
    "| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |\n"
    "|                                         |                      |               MIG M. |\n"
    "|=========================================+======================+======================|\n"
    "|   0  Orin (nvgpu)                  N/A  | N/A              N/A |                  N/A |\n"
    "| N/A   N/A  N/A               N/A /  N/A | Not Supported        |     N/A          N/A |\n"
    "|                                         |                      |                  N/A |\n"
    "+-----------------------------------------+----------------------+----------------------+\n";

TEST(SmiTable, ReadsAJetsonsGpuThatIsOnNoBusAndTellsNoMemory) {
  const auto snapshot = snapshot_of(kOrinTable);
  EXPECT_EQ(snapshot.driver_version, "540.4.0");
  EXPECT_EQ(snapshot.cuda_driver_version, "12.6");
  ASSERT_EQ(snapshot.gpus.size(), 1U);
  EXPECT_EQ(snapshot.gpus[0].gpu.name, "Orin (nvgpu)");
  EXPECT_EQ(snapshot.gpus[0].gpu.pci_bus_id, "");
  EXPECT_EQ(snapshot.gpus[0].sample.memory_total, std::nullopt);
  EXPECT_EQ(snapshot.gpus[0].sample.memory_used, std::nullopt);
  EXPECT_TRUE(facts::is_usable(snapshot.gpus[0]));
}

}  // namespace
}  // namespace gpuwarden::capture
