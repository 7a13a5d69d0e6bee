// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/driver/json.hpp"

#include <nlohmann/json.hpp>

#include "driver/words.hpp"
#include "gpuwarden/facts/answer.hpp"

namespace gpuwarden::driver {

using Json = nlohmann::json;

namespace {

/// A value, or null where it is not known.
template <class Value>
Json known(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

Json step_json(const Step& step) {
  return {{"id", step.id},     {"title", step.title},   {"commands", step.commands},    {"check", step.check},
          {"undo", step.undo}, {"reboot", step.reboot}, {"needs_root", step.needs_root}};
}

Json check_json(const PreCheck& check) {
  return {{"id", check.id},
          {"title", check.title},
          {"state", to_string(check.state)},
          {"found", check.found},
          {"remedy", check.remedy},
          {"command", check.command},
          {"can_be_forced", check.can_be_forced}};
}

}  // namespace

Json to_json(const Recommendation& target) {
  return {{"branch", target.branch},
          {"branch_known", target.branch_known},
          {"flavour", facts::to_string(target.flavour)},
          {"packaging", to_string(target.packaging)},
          {"lowest", target.lowest},
          {"highest", target.highest},
          {"at_least", target.at_least ? Json(knowledge::to_string(target.at_least)) : Json()},
          {"reasons", target.reasons},
          {"warnings", target.warnings}};
}

Json to_json(const DriverStatus& status) {
  return {{"loaded", known(status.loaded)},
          {"on_disk", known(status.on_disk)},
          {"library", known(status.library)},
          {"firmware", known(status.firmware)},
          {"fabric_manager", known(status.fabric_manager)},
          {"flavour", status.flavour ? Json(facts::to_string(*status.flavour)) : Json()},
          {"packaging", status.packaging ? Json(to_string(*status.packaging)) : Json()},
          {"package", known(status.package)},
          {"dkms_built_for", status.dkms_built_for},
          {"dkms_missing_for", status.dkms_missing_for},
          {"secure_boot", known(status.secure_boot)},
          {"branch", status.branch != 0 ? Json(status.branch) : Json()},
          {"branch_type", status.branch_type},
          {"end_of_life", status.end_of_life},
          {"past_end_of_life", status.past_end_of_life},
          {"problems", status.problems}};
}

Json to_json(const Plan& plan) {
  Json json{
      {"id", plan.id},           {"from", plan.from},   {"to", plan.to},          {"target", to_json(plan.target)},
      {"prelude", plan.prelude}, {"notes", plan.notes}, {"steps", Json::array()}, {"checks", Json::array()}};
  for (const Step& step : plan.steps) json["steps"].push_back(step_json(step));
  for (const PreCheck& check : plan.checks) json["checks"].push_back(check_json(check));
  return json;
}

Json to_json(const DriverRun& run) {
  Json json{{"id", run.plan.id},
            {"from", run.plan.from},
            {"to", run.plan.to},
            {"state", to_string(run.state)},
            {"started_at", run.started_at},
            {"ended_at", run.ended_at},
            {"message", run.message},
            {"steps", Json::array()}};
  for (std::size_t i = 0; i < run.plan.steps.size(); ++i) {
    const Step& step = run.plan.steps[i];
    json["steps"].push_back({{"id", step.id}, {"title", step.title}, {"state", to_string(run.steps[i])}});
  }
  return json;
}

Json history_to_json(std::span<const DriverRun> runs) {
  Json list = Json::array();
  for (const DriverRun& run : runs) list.push_back(to_json(run));
  return facts::answer({{"runs", list}});
}

}  // namespace gpuwarden::driver
