// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/healing/judgement.hpp"

#include <gmock/gmock.h>

#include <csignal>

namespace gpuwarden::healing {
namespace {

using knowledge::Restart;
using launch::RunReport;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

/// A job of one rank for each text, the first of which failed.
RunReport failed(const std::vector<std::string>& last_words, int exit_code = 1) {
  RunReport report;
  report.end.exit_code = exit_code;
  report.end.first_failure = 0;
  for (std::uint32_t i = 0; i < last_words.size(); ++i) {
    launch::RankEnd rank{.rank = i, .pid = Pid(100 + static_cast<int>(i))};
    rank.exit_code = exit_code;
    rank.last_words = last_words[i];
    report.end.ranks.push_back(rank);
  }
  launch::GpuReport gpu;
  gpu.index = GpuIndex(3);
  gpu.uuid = Uuid("GPU-three");
  report.gpus.push_back(gpu);
  return report;
}

RunReport with_event(RunReport report, std::string kind, std::string text,
                     std::optional<std::int64_t> number = std::nullopt) {
  report.happenings.push_back({{}, std::move(kind), Uuid("GPU-three"), std::move(text), number});
  return report;
}

constexpr const char* kTypeError =
    "Traceback (most recent call last):\n"
    "  File \"/home/ann/train.py\", line 88, in main\n"
    "    loss = step(batch, None)\n"
    "TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'\n";

constexpr const char* kFragmented =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB "
    "of "
    "which 1.06 GiB is free. Process 4711 has 78.03 GiB memory in use. Of the allocated memory 60.00 GiB is allocated "
    "by PyTorch, and 17.20 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try "
    "setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.\n";

TEST(Judgement, AnErrorOfTheProgramIsNotTriedAgain) {
  const Judgement judged = judge(failed({kTypeError}), {});
  EXPECT_EQ(judged.restart, Restart::never);
  EXPECT_THAT(judged.why, HasSubstr("TypeError: unsupported operand"));
  EXPECT_THAT(judged.diagnosis.ordinary_frame, HasSubstr("train.py:88"));
  EXPECT_THAT(judged.gpus_at_fault, IsEmpty());
}

TEST(Judgement, AnEndThatSaysNothingMayPass) {
  EXPECT_EQ(judge(failed({""}), {}).restart, Restart::again);
  EXPECT_EQ(judge(failed({"ConnectionResetError: [Errno 104] Connection reset by peer\n"}), {}).restart,
            Restart::again);
  EXPECT_EQ(judge(failed({"", ""}, 7), {}).why, "rank 0 ended with exit code 7");
}

TEST(Judgement, WrongUsageAndMissingProgramsStay) {
  EXPECT_EQ(judge(failed({"usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --lr\n"}, 2), {}).restart,
            Restart::never);
  EXPECT_EQ(judge(failed({"something\n"}, 2), {}).restart, Restart::again);
  EXPECT_EQ(judge(failed({"sh: 1: nvcc: not found\n"}, 127), {}).restart, Restart::never);
}

TEST(Judgement, AGpuThatIsGoneIsAtFaultWhateverTheProgramSays) {
  const Judgement lost = judge(with_event(failed({kTypeError}), "lost", "the GPU fell off the bus"), {});
  EXPECT_EQ(lost.restart, Restart::other_gpus);
  EXPECT_EQ(lost.why, "GPU 3: the GPU fell off the bus");
  EXPECT_THAT(lost.gpus_at_fault, ElementsAre(Uuid("GPU-three")));
  const Judgement xid = judge(with_event(failed({""}), "xid", "Xid 79: GPU has fallen off the bus", 79), {});
  EXPECT_EQ(xid.restart, Restart::other_gpus);
  ASSERT_FALSE(xid.diagnosis.causes.empty());
  EXPECT_EQ(xid.diagnosis.causes.front().id, "fell_off_bus");
}

TEST(Judgement, AnXidOfTheProgramsOwnLeavesTheGpuAlone) {
  const Judgement judged =
      judge(with_event(failed({"RuntimeError: CUDA error: an illegal memory access was encountered\n"}), "xid",
                       "Xid 31: GPU memory page fault", 31),
            {});
  EXPECT_THAT(judged.gpus_at_fault, IsEmpty());
  EXPECT_EQ(judged.restart, Restart::again);
}

TEST(Judgement, AsksTheNumberOfAnXidAndNotItsWords) {
  for (const char* words : {"Xid 79: GPU has fallen off the bus", "xyzzy", "Xid 31: page fault", ""}) {
    const Judgement gone = judge(with_event(failed({""}), "xid", words, 79), {});
    EXPECT_THAT(gone.gpus_at_fault, ElementsAre(Uuid("GPU-three"))) << words;
    const Judgement own = judge(with_event(failed({""}), "xid", words, 31), {});
    EXPECT_THAT(own.gpus_at_fault, IsEmpty()) << words;
  }
}

TEST(Judgement, FragmentationHasARemedyThatKeepsWhatWasSet) {
  EXPECT_THAT(judge(failed({kFragmented}), {}).remedy,
              ElementsAre(Pair("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")));
  EXPECT_THAT(judge(failed({kFragmented}), {{"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128"}}).remedy,
              ElementsAre(Pair("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128,expandable_segments:True")));
  EXPECT_THAT(judge(failed({kFragmented}), {{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}}).remedy, IsEmpty())
      << "it is set already and has not helped";
}

TEST(Judgement, ASignalIsNamedWhereNothingElseTells) {
  RunReport report = failed({"", ""}, 128 + SIGSEGV);
  report.end.ranks[0].exit_code.reset();
  report.end.ranks[0].signal = SIGSEGV;
  EXPECT_EQ(judge(report, {}).why, "rank 0 was ended by signal 11, SIGSEGV");
  report.end.ranks[0].signal = SIGKILL;
  EXPECT_THAT(judge(report, {}).why, HasSubstr("SIGKILL, as the kernel does where the machine is out of memory"));
  EXPECT_EQ(judge(report, {}).restart, Restart::again);
}

TEST(Judgement, WhatHungMayGetOnNextTime) {
  RunReport report = failed({kTypeError}, 124);
  report.end.given_up = "it hangs: nothing was printed";
  EXPECT_EQ(judge(report, {}).restart, Restart::again);
  EXPECT_EQ(judge(report, {}).why, "it hangs: nothing was printed");
  EXPECT_EQ(judge(with_event(report, "lost", "gone"), {}).restart, Restart::other_gpus);
}

TEST(Judgement, WhatIsUsedUpIsNotThereNextTimeEither) {
  using Kind = launch::EarlyEnd::Kind;
  for (const Kind kind : {Kind::no_resources, Kind::out_of_time}) {
    RunReport report = failed({kFragmented}, 143);
    report.end.early = {kind, "the memory is used up"};
    const Judgement judged = judge(report, {});
    EXPECT_EQ(judged.restart, Restart::never);
    EXPECT_EQ(judged.why, "the memory is used up");
    EXPECT_THAT(judged.remedy, IsEmpty()) << "nothing that --heal sets helps";
    EXPECT_EQ(judge(with_event(report, "lost", "gone"), {}).restart, Restart::other_gpus);
  }
  RunReport lost = failed({""}, 143);
  lost.end.early = {Kind::gpus_lost, "its GPUs are gone"};
  EXPECT_EQ(judge(lost, {}).restart, Restart::again);
}

TEST(ErrorsOfPrograms, AreKnownByTheirWholeNames) {
  EXPECT_TRUE(is_of_program("[rank1]: TypeError: x"));
  EXPECT_TRUE(is_of_program("json.decoder.JSONDecodeError: Expecting value"));
  EXPECT_TRUE(is_of_program("AssertionError"));
  EXPECT_FALSE(is_of_program("MyTypeError: x"));
  EXPECT_FALSE(is_of_program("TypeErrors are bad"));
  EXPECT_FALSE(is_of_program("RuntimeError: x"));
  EXPECT_FALSE(is_of_program("ConnectionError: x"));
}

}  // namespace
}  // namespace gpuwarden::healing
