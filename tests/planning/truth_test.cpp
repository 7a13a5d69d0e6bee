// SPDX-License-Identifier: Apache-2.0
// The planner held against published measurements.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "planner/evaluate.hpp"
#include "support/corpus.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::bench {
namespace {

namespace fs = std::filesystem;

fs::path published(const char* name) { return gpuwarden::testing::corpus() / "planner" / name; }

TEST(PlannerTruth, HoldsTheErrorsReachedOnPublishedMeasurements) {
  const fs::path file = published("truth.csv");
  const TruthReport report = *evaluate_truth(file);
  for (const Answer& answer : report.answers) EXPECT_EQ(answer.refused, "") << answer.id;
  const Spread& training = report.groups.at("training");
  EXPECT_LE(training.median, 1.0);
  EXPECT_LE(training.p90, 8.0);
  // The reduced corpus has eight rows of inference: one more or less moves the middle.
  EXPECT_LE(report.groups.at("inference").median, testing::corpus_is_whole() ? 0.5 : 0.6);
}

TEST(PlannerTruth, HoldsTheVerdictsReachedOnRunsThatEndedAndThatDidNot) {
  const fs::path file = published("fits.csv");
  const FitReport report = *evaluate_fits(file);
  EXPECT_GE(static_cast<double>(report.right), 0.98 * static_cast<double>(report.rows));
}

TEST(PlannerTruth, IsNearerThanEveryOtherPlannerOnTheCasesThatItAnswers) {
  const fs::path file = published("peers.csv");
  const std::vector<PeerReport> reports = *evaluate_peers(file);
  for (const PeerReport& report : reports) {
    EXPECT_LT(report.ours.median, report.peers.median) << report.peer;
    EXPECT_LT(report.ours.worst, report.peers.worst) << report.peer;
  }
}

class TruthFile : public ::testing::Test {
 protected:
  Result<TruthReport> evaluate(const std::string& rows) {
    const fs::path file = dir_.path() / "truth.csv";
    std::ofstream(file)
        << "id,task,model,params,gpu,n_gpus,precision,seq_len,micro_batch,recompute,parallelism,framework,"
           "metric,mem_gib,settings_complete\n"
        << rows;
    return evaluate_truth(file);
  }
  testing::TempDir dir_;
};

TEST_F(TruthFile, ARowThatCannotBeAnsweredCountsAHundredPercent) {
  const TruthReport report =
      *evaluate("T1,full,nobody knows,,A100-80GB,1,bf16,2048,1,full,single,HF Trainer,torch peak,10,Y\n");
  ASSERT_EQ(report.answers.size(), 1U);
  EXPECT_TRUE(report.answers[0].refused.contains("nobody knows"));
  EXPECT_EQ(report.groups.at("training").median, 100);
}

TEST_F(TruthFile, AnUnknownModelOfKnownSizeIsAnswered) {
  const TruthReport report =
      *evaluate("T1,full,nobody-7b,7000000000,A100-80GB,1,pure bf16,2048,1,full,single,HF Trainer,torch peak,65.2,Y\n");
  EXPECT_LT(report.groups.at("training").median, 5);
}

TEST_F(TruthFile, RowsWithoutCompleteSettingsAreSkippedAndToldApart) {
  const TruthReport report =
      *evaluate("T1,full,Llama-2-7b,6738415616,A100-80GB,1,bf16,2048,1,full,single,HF Trainer,torch peak,70,P\n");
  EXPECT_EQ(report.skipped, 1U);
  EXPECT_EQ(report.groups.count("training"), 0U);
  EXPECT_EQ(report.groups.count("incomplete"), 1U);
}

TEST_F(TruthFile, ARunThatDidNotFitIsAnsweredByTheVerdict) {
  const TruthReport report = *evaluate(
      "T1,full,Llama-2-70b,68976648192,A100-80GB,1,bf16,2048,1,full,single,HF Trainer,OOM,,Y\n"
      "T2,inference,Llama-2-7b,6738415616,A100-80GB,1,bf16,2048,1,,,HF transformers,OOM,,Y\n");
  ASSERT_EQ(report.groups.at("out_of_memory").rows, 2U);
  EXPECT_EQ(report.answers[0].error, 0);
  EXPECT_EQ(report.answers[1].error, 1);
}

TEST_F(TruthFile, AnUnclosedQuoteIsAnError) { EXPECT_FALSE(evaluate("T1,\"full\n")); }

TEST(Spread, TellsMedianNinetiethAndWorst) {
  const Spread spread = spread_of({0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0});
  EXPECT_NEAR(spread.median, 55, 1e-9);
  EXPECT_NEAR(spread.p90, 90, 1e-9);
  EXPECT_NEAR(spread.worst, 100, 1e-9);
  EXPECT_EQ(spread_of({}).rows, 0U);
}

}  // namespace
}  // namespace gpuwarden::bench
