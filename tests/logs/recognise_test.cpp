// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/logs/recognise.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpuwarden::logs {
namespace {

using ::testing::HasSubstr;

constexpr const char* kFailure =
    "Traceback (most recent call last):\n"
    "  File \"train.py\", line 12, in <module>\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.15 GiB "
    "of which 5.25 MiB is free.\n";

TEST(Recognise, FactsAndMessagesOfOneTextAreBothKnown) {
  const auto known = recognise(
      "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.133\n", "paste.txt");
  ASSERT_TRUE(known.facts);
  EXPECT_TRUE(known.facts->snapshot.problem);
  EXPECT_FALSE(known.unread);
  EXPECT_FALSE(known.told.empty());
}

TEST(Recognise, FactsWithoutASystemTakeThePlatformOfTheMessages) {
  const std::string_view failure = "NVRM: API mismatch: the client has the version 570.133.20\n";
  const auto host_of = [&](const std::string& before) {
    const auto known = recognise(before + std::string(failure) + "Failed to initialize NVML: Driver Not Loaded\n", "p");
    const auto& facts = known.facts;
    return facts && facts->snapshot.environment ? facts->snapshot.environment->host : facts::Host{};
  };
  EXPECT_EQ(host_of("Running in WSL2\n").wsl, 2);
  EXPECT_EQ(host_of("OS: Microsoft Windows 11 Pro\n").distribution, "windows");
  EXPECT_EQ(host_of("PS C:\\> nvidia-smi\n").distribution, "windows");
  EXPECT_EQ(host_of("me@MacBook-Pro ~ % ssh box\n"), facts::Host{}) << "a kernel module's words are no Mac's";
  EXPECT_EQ(host_of(""), facts::Host{});
  EXPECT_FALSE(host_of("Linux box 6.8.0-45-generic #45-Ubuntu SMP x86_64 GNU/Linux\nRunning in WSL2\n").wsl > 0);
}

TEST(Recognise, MessagesOfWslOverruleADriverModelAndNoReportOfTheSystem) {
  const std::string model =
      "==============NVSMI LOG==============\n\nDriver Version : 591.86\n\nAttached GPUs : 1\nGPU 00000000:01:00.0\n"
      "    Product Name : NVIDIA GeForce RTX 2080 SUPER\n    Persistence Mode : N/A\n    Driver Model\n"
      "        Current : WDDM\n        Pending : WDDM\n";
  const auto host_of = [](const std::string& text) {
    const auto known = recognise(text, "p");
    const auto& facts = known.facts;
    return facts && facts->snapshot.environment ? facts->snapshot.environment->host : facts::Host{};
  };
  EXPECT_EQ(host_of(model), facts::Host{.distribution = "windows"});
  EXPECT_EQ(host_of("Running in WSL2\n" + model), facts::Host{.wsl = 2});
  EXPECT_EQ(host_of("Running in WSL2\nCollecting environment information...\nPyTorch version: 2.5.1+cu124\n"
                    "Is debug build: False\nCUDA used to build PyTorch: 12.4\nROCM used to build PyTorch: N/A\n\n"
                    "OS: Microsoft Windows 11 Pro\nGCC version: Could not collect\nPython version: 3.11.9\n")
                .distribution,
            "windows");
}

TEST(Recognise, AMacIsKnownByItsFoldersAndNotWhereThereIsAnNvidiaGpu) {
  const std::string failure =
      "  File \"/Users/me/venv/lib/python3.11/site-packages/torch/cuda/__init__.py\", line 310, in _lazy_init\n"
      "AssertionError: Torch not compiled with CUDA enabled\n";
  const auto known = recognise(failure, "p");
  ASSERT_TRUE(known.facts);
  EXPECT_EQ(known.facts->snapshot.environment->host.distribution, "macos");
  const auto remote = recognise(
      failure + "| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |\n", "p");
  ASSERT_TRUE(remote.facts);
  EXPECT_FALSE(remote.facts->snapshot.environment->host.distribution);
}

TEST(Recognise, WhatATerminalCutIsReadAsItWasPrinted) {
  const auto known = recognise(
      "2026-01-06 12:46:04 worker 3: torch.OutOfMemoryError: CUDA out of memory. Tried \n"
      "to allocate 20.00 MiB. GPU 0 has a total capacity of 79.15 GiB of which 5.25 MiB\n"
      " is free.\n"
      "PyTorch version 2.6.0+cu124 is what the environment of the second machine has ins\n"
      "talled\n"
      "[2026-02-21 10:48:10 TP0] Load weight begin. The file is checked first, avail mem\n"
      "=137.34 GB\n",
      "p");
  ASSERT_FALSE(known.told.empty());
  EXPECT_EQ(known.told.front().finding.id, "diagnose:oom_capacity");
  EXPECT_THAT(known.told.front().finding.title, HasSubstr("20 MiB on GPU 0"));
}

TEST(Recognise, ATextOfNeitherSaysWhatIsKnown) {
  const auto known = recognise("Dear diary, today it rained.\n", "diary.txt");
  EXPECT_FALSE(known.facts);
  EXPECT_TRUE(known.told.empty());
  ASSERT_TRUE(known.unread);
  EXPECT_EQ(without_facts("Dear diary, today it rained.\n", "diary.txt").message, known.unread->message);
}

TEST(Recognise, ALogWithoutFactsIsHandedToDiagnose) {
  const Error error = without_facts(kFailure, "my run.log");
  EXPECT_EQ(error.code, ErrorCode::corrupt);
  EXPECT_THAT(error.message, HasSubstr("my run.log: a log of a failure"));
  EXPECT_THAT(error.hint, HasSubstr("gpuwarden diagnose 'my run.log'"));
}

TEST(Recognise, StandardInputIsNamedAsTheCommandTakesIt) {
  EXPECT_THAT(without_facts(kFailure, "standard input").hint, HasSubstr("gpuwarden diagnose - "));
}

TEST(RecogniseAll, SeveralTextsAreOfOneMachine) {
  const std::vector<capture::NamedText> texts{
      {"smi.txt", "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.133\n"},
      {"train.log", kFailure}};
  const auto all = recognise_all(texts);
  ASSERT_TRUE(all);
  EXPECT_TRUE(all->facts.snapshot.problem);
  EXPECT_GE(all->told.size(), 2U) << "of both";
}

TEST(RecogniseAll, ALogAloneWillDoAndNothingWillNot) {
  const std::vector<capture::NamedText> log{{"train.log", kFailure}};
  const auto alone = recognise_all(log);
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->facts.snapshot.origin, "train.log: a log");
  EXPECT_FALSE(alone->told.empty());
  const std::vector<capture::NamedText> none{{"train.log", kFailure}, {"poem.txt", "roses are red\n"}};
  const auto refused = recognise_all(none);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("poem.txt"));
}

}  // namespace
}  // namespace gpuwarden::logs
