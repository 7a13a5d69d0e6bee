// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/diagnosis/diagnosis.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuwarden/diagnosis/reader.hpp"

namespace gpuwarden::diagnosis {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kOutOfMemory =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB "
    "of "
    "which 512.00 MiB is free. Including non-PyTorch memory, this process has 78.50 GiB memory in use. Of the "
    "allocated "
    "memory 77.00 GiB is allocated by PyTorch, and 640.00 MiB is reserved by PyTorch but unallocated. If reserved but "
    "unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
    "fragmentation.\n";

constexpr const char* kWatchdog =
    "[E1120 10:10:00.000000001 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=32, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600004 "
    "milliseconds "
    "before timing out.\n";

std::string first_cause(const Diagnosis& diagnosis) {
  return diagnosis.causes.empty() ? "none" : diagnosis.causes.front().id;
}

std::string diagnosed(const std::string& log) { return first_cause(diagnose_text(log, "run.log")); }

TEST(Diagnosis, GivesTheCauseWithItsNumbersEvidenceAndFix) {
  const Diagnosis diagnosis = diagnose_text("step 1\n" + std::string(kOutOfMemory), "run.log");
  ASSERT_EQ(first_cause(diagnosis), "oom_capacity");
  const Cause& cause = diagnosis.causes.front();
  EXPECT_EQ(number(cause.facts, "tried_bytes"), std::int64_t{2} << 30);
  EXPECT_EQ(number(cause.facts, "gpu"), 0);
  EXPECT_GE(cause.confidence, 0.8);
  EXPECT_THAT(cause.summary, HasSubstr("2 GiB"));
  ASSERT_FALSE(cause.evidence.empty());
  EXPECT_EQ(cause.evidence.front().file, "run.log");
  EXPECT_EQ(cause.evidence.front().line, 2);
  EXPECT_FALSE(cause.fix.empty());
  EXPECT_FALSE(cause.confirm.empty());
  EXPECT_THAT(cause.link, HasSubstr("https://"));
}

TEST(Diagnosis, ARecordedRepairOfMemoryStopsNoWorkWhereNoErrorIsBesideIt) {
  for (const char* line :
       {"NVRM: Xid (PCI:0000:3b:00): 63, pid=1, Row Remapper: New row marked for remapping, reset gpu to activate.\n",
        "NVRM: Xid (PCI:0000:3b:00): 63, Dynamic Page Retirement: New retired page, reload the driver to "
        "activate.\n",
        "node health: XID 63 on gpu-3\n", "GPU 4 had memory errors and row remappings are pending\n"}) {
    const Diagnosis diagnosis = diagnose_text(line, "kern.log");
    ASSERT_EQ(first_cause(diagnosis), "ecc_error");
    const std::vector<std::string>& fix = diagnosis.causes.front().fix;
    ASSERT_FALSE(fix.empty());
    EXPECT_THAT(fix.front(), StartsWith("If no Xid 48, 64, 94 or 95 is beside it")) << line;
    EXPECT_THAT(fix, Contains(AllOf(StartsWith("If one is"), HasSubstr("last checkpoint")))) << line;
    EXPECT_THAT(fix, Not(Contains(AnyOf(StartsWith("Drain"), StartsWith("Restart"))))) << line;
  }
}

TEST(Diagnosis, ARepairBesideAnErrorOfMemoryAsksForTheCheckpoint) {
  const std::string kernel = "NVRM: Xid (PCI:0000:3b:00): ";
  const std::string repair = kernel + "63, pid=1, Row Remapper: New row marked for remapping, reset gpu to activate.\n";
  for (const std::string& text :
       {kernel + "64, pid=1, Row Remapper Error: x\n", repair + kernel + "64, pid=1, Row Remapper Error: x\n",
        repair + kernel + "94, pid=6221, Contained: SM (0x1). RST: No, D-RST: No\n",
        std::string("the node shows XID 63, XID 48\n"), std::string("dmesg has Xid 48 and then Xid 63\n"),
        std::string("dmesg has Xid 63 and 95\n"), repair + "node health: XID 94 on gpu-3\n",
        repair + "Detected 2 volatile double-bit ECC error(s) in GPU 5.\n",
        repair + "GPU had an uncontained error (XID 95)\n"}) {
    const Diagnosis diagnosis = diagnose_text(text, "kern.log");
    ASSERT_EQ(first_cause(diagnosis), "ecc_error") << text;
    const std::vector<std::string>& fix = diagnosis.causes.front().fix;
    EXPECT_THAT(fix.front(), StartsWith("Drain the node")) << text;
    EXPECT_THAT(fix, Contains(StartsWith("Restart the job from its last checkpoint"))) << text;
  }
}

TEST(Diagnosis, AQuotedRepairStaysWhereAnErrorOfMemoryIsOnlySpokenOf) {
  EXPECT_EQ(diagnosed("node health: XID 63 on gpu-3\nSee Xid 48 in the manual.\n"), "ecc_error");
  EXPECT_EQ(diagnosed("Row Remapper: New row marked for remapping.\nSee Xid 48 in the manual.\n"), "ecc_error");
}

TEST(Diagnosis, StepsAreThoseOfThePlatformThatTheLogTells) {
  const std::string failure =
      "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
      "driver is installed and running.\n";
  const auto steps = [&](const std::string& before) {
    const Diagnosis diagnosis = diagnose_text(before + failure, "run.log");
    std::string all;
    for (const Cause& cause : diagnosis.causes) {
      for (const auto* list : {&cause.fix, &cause.confirm}) {
        for (const std::string& step : *list) all += step + "\n";
      }
    }
    return all;
  };
  EXPECT_THAT(steps(""), HasSubstr("modprobe"));
  const std::string wsl = steps("Platform: Linux-5.15.153.1-microsoft-standard-WSL2-x86_64-with-glibc2.35\n");
  EXPECT_THAT(wsl, HasSubstr("Windows"));
  EXPECT_THAT(wsl, Not(HasSubstr("modprobe")));
  EXPECT_THAT(steps("OS: Microsoft Windows 11 Pro\n"), Not(HasSubstr("modprobe")));
}

TEST(Diagnosis, WhatProvesCudaOverrulesTheMacThatItWasSentFrom) {
  for (const std::string before :
       {"I use ssh from my MacBook\n", "File \"/Users/ada/train.py\", line 88, in <module>\n",
        "OS: macOS 14.5 (arm64)\n"}) {
    for (const std::string failure :
         {"torch.AcceleratorError: CUDA error: CUDA driver version is insufficient for CUDA runtime version\n",
          "RuntimeError: CUDA error: an illegal memory access was encountered\n",
          "Error while creating shared memory segment /dev/shm/nccl-abc (size 9637888)\n",
          "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\n"})
      EXPECT_EQ(diagnose_text(before + failure, "log").platform, knowledge::Platform::linux_own) << before << failure;
  }
  const std::string torch = "AssertionError: Torch not compiled with CUDA enabled\n";
  EXPECT_EQ(diagnose_text("I use ssh from my MacBook\n" + torch, "log").platform, knowledge::Platform::linux_own);
  EXPECT_EQ(diagnose_text("OS: macOS 14.5 (arm64)\n" + torch, "log").platform, knowledge::Platform::macos);
  EXPECT_EQ(diagnose_text("me@MacBook-Pro vllm % python x.py\n" + torch, "log").platform, knowledge::Platform::macos);
}

TEST(Diagnosis, ALineThatIsJustAsWideAsATerminalHidesNoFailure) {
  const std::pair<const char*, const char*> failures[] = {
      {"cuBLAS cannot be loaded\n",
       "preparing the data of the run, the slow path of the reader is disabled on node a\n"},
      {"srun: error: node12: task 3: Killed\n",
       "loading checkpoint shards of the model from the folder data on the file server u\n"},
      {"mlx5_0: Got completion with error 12, opcode 1, len 2048, vendor err 129\n",
       "epoch 3 of 10, step 1000 of 5000, the loss is 1.234 and the rate of learning 0.0\n"}};
  for (const auto& [failure, line] : failures) {
    EXPECT_NE(diagnosed(failure), "none") << failure;
    EXPECT_EQ(diagnosed(std::string(line) + failure), diagnosed(failure)) << failure;
    // Two of them look like a terminal's for sure.
    EXPECT_EQ(diagnosed("x" + std::string(line).substr(1) + "and so on\n" + line + failure), diagnosed(failure))
        << failure;
  }
}

TEST(Diagnosis, TheRankThatRanOutOfMemoryIsTheCauseOfTheOthersTimeout) {
  Reading run = read_log(std::string("[rank1]: ") + kWatchdog, "rank1.log");
  add_reading(run, read_log(std::string("[rank2]: ") + kOutOfMemory, "rank2.log"));
  const Diagnosis diagnosis = diagnose(run);
  ASSERT_EQ(first_cause(diagnosis), "oom_capacity");
  EXPECT_EQ(diagnosis.causes.size(), 1);
  EXPECT_THAT(diagnosis.causes.front().consequences, ElementsAre(Field(&Consequence::id, "nccl_timeout")));
  EXPECT_FALSE(diagnosis.only_consequences);
}

TEST(Diagnosis, ATimeoutAloneSaysToLookElsewhere) {
  const Diagnosis diagnosis = diagnose_text(kWatchdog, "rank1.log");
  ASSERT_EQ(first_cause(diagnosis), "nccl_timeout");
  EXPECT_TRUE(diagnosis.only_consequences);
  EXPECT_THAT(diagnosis.look_at, HasSubstr("rank"));
}

TEST(Diagnosis, TheErrorInsideAWatchdogsMessageCounts) {
  EXPECT_EQ(diagnosed("[rank2]:[E304 01:21:01.867394363 ProcessGroupNCCL.cpp:1595] [PG ID 2 PG GUID 3 Rank 2] Process "
                      "group watchdog thread terminated with exception: CUDA error: an illegal memory access was "
                      "encountered\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"),
            "illegal_memory_access");
}

TEST(Diagnosis, AGpuThatFellOffTheBusExplainsWhatItsNeighboursReport) {
  const Diagnosis diagnosis = diagnose_text(
      "[ 100.000001] NVRM: Xid (PCI:0000:91:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
      "[ 112.000002] nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up\n",
      "dmesg");
  ASSERT_EQ(first_cause(diagnosis), "fell_off_bus");
  EXPECT_THAT(diagnosis.causes.front().consequences, Contains(Field(&Consequence::id, "nvlink_error")));
}

TEST(Diagnosis, AnExportThatBeginsWithItsNewestLineIsTurnedRound) {
  const Reading reading = read_log(
      "2025-04-05T00:01:19.300Z RuntimeError: CUDA error: an illegal memory access was encountered\n"
      "2025-04-05T00:01:19.200Z NVRM: Xid (PCI:0000:91:00): 31, pid=9, name=python, MMU Fault\n"
      "2025-04-05T00:01:19.100Z NVRM: Xid (PCI:0000:91:00): 13, pid=9, name=python, Graphics Exception\n",
      "export.log");
  EXPECT_TRUE(reading.newest_first);
  EXPECT_EQ(reading.events.front().line, 3);
}

TEST(Diagnosis, OrdinaryTracebacksHealthyLogsAndAdviceAreNoGpuFaults) {
  const char* quiet[] = {
      "",
      "step 100 loss 2.31 lr 3e-4 tokens/s 41233\nSaving checkpoint\nTraining done\n",
      "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    import tqdm\n"
      "ModuleNotFoundError: No module named 'tqdm'\n",
      "KeyError: 'rms_norm_eps'\n\nKilled\n",
      "node:1334:1334 [1] NCCL INFO TUNER/Plugin: Plugin load returned 11 : libnccl-net.so: cannot open shared object "
      "file: No such file or directory : when loading libnccl-tuner.so\n",
      "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side "
      "assertions.\n",
      "        HW Slowdown : Not Active\n            HW Thermal Slowdown : Not Active\n        ECC Mode\n"
      "            Current : Enabled\n",
  };
  for (const char* log : quiet) EXPECT_EQ(diagnosed(log), "none") << log;
}

TEST(Diagnosis, AnyPieceOfALogIsReadWithoutHarm) {
  const std::string log = std::string(kOutOfMemory) + kWatchdog + "NVRM: Xid (PCI:0000:91:00): 79, pid=1\n";
  for (std::size_t cut = 0; cut < log.size(); cut += 7) {
    diagnose_text(log.substr(0, cut), "cut");
    diagnose_text(log.substr(cut), "rest");
  }
}

TEST(Diagnosis, PiecesGiveWhatTheWholeGives) {
  const std::string log = "quiet line\r\n" + std::string(kOutOfMemory) + "quiet\n" + kWatchdog;
  const Reading whole = read_log(log, "run.log");
  LogReader reader("run.log");
  for (std::size_t at = 0; at < log.size(); at += 13) reader.feed(std::string_view(log).substr(at, 13));
  const Reading pieces = reader.finish();
  ASSERT_EQ(pieces.events.size(), whole.events.size());
  for (std::size_t i = 0; i < whole.events.size(); ++i) {
    EXPECT_EQ(pieces.events[i].line, whole.events[i].line);
    EXPECT_EQ(pieces.events[i].facts, whole.events[i].facts);
    EXPECT_EQ(pieces.events[i].rule, whole.events[i].rule);
  }
  EXPECT_EQ(pieces.lines, whole.lines);
}

TEST(Diagnosis, AMillionComplaintsAreCountedAndNotKept) {
  LogReader reader("run.log");
  std::string piece;
  for (int i = 0; i < 20000; ++i)
    piece += "[rank0]: RuntimeError: CUDA error: an illegal memory access was encountered at step " +
             std::to_string(i * 10) + "\n";
  reader.feed(piece);
  const Reading reading = reader.finish();
  EXPECT_LE(reading.events.size(), 8);
  ASSERT_FALSE(reading.events.empty());
  EXPECT_EQ(reading.events.front().count, 20000);
}

TEST(Diagnosis, ACodeThatDecidesIsNotLostAmongItsLookAlikes) {
  LogReader reader("dmesg");
  std::string log;
  for (int i = 0; i < 2000; ++i) log += "XidCriticalError: Xid=31 on Device=GPU-0; marking device as unhealthy.\n";
  log += "XidCriticalError: Xid=79 on Device=GPU-0; marking device as unhealthy.\n";
  reader.feed(log);
  EXPECT_EQ(first_cause(diagnose(reader.finish())), "fell_off_bus");
}

TEST(Diagnosis, GivesTheExactStepWhereOneFormHasIt) {
  const auto first_step = [](const char* line) {
    const Diagnosis diagnosis = diagnose_text(std::string(line) + "\n", "run.log");
    return diagnosis.causes.empty() || diagnosis.causes[0].fix.empty()
               ? std::string("none")
               : diagnosis.causes[0].id + ": " + diagnosis.causes[0].fix[0];
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(first_step("RuntimeError: operator torchvision::nms does not exist"),
              HasSubstr("abi_undefined_symbol: pip install --force-reinstall torch torchvision"));
  EXPECT_THAT(first_step("error: libdevice not found at ./libdevice.10.bc"), HasSubstr("nvidia-cuda-nvcc"));
  EXPECT_THAT(first_step("/usr/bin/ld: cannot find -lcuda: No such file or directory"), HasSubstr("lib64/stubs"));
  EXPECT_THAT(first_step("warning: not compiled with GPU offload support, --gpu-layers option will be ignored"),
              HasSubstr("GGML_CUDA=ON"));
  EXPECT_THAT(first_step("[h264_nvenc @ 0x55d] OpenEncodeSessionEx failed: out of memory (10): (no details)"),
              HasSubstr("device_busy: Run fewer encodes at once"));
}

std::string all_steps(const std::string& log) {
  std::string all;
  for (const Cause& cause : diagnose_text(log, "run.log").causes) {
    all += cause.id + ": " + cause.summary + "\n";
    for (const std::string& step : cause.fix) all += step + "\n";
    for (const std::string& step : cause.confirm) all += step + "\n";
    all += cause.link + "\n";
  }
  return all;
}

TEST(Diagnosis, StepsUseTheFiguresOfTheLine) {
  EXPECT_THAT(
      all_steps("ValueError: Free memory on device (10.32/23.64 GiB) on startup is less than desired GPU memory "
                "utilization (0.9, 21.27 GiB). Decrease GPU memory utilization\n"),
      AllOf(HasSubstr("--gpu-memory-utilization 0.43"), Not(HasSubstr("0.45"))));
  EXPECT_THAT(all_steps("ValueError: The model's max seq len (65536) is larger than the maximum number of tokens that "
                        "can be stored in KV cache (12000). Try increasing `gpu_memory_utilization`\n"),
              AllOf(HasSubstr("--max-model-len 12000"), Not(HasSubstr("8192"))));
}

TEST(Diagnosis, AServingEngineGetsItsOwnAdviceOnce) {
  const std::string sglang =
      all_steps("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n");
  EXPECT_THAT(sglang, AllOf(HasSubstr("sglang"), Not(HasSubstr("vllm")), Not(HasSubstr("--tensor-parallel-size"))));
  EXPECT_LT(sglang.find("--mem-fraction-static"), sglang.find("--context-length"));
  EXPECT_EQ(sglang.find("Make the rest smaller"), sglang.rfind("Make the rest smaller"));
}

TEST(Diagnosis, LogsOfProgramsWithoutPyTorchGetNoStepsForIt) {
  for (const std::string log :
       {"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 34359738368 "
        "bytes.\n",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 23552.00 MiB on device 0: cudaMalloc failed: out of "
        "memory\n"}) {
    EXPECT_THAT(all_steps(log), AllOf(HasSubstr("oom_capacity"), Not(HasSubstr("torch")))) << log;
  }
  EXPECT_THAT(all_steps(kOutOfMemory), HasSubstr("torch.cuda.max_memory_allocated"));
}

TEST(Diagnosis, ASigkillIsMostlyTheHostsMemoryKiller) {
  for (const std::string log : {"[ERROR] [launch.py:322:sigkill_handler] ['/usr/bin/python', 'train.py'] exits with "
                                "return code = -9\n",
                                "subprocess.CalledProcessError: Command died with <Signals.SIGKILL: 9>.\n"}) {
    EXPECT_THAT(all_steps(log), AllOf(HasSubstr("SIGKILL"), HasSubstr("oom-kill"))) << log;
  }
}

TEST(Diagnosis, AnAccountThatSlurmDoesNotKnowIsNoLimit) {
  EXPECT_THAT(all_steps("sbatch: error: Batch job submission failed: Invalid account or account/partition combination "
                        "specified\n"),
              AllOf(HasSubstr("slurm_account_invalid"), HasSubstr("sacctmgr show assoc user=$USER"),
                    Not(HasSubstr("keeps the job waiting"))));
}

TEST(Diagnosis, LibrariesOfPackagesHaveTheirOwnStep) {
  EXPECT_THAT(
      all_steps("CUDA SETUP: Required library version not found: libbitsandbytes_cuda117_nocublaslt.so. Maybe you "
                "need to compile it from source?\n"),
      AllOf(HasSubstr("pip install -U bitsandbytes"), HasSubstr("python -m bitsandbytes")));
  EXPECT_THAT(all_steps("ImportError: libcusparse.so.12: undefined symbol: __nvJitLinkAddData_12_1, version "
                        "libnvJitLink.so.12\n"),
              AllOf(HasSubstr("nvidia-nvjitlink-cu12"), HasSubstr("LD_LIBRARY_PATH")));
  EXPECT_TRUE(diagnose_text("ImportError: Using `bitsandbytes` 8-bit quantization requires Accelerate: `pip install "
                            "accelerate`\n",
                            "run.log")
                  .ordinary);
}

}  // namespace
}  // namespace gpuwarden::diagnosis
