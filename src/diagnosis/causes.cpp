// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/diagnosis/causes.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/knowledge/platform_steps.hpp"

namespace gpuwarden::diagnosis {

using knowledge::DiagnosisCause;
using knowledge::DiagnosisRule;
using Json = nlohmann::json;

namespace {

std::vector<std::string> texts(std::span<const std::string_view> views) { return {views.begin(), views.end()}; }

/// Steps without their kinds.
std::vector<std::string> unmarked(std::span<const std::string_view> steps) {
  std::vector<std::string> plain;
  for (const std::string_view step : steps) plain.emplace_back(knowledge::marked_step(step).text);
  return plain;
}

Json json_of(const DiagnosisCause& cause) {
  return {{"id", cause.id},     {"area", cause.area},     {"title", cause.title},
          {"link", cause.link}, {"source", cause.source}, {"rules", rules_of(cause).size()}};
}

Json whole_json_of(const DiagnosisCause& cause) {
  Json json = json_of(cause);
  json["meaning"] = cause.summary.empty() ? "" : cause.summary.back();
  json["fix"] = unmarked(cause.fix);
  json["confirm"] = unmarked(cause.confirm);
  json["explains"] = texts(cause.explains);
  json["follows_from"] = follows_from(cause);
  json["rules"] = Json::array();
  for (const DiagnosisRule* rule : rules_of(cause)) {
    Json examples = Json::array();
    for (const auto& example : rule->examples) examples.push_back({{"text", example.text}, {"source", example.source}});
    json["rules"].push_back({{"id", rule->id},
                             {"role", to_string(rule->role)},
                             {"strength", rule->strength},
                             {"examples", std::move(examples)}});
  }
  return json;
}

}  // namespace

std::vector<const DiagnosisRule*> rules_of(const DiagnosisCause& cause) {
  std::vector<const DiagnosisRule*> rules;
  for (const DiagnosisRule& rule : knowledge::diagnosis_rules()) {
    if (rule.cause == cause.id) rules.push_back(&rule);
  }
  std::ranges::stable_sort(rules, [](const DiagnosisRule* a, const DiagnosisRule* b) {
    return a->role != b->role ? a->role < b->role : a->strength > b->strength;
  });
  return rules;
}

std::vector<const DiagnosisCause*> causes_by_area() {
  std::vector<std::string_view> areas;
  std::vector<const DiagnosisCause*> causes;
  for (const DiagnosisCause& cause : knowledge::diagnosis_causes()) {
    causes.push_back(&cause);
    if (std::ranges::find(areas, cause.area) == areas.end()) areas.push_back(cause.area);
  }
  std::ranges::stable_sort(
      causes, {}, [&](const DiagnosisCause* cause) { return std::ranges::find(areas, cause->area) - areas.begin(); });
  return causes;
}

std::pair<std::string_view, std::string_view> programs_and_step(std::string_view text) {
  const std::size_t close = text.find("] ");
  if (!text.starts_with('[') || close == std::string_view::npos) return {"", text};
  return {text.substr(1, close - 1), text.substr(close + 2)};
}

std::vector<std::string> steps_of_all_programs(std::span<const std::string_view> steps) {
  std::vector<std::string> all;
  for (const std::string_view text : steps) {
    std::vector<std::string> programs;
    std::string_view step = knowledge::marked_step(text).text;
    for (auto parts = programs_and_step(step); !parts.first.empty(); parts = programs_and_step(step)) {
      // What must not be known is no program to name.
      if (!parts.first.starts_with('!')) programs.emplace_back(parts.first);
      step = parts.second;
    }
    const std::string names = join(programs, " and ");
    all.push_back(names + (names.empty() ? "" : ": ") + std::string(step));
  }
  return all;
}

std::vector<std::string> follows_from(const DiagnosisCause& cause) {
  std::vector<std::string> ids;
  for (const DiagnosisCause& other : knowledge::diagnosis_causes()) {
    if (std::ranges::find(other.explains, cause.id) != other.explains.end()) ids.emplace_back(other.id);
  }
  return ids;
}

Json causes_json() {
  Json json = facts::answer({{"causes", Json::array()}});
  for (const DiagnosisCause& cause : knowledge::diagnosis_causes()) json["causes"].push_back(json_of(cause));
  return json;
}

Json to_json(const Lookup& lookup) {
  Json json = facts::answer({{"cuda_code", lookup.cuda_code ? Json(*lookup.cuda_code) : Json()},
                             {"nearest", lookup.nearest.empty() ? Json() : Json(lookup.nearest)},
                             {"fits", Json::array()},
                             {"causes", Json::array()}});
  for (const DiagnosisRule* rule : lookup.rules) json["fits"].push_back(rule->id);
  for (const DiagnosisCause* cause : lookup.causes) json["causes"].push_back(whole_json_of(*cause));
  return json;
}

}  // namespace gpuwarden::diagnosis
