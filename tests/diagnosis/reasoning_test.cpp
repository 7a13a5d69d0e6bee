// SPDX-License-Identifier: Apache-2.0
// What follows from what: causes and consequences over lines, ranks, files and times.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "gpuwarden/diagnosis/diagnosis.hpp"
#include "gpuwarden/diagnosis/overview.hpp"
#include "gpuwarden/diagnosis/reader.hpp"

namespace gpuwarden::diagnosis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// PyTorch's words (c10/cuda/CUDACachingAllocator.cpp), numbers in GiB.
std::string out_of_memory(int gpu, int tried, int allocated, int total = 79) {
  return "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate " + std::to_string(tried) + ".00 GiB. GPU " +
         std::to_string(gpu) + " has a total capacity of " + std::to_string(total) +
         ".00 GiB of which 256.00 MiB is free. Including non-PyTorch memory, this process has " +
         std::to_string(allocated + 1) + ".00 GiB memory in use. Of the allocated memory " + std::to_string(allocated) +
         ".00 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated.\n";
}

constexpr const char* kIllegal = "RuntimeError: CUDA error: an illegal memory access was encountered\n";
/// torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, without its logger's prefix.
constexpr const char* kTimeout =
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
    "Timeout(ms)=600000) ran for 600001 milliseconds before timing out.\n";

std::vector<std::string> causes_of(const Diagnosis& diagnosis) {
  std::vector<std::string> ids;
  for (const Cause& cause : diagnosis.causes) ids.push_back(cause.id);
  return ids;
}

std::vector<std::string> causes(const std::string& log) { return causes_of(diagnose_text(log, "run.log")); }

std::vector<std::string> causes(const std::vector<std::pair<std::string, std::string>>& files) {
  Reading all;
  for (const auto& [name, text] : files) add_reading(all, read_log(text, name));
  return causes_of(diagnose(all));
}

TEST(Reasoning, APodThatGetsNoGpusHasNoBrokenContainerRuntime) {
  const Diagnosis diagnosis = diagnose_text(
      "0/4 nodes are available: 4 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are available: 4 No preemption "
      "victims found for incoming pod.\n",
      "events.log");
  ASSERT_THAT(causes_of(diagnosis), ElementsAre("kubernetes_gpus_taken"));
  EXPECT_THAT(diagnosis.causes[0].summary, HasSubstr("all are taken, or the pod asks for more"));
  EXPECT_THAT(diagnosis.causes[0].fix.back(), HasSubstr("device plugin"));
}

TEST(Reasoning, ARankThatTorchrunSawKilledRanOutOfHostMemory) {
  const Diagnosis diagnosis = diagnose_text(
      "Root Cause (first observed failure):\n[0]:\n  time      : 2026-01-02_03:04:05\n  host      : node1\n"
      "  rank      : 0 (local_rank: 0)\n  exitcode  : -9 (pid: 4711)\n  error_file: <N/A>\n"
      "  traceback : Signal 9 (SIGKILL) received by PID 4711\n",
      "run.log");
  ASSERT_THAT(causes_of(diagnosis), ElementsAre("oom_host"));
  EXPECT_THAT(diagnosis.causes[0].summary, HasSubstr("Rank 0 (process 4711) was killed from outside"));
  EXPECT_THAT(diagnosis.causes[0].fix.front(), HasSubstr("OOM killer"));
  EXPECT_FALSE(diagnosis.only_consequences);
}

TEST(Reasoning, TheCudaOfADriverIsToldAsAVersion) {
  const Diagnosis diagnosis =
      diagnose_text("RuntimeError: The NVIDIA driver on your system is too old (found version 11040).\n", "run.log");
  ASSERT_THAT(causes_of(diagnosis), ElementsAre("driver_too_old"));
  EXPECT_THAT(diagnosis.causes[0].summary, HasSubstr("CUDA 11.4 at most"));
}

TEST(Reasoning, AGatedRepositoryIsAPlainFailureWithAdvice) {
  const Diagnosis diagnosis = diagnose_text(
      "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/m/x\n"
      "huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-6f)\n\n"
      "Cannot access gated repo for url https://huggingface.co/m/x/resolve/main/config.json.\n",
      "run.log");
  EXPECT_THAT(causes_of(diagnosis), IsEmpty());
  ASSERT_TRUE(diagnosis.ordinary);
  EXPECT_EQ(diagnosis.ordinary->line, 4);
  const PlainAdvice advice = plain_advice(diagnosis);
  EXPECT_THAT(advice.says, HasSubstr("accepted its terms"));
  EXPECT_THAT(advice.fix, ::testing::Contains("hf auth login"));
  EXPECT_THAT(plain_advice(diagnose_text("KeyError: 'loss'\n", "run.log")).says, IsEmpty());
}

TEST(Reasoning, WhatIsMetOrFallenBackFromIsNoFailure) {
  for (const char* line :
       {"Requires NVIDIA driver 550 or newer (installed: 580)", "INFO bf16 is not supported on this device, using fp16",
        "INFO: No GPU detected, running on CPU", "No GPU detected, running on CPU",
        "Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.\n    Minimum and Maximum cuda "
        "capability supported by this version of PyTorch is\n    (8.0) - (12.0)"})
    EXPECT_THAT(causes(line), IsEmpty()) << line;
  EXPECT_THAT(diagnose_text("No GPU detected, running on CPU\n", "run.log").harmless, ::testing::SizeIs(1));
  EXPECT_THAT(causes("Requires NVIDIA driver 550 or newer (installed: 535)"), ElementsAre("driver_too_old"));
  EXPECT_THAT(causes("Found GPU0 NVIDIA B200 which is of cuda capability 10.0.\nMinimum and Maximum cuda capability "
                     "supported by this version of PyTorch is\n(5.0) - (9.0)"),
              ElementsAre("no_kernel_image"));
}

TEST(Reasoning, APlainFailureOfOneRankIsNoGpuFault) {
  const std::string log =
      "[rank0]: KeyError: 'loss'\n"
      "W1120 10:00:00.000 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 9 closing signal "
      "SIGTERM\n"
      "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n";
  const Diagnosis diagnosis = diagnose_text(log, "run.log");
  EXPECT_THAT(causes_of(diagnosis), IsEmpty());
  ASSERT_TRUE(diagnosis.ordinary);
  EXPECT_EQ(diagnosis.ordinary->line, 1);
  EXPECT_THAT(diagnosis.ordinary->text, HasSubstr("KeyError"));
  EXPECT_FALSE(diagnosis.only_consequences);
}

// No rule knows the exception; it is the program's own, and came before its launcher's words.
TEST(Reasoning, AnExceptionOfTheProgramsOwnIsWhatEndedARank) {
  const std::string exception =
      "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"/work/tokens.py\", line 16, in load\n"
      "[rank0]:     return read(path)\n[rank0]: tokens.NoTokenizer: ./data/bpe.model\n";
  const std::string launcher =
      "E0327 17:34:59.290000 13 torch/distributed/elastic/multiprocessing/api.py:833] failed (exitcode: 1) "
      "local_rank: 0 (pid: 9280) of binary: /usr/bin/python3\n";
  const Diagnosis diagnosis = diagnose_text(exception + launcher, "run.log");
  EXPECT_THAT(causes_of(diagnosis), IsEmpty());
  ASSERT_TRUE(diagnosis.ordinary);
  EXPECT_EQ(diagnosis.ordinary->line, 4);
  EXPECT_FALSE(diagnosis.only_consequences);
  EXPECT_THAT(causes(launcher + exception), ElementsAre("crash_secondary")) << "what came later ended nothing";
}

TEST(Reasoning, APlainFailureElsewhereExplainsATimeout) {
  EXPECT_THAT(causes({{"rank0.log", kTimeout}, {"rank3.log", "FileNotFoundError: [Errno 2] No such file: 'x.bin'\n"}}),
              IsEmpty());
}

TEST(Reasoning, APlainFailureAfterATimeoutDoesNotExplainIt) {
  EXPECT_THAT(causes(std::string(kTimeout) + "KeyError: 'loss'\n"), ElementsAre("nccl_timeout"));
}

TEST(Reasoning, AGpuFaultIsToldBesideAPlainFailure) {
  EXPECT_THAT(causes(std::string(kIllegal) + "KeyError: 'loss'\n"), ElementsAre("illegal_memory_access"));
}

TEST(Reasoning, AnErrorIsNotHiddenByTheSameWordsInAWarningBefore) {
  const std::string log =
      "WARNING 11-20 10:00:00 x.py:1] CUDA error: an illegal memory access was encountered\n"
      "ERROR 11-20 10:00:05 x.py:1] CUDA error: an illegal memory access was encountered\n";
  const Diagnosis diagnosis = diagnose_text(log + kTimeout, "run.log");
  ASSERT_THAT(causes_of(diagnosis), ElementsAre("illegal_memory_access"));
  EXPECT_GT(diagnosis.causes.front().confidence, 0.8);
}

TEST(Reasoning, WhatWasCaughtAndRetriedIsNoSureCause) {
  const Diagnosis diagnosis =
      diagnose_text("WARNING: caught, retrying with half the batch: " + out_of_memory(0, 2, 77), "run.log");
  for (const Cause& cause : diagnosis.causes) EXPECT_LT(cause.confidence, 0.8) << cause.id;
}

TEST(Reasoning, TheEarliestOfSeveralFilesIsTheCauseWhereTheirClocksAgree) {
  EXPECT_THAT(causes({{"rank0.log", "2026-11-20T12:30:00Z " + std::string(kIllegal)},
                      {"rank3.log", "2026-11-20T12:00:00Z " + out_of_memory(3, 2, 77)}})
                  .front(),
              "oom_capacity");
  EXPECT_THAT(causes({{"rank0.log", "2026-11-20T12:00:00Z " + std::string(kIllegal)},
                      {"rank3.log", "2026-11-20T12:30:00Z " + out_of_memory(3, 2, 77)}})
                  .front(),
              "illegal_memory_access");
}

TEST(Reasoning, WhatCameLaterExplainsNothing) {
  const std::string xid = "NVRM: Xid (PCI:0000:91:00): 79, pid=9, name=python, GPU has fallen off the bus.\n";
  EXPECT_THAT(
      causes({{"a.log", "2026-11-20T12:00:00Z " + std::string(kTimeout)}, {"kern.log", "2026-11-20T11:59:00Z " + xid}}),
      ElementsAre("fell_off_bus"));
  EXPECT_THAT(
      causes({{"a.log", "2026-11-20T12:00:00Z " + std::string(kTimeout)}, {"kern.log", "2026-11-20T13:00:00Z " + xid}}),
      ElementsAre("fell_off_bus", "nccl_timeout"));
  EXPECT_THAT(
      causes({{"a.log", "2026-11-20T12:00:00Z " + std::string(kTimeout)}, {"kern.log", "2024-01-03T12:00:00Z " + xid}}),
      ElementsAre("fell_off_bus", "nccl_timeout"))
      << "an old kernel log is another story";
}

TEST(Reasoning, ZonesAreHeeded) {
  const std::string xid = "NVRM: Xid (PCI:0000:91:00): 79, pid=9, name=python, GPU has fallen off the bus.\n";
  EXPECT_THAT(causes({{"a.log", "2026-11-20T12:00:05Z " + std::string(kTimeout)},
                      {"kern.log", "2026-11-20T14:00:00+02:00 " + xid}}),
              ElementsAre("fell_off_bus"));
}

TEST(Reasoning, AProcessThatHoldsMoreAtEachFailureLeaks) {
  std::string leak;
  std::string ranks;
  for (int i = 0; i < 5; ++i) {
    leak += out_of_memory(0, 2, 60 + 4 * i);
    ranks += "[rank" + std::to_string(i) + "]: " + out_of_memory(i, 2, 60 + 4 * i);
  }
  EXPECT_THAT(causes(leak), ElementsAre("oom_leak"));
  EXPECT_EQ(causes(ranks).front().find("oom_leak"), std::string::npos) << "five ranks are five processes";
}

TEST(Reasoning, RequestsThatGrowAndGrowLeak) {
  std::string log;
  for (int i = 0; i < 5; ++i) log += out_of_memory(0, 1 << i, 70);
  EXPECT_THAT(causes(log), ElementsAre("oom_leak"));
}

TEST(Reasoning, NumbersOfDifferentFailuresAreNotMixed) {
  const Diagnosis diagnosis =
      diagnose_text(out_of_memory(0, 2, 77) + std::string(40, '\n') +
                        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 1 has a total "
                        "capacity of 15.00 GiB of which 8.00 MiB is free. Process 77 has 3.00 GiB memory in use.\n",
                    "run.log");
  ASSERT_FALSE(diagnosis.causes.empty());
  const Facts& facts = diagnosis.causes.front().facts;
  EXPECT_EQ(number(facts, "gpu"), 0);
  EXPECT_EQ(number(facts, "total_bytes"), std::int64_t{79} << 30);
  EXPECT_FALSE(facts.contains("processes"));
}

TEST(Reasoning, LinesThatATerminalBrokeAreReadAsOne) {
  const Diagnosis diagnosis = diagnose_text(
      "RuntimeError: CUDA out of memory. Tried to\n"
      "allocate 2.00 GiB (GPU 0; 23.65 GiB total capacity; 12.90 GiB already allocated; 300.00 MiB free; 22.00 GiB\n"
      "reserved in total by PyTorch)\n",
      "run.log");
  ASSERT_THAT(causes_of(diagnosis), ElementsAre("oom_fragmentation"));
  EXPECT_EQ(number(diagnosis.causes.front().facts, "tried_bytes"), std::int64_t{2} << 30);
  EXPECT_THAT(diagnosis.causes.front().summary, HasSubstr("fragmentation"));
}

TEST(Reasoning, IndependentFailuresAreAllTold) {
  const auto found = causes(std::string(kIllegal) + "OSError: [Errno 28] No space left on device: '/ckpt/step9.pt'\n");
  EXPECT_THAT(found, ElementsAre("illegal_memory_access", "disk_full"));
}

TEST(Reasoning, WhatMayHaveHappenedIsNoCause) {
  EXPECT_THAT(
      causes("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
             "The actor is dead because its worker process has died. There are some potential root causes. (1) The "
             "process is killed by SIGKILL by OOM killer due to high memory usage.\n"),
      ElementsAre("crash_secondary"));
}

TEST(Reasoning, ASentenceThatIsKnownIsSurerThanOneOfItsForm) {
  const Diagnosis form = diagnose_text("RuntimeError: Paged attention is not supported on your GPU\n", "run.log");
  ASSERT_THAT(causes_of(form), ElementsAre("arch_feature_unsupported"));
  const Diagnosis known = diagnose_text(
      "RuntimeError: Paged attention is not supported on your GPU\n"
      "RuntimeError: CUDA error: no kernel image is available for execution on the device\n",
      "run.log");
  ASSERT_FALSE(known.causes.empty());
  EXPECT_EQ(known.causes.front().id, "no_kernel_image");
  EXPECT_GT(known.causes.front().confidence, form.causes.front().confidence);
}

TEST(Reasoning, AProgramThatDoesWithoutAFeatureHasNotFailed) {
  EXPECT_THAT(causes("FlashAttention is not supported on this GPU, falling back to SDPA\n"), IsEmpty());
  EXPECT_THAT(causes("WARNING: FP8 kernels are only available on Hopper; disabled\n"), IsEmpty());
  EXPECT_THAT(causes("cuDNN cannot be loaded, convolution will be slower\n"), IsEmpty());
}

TEST(Reasoning, WordsOutOfALogAreNoOptionsAndNoShell) {
  const Diagnosis diagnosis = diagnose_text(
      "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to "
      "(-e/bin/sh, 29500).\n"
      "ImportError: libcudart.so.12;reboot: cannot open shared object file: No such file or directory\n",
      "run.log");
  for (const Cause& cause : diagnosis.causes) {
    for (const std::string& step : cause.fix) EXPECT_EQ(step.find(" -e/bin/sh"), std::string::npos) << step;
    for (const std::string& step : cause.confirm) EXPECT_EQ(step.find(" -e/bin/sh"), std::string::npos) << step;
  }
}

}  // namespace
}  // namespace gpuwarden::diagnosis
