// SPDX-License-Identifier: Apache-2.0
// Cross-validation and calibration themselves: what the figures of bench/diagnose_corpus rest on.
#include "support/diagnosis_validation.hpp"

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

TEST(Calibration, StepsRiseAndWeightsThatAreLessOftenRightThanLowerOnesArePooled) {
  const DiagnosisCase asked = of_thread("a/b#1", "", "a");
  std::vector<DiagnosisAnswer> answers;
  using diagnosis::calibrated;
  give(answers, asked, calibrated(0.4), 18, 4);
  give(answers, asked, calibrated(0.6), 18, 14);
  give(answers, asked, calibrated(0.8), 18, 10);  // less often than 0.6
  give(answers, asked, calibrated(0.9), 18, 17);
  const auto points = calibrate(answers);
  ASSERT_EQ(points.size(), 3U);
  EXPECT_DOUBLE_EQ(points[0].right, 5.0 / 20);
  EXPECT_NEAR(points[1].weight, 0.7, 1e-6);
  EXPECT_DOUBLE_EQ(points[1].right, 25.0 / 38);
  EXPECT_DOUBLE_EQ(points[2].right, 18.0 / 20);
}

TEST(Calibration, AFewAnswersMakeNoStep) {
  const DiagnosisCase asked = of_thread("a/b#1", "", "a");
  std::vector<DiagnosisAnswer> answers;
  give(answers, asked, 0.5, 3, 0);
  give(answers, asked, 0.6, 20, 10);
  give(answers, asked, 0.9, 2, 2);
  const auto points = calibrate(answers);
  ASSERT_EQ(points.size(), 1U);
  EXPECT_DOUBLE_EQ(points[0].right, 13.0 / 27);
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
