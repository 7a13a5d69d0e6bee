// SPDX-License-Identifier: Apache-2.0
// All that gpuwarden does, in a program of one's own: opens a machine, waits for GPUs, runs a job on them, judges the
// machine, plans a model, diagnoses logs. Prints one JSON document.
//     whole real|FLEET|CAPTURE LOGS -- PROGRAM [ARGUMENT...]
#include <chrono>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "gpuwarden/doctor/json.hpp"
#include "gpuwarden/launch/run.hpp"
#include "gpuwarden/logs/captures.hpp"
#include "gpuwarden/logs/diagnose.hpp"
#include "gpuwarden/machine/reserve.hpp"
#include "gpuwarden/planning/catalog.hpp"
#include "gpuwarden/planning/json.hpp"

using namespace gpuwarden;

namespace {

Result<machine::Machine> open_machine(const std::string& what) {
  const machine::Options options = machine::options_from(current_environment());
  if (what == "real") return machine::Machine::open(machine::Real{}, options);
  if (!std::filesystem::exists(what)) return machine::Machine::open(machine::Simulated{what}, options);
  GPUWARDEN_TRY(auto capture, logs::read_captures({what}));
  return machine::Machine::open(machine::Captured{std::move(capture.snapshot), what}, options);
}

/// Two GPUs, for which it waits in line for a minute, and the program on them.
Result<nlohmann::json> run(const machine::Machine& machine, std::vector<std::string> argv,
                           const std::stop_token& stop) {
  GPUWARDEN_TRY(const auto plan, launch::plan_run({.argv = std::move(argv), .environment = current_environment()}));
  machine::ReservationRequest wanted{.gpus = {.count = 2}, .wait = std::chrono::minutes(1)};
  launch::complete(plan, wanted.gpus);
  GPUWARDEN_TRY(const auto gpus, machine::reserve(machine, wanted, {.run_id = plan.job.run_id, .command = "whole"},
                                                  system_clock(), stop));
  const auto job = launch::ready(plan, machine, gpus.decision(), gpus.snapshot(), gpus.descriptors());
  GPUWARDEN_TRY(const auto report, launch::run(job, machine, {}, system_clock()));
  return launch::to_json(report);
}

Result<nlohmann::json> judge(const machine::Machine& machine, const facts::Snapshot& facts) {
  GPUWARDEN_TRY(const auto knowledge, machine.knowledge());
  return doctor::to_json(doctor::MachineReport{doctor::examine(facts, knowledge), facts, {}});
}

Result<nlohmann::json> plan(const facts::Snapshot& facts) {
  GPUWARDEN_TRY(const auto model, planning::find_model("llama-3.1-8b"));
  GPUWARDEN_TRY(const auto settings, planning::settings_for(model, "lora"));
  GPUWARDEN_TRY(const auto gpus, planning::gpus_of(facts));
  GPUWARDEN_TRY(const auto answer, planning::answer({.work = {.model = model, .settings = settings}, .gpus = gpus}));
  return planning::to_json(answer, {.simulated = facts.simulated, .gpus_from = "this machine"});
}

nlohmann::json shown(const Result<nlohmann::json>& answer) {
  return answer ? *answer : nlohmann::json{{"error", answer.error().message}, {"hint", answer.error().hint}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const auto machine = open_machine(argv[1]);
  if (!machine) return std::cerr << machine.error().message << '\n', 1;
  const facts::Snapshot facts = machine->survey({});
  const std::stop_source stop;  // request_stop() from a signal or another thread ends the waiting
  const nlohmann::json document{{"run", shown(run(*machine, {argv + 4, argv + argc}, stop.get_token()))},
                                {"doctor", shown(judge(*machine, facts))},
                                {"plan", shown(plan(facts))},
                                {"diagnosis", logs::to_json(logs::diagnose({argv[2]}))}};
  std::cout << document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  return document["run"].contains("error") ? 1 : 0;
}
