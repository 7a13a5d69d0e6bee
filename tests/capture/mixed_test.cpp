// SPDX-License-Identifier: Apache-2.0
// Texts of several machines, of none, and rows that lack what says which GPU they are of.
#include "capture/reading.hpp"
#include "gpuwarden/capture/capture.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::capture {
namespace {

using namespace gpuwarden::testing;
using ::testing::HasSubstr;

TEST(SmiCsv, RowsWithoutAnIdentityAreGpusByTheirPlace) {
  const auto snapshot = snapshot_of("name, memory.used [MiB]\nNVIDIA L4, 100 MiB\nNVIDIA L4, 200 MiB\n");
  ASSERT_EQ(snapshot.gpus.size(), 2U);
  EXPECT_EQ(snapshot.gpus[1].sample.memory_used, 200_MiB);
}

TEST(Hostile, LongRunsOfConnectionsAndManyGpusAreNoTrouble) {
  EXPECT_FALSE(read_capture("GPU0 GPU1\nGPU0 " + std::string(3'000'000, 'X') + "\n", "x").has_value() &&
               snapshot_of("GPU0 GPU1\nGPU0 X NV4\nGPU1 NV4 X\n").gpus.empty());
  std::string many;
  for (int i = 0; i < 50000; ++i)
    many += "GPU " + std::to_string(i) + ": NVIDIA L4 (UUID: GPU-" + std::to_string(i) + ")\n";
  EXPECT_LE(snapshot_of(many).gpus.size(), 1024U);
}

constexpr std::string_view kSmallQuery =
    "==============NVSMI LOG==============\n"
    "Driver Version                            : 550.54.15\n"
    "Attached GPUs                             : 1\n"
    "GPU 00000000:17:00.0\n"
    "    Product Name                          : NVIDIA L4\n";

TEST(Mixed, ASecondMachinesGpusAreLeftOutAndNamed) {
  const auto capture = read_capture(
      "GPU 0: NVIDIA L4 (UUID: GPU-1)\nGPU 1: NVIDIA L4 (UUID: GPU-2)\n\nthe other node:\n\n"
      "GPU 0: NVIDIA A10 (UUID: GPU-8)\nGPU 1: NVIDIA A10 (UUID: GPU-9)\n",
      "two.txt");
  ASSERT_THAT(capture, IsOk());
  ASSERT_EQ(capture->snapshot.gpus.size(), 2U);
  EXPECT_EQ(capture->snapshot.gpus[1].gpu.name, "NVIDIA L4");
  ASSERT_EQ(capture->warnings.size(), 1U);
  EXPECT_THAT(capture->warnings[0], HasSubstr("line 6: nvidia-smi -L of another machine"));
  EXPECT_TRUE(read_capture(std::string(kSmallQuery) + "GPU 3: NVIDIA L4 (UUID: GPU-1)\n", "one")->warnings.empty());
}

/// The PyTorch of the first machine in a text.
std::string torch_in(std::string_view text) {
  const auto capture = read_capture(text, "two.txt");
  EXPECT_THAT(capture, IsOk()) << text;
  if (!capture || !capture->snapshot.environment) return "";
  for (const auto& python : capture->snapshot.environment->pythons) {
    if (const auto* torch = facts::find_package(python, "torch")) return torch->version;
  }
  return "";
}

TEST(Mixed, WhatFollowsASecondMachinesGpusIsItsOwn) {
  constexpr std::string_view kFirst =
      "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\nNVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01\n";
  constexpr std::string_view kOther = "and the other:\nGPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-2)\n";
  constexpr std::string_view kOld = ">>> torch.__version__\n'2.5.1+cu124'\n>>> torch.cuda.is_available()\nFalse\n";
  constexpr std::string_view kNew = ">>> torch.__version__\n'2.9.1+cu130'\n>>> torch.cuda.is_available()\nTrue\n";
  const std::string both = std::string(kFirst).append(kOld).append(kOther).append(kNew);
  EXPECT_EQ(torch_in(both), "2.5.1+cu124");
  EXPECT_EQ(read_capture(both, "two.txt")->snapshot.environment->pythons.at(0).cuda_available, false);
  EXPECT_EQ(torch_in(std::string(kFirst).append(kOther).append(kNew)), "") << "nobody said the first one's";
  EXPECT_EQ(torch_in(std::string(kFirst).append(kOther).append("torch==2.9.1+cu130\n")), "");
  EXPECT_EQ(torch_in(std::string(kFirst).append(kOther).append(kFirst).append(kNew)), "2.9.1+cu130")
      << "its GPUs are named again";
}

TEST(Mixed, AReportNamesItsGpusItself) {
  EXPECT_EQ(torch_in("GPU 0: NVIDIA L4 (UUID: GPU-1)\nGPU 0: NVIDIA A10 (UUID: GPU-8)\nPyTorch version: 2.4.0+cu121\n"
                     "CUDA used to build PyTorch: 12.1\nIs CUDA available: True\nGPU models and configuration: GPU 0: "
                     "NVIDIA L4\nNvidia driver version: 550.120\n[pip3] torch==2.4.0\n"),
            "2.4.0+cu121");
}

TEST(Mixed, AnotherMachineIsWarnedOfOnce) {
  const auto capture = read_capture(
      "GPU 0: NVIDIA L4 (UUID: GPU-1)\nand the other:\nGPU 0: NVIDIA A10 (UUID: GPU-8)\nPyTorch version: 2.4.0+cu121\n"
      "CUDA used to build PyTorch: 12.1\nGPU models and configuration: GPU 0: NVIDIA L4\n[pip3] torch==2.4.0\n\n"
      "GPU 0: NVIDIA A100-PCIE-40GB (UUID: GPU-9)\n",
      "three.txt");
  ASSERT_THAT(capture, IsOk());
  EXPECT_THAT(capture->warnings,
              ::testing::ElementsAre("line 3: nvidia-smi -L of another machine; only the first one's is read",
                                     "line 9: nvidia-smi -L of another machine; only the first one's is read"));
}

TEST(Mixed, EveryStretchOfAnotherMachineIsLeftOut) {
  std::string text;
  constexpr int kTurns = 300;
  for (int i = 0; i < kTurns; ++i)
    text +=
        "GPU 0: NVIDIA L4 (UUID: GPU-1)\n>>> torch.__version__\n'2.4.0+cu121'\n"
        "GPU 0: NVIDIA A10 (UUID: GPU-8)\n>>> torch.__version__\n'2.9.1+cu130'\n";
  EXPECT_EQ(torch_in(text), "2.4.0+cu121");
  EXPECT_EQ(read_capture(text, "many.txt")->snapshot.gpus.size(), 1U);
}

TEST(Mixed, ASecondReportAboutOtherGpusIsLeftOutAndNamed) {
  constexpr std::string_view kFirst =
      "PyTorch version: 2.4.0+cu121\nCUDA used to build PyTorch: 12.1\nGPU models and configuration: GPU 0: NVIDIA "
      "GeForce RTX 5090\n";
  constexpr std::string_view kSecond =
      "PyTorch version: 2.9.1+cu130\nCUDA used to build PyTorch: 13.0\nIs CUDA available: True\nGPU models and "
      "configuration: GPU 0: NVIDIA H100 80GB HBM3\nNvidia driver version: 580.65.06\n";
  const auto two = read_capture(std::string(kFirst).append("\n").append(kSecond), "two.txt");
  ASSERT_THAT(two, IsOk());
  ASSERT_EQ(two->warnings.size(), 1U);
  EXPECT_EQ(two->warnings[0], "line 5: PyTorch collect_env of another machine; only the first one's is read");
  EXPECT_FALSE(two->snapshot.driver_version.has_value()) << "that is the second one's";
  const auto again = read_capture(std::string(kSecond).append("\n").append(kSecond), "again.txt");
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(again->warnings.empty()) << "the same machine, asked twice";
}

TEST(Mixed, GpusOfOtherModelsUnderTheSameNumbersAreAnotherMachines) {
  const auto capture = read_capture(std::string(kSmallQuery) +
                                        "GPU 0: Tesla K80 (UUID: GPU-11111111-2222-3333-4444-555555555555)\n"
                                        "GPU 1: Tesla K80 (UUID: GPU-11111111-2222-3333-4444-555555555556)\n",
                                    "two.txt");
  ASSERT_THAT(capture, IsOk());
  ASSERT_EQ(capture->snapshot.gpus.size(), 1U);
  EXPECT_EQ(capture->snapshot.gpus[0].gpu.name, "NVIDIA L4");
  ASSERT_EQ(capture->warnings.size(), 1U);
  EXPECT_THAT(capture->warnings[0], HasSubstr("of another machine"));
}

TEST(Mixed, AHeaderBehindTheNameOfItsToolIsRead) {
  const auto capture = read_capture(
      "nvidia-smi | NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |\n"
      "GPU 0: NVIDIA L4 (UUID: GPU-1)\n",
      "one.txt");
  ASSERT_THAT(capture, IsOk());
  EXPECT_EQ(capture->snapshot.driver_version, "535.183.01");
  EXPECT_EQ(capture->snapshot.gpus.size(), 1U);
}

TEST(Mixed, ManyMachinesAreNamedUpToALimit) {
  std::string text;
  for (int i = 0; i < 200; ++i)
    text += "GPU 0: NVIDIA L4 (UUID: GPU-" + std::to_string(i) + ")\n\nnode " + std::to_string(i) + ":\n\n";
  const auto capture = read_capture(text, "many.txt");
  ASSERT_THAT(capture, IsOk());
  ASSERT_EQ(capture->warnings.size(), 64U);
  EXPECT_THAT(capture->warnings.back(), HasSubstr("135 more warnings"));
}

TEST(SmiCsv, AProcessRowWithoutAHeaderIsNoGpu) {
  EXPECT_THAT(read_capture("12345, python, 1000 MiB\n", "apps"),
              FailsWith(ErrorCode::corrupt, HasSubstr("nothing in it")));
  EXPECT_EQ(snapshot_of("0, 45, 12 %, 1000 MiB\n").gpus.size(), 1U);
}

TEST(Mixed, ProseIsRefusedWithWhatIsKnown) {
  for (const std::string_view text :
       {"", "hello\n", "We ran utilization.gpu, name and so on.\n", "{\"a\": 1}\n", "\xff\xfe\n"}) {
    const auto capture = read_capture(text, "letter.txt");
    EXPECT_THAT(capture, FailsWith(ErrorCode::corrupt, HasSubstr("letter.txt"))) << text;
  }
}

}  // namespace
}  // namespace gpuwarden::capture
