// SPDX-License-Identifier: Apache-2.0
// The counting itself: what the figures of bench/diagnose_corpus and the floors of the corpus test rest on.
#include "support/diagnosis_score.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::testing {
namespace {

using diagnosis::Cause;
using diagnosis::Diagnosis;
using diagnosis::Fact;
using nlohmann::json;

DiagnosisCase labelled(std::string label, std::vector<std::string> also = {}) {
  DiagnosisCase one;
  one.label = std::move(label);
  one.also = std::move(also);
  one.kind = "log";
  one.facts = json::object();
  return one;
}

Diagnosis causes(std::vector<Cause> list) {
  Diagnosis diagnosis;
  diagnosis.causes = std::move(list);
  return diagnosis;
}

Cause cause(std::string id, double confidence, diagnosis::Facts facts = {}) {
  Cause one;
  one.id = std::move(id);
  one.confidence = confidence;
  one.facts = std::move(facts);
  return one;
}

/// One expected fact against one answered: {right numbers, right words}.
std::pair<std::size_t, std::size_t> right_of(const std::string& key, const json& expected, const Fact& answered) {
  DiagnosisCase asked = labelled("x");
  asked.facts[key] = expected;
  FactScore score;
  count_facts(asked, causes({cause("x", 1, {{key, answered}})}), score);
  EXPECT_EQ(score.numbers.values + score.words.values, 1U);
  return {score.numbers.right, score.words.right};
}

constexpr std::pair<std::size_t, std::size_t> kNumber{1, 0};
constexpr std::pair<std::size_t, std::size_t> kWord{0, 1};
constexpr std::pair<std::size_t, std::size_t> kWrong{0, 0};

TEST(DiagnosisScore, SizesMayBeOffByAThousandthOtherNumbersNotAtAll) {
  EXPECT_EQ(right_of("tried_bytes", 1000000, Fact(std::int64_t{1001000})), kNumber);
  EXPECT_EQ(right_of("tried_bytes", 1000000, Fact(std::int64_t{1001001})), kWrong);
  EXPECT_EQ(right_of("tried_bytes", 0, Fact(std::int64_t{1})), kWrong);
  EXPECT_EQ(right_of("timeout_ms", 1000000, Fact(std::int64_t{1000001})), kWrong);
  EXPECT_EQ(right_of("gpu", 0, Fact(std::string("0"))), kWrong);
}

TEST(DiagnosisScore, ANumberIsAListOfOneAndOrderDoesNotCount) {
  EXPECT_EQ(right_of("xid", json::array({79}), Fact(std::int64_t{79})), kNumber);
  EXPECT_EQ(right_of("xid", 79, Fact(std::vector<std::int64_t>{79})), kNumber);
  EXPECT_EQ(right_of("xid", json::array({79, 154}), Fact(std::vector<std::int64_t>{154, 79})), kNumber);
  EXPECT_EQ(right_of("xid", json::array({79, 154}), Fact(std::int64_t{79})), kWrong);
}

TEST(DiagnosisScore, ProcessesNeedTheirPidsAndNearlyTheirSizes) {
  const auto expected = json::array({{{"pid", 7}, {"bytes", 2000}}, {{"pid", 5}, {"bytes", 1000}}});
  using List = std::vector<diagnosis::ProcessMemory>;
  EXPECT_EQ(right_of("processes", expected, Fact(List{{5, 1001}, {7, 2000}})), kNumber);
  EXPECT_EQ(right_of("processes", expected, Fact(List{{5, 1100}, {7, 2000}})), kWrong);
  EXPECT_EQ(right_of("processes", expected, Fact(List{{5, 1000}})), kWrong);
  EXPECT_EQ(right_of("processes", expected, Fact(List{{6, 1000}, {7, 2000}})), kWrong);
}

TEST(DiagnosisScore, WordsAreCountedApart) {
  EXPECT_EQ(right_of("pci", "0000:07:00", Fact(std::string("0000:07:00"))), kWord);
  EXPECT_EQ(right_of("pci", "0000:07:00", Fact(std::string("07:00"))), kWrong);
  EXPECT_EQ(right_of("ansi", true, Fact(std::string("true"))), kWord);
}

TEST(DiagnosisScore, FactsOfAllCausesCountAndTheFirstThatHasAKeyWins) {
  DiagnosisCase asked = labelled("x");
  asked.facts = {{"gpu", 1}, {"rank", 3}, {"port", 80}};
  const auto answer = causes({cause("x", 1, {{"gpu", std::int64_t{1}}}),
                              cause("y", 0.5, {{"gpu", std::int64_t{2}}, {"rank", std::int64_t{3}}})});
  FactScore score;
  count_facts(asked, answer, score);
  EXPECT_EQ(score.numbers.values, 3U);
  EXPECT_EQ(score.numbers.right, 2U);
  ASSERT_EQ(score.mistakes.size(), 1U);
  EXPECT_EQ(score.mistakes[0].key, "port");
  EXPECT_TRUE(score.mistakes[0].answered.is_null());
}

TEST(DiagnosisScore, StrictTakesTheLabelLenientAlsoAndUndecidedCasesAreLenientInDecided) {
  Accuracy accuracy;
  DiagnosisCase undecidable = labelled("a", {"b"});
  undecidable.decidable = false;
  undecidable.composite = true;
  count_answer(labelled("a", {"b"}), "a", accuracy);
  count_answer(labelled("a", {"b"}), "b", accuracy);
  count_answer(undecidable, "b", accuracy);
  count_answer(undecidable, "c", accuracy);
  const SetScore& set = accuracy.short_cases;
  EXPECT_EQ(set.all.cases, 4U);
  EXPECT_EQ(set.all.strict, 1U);
  EXPECT_EQ(set.all.lenient, 3U);
  EXPECT_EQ(set.all.decided, 2U);
  EXPECT_EQ(set.undecidable, 2U);
  EXPECT_EQ(set.composites.cases, 2U);
  EXPECT_EQ(set.composites.strict, 0U);
}

TEST(DiagnosisScore, AnyCauseForACaseWithoutOneIsAFalseAlarmEvenAnAcceptableOne) {
  Accuracy accuracy;
  DiagnosisCase report = labelled("none", {"b"});
  report.kind = "long";
  count_answer(report, "none", accuracy);
  count_answer(report, "b", accuracy);
  EXPECT_EQ(accuracy.long_cases.none_cases, 2U);
  EXPECT_EQ(accuracy.long_cases.false_alarms, 1U);
  EXPECT_EQ(accuracy.short_cases.all.cases, 0U);
}

TEST(DiagnosisScore, ConfidencesFallIntoTheirBucketsAndConfusionsIntoTheirCells) {
  const DiagnosisCase asked = labelled("a");
  std::vector<DiagnosisAnswer> answers;
  for (const double confidence : {0.0, 0.49, 0.5, 0.3 * 3, 0.9, 1.0})
    answers.push_back({&asked, causes({cause(confidence < 0.5 ? "b" : "a", confidence)}), {}});
  answers.push_back({&asked, {}, {}});
  const DiagnosisScore score = score_diagnoses(answers);
  std::vector<std::size_t> given;
  for (const Bucket& bucket : score.reliability) given.push_back(bucket.tally.cases);
  EXPECT_THAT(given, ::testing::ElementsAre(2, 1, 0, 0, 0, 3));
  EXPECT_EQ(score.reliability.back().tally.strict, 3U);
  const std::map<std::pair<std::string, std::string>, std::size_t> expected{{{"a", "b"}, 2}, {{"a", "none"}, 1}};
  EXPECT_EQ(score.confusion, expected);
  EXPECT_EQ(score.labels.at("a").cases, 7U);
  EXPECT_EQ(score.labels.at("a").strict, 4U);
}

/// The error of a file with these lines.
std::string error_of(const std::string& content) {
  const TempDir folder;
  put(folder / "cases.jsonl", content);
  const auto cases = read_diagnosis_cases(folder / "cases.jsonl");
  return cases ? "" : cases.error().message;
}

TEST(DiagnosisCases, AreReadWithWhatIsMissingFilledIn) {
  const TempDir folder;
  put(folder / "cases.jsonl", R"({"id":"L1","text":"t","label":"none","also":["a"],"composite":true,"kind":"long"}

{"id":"d1","text":"t","label":"a","also":[],"composite":{"naive":"b"},"kind":"log",)"
                              R"("facts":{"gpu":1},"decidable_from_text":false})");
  const auto cases = read_diagnosis_cases(folder / "cases.jsonl");
  ASSERT_TRUE(cases) << cases.error().message;
  ASSERT_EQ(cases->size(), 2U);
  EXPECT_TRUE((*cases)[0].is_long() && (*cases)[0].composite && (*cases)[0].decidable);
  EXPECT_TRUE((*cases)[0].is_acceptable("a"));
  EXPECT_TRUE((*cases)[0].facts.empty());
  EXPECT_TRUE((*cases)[1].composite && !(*cases)[1].is_long() && !(*cases)[1].decidable);
  EXPECT_EQ((*cases)[1].facts["gpu"], 1);
}

TEST(DiagnosisCases, WhatIsNoCaseIsNamedWithFileAndLine) {
  const std::string good = R"({"id":"a","text":"t","label":"none","kind":"log"})"
                           "\n";
  EXPECT_THAT(error_of(good + "nonsense\n"), ::testing::HasSubstr("cases.jsonl:2: no JSON"));
  EXPECT_THAT(error_of(good + "[1]\n"), ::testing::HasSubstr("cases.jsonl:2: no JSON object"));
  EXPECT_THAT(error_of(R"({"id":"a","text":"t","kind":"log"})"),
              ::testing::HasSubstr(":1: the key 'label' is missing"));
  EXPECT_THAT(error_of(R"({"id":7,"text":"t","label":"none","kind":"log"})"), ::testing::HasSubstr("'id' is no text"));
  EXPECT_THAT(error_of(R"({"id":"a","text":"t","label":"none","kind":"log","also":"b"})"),
              ::testing::HasSubstr("'also' is no list of texts"));
  EXPECT_THAT(error_of("\n"), ::testing::HasSubstr("there is no case in it"));
}

}  // namespace
}  // namespace gpuwarden::testing
