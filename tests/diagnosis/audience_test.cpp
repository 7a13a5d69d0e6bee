// SPDX-License-Identifier: Apache-2.0
// Advice names no tool and no page of another maker or program than the log is of: over every rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <re2/re2.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/diagnosis/diagnosis.hpp"
#include "gpuwarden/diagnosis/reader.hpp"
#include "gpuwarden/knowledge/diagnosis.hpp"
#include "gpuwarden/knowledge/maker_steps.hpp"

namespace gpuwarden::diagnosis {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// A program's pages, and how its lines and their sources are known as its own.
struct Owner {
  std::string_view pages;
  std::string_view words;  ///< RE2
};
constexpr auto kOwners = std::to_array<Owner>({
    {"docs.vllm.ai", "(?i)vllm"},
    {"docs.sglang.io", "(?i)sglang"},
    {"docs.ray.io", "(?i)\\bray"},
    {"docs.jax.dev", "(?i)jax|xla"},
    {"text-generation-inference", "(?i)text-generation"},
    {"pytorch.org/docs/stable/elastic", "(?i)torch|words of many launchers"},
    {"developer.apple.com/metal", "(?i)metal|MPS"},
    {"w3.org/TR/webgpu", "(?i)wgpu|webgpu"},
    {"slurm.schedmd.com", "(?i)slurm|squeue|sacct|sbatch|srun"},
});

std::string about(const knowledge::DiagnosisRule& rule) {
  std::string text = fmt::format("{} {}", rule.id, rule.pattern);
  for (const auto& example : rule.examples) text += fmt::format(" {} {}", example.text, example.source);
  return text;
}

TEST(Audience, APageOfAProgramIsShownForThatProgramsLinesOnly) {
  for (const knowledge::DiagnosisRule& rule : knowledge::diagnosis_rules()) {
    const auto causes = knowledge::diagnosis_causes();
    const auto cause = std::ranges::find(causes, rule.cause, &knowledge::DiagnosisCause::id);
    if (cause == causes.end()) continue;
    const std::string_view page = rule.link.empty() ? cause->link : rule.link;
    for (const Owner& owner : kOwners) {
      if (!page.contains(owner.pages)) continue;
      EXPECT_TRUE(RE2::PartialMatch(about(rule), std::string(owner.words))) << rule.id << " shows " << page;
    }
  }
}

/// Whether what a rule sees is of a program on AMD's GPUs.
bool is_of_amd(std::string_view example) {
  static const RE2 kWords("HIP error|HIP out of memory|No HIP GPUs|hipError[A-Z]|rocBLAS|ROCm devices");
  return RE2::PartialMatch(std::string(example), kWords);
}

TEST(Audience, OnAmdsGpusNothingOfNvidiasIsAdvised) {
  int seen = 0;
  for (const knowledge::DiagnosisRule& rule : knowledge::diagnosis_rules()) {
    for (const auto& example : rule.examples) {
      if (!is_of_amd(example.text)) continue;
      for (const Cause& cause : diagnose_text(example.text, "log").causes) {
        ++seen;
        for (const auto* steps : {&cause.fix, &cause.confirm})
          EXPECT_THAT(*steps, Not(Contains(::testing::Truly(knowledge::is_of_nvidia_alone))))
              << rule.id << ", " << cause.id;
        EXPECT_THAT(cause.fix, Not(IsEmpty())) << rule.id << ", " << cause.id;
        EXPECT_THAT(cause.link, Not(HasSubstr("nvidia.com"))) << rule.id << ", " << cause.id;
      }
    }
  }
  EXPECT_GT(seen, 10);
}

TEST(Audience, AHipProgramOutOfMemoryIsLookedAtWithAmdsTool) {
  const auto found = diagnose_text(
      "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.98 GiB "
      "of "
      "which 1.11 GiB is free. Of the allocated memory 20.00 GiB is allocated by PyTorch, and 1.20 GiB is reserved by "
      "PyTorch but unallocated.\n",
      "log");
  ASSERT_FALSE(found.causes.empty());
  EXPECT_THAT(found.causes[0].confirm, Contains("amd-smi metric --mem-usage"));
  const auto cuda = diagnose_text(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.98 GiB "
      "of which 1.11 GiB is free.\nlsmod: amdgpu 123 0\n",
      "log");
  ASSERT_FALSE(cuda.causes.empty());
  EXPECT_THAT(cuda.causes[0].confirm, Contains(HasSubstr("nvidia-smi"))) << "a display may be AMD's";
}

TEST(Audience, NvidiasOwnEvidenceIsMendedWithNvidiasToolsWhateverElseTheLogNames) {
  const auto oom = diagnose_text(
      "AMD_SERIALIZE_KERNEL=0\nCUDA_VISIBLE_DEVICES=0\n"
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB "
      "of which 1.11 GiB is free.\n| 0  NVIDIA H100 80GB HBM3 |\n",
      "log");
  ASSERT_FALSE(oom.causes.empty());
  EXPECT_THAT(oom.causes[0].confirm, Contains(HasSubstr("nvidia-smi"))) << "a variable alone";
  for (const char* other : {"    case hipErrorInvalidValue:", "    if (status == hipErrorInvalidValue) return 1;",
                            "HIP error: invalid argument"}) {
    const auto xid =
        diagnose_text(fmt::format("{}\n[ 12.3] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.\n"
                                  "RuntimeError: CUDA error: unspecified launch failure\n",
                                  other),
                      "log");
    ASSERT_FALSE(xid.causes.empty());
    EXPECT_THAT(xid.causes[0].confirm, Contains(::testing::Truly(knowledge::is_of_nvidia_alone))) << other;
    EXPECT_THAT(xid.causes[0].confirm, Not(Contains(HasSubstr("amd-smi")))) << other;
    EXPECT_THAT(xid.causes[0].fix, Not(Contains(HasSubstr("amd")))) << other;
  }
}

TEST(Audience, TheMachinesGpusSayWhoseToolsThereAre) {
  facts::Snapshot machine;
  machine.gpus.emplace_back().gpu.vendor = "AMD";
  const Reading reading = read_log(
      "RuntimeError: DataLoader worker (pid 4) is killed by signal: Killed.\n"
      "an illegal memory access was encountered\n",
      "log");
  const auto amd = diagnose(reading, &machine);
  for (const Cause& cause : amd.causes)
    EXPECT_THAT(cause.fix, Not(Contains(::testing::Truly(knowledge::is_of_nvidia_alone)))) << cause.id;
  EXPECT_FALSE(amd.causes.empty());
}

TEST(Audience, ADeadWorkerOfDeepSpeedIsNotSentToVllm) {
  constexpr std::string_view kDeepSpeed =
      "[2025-01-02 03:04:05,678] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python', '-u', 'train.py', "
      "'--local_rank=0', '--deepspeed', 'ds.json'] exits with return code = -9\n";
  const auto found = diagnose_text(kDeepSpeed, "log");
  ASSERT_FALSE(found.causes.empty());
  EXPECT_THAT(found.causes[0].link, Not(HasSubstr("vllm")));
  EXPECT_THAT(found.causes[0].fix, Not(Contains(HasSubstr("VLLM"))));
  const auto vllm = diagnose_text("vLLM API server version 0.10.0\n" + std::string(kDeepSpeed), "log");
  ASSERT_FALSE(vllm.causes.empty());
  EXPECT_THAT(vllm.causes[0].link, HasSubstr("docs.vllm.ai"));
}

}  // namespace
}  // namespace gpuwarden::diagnosis
