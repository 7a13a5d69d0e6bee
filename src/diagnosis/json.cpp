// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/diagnosis/json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

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

}  // namespace

nlohmann::json to_json(const Facts& facts) {
  auto json = nlohmann::json::object();
  for (const auto& [key, fact] : facts) json[key] = to_json(fact);
  return json;
}

nlohmann::json to_json(const Diagnosis& diagnosis) {
  nlohmann::json json{{"schema", facts::kJsonSchema},
                      {"only_consequences", diagnosis.only_consequences},
                      {"lines", diagnosis.lines},
                      {"bytes", diagnosis.bytes}};
  json["look_at"] = diagnosis.look_at.empty() ? nlohmann::json() : nlohmann::json(diagnosis.look_at);
  json["ordinary"] = diagnosis.ordinary ? to_json(*diagnosis.ordinary) : nlohmann::json();
  json["ordinary_frame"] =
      diagnosis.ordinary_frame.empty() ? nlohmann::json() : nlohmann::json(diagnosis.ordinary_frame);
  json["harmless"] = nlohmann::json::array();
  for (const Note& note : diagnosis.harmless)
    json["harmless"].push_back({{"evidence", to_json(note.evidence)}, {"text", note.text}});
  json["causes"] = nlohmann::json::array();
  for (const Cause& cause : diagnosis.causes) json["causes"].push_back(to_json(cause));
  return json;
}

}  // namespace gpuwarden::diagnosis
