// SPDX-License-Identifier: Apache-2.0
#include "support/diagnosis_score.hpp"

#include <algorithm>
#include <cmath>

namespace gpuwarden::testing {
namespace {

using diagnosis::ProcessMemory;
using nlohmann::json;

constexpr double kSizeTolerance = 0.001;

void add(const DiagnosisCase& asked, std::string_view answer, Tally& tally) {
  const bool strict = asked.is_right(answer);
  const bool lenient = asked.is_acceptable(answer);
  ++tally.cases;
  tally.strict += strict ? 1 : 0;
  tally.lenient += lenient ? 1 : 0;
  tally.decided += (asked.decidable ? strict : lenient) ? 1 : 0;
}

bool same_size(std::int64_t expected, std::int64_t answered) {
  const auto wanted = static_cast<double>(expected);
  return std::abs(wanted - static_cast<double>(answered)) <= kSizeTolerance * std::abs(wanted);
}

bool is_process(const json& value) {
  return value.is_object() && value.contains("pid") && value["pid"].is_number_integer() && value.contains("bytes") &&
         value["bytes"].is_number_integer();
}

bool all_of(const json& value, bool (*is_one)(const json&)) {
  return value.is_array() && !value.empty() && std::ranges::all_of(value, is_one);
}

bool is_number(const json& value) { return value.is_number_integer(); }
bool is_numeric(const json& value) { return is_number(value) || all_of(value, is_number) || all_of(value, is_process); }

/// What was asked for, in the form in which facts are answered.
std::vector<std::int64_t> numbers_of(const json& value) {
  return value.is_array() ? value.get<std::vector<std::int64_t>>() : std::vector{value.get<std::int64_t>()};
}

std::vector<std::int64_t> numbers_of(const diagnosis::Fact& fact) {
  if (const auto* number = std::get_if<std::int64_t>(&fact)) return {*number};
  if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&fact)) return *numbers;
  return {};
}

bool same_numbers(const json& expected, const diagnosis::Fact& fact, bool sizes) {
  auto wanted = numbers_of(expected);
  auto answered = numbers_of(fact);
  std::ranges::sort(wanted);
  std::ranges::sort(answered);
  return std::ranges::equal(wanted, answered,
                            [&](std::int64_t a, std::int64_t b) { return sizes ? same_size(a, b) : a == b; });
}

bool same_processes(const json& expected, const diagnosis::Fact& fact) {
  const auto* processes = std::get_if<std::vector<ProcessMemory>>(&fact);
  if (processes == nullptr) return false;
  std::vector<ProcessMemory> wanted;
  for (const json& entry : expected) wanted.push_back({entry["pid"], entry["bytes"]});
  auto answered = *processes;
  std::ranges::sort(wanted, {}, &ProcessMemory::pid);
  std::ranges::sort(answered, {}, &ProcessMemory::pid);
  return std::ranges::equal(wanted, answered, [](const ProcessMemory& a, const ProcessMemory& b) {
    return a.pid == b.pid && same_size(a.bytes, b.bytes);
  });
}

bool same_word(const json& expected, const diagnosis::Fact& fact) {
  const auto* word = std::get_if<std::string>(&fact);
  return word != nullptr && *word == (expected.is_string() ? expected.get<std::string>() : expected.dump());
}

bool same_fact(const std::string& key, const json& expected, const diagnosis::Fact& fact) {
  if (all_of(expected, is_process)) return same_processes(expected, fact);
  if (is_numeric(expected)) return same_numbers(expected, fact, key.ends_with("_bytes"));
  return same_word(expected, fact);
}

json json_of(const std::vector<ProcessMemory>& processes) {
  json list = json::array();
  for (const ProcessMemory& process : processes) list.push_back({{"pid", process.pid}, {"bytes", process.bytes}});
  return list;
}

json json_of(const diagnosis::Fact* fact) {
  if (fact == nullptr) return {};
  if (const auto* processes = std::get_if<std::vector<ProcessMemory>>(fact)) return json_of(*processes);
  if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(fact)) return *numbers;
  if (const auto* number = std::get_if<std::int64_t>(fact)) return *number;
  return std::get<std::string>(*fact);
}

const diagnosis::Fact* find_fact(const diagnosis::Diagnosis& answer, const std::string& key) {
  for (const diagnosis::Cause& cause : answer.causes) {
    const auto found = cause.facts.find(key);
    if (found != cause.facts.end()) return &found->second;
  }
  return nullptr;
}

void count(FactTally& tally, bool right) {
  ++tally.values;
  tally.right += right ? 1 : 0;
}

std::array<Bucket, 6> empty_buckets() { return {{{0, 0.5}, {0.5, 0.6}, {0.6, 0.7}, {0.7, 0.8}, {0.8, 0.9}, {0.9, 1}}}; }

void count_confidence(const DiagnosisAnswer& answer, std::array<Bucket, 6>& buckets) {
  if (answer.diagnosis.causes.empty()) return;
  const double confidence = answer.diagnosis.causes.front().confidence;
  Bucket* bucket = &buckets.front();
  for (Bucket& candidate : buckets) {
    // 0.9 that came out of a calculation is meant as 0.9.
    if (confidence >= candidate.low - 1e-9) bucket = &candidate;
  }
  bucket->sum += confidence;
  add(*answer.asked, answer.id(), bucket->tally);
}

}  // namespace

double share(std::size_t part, std::size_t whole) {
  return whole == 0 ? 1 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string_view DiagnosisAnswer::id() const {
  return diagnosis.causes.empty() ? kNoCause : std::string_view(diagnosis.causes.front().id);
}

bool DiagnosisAnswer::is_right() const { return asked->decidable ? asked->is_right(id()) : asked->is_acceptable(id()); }

DiagnosisAnswer diagnose_case(const DiagnosisCase& asked, diagnosis::RulesLeftOut left_out) {
  const auto start = std::chrono::steady_clock::now();
  auto diagnosis = diagnosis::diagnose_text(asked.text, asked.id, std::move(left_out));
  return {&asked, std::move(diagnosis), std::chrono::steady_clock::now() - start};
}

std::vector<DiagnosisAnswer> diagnose_cases(std::span<const DiagnosisCase> cases) {
  std::vector<DiagnosisAnswer> answers;
  answers.reserve(cases.size());
  for (const DiagnosisCase& asked : cases) answers.push_back(diagnose_case(asked));
  return answers;
}

void count_answer(const DiagnosisCase& asked, std::string_view answer, Accuracy& accuracy) {
  SetScore& set = asked.is_long() ? accuracy.long_cases : accuracy.short_cases;
  add(asked, answer, set.all);
  add(asked, answer, set.kinds[asked.kind]);
  if (asked.composite) add(asked, answer, set.composites);
  if (!asked.decidable) ++set.undecidable;
  if (asked.label != kNoCause) return;
  ++set.none_cases;
  set.false_alarms += answer == kNoCause ? 0 : 1;
}

void count_facts(const DiagnosisCase& asked, const diagnosis::Diagnosis& answer, FactScore& score) {
  for (const auto& [key, expected] : asked.facts.items()) {
    const diagnosis::Fact* fact = find_fact(answer, key);
    const bool right = fact != nullptr && same_fact(key, expected, *fact);
    const bool numeric = is_numeric(expected);
    count(numeric ? score.numbers : score.words, right);
    if (numeric) count(score.number_keys[key], right);
    if (!right) score.mistakes.push_back({asked.id, key, expected, json_of(fact), numeric});
  }
}

DiagnosisScore score_diagnoses(std::span<const DiagnosisAnswer> answers) {
  DiagnosisScore score;
  score.reliability = empty_buckets();
  for (const DiagnosisAnswer& answer : answers) {
    const DiagnosisCase& asked = *answer.asked;
    count_answer(asked, answer.id(), score.accuracy);
    count_facts(asked, answer.diagnosis, score.facts);
    add(asked, answer.id(), score.labels[asked.label]);
    if (!asked.is_right(answer.id())) ++score.confusion[{asked.label, std::string(answer.id())}];
    count_confidence(answer, score.reliability);
  }
  return score;
}

}  // namespace gpuwarden::testing
