// SPDX-License-Identifier: Apache-2.0
// Labelled reports from public threads, where a corpus is present: how many problems the doctor has to find.
#include <gtest/gtest.h>

#include "doctor/score.hpp"
#include "support/corpus.hpp"

namespace gpuwarden::logs {
namespace {

using namespace gpuwarden::testing;

bench::DoctorScore score_of(const std::filesystem::path& index) {
  const auto score = bench::score_doctor(index, source_folder() / "bench/doctor_problems.csv");
  EXPECT_TRUE(score) << score.error().message;
  return score.value_or(bench::DoctorScore{});
}

std::string text_of(const bench::DoctorScore& score) {
  std::string text;
  for (const auto* lines : {&score.remarks, &score.unread}) {
    for (const std::string& line : *lines) text += line + "\n";
  }
  return text;
}

TEST(DoctorCorpus, ProblemsOfThoseThatWereLookedAtAreFoundAndHealthyOnesHaveNoError) {
  const auto index = corpus_file("captures/index.jsonl");
  if (!index || !corpus_is_whole()) GTEST_SKIP() << "the reduced corpus has no labelled reports";
  const bench::DoctorScore score = score_of(*index);
  EXPECT_GE(score.problems, 16);
  EXPECT_GE(score.found, score.problems - 1) << text_of(score);
  EXPECT_EQ(score.clean, score.healthy) << text_of(score);
}

TEST(DoctorCorpus, ProblemsOfPublicThreadsAreFoundAndNamedFirst) {
  const auto folder = source_folder() / "tests/corpus/doctor";
  for (const char* set : {"", "second", "third", "fourth", "fifth", "sixth"}) {
    const bench::DoctorScore score = score_of(folder / set / "index.jsonl");
    ASSERT_GT(score.problems, 5) << set;
    ASSERT_GT(score.healthy, 5) << set;
    // What everybody can see has to be more than what is wanted of new material, four fifths and seven tenths.
    EXPECT_GE(score.found * 10, score.problems * 9) << set << "\n" << text_of(score);
    EXPECT_GE(score.first * 100, score.problems * 85) << set << "\n" << text_of(score);
    EXPECT_GE(score.clean, score.healthy - 1) << set << "\n" << text_of(score);
  }
}

}  // namespace
}  // namespace gpuwarden::logs
