// SPDX-License-Identifier: Apache-2.0
#include "driver/journal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "driver/records.hpp"
#include "driver/words.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/driver/json.hpp"

namespace gpuwarden::driver {

using Json = nlohmann::json;

namespace {

constexpr int kJournalSchema = 1;

std::string line_of(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool flag_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

std::vector<Step> steps_of(const Json& plan) {
  std::vector<Step> steps;
  for (const Json& step : plan.value("steps", Json::array())) {
    steps.push_back({.id = text_of(step, "id"),
                     .title = text_of(step, "title"),
                     .commands = text_of(step, "commands"),
                     .check = text_of(step, "check"),
                     .undo = text_of(step, "undo"),
                     .needs_root = flag_of(step, "needs_root"),
                     .reboot = flag_of(step, "reboot")});
  }
  return steps;
}

/// What a run needs of its plan; the pre-checks were for the start alone.
Plan plan_of(const Json& json) {
  Plan plan;
  plan.id = text_of(json, "id");
  plan.from = text_of(json, "from");
  plan.to = text_of(json, "to");
  plan.prelude = text_of(json, "prelude");
  plan.steps = steps_of(json);
  for (const Json& note : json.value("notes", Json::array())) {
    if (note.is_string()) plan.notes.push_back(note.get<std::string>());
  }
  return plan;
}

std::unexpected<Error> damaged(std::string_view why) {
  return fail(ErrorCode::corrupt, fmt::format("the journal of driver runs is damaged: {}", why),
              fmt::format("look at {}/journal.jsonl; moved away, gpuwarden begins a new one", kDriverFolder));
}

Result<void> begin_run(const Json& line, const std::string& at, std::vector<DriverRun>& runs) {
  const auto plan = line.find("plan");
  if (plan == line.end() || !plan->is_object()) return damaged("a run without a plan");
  const auto steps = plan->find("steps");
  if (steps == plan->end() || !steps->is_array()) return damaged("a run without steps");
  DriverRun run;
  run.plan = plan_of(*plan);
  // It names a folder: nothing of a foreign journal may lead elsewhere.
  const bool plain = std::ranges::all_of(run.plan.id, [](char c) {
    return c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
  if (!plain) return damaged("a run whose name is not a plain word");
  if (run.plan.id.empty() || run.plan.steps.empty()) return damaged("a run without steps");
  run.started_at = run.ended_at = at;
  run.steps.assign(run.plan.steps.size(), StepState::pending);
  runs.push_back(std::move(run));
  return {};
}

Result<void> take_step(const Json& line, DriverRun& run) {
  const auto state = step_state_from(text_of(line, "state"));
  const auto found = std::ranges::find(run.plan.steps, text_of(line, "step"), &Step::id);
  if (!state || found == run.plan.steps.end()) return damaged("a step that its plan does not have");
  run.steps[static_cast<std::size_t>(found - run.plan.steps.begin())] = *state;
  if (*state == StepState::failed || *state == StepState::undo_failed) run.message = text_of(line, "message");
  return {};
}

}  // namespace

std::string begin_line(const Plan& plan, const std::string& at) {
  return line_of(
      {{"schema", kJournalSchema}, {"at", at}, {"run", plan.id}, {"event", "begin"}, {"plan", to_json(plan)}});
}

std::string step_line(const std::string& run, const std::string& at, const std::string& step, StepState state,
                      const std::string& message) {
  Json json{{"at", at}, {"run", run}, {"event", "step"}, {"step", step}, {"state", to_string(state)}};
  if (!message.empty()) json["message"] = message;
  return line_of(json);
}

std::string state_line(const std::string& run, const std::string& at, RunState state, const std::string& boot_id,
                       const std::string& message) {
  Json json{{"at", at}, {"run", run}, {"event", "state"}, {"state", to_string(state)}};
  if (!boot_id.empty()) json["boot_id"] = boot_id;
  if (!message.empty()) json["message"] = message;
  return line_of(json);
}

Result<void> take_line(std::string_view line, std::vector<DriverRun>& runs) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return damaged("a line is not JSON");
  const std::string event = text_of(json, "event");
  const std::string at = text_of(json, "at");
  if (event == "begin") return begin_run(json, at, runs);
  const std::string id = text_of(json, "run");
  const auto run = std::ranges::find_if(runs, [&](const DriverRun& one) { return one.plan.id == id; });
  if (run == runs.end()) return damaged("a line of a run that was never begun");
  run->ended_at = at;
  if (event == "step") return take_step(json, *run);
  const auto state = run_state_from(text_of(json, "state"));
  if (event != "state" || !state) return damaged("an unknown event");
  run->state = *state;
  if (json.contains("boot_id")) run->boot_id = text_of(json, "boot_id");
  return {};
}

std::size_t whole_part(std::string_view journal) {
  const std::size_t end = journal.rfind('\n');
  if (end == std::string_view::npos) return 0;
  // A block that power took away can end in anything: a last line that is not JSON was never written.
  const std::size_t before = end == 0 ? std::string_view::npos : journal.rfind('\n', end - 1);
  const std::size_t start = before == std::string_view::npos ? 0 : before + 1;
  return Json::accept(journal.substr(start, end - start)) ? end + 1 : start;
}

bool is_on_the_way_back(const DriverRun& run) {
  return run.state == RunState::rolling_back || std::ranges::any_of(run.steps, [](StepState state) {
           return state == StepState::undoing || state == StepState::undone || state == StepState::undo_failed;
         });
}

bool serves_again(const DriverRun& run) {
  static constexpr auto kSteps = std::to_array<std::string_view>({"load", "reboot", "start-services", "start-display"});
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const bool there = run.steps[i] != StepState::pending && run.steps[i] != StepState::undone;
    if (there && std::ranges::find(kSteps, run.plan.steps[i].id) != kSteps.end()) return true;
  }
  return false;
}

Result<std::vector<DriverRun>> replay(std::string_view journal) {
  std::vector<DriverRun> runs;
  std::string_view rest = journal.substr(0, whole_part(journal));
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    GPUWARDEN_CHECK(take_line(rest.substr(0, end), runs));
    rest.remove_prefix(end + 1);
  }
  return runs;
}

std::string run_id_at(Clock::WallTime now) {
  std::string id;
  for (const char c : format_utc(now)) {
    if (c >= '0' && c <= '9') id += c;
    if (id.size() == 8 && c == 'T') id += '-';
    if (id.size() == 15) break;
  }
  return id;
}

Result<std::string> new_run_id(const std::filesystem::path& root, Clock::WallTime now) {
  GPUWARDEN_TRY(const auto runs, DriverProcedure::history(root));
  const auto taken = [&](const std::string& name) {
    return std::ranges::any_of(runs, [&](const DriverRun& run) { return run.plan.id == name; });
  };
  const std::string id = run_id_at(now);
  std::string name = id;
  for (int i = 2; taken(name); ++i) name = fmt::format("{}-{}", id, i);
  return name;
}

Result<std::string> plan_run_id(const std::filesystem::path& root, Clock::WallTime now) {
  auto id = new_run_id(root, now);
  if (!id && id.error().code == ErrorCode::permission_denied) return run_id_at(now);
  return id;
}

Result<Plan> make_plan(const DriverFacts& facts, const DriverRequest& request, const knowledge::Knowledge& knowledge,
                       Clock::WallTime now) {
  GPUWARDEN_TRY(const std::string id, facts.on_paper ? run_id_at(now) : plan_run_id(facts.root, now));
  return plan_driver(facts, request, knowledge, now, id);
}

std::filesystem::path log_of(const std::filesystem::path& root, const DriverRun& run) {
  return records_folder(root) / run.plan.id / "log";
}

}  // namespace gpuwarden::driver
