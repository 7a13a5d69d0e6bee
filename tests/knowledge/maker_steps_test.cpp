// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/maker_steps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuwarden::knowledge {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(MakerSteps, NvidiasToolsAreSaidWithAmds) {
  EXPECT_THAT(steps_for_amd({"nvidia-smi -L", "CUDA_LAUNCH_BLOCKING=1 python train.py", "sudo dmesg -T | grep -i xid",
                             "nvidia-smi --query-gpu=index,memory.used --format=csv"}),
              ElementsAre("amd-smi list", "AMD_SERIALIZE_KERNEL=3 python train.py", "sudo dmesg -T | grep -i amdgpu",
                          "amd-smi metric --mem-usage"));
  EXPECT_THAT(steps_for_amd({"If nvidia-smi shows the GPU, look at the permissions of /dev/nvidia*."}),
              ElementsAre("If amd-smi shows the GPU, look at the permissions of /dev/kfd /dev/dri/render*."));
}

TEST(MakerSteps, WhatAmdHasNotFallsAwayAndTheRestStays) {
  EXPECT_THAT(steps_for_amd({"compute-sanitizer --tool memcheck python train.py", "sudo nvidia-smi -c 0",
                             "Blackwell needs the open kernel modules."}),
              IsEmpty());
  EXPECT_THAT(steps_for_amd({"Make the work smaller.", "nvidia-smi -L (rocm-smi) shows what is there"}),
              ElementsAre("Make the work smaller.", "amd-smi list (rocm-smi) shows what is there"));
}

TEST(MakerSteps, EachIsSaidOnce) {
  EXPECT_THAT(steps_for_amd({"dmesg -T | grep -i xid", "dmesg -T | grep -i nvrm"}),
              ElementsAre("dmesg -T | grep -i amdgpu"));
}

TEST(MakerSteps, PagesOfNvidiasAreAmdsOnTheSubject) {
  EXPECT_EQ(link_for_amd("https://docs.nvidia.com/compute-sanitizer/"),
            "https://rocm.docs.amd.com/projects/HIP/en/latest/how-to/debugging.html");
  EXPECT_EQ(link_for_amd("https://docs.nvidia.com/anything"), "https://rocm.docs.amd.com/en/latest/");
  EXPECT_EQ(link_for_amd("https://slurm.schedmd.com/faq.html"), "https://slurm.schedmd.com/faq.html");
}

}  // namespace
}  // namespace gpuwarden::knowledge
