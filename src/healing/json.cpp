// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/diagnosis/json.hpp"
#include "gpuwarden/healing/run.hpp"
#include "gpuwarden/redact/redact.hpp"

namespace gpuwarden::healing {
namespace {

using Json = nlohmann::json;

Json to_json(const Attempt& attempt) {
  Json json{{"restart_count", attempt.number},
            {"exit_code", attempt.end.exit_code},
            {"wall_seconds", std::chrono::duration<double>(attempt.end.wall_time).count()},
            {"restart", knowledge::to_string(attempt.judgement.restart)},
            {"why", attempt.judgement.why},
            {"restarts", attempt.restarts},
            {"counts", attempt.counts},
            {"decision", attempt.decision},
            {"pause_seconds", std::chrono::duration<double>(attempt.pause).count()},
            {"changes", attempt.changes},
            {"fewer_gpus", attempt.fewer_gpus ? Json(*attempt.fewer_gpus) : Json()}};
  json["first_failure"] = attempt.end.first_failure ? Json(*attempt.end.first_failure) : Json();
  json["cause"] =
      attempt.judgement.diagnosis.causes.empty() ? Json() : Json(attempt.judgement.diagnosis.causes.front().id);
  json["gpus"] = Json::array();
  for (const GpuIndex gpu : attempt.gpus) json["gpus"].push_back(gpu.value);
  json["gpus_at_fault"] = Json::array();
  for (const Uuid& uuid : attempt.judgement.gpus_at_fault) json["gpus_at_fault"].push_back(uuid.value);
  return json;
}

Json to_json(const Total& total) {
  return {{"tries", total.tries},
          {"wall_seconds", std::chrono::duration<double>(total.wall_time).count()},
          {"run_seconds", std::chrono::duration<double>(total.run_time).count()},
          {"energy_joules", total.energy_joules ? Json(*total.energy_joules) : Json()},
          {"energy_is_estimate", total.energy_is_estimate}};
}

/// What the GPUs read in the last minute.
Json telemetry_of(const launch::RunReport& report) {
  Json rows = Json::array();
  const auto number = [](const auto& value) { return value ? Json(value->value) : Json(); };
  for (const launch::LateReading& one : report.last_minute) {
    Json throttling = Json::array();
    for (const auto reason : one.throttling) throttling.push_back(std::string(facts::to_string(reason)));
    rows.push_back({{"time", format_utc(one.time)},
                    {"gpu", one.gpu.value},
                    {"state", std::string(facts::to_string(one.state))},
                    {"utilization_percent", number(one.utilization)},
                    {"memory_utilization_percent", number(one.memory_utilization)},
                    {"memory_used_bytes", number(one.memory_used)},
                    {"power_watts", one.power ? Json(static_cast<double>(one.power->value) / 1000) : Json()},
                    {"temperature_celsius", number(one.temperature)},
                    {"sm_clock_megahertz", number(one.sm_clock)},
                    {"throttling", std::move(throttling)}});
  }
  return rows;
}

/// Every text in it, without secrets.
void redact_all(Json& json, std::span<const std::string> known) {
  if (json.is_string()) json = redact::redact_secrets(json.get_ref<const std::string&>(), known).text;
  if (json.is_structured()) {
    for (Json& part : json) redact_all(part, known);
  }
}

/// The JSON of a run. Empty for a recording, or a pipe that has been read: not ours to complain about.
Json run_in(const std::filesystem::path& file) {
  const auto text = read_file(file);
  if (!text || !text->starts_with('{')) return Json::object();
  const Json json = Json::parse(*text, nullptr, false);
  return json.is_object() ? json : Json::object();
}

}  // namespace

Json to_json(const Healed& healed, std::span<const std::string> known) {
  Json json = launch::to_json(healed.report);
  Json attempts = Json::array();
  for (const Attempt& attempt : healed.failed) attempts.push_back(to_json(attempt));
  Json post_mortem;
  const bool failed = healed.report.end.exit_code != 0 && !healed.failed.empty();
  if (failed) {
    post_mortem = diagnosis::to_json(healed.failed.back().judgement.diagnosis);
    Json words = Json::object();
    for (const launch::RankEnd& rank : healed.report.end.ranks)
      words[std::to_string(rank.rank)] = {
          {"standard_output", rank.last_output}, {"standard_error", rank.last_words}, {"stacks", rank.stacks}};
    post_mortem["last_words"] = std::move(words);
    post_mortem["telemetry"] = telemetry_of(healed.report);
    post_mortem["happenings"] = json["happenings"];
  }
  redact_all(json["command"], known);
  redact_all(attempts, known);
  redact_all(post_mortem, known);
  json["total"] = to_json(healed.total);
  json["attempts"] = std::move(attempts);
  json["regroups"] = healed.regroups;
  json["post_mortem"] = std::move(post_mortem);
  return json;
}

Result<std::optional<diagnosis::Diagnosis>> read_post_mortem(const std::filesystem::path& file) {
  const Json json = run_in(file);
  const auto found = json.find("post_mortem");
  if (found == json.end() || found->is_null()) return std::nullopt;
  GPUWARDEN_TRY(auto diagnosis, diagnosis::diagnosis_from_json(*found));
  return diagnosis;
}

std::string read_signal_text(const std::filesystem::path& file) {
  const Json json = run_in(file);
  const Json ranks = json.value("ranks", Json::array());
  const Json first = json.value("first_failure", Json());
  if (!first.is_number_unsigned() || !ranks.is_array()) return "";
  launch::JobEnd end{.first_failure = first.get<std::uint32_t>()};
  for (const Json& rank : ranks) {
    const Json number = rank.is_object() ? rank.value("rank", Json()) : Json();
    const Json signal = rank.is_object() ? rank.value("signal", Json()) : Json();
    if (!number.is_number_unsigned()) continue;
    end.ranks.push_back({.rank = number.get<std::uint32_t>()});
    if (signal.is_number_integer()) end.ranks.back().signal = signal.get<int>();
  }
  return launch::signal_text(end);
}

}  // namespace gpuwarden::healing
