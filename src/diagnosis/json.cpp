// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/diagnosis/json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "gpuwarden/diagnosis/overview.hpp"
#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::diagnosis {
namespace {

nlohmann::json to_json(const Fact& fact) {
  if (const auto* value = std::get_if<std::int64_t>(&fact)) return *value;
  if (const auto* text = std::get_if<std::string>(&fact)) return *text;
  if (const auto* values = std::get_if<std::vector<std::int64_t>>(&fact)) return *values;
  auto list = nlohmann::json::array();
  for (const ProcessMemory& process : std::get<std::vector<ProcessMemory>>(fact))
    list.push_back({{"pid", process.pid}, {"bytes", process.bytes}});
  return list;
}

nlohmann::json to_json(const Evidence& evidence) {
  nlohmann::json json{{"file", evidence.file}, {"text", evidence.text}};
  json["line"] = evidence.line == 0 ? nlohmann::json() : nlohmann::json(evidence.line);
  return json;
}

nlohmann::json to_json(const Cause& cause) {
  nlohmann::json json{{"id", cause.id},
                      {"confidence", std::round(cause.confidence * 1000) / 1000},
                      {"title", cause.title},
                      {"summary", cause.summary},
                      {"facts", to_json(cause.facts)},
                      {"reasons", cause.reasons},
                      {"fix", cause.fix},
                      {"confirm", cause.confirm},
                      {"link", cause.link}};
  json["evidence"] = nlohmann::json::array();
  for (const Evidence& evidence : cause.evidence) json["evidence"].push_back(to_json(evidence));
  json["consequences"] = nlohmann::json::array();
  for (const Consequence& consequence : cause.consequences) json["consequences"].push_back(consequence.text);
  return json;
}

std::string text_in(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

std::vector<std::string> texts_in(const nlohmann::json& json, const char* key) {
  std::vector<std::string> texts;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return texts;
  for (const auto& item : *found) {
    if (item.is_string()) texts.push_back(item.get<std::string>());
  }
  return texts;
}

Evidence evidence_from(const nlohmann::json& json) {
  Evidence evidence{text_in(json, "file"), 0, text_in(json, "text")};
  if (const auto line = json.find("line"); line != json.end() && line->is_number_unsigned())
    evidence.line = line->get<std::uint64_t>();
  return evidence;
}

Cause cause_from(const nlohmann::json& json) {
  Cause cause{.id = text_in(json, "id"),
              .title = text_in(json, "title"),
              .summary = text_in(json, "summary"),
              .reasons = texts_in(json, "reasons"),
              .fix = texts_in(json, "fix"),
              .confirm = texts_in(json, "confirm"),
              .link = text_in(json, "link")};
  if (const auto number = json.find("confidence"); number != json.end() && number->is_number())
    cause.confidence = number->get<double>();
  if (const auto lines = json.find("evidence"); lines != json.end() && lines->is_array()) {
    for (const auto& line : *lines) cause.evidence.push_back(evidence_from(line));
  }
  for (std::string& text : texts_in(json, "consequences")) cause.consequences.push_back({"", std::move(text), {}});
  return cause;
}

}  // namespace

Result<Diagnosis> diagnosis_from_json(const nlohmann::json& json) {
  const auto causes = json.is_object() ? json.find("causes") : json.end();
  if (!json.is_object() || causes == json.end() || !causes->is_array())
    return fail(ErrorCode::corrupt, "it holds no diagnosis");
  Diagnosis diagnosis;
  for (const auto& cause : *causes) {
    if (cause.is_object()) diagnosis.causes.push_back(cause_from(cause));
  }
  diagnosis.only_consequences = json.value("only_consequences", nlohmann::json(false)) == true;
  diagnosis.look_at = text_in(json, "look_at");
  diagnosis.ordinary_frame = text_in(json, "ordinary_frame");
  if (const auto plain = json.find("ordinary"); plain != json.end() && plain->is_object())
    diagnosis.ordinary = evidence_from(*plain);
  for (const char* key : {"lines", "bytes"}) {
    const auto number = json.find(key);
    if (number == json.end() || !number->is_number_unsigned()) continue;
    (std::string_view(key) == "lines" ? diagnosis.lines : diagnosis.bytes) = number->get<std::uint64_t>();
  }
  return diagnosis;
}

nlohmann::json to_json(const Facts& facts) {
  auto json = nlohmann::json::object();
  for (const auto& [key, fact] : facts) json[key] = to_json(fact);
  return json;
}

nlohmann::json to_json(const Diagnosis& diagnosis) {
  nlohmann::json json = facts::answer(
      {{"only_consequences", diagnosis.only_consequences}, {"lines", diagnosis.lines}, {"bytes", diagnosis.bytes}});
  json["look_at"] = diagnosis.look_at.empty() ? nlohmann::json() : nlohmann::json(diagnosis.look_at);
  json["ordinary"] = diagnosis.ordinary ? to_json(*diagnosis.ordinary) : nlohmann::json();
  json["ordinary_frame"] =
      diagnosis.ordinary_frame.empty() ? nlohmann::json() : nlohmann::json(diagnosis.ordinary_frame);
  const PlainAdvice advice = plain_advice(diagnosis);
  json["ordinary_advice"] =
      advice.says.empty() ? nlohmann::json() : nlohmann::json{{"says", advice.says}, {"fix", advice.fix}};
  json["harmless"] = nlohmann::json::array();
  for (const Note& note : diagnosis.harmless)
    json["harmless"].push_back({{"evidence", to_json(note.evidence)}, {"text", note.text}});
  json["causes"] = nlohmann::json::array();
  for (const Cause& cause : diagnosis.causes) json["causes"].push_back(to_json(cause));
  return json;
}

}  // namespace gpuwarden::diagnosis
