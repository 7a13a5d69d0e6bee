// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/wrapped_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden {
namespace {

using ::testing::ElementsAre;

constexpr std::string_view kLog =
    "2026-01-06 12:46:04.06 E cuda_fft.cc:477] Unable to register cuFFT factory: Attempting to register one twice\n"
    "  File \"/opt/venv/lib/python3.12/site-packages/vllm/v1/core/kv_cache_utils.py\", line 758, in check_memory\n"
    "ValueError: To serve at least one request with the model's max seq len (100000), 4.26 GiB KV cache is needed\n"
    "done\n";

/// As a terminal shows it.
std::string folded(std::string_view text, std::size_t width) {
  std::string result;
  for (std::string_view line : split(text, '\n')) {
    for (; line.size() > width; line.remove_prefix(width)) result.append(line.substr(0, width)).append("\n");
    result.append(line).append("\n");
  }
  result.pop_back();
  return result;
}

TEST(WrappedText, ATerminalsRowsBecomeTheLinesThatWerePrinted) {
  for (const std::size_t width : {80U, 97U, 100U, 70U}) {
    const auto whole = unwrap(folded(kLog, width));
    ASSERT_TRUE(whole) << width;
    EXPECT_TRUE(whole->sure) << width;
    EXPECT_EQ(whole->text, kLog) << width;
  }
  EXPECT_THAT(unwrap(folded(kLog, 80))->numbers, ElementsAre(1, 3, 5, 7, 8));
}

TEST(WrappedText, AFormsRowsAreJoinedByTheBlankAtWhichItBroke) {
  const auto whole = unwrap(
      "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0;\n"
      "7.79 GiB total capacity; 6.05 GiB already allocated by this process and\n"
      "held; 9.06 MiB free)\n");
  ASSERT_TRUE(whole);
  EXPECT_TRUE(whole->sure);
  EXPECT_EQ(whole->text,
            "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.79 GiB total capacity; 6.05 GiB "
            "already allocated by this process and held; 9.06 MiB free)\n");
}

TEST(WrappedText, ATableThatIsWiderThanTheTerminalIsATableAgain) {
  const std::string table =
      "+-----------------------------------------+------------------------+----------------------+\n"
      "| NVIDIA-SMI 595.71.05              Driver Version: 595.71.05      CUDA Version: 13.2     |\n"
      "|   0  NVIDIA GeForce RTX 2080 ...    Off |   00000000:0C:00.0  On |                  N/A |\n"
      "|                                         |                        |                  N/A |\n"
      "+-----------------------------------------+------------------------+----------------------+\n";
  EXPECT_FALSE(unwrap(table));
  const auto whole = unwrap(folded(table, 80));
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->text, table);
}

TEST(WrappedText, WhatWasPrintedSoStays) {
  const std::string table =
      "+-----------------------------------------------------------------------------+\n"
      "| NVIDIA-SMI 515.65.01    Driver Version: 515.65.01    CUDA Version: 11.7     |\n"
      "|   0  NVIDIA GeForce ...  Off  | 00000000:01:00.0  On |                  N/A |\n"
      "|  30%   45C    P8    20W / 170W |    310MiB / 12288MiB |      0%      Default |\n";
  EXPECT_FALSE(unwrap(table));
  std::string formatted;
  for (int step = 100; step < 140; ++step)
    formatted += "step " + std::to_string(step) +
                 " loss 0.123456 lr 0.000100 tokens per second 12345.67 memory 40.00 GiB used\n";
  EXPECT_FALSE(unwrap(formatted));
  std::string nodes;
  for (int node = 100; node < 140; ++node)
    nodes +=
        "c" + std::to_string(node) + "      mixed          270/66/0/336        366694         83097          ssd:1\n";
  EXPECT_FALSE(unwrap(nodes));
  const auto repeated = unwrap(
      "ggml: allocating 27846.97 MiB on device 0: cudaMalloc failed: out of memory, of all\n"
      "llama_model_load: error loading model: unable to allocate backend buffer\n"
      "ggml: allocating 27846.97 MiB on device 0: cudaMalloc failed: out of memory, of all\n"
      "llama_model_load: error loading model: unable to allocate backend buffer\n");
  EXPECT_FALSE(repeated && repeated->sure);
  EXPECT_FALSE(
      unwrap("1235|eval|PENDING|0:0||cpu=8,gres/gpu=3,node=1|None assigned\n1236|cut|COMPLETED|0:0|cpu=8,gres\n"
             "1237|two|FAILED|1:0|cpu=8,gres/gpu=2,node=1|x|node02\n"));
}

TEST(WrappedText, ARowThatLooksBrokenByChanceIsNotSure) {
  const auto whole = unwrap(
      "Process 12 could not be reached by the agent, which then asked the other one\n"
      "still waiting\n");
  ASSERT_TRUE(whole);
  EXPECT_FALSE(whole->sure);
}

TEST(WrappedText, OneLineOfATerminalsWidthIsNotSure) {
  for (const char* text : {"step 1200/50000 loss 1.2345 lr 3.0e-04 tok/s 12345 mem 70.1GB grad 0.91 eta 3h00\n"
                           "memory allocation failed\n",
                           "loading checkpoint shards of the model from the folder data on the file server u\n"
                           "srun: error: node12: task 3: Killed\n"}) {
    const auto whole = unwrap(text);
    EXPECT_FALSE(whole && whole->sure) << text;
  }
}

TEST(WrappedText, ALogIsNoPaste) {
  std::string log;
  while (log.size() < 300000) log += folded(kLog, 80);
  EXPECT_FALSE(unwrap(log));
  EXPECT_FALSE(unwrap(""));
  EXPECT_FALSE(unwrap("\n\n"));
}

}  // namespace
}  // namespace gpuwarden
