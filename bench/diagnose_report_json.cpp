// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "diagnose_report.hpp"

namespace gpuwarden::bench {
namespace {

using namespace testing;
using Json = nlohmann::ordered_json;

/// A share of nothing is unknown.
Json part_of(std::size_t part, std::size_t whole) { return whole == 0 ? Json() : Json(share(part, whole)); }

Json json_of(const Tally& tally) {
  return {{"cases", tally.cases},
          {"strict", part_of(tally.strict, tally.cases)},
          {"lenient", part_of(tally.lenient, tally.cases)},
          {"decided", part_of(tally.decided, tally.cases)}};
}

Json json_of(const SetScore& set) {
  Json result = json_of(set.all);
  result["undecidable"] = set.undecidable;
  result["composites"] = json_of(set.composites);
  result["none"] = {{"cases", set.none_cases}, {"false_alarms", set.false_alarms}};
  result["kinds"] = Json::object();
  for (const auto& [kind, tally] : set.kinds) result["kinds"][kind] = json_of(tally);
  return result;
}

Json json_of(const FactScore& facts) {
  Json result = {{"numbers", facts.numbers.values},
                 {"right", facts.numbers.right},
                 {"share", part_of(facts.numbers.right, facts.numbers.values)}};
  result["words"] = {{"values", facts.words.values},
                     {"right", facts.words.right},
                     {"share", part_of(facts.words.right, facts.words.values)}};
  result["keys"] = Json::object();
  for (const auto& [key, tally] : facts.number_keys)
    result["keys"][key] = {{"numbers", tally.values}, {"right", tally.right}};
  return result;
}

Json json_of(const std::array<Bucket, 6>& buckets) {
  Json result = Json::array();
  for (const Bucket& bucket : buckets) {
    const std::size_t given = bucket.tally.cases;
    result.push_back({{"low", bucket.low},
                      {"high", bucket.high},
                      {"given", given},
                      {"mean", given == 0 ? Json() : Json(bucket.sum / static_cast<double>(given))},
                      {"strict", part_of(bucket.tally.strict, given)},
                      {"lenient", part_of(bucket.tally.lenient, given)}});
  }
  return result;
}

Json json_of(std::span<const ConfidenceBin> bins) {
  Json result = Json::array();
  for (const ConfidenceBin& bin : bins)
    result.push_back(
        {{"low", bin.low}, {"high", bin.high}, {"given", bin.cases}, {"stated", bin.stated}, {"right", bin.right}});
  return result;
}

Json json_of_naive(const Run& run) {
  Json result = {{"patterns", naive_pattern_count()}};
  for (const NaiveScore& naive : run.naive)
    result[std::string(naive.key)] = {{"short", json_of(naive.accuracy.short_cases)},
                                      {"long", json_of(naive.accuracy.long_cases)}};
  return result;
}

Json json_of_time(const Run& run) {
  const Times times = times_of(run.answers);
  Json result = {
      {"first_call_seconds", run.first_call.count()}, {"total_seconds", times.total.count()}, {"bytes", times.bytes}};
  if (times.slowest != nullptr) {
    result["per_case_seconds"] = times.total.count() / static_cast<double>(run.answers.size());
    result["slowest"] = {{"id", times.slowest->asked->id}, {"seconds", times.slowest->took.count()}};
  }
  return result;
}

Json json_of(const diagnosis::Cause& cause) {
  Json result = {{"id", cause.id}, {"confidence", cause.confidence}, {"evidence", nullptr}};
  if (cause.evidence.empty()) return result;
  const diagnosis::Evidence& evidence = cause.evidence.front();
  result["evidence"] = {{"file", evidence.file}, {"line", evidence.line}, {"text", evidence.text}};
  return result;
}

Json wrong_cases(const Run& run) {
  Json result = Json::array();
  for (const DiagnosisAnswer& answer : run.answers) {
    const DiagnosisCase& asked = *answer.asked;
    if (asked.is_right(answer.id())) continue;
    Json causes = Json::array();
    for (const diagnosis::Cause& cause : answer.diagnosis.causes) {
      if (causes.size() < 2) causes.push_back(json_of(cause));
    }
    result.push_back({{"id", asked.id},
                      {"expected", asked.label},
                      {"answered", answer.id()},
                      {"acceptable", asked.is_acceptable(answer.id())},
                      {"decidable", asked.decidable},
                      {"causes", std::move(causes)}});
  }
  return result;
}

Json wrong_facts(const FactScore& facts) {
  Json result = Json::array();
  for (const FactMistake& mistake : facts.mistakes)
    result.push_back({{"id", mistake.id},
                      {"key", mistake.key},
                      {"expected", mistake.expected},
                      {"answered", mistake.answered},
                      {"number", mistake.is_number}});
  return result;
}

}  // namespace

Json json_of(const Run& run, bool wrong) {
  Json result = {{"schema", 1}, {"files", Json::array()}};
  for (const auto& file : run.files) result["files"].push_back(file.string());
  result["cross_validated"] = run.cross_validated;
  result["short"] = json_of(run.score.accuracy.short_cases);
  result["long"] = json_of(run.score.accuracy.long_cases);
  result["facts"] = json_of(run.score.facts);
  result["reliability"] = json_of(run.score.reliability);
  result["confidence"] = json_of(confidence_bins(run.answers));
  result["naive"] = json_of_naive(run);
  result["labels"] = Json::object();
  for (const auto& [label, tally] : run.score.labels) result["labels"][label] = json_of(tally);
  result["confusion"] = Json::array();
  for (const Confused& cell : confusions(run.score))
    result["confusion"].push_back({{"expected", cell.expected}, {"answered", cell.answered}, {"cases", cell.cases}});
  result["time"] = json_of_time(run);
  if (!wrong) return result;
  result["wrong"] = wrong_cases(run);
  result["wrong_facts"] = wrong_facts(run.score.facts);
  return result;
}

}  // namespace gpuwarden::bench
