// SPDX-License-Identifier: Apache-2.0
// Cross-validation and calibration themselves: what the figures of bench/diagnose_corpus rest on.
#include "support/diagnosis_validation.hpp"

#include <cmath>

#include "diagnosis/calibration.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::testing {
namespace {

using diagnosis::Cause;

/// A line that one rule alone speaks to, and whose rule names a thread.
constexpr std::string_view kEngineOfAnotherGpu =
    "The engine plan file is generated on an incompatible device, expecting compute 9.0 got compute 8.9, please "
    "rebuild.";
constexpr std::string_view kItsThread = "NVIDIA/TensorRT-LLM#3031";
/// A line whose rules name no thread.
constexpr std::string_view kTimeLimit =
    "slurmstepd: error: *** JOB 17 ON node1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***";

DiagnosisCase of_thread(std::string thread, std::string_view text, std::string label) {
  DiagnosisCase one;
  one.id = thread;
  one.source = std::move(thread);
  one.text = text;
  one.label = std::move(label);
  one.kind = "log";
  one.facts = nlohmann::json::object();
  return one;
}

std::vector<std::string> ids(const std::vector<DiagnosisAnswer>& answers) {
  std::vector<std::string> all;
  for (const DiagnosisAnswer& answer : answers) all.emplace_back(answer.id());
  return all;
}

TEST(CrossValidation, ARuleThatNamesACasesThreadDoesNotAnswerIt) {
  const std::vector cases{of_thread(std::string(kItsThread), kEngineOfAnotherGpu, "tensorrt_engine"),
                          of_thread("a/b#1", kEngineOfAnotherGpu, "tensorrt_engine")};
  EXPECT_THAT(ids(diagnose_cases(cases)), ::testing::ElementsAre("tensorrt_engine", "tensorrt_engine"));
  EXPECT_THAT(ids(cross_validate(cases)), ::testing::ElementsAre("none", "tensorrt_engine"));
}

TEST(CrossValidation, ARuleThatSpeaksInOneThreadOnlyDoesNotAnswerIt) {
  const std::vector alone{of_thread("a/b#1", kTimeLimit, "slurm_time_limit"),
                          of_thread("a/b#1", kTimeLimit, "slurm_time_limit")};
  EXPECT_THAT(ids(diagnose_cases(alone)), ::testing::Each("slurm_time_limit"));
  EXPECT_THAT(ids(cross_validate(alone)), ::testing::Each("none"));
  const std::vector two{of_thread("a/b#1", kTimeLimit, "slurm_time_limit"),
                        of_thread("a/b#2", kTimeLimit, "slurm_time_limit")};
  EXPECT_THAT(ids(cross_validate(two)), ::testing::Each("slurm_time_limit"));
}

TEST(CrossValidation, KeptBackCasesInspiredNoRuleAndVouchForNone) {
  std::vector cases{of_thread("a/b#1", kTimeLimit, "slurm_time_limit"),
                    of_thread("a/b#2", kTimeLimit, "slurm_time_limit")};
  cases[1].kept_back = true;
  EXPECT_THAT(ids(cross_validate(cases)), ::testing::ElementsAre("none", "slurm_time_limit"));
}

TEST(CrossValidation, WhichCasesAreKeptBackIsInTheNameOfTheirFile) {
  const TempDir folder;
  const std::string line = R"({"id":"a","text":"t","label":"none","kind":"log"})";
  for (const char* name : {"one.jsonl", "one_kept_back.jsonl"}) put(folder / name, line);
  EXPECT_FALSE((*read_diagnosis_cases(folder / "one.jsonl"))[0].kept_back);
  EXPECT_TRUE((*read_diagnosis_cases(folder / "one_kept_back.jsonl"))[0].kept_back);
}

/// So many answers of a confidence, of which so many are right.
void give(std::vector<DiagnosisAnswer>& answers, const DiagnosisCase& asked, double confidence, int given, int right) {
  for (int i = 0; i < given; ++i) {
    Cause cause;
    cause.id = i < right ? asked.label : "another";
    cause.confidence = confidence;
    DiagnosisAnswer answer{&asked, {}, {}};
    answer.diagnosis.causes.push_back(std::move(cause));
    answers.push_back(std::move(answer));
  }
}

TEST(Calibration, FindsTheCurveThatAnswersFollow) {
  const DiagnosisCase asked = of_thread("a/b#1", "", "a");
  const Calibration truth{.intercept = -1, .slope = 4};
  std::vector<DiagnosisAnswer> answers;
  for (const double weight : {0.2, 0.4, 0.6, 0.8, 0.9})
    give(answers, asked, diagnosis::calibrated(weight), 2000, static_cast<int>(2000 * truth.confidence(weight)));
  const Calibration found = calibrate(answers);
  EXPECT_NEAR(found.intercept, truth.intercept, 0.05);
  EXPECT_NEAR(found.slope, truth.slope, 0.1);
}

TEST(Calibration, AFewAnswersThatAreAllRightMakeNoCertainty) {
  const DiagnosisCase asked = of_thread("a/b#1", "", "a");
  std::vector<DiagnosisAnswer> answers;
  give(answers, asked, diagnosis::calibrated(0.6), 3, 3);
  give(answers, asked, diagnosis::calibrated(0.9), 3, 3);
  const Calibration found = calibrate(answers);
  EXPECT_NEAR(found.confidence(0.6), 7.0 / 8, 1e-3);
  EXPECT_NEAR(found.confidence(0.9), 7.0 / 8, 1e-3);
}

TEST(Calibration, RisesWithTheWeightAndGoesThereAndBack) {
  double before = -1;
  for (int percent = 0; percent <= 100; ++percent) {
    const double weight = percent / 100.0;
    const double confidence = diagnosis::calibrated(weight);
    EXPECT_GT(confidence, before) << weight;
    EXPECT_GE(confidence, 0);
    EXPECT_LE(confidence, 1);
    EXPECT_NEAR(diagnosis::weight_of(confidence), weight, 1e-6);
    before = confidence;
  }
}

TEST(Calibration, AnotherCurveGivesOtherConfidences) {
  const DiagnosisCase asked = of_thread("a/b#1", "", "a");
  std::vector<DiagnosisAnswer> answers;
  for (const double weight : {0.25, 0.75}) give(answers, asked, diagnosis::calibrated(weight), 1, 1);
  answers.push_back({&asked, {}, {}});
  const auto again = recalibrated(answers, {.intercept = 0, .slope = 2});
  ASSERT_EQ(again.size(), 3U);
  EXPECT_NEAR(again[0].diagnosis.causes.front().confidence, 1 / (1 + std::exp(-0.5)), 1e-6);
  EXPECT_NEAR(again[1].diagnosis.causes.front().confidence, 1 / (1 + std::exp(-1.5)), 1e-6);
  EXPECT_TRUE(again[2].diagnosis.causes.empty());
}

TEST(ConfidenceBins, HoldWholeBandsAndNoneOfAFewCases) {
  const DiagnosisCase asked = of_thread("a/b#1", "", "a");
  std::vector<DiagnosisAnswer> answers;
  give(answers, asked, 0.42, 20, 5);
  give(answers, asked, 0.55, 20, 10);
  give(answers, asked, 0.85, 40, 30);
  give(answers, asked, 0.97, 10, 10);
  answers.push_back({&asked, {}, {}});
  const auto bins = confidence_bins(answers);
  ASSERT_EQ(bins.size(), 2U);
  EXPECT_EQ(bins[0].cases, 40U);
  EXPECT_DOUBLE_EQ(bins[0].low, 0.42);
  EXPECT_DOUBLE_EQ(bins[0].high, 0.55);
  EXPECT_NEAR(bins[0].right, 15.0 / 40, 1e-9);
  EXPECT_EQ(bins[1].cases, 50U);
  EXPECT_NEAR(bins[1].stated, (40 * 0.85 + 10 * 0.97) / 50, 1e-9);
  EXPECT_NEAR(bins[1].right, 40.0 / 50, 1e-9);
}

TEST(Halves, KeepAThreadWhole) {
  int first = 0;
  for (int i = 0; i < 200; ++i) first += is_in_first_half(of_thread("a/b#" + std::to_string(i), "", "a")) ? 1 : 0;
  EXPECT_GT(first, 70);
  EXPECT_LT(first, 130);
}

}  // namespace
}  // namespace gpuwarden::testing
