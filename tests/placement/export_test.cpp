// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/placement/export.hpp"

#include "support/matchers.hpp"

namespace gpuwarden::placement {
namespace {

using ::testing::HasSubstr;
using testing::IsOkAnd;

TEST(ExportCommands, AreInTheShellsOwnWords) {
  EXPECT_THAT(export_commands("zsh", "GPU-a,GPU-b"),
              IsOkAnd("export CUDA_DEVICE_ORDER='PCI_BUS_ID'\nexport CUDA_VISIBLE_DEVICES='GPU-a,GPU-b'\n"));
  EXPECT_THAT(export_commands("fish", "0"), IsOkAnd(HasSubstr("set -gx CUDA_VISIBLE_DEVICES '0'\n")));
  EXPECT_THAT(export_commands("tcsh", "0"), IsOkAnd(HasSubstr("setenv CUDA_VISIBLE_DEVICES '0';\n")));
  EXPECT_THAT(export_commands("powershell", "0"), IsOkAnd(HasSubstr("$env:CUDA_VISIBLE_DEVICES = '0'\n")));
  EXPECT_THAT(export_commands("cmd", "0"), IsOkAnd(HasSubstr("set CUDA_VISIBLE_DEVICES=0\n")));
  EXPECT_THAT(export_commands("bas", "0"),
              testing::FailsWith(ErrorCode::invalid_argument, HasSubstr("unknown shell 'bas'")));
}

TEST(VisibleIndices, HaveCommasBetween) {
  Decision decision;
  EXPECT_EQ(visible_indices(decision), "");
  decision.selected.resize(2);
  decision.selected[0].index = GpuIndex{3};
  decision.selected[1].index = GpuIndex{1};
  EXPECT_EQ(visible_indices(decision), "3,1");
}

TEST(ChosenDevices, AreToldWithTheirModels) {
  const auto device = [](std::uint32_t index, const char* name, std::optional<std::uint32_t> mig = {}) {
    return Device{.index = GpuIndex{index}, .uuid = {}, .mig = mig, .name = name};
  };
  Decision decision;
  decision.selected = {device(0, "NVIDIA L4"), device(2, "NVIDIA L4")};
  EXPECT_EQ(in_words(decision), "GPU 0, 2 (NVIDIA L4)");
  EXPECT_EQ(models_in_words(decision), "NVIDIA L4");
  decision.selected.push_back(device(1, "NVIDIA A100", 3));
  EXPECT_EQ(in_words(decision), "GPU 0, 2 (NVIDIA L4), GPU 1.3 (NVIDIA A100)");
  EXPECT_EQ(models_in_words(decision), "NVIDIA L4 and NVIDIA A100");
  EXPECT_EQ(in_words({.satisfied = true, .cpu = true}), "the CPU");
}

}  // namespace
}  // namespace gpuwarden::placement
