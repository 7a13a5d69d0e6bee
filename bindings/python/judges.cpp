// SPDX-License-Identifier: Apache-2.0
// Judging: doctor, compat, plan, diagnose, replay.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/compat/json.hpp"
#include "gpuwarden/doctor/json.hpp"
#include "gpuwarden/doctor/request.hpp"
#include "gpuwarden/doctor/site_purpose.hpp"
#include "gpuwarden/knowledge/overlays.hpp"
#include "gpuwarden/knowledge/site_rules.hpp"
#include "gpuwarden/logs/diagnose.hpp"
#include "gpuwarden/manager/models.hpp"
#include "gpuwarden/memory/strategy.hpp"
#include "gpuwarden/memtrace/json.hpp"
#include "gpuwarden/memtrace/read.hpp"
#include "gpuwarden/memtrace/steps.hpp"
#include "gpuwarden/planning/catalog_list.hpp"
#include "gpuwarden/planning/json.hpp"
#include "gpuwarden/planning/words.hpp"
#include "support/open_machine.hpp"
#include "support/selection.hpp"

namespace gpuwarden::python {

void bind_judges(nb::module_& module);

namespace {

using machine::Machine;
using nlohmann::json;
using MachinePtr = std::shared_ptr<const Machine>;

MachinePtr share(const OpenMachine* machine) { return machine == nullptr ? nullptr : machine->share(); }

facts::Snapshot look_at(const Machine& machine, const json& options, const std::stop_token& stop) {
  return machine.survey({.root = option_or(options, "root", "/"),
                         .software = option_or(options, "software", true),
                         .start_pythons = option_or(options, "ask_pythons", false)},
                        {.detail = probe::Detail::full, .links = true, .holders = true, .stop = stop});
}

std::string doctor(const OpenMachine& self, const std::string& text) {
  const json options = read_options(text);
  const auto machine = self.share();
  return json_text(unwrap(interruptible([&](const std::stop_token& stop) -> Result<json> {
    GPUWARDEN_TRY(const auto knowledge, machine->knowledge());
    NamedValues asked;
    for (const char* list : {"only", "skip"}) asked.set(list, option_or(options, list, std::vector<std::string>{}));
    if (options.contains("purpose")) asked.set("for", {option<std::string>(options, "purpose")});
    GPUWARDEN_TRY(const auto request, doctor::read_request(asked, knowledge));
    const facts::Snapshot snapshot = look_at(*machine, options, stop);
    const auto examination = doctor::examine(snapshot, knowledge, request.purpose, request.choice);
    return doctor::to_json(doctor::MachineReport{examination, snapshot, request.purpose});
  })));
}

Result<compat::Question> question_of(const std::string& text, const json& options, const knowledge::Knowledge& known) {
  compat::Question question;
  if (options.contains("cuda")) {
    GPUWARDEN_TRY(question.cuda, compat::parse_cuda(option<std::string>(options, "cuda")));
    question.kind = "cuda";
  } else if (options.contains("purpose")) {
    GPUWARDEN_TRY(doctor::Purpose purpose, doctor::read_purpose(option<std::string>(options, "purpose"), known));
    question = compat::question_of(std::move(purpose));
  } else if (!text.empty()) {
    GPUWARDEN_TRY(question, compat::parse_question(known, text));
  }
  question.text = text;
  if (option_or(options, "matrix", false)) {
    question.matrix = true;
    question.kind = "matrix";
  }
  return question;
}

/// The GPUs and the driver that are named, else those of the machine.
Result<compat::Place> place_of(const Machine* machine, const json& options, const knowledge::Knowledge& known) {
  compat::Place place{.gpus = {}, .driver = {}, .origin = "what was named"};
  if (machine != nullptr) {
    place = compat::place_of(machine->read(), known);
    place.captured = machine->captured().has_value();
  }
  if (options.contains("gpus")) {
    GPUWARDEN_TRY(place.gpus, compat::gpus_named(words_of(options["gpus"]), known));
    place.named = true;
    place.machine.clear();
  }
  if (!options.contains("driver")) return place;
  place.driver = knowledge::Version::parse(option<std::string>(options, "driver"));
  if (!place.driver)
    return fail(ErrorCode::invalid_argument,
                "driver: '" + option<std::string>(options, "driver") + "' is not a driver version",
                "for example 550.54.15");
  return place;
}

std::string compat(const OpenMachine* self, const std::string& text, const std::string& given) {
  const json options = read_options(given);
  const auto machine = share(self);
  return json_text(unwrap(interruptible([&](const std::stop_token&) -> Result<json> {
    GPUWARDEN_TRY(const auto known, machine
                                        ? machine->knowledge()
                                        : knowledge::read_knowledge(knowledge::overlay_files(current_environment())));
    GPUWARDEN_TRY(const auto question, question_of(text, options, known));
    const bool named = options.contains("gpus") || options.contains("driver");
    GPUWARDEN_TRY(const auto place,
                  place_of(named || !question.is_about_here() ? nullptr : machine.get(), options, known));
    const compat::Asked asked{known, place, std::chrono::system_clock::now()};
    GPUWARDEN_TRY(const auto answer, compat::answer(asked, question));
    return compat::to_json(asked, question, answer);
  })));
}

Result<planning::PlanRequest> plan_request(const std::string& name, const json& options, const Machine* machine,
                                           planning::PlanOrigin& origin) {
  static const std::vector<std::string> kAmounts{"tokens",        "mfu",  "calibrate", "gpus",
                                                 "gpus_per_node", "cpus", "params"};
  planning::PlanRequest request;
  const planning::Words amounts = workload_words(options, {"gpus", "gpus_per_node", "cpus"});
  planning::ModelShape model;
  if (name.empty()) {
    GPUWARDEN_TRY(model, planning::sized_model(amounts, "params"));
  } else {
    GPUWARDEN_TRY(model, manager::load_model(name, option_or(options, "family", "")));
  }
  GPUWARDEN_TRY(request.work, planning::workload_from(std::move(model), workload_words(options, kAmounts), "train"));
  GPUWARDEN_TRY(request.train_tokens, planning::read_tokens(amounts, "tokens"));
  GPUWARDEN_TRY(request.mfu, planning::read_share(amounts, "mfu"));
  GPUWARDEN_TRY(request.measured, planning::read_peaks(amounts, "calibrate"));
  request.cpus = option_or(options, "cpus", 0U);
  request.gpus_per_node = std::max(1U, option_or(options, "gpus_per_node", 8U));
  if (options.contains("gpus")) {
    origin.gpus_from = "gpus";
    GPUWARDEN_TRY(request.gpus, planning::gpus_named(option<std::string>(options, "gpus")));
    return request;
  }
  if (machine == nullptr) return fail(ErrorCode::invalid_argument, "no GPUs are given", "gpus=\"8xh100\"");
  const facts::Snapshot snapshot = machine->read();
  origin.simulated = snapshot.simulated;
  origin.gpus_from = machine->captured()  ? machine->capture_name()
                     : snapshot.simulated ? "simulated fleet"
                                          : "this machine";
  auto group = planning::gpus_of(snapshot);
  if (!group) return fail(ErrorCode::unavailable, group.error().message, group.error().hint);
  request.gpus = std::move(*group);
  origin.gpu_notes = planning::gpus_left_unsaid(snapshot, request.gpus);
  return request;
}

std::string plan(const OpenMachine* self, const std::string& model, const std::string& given) {
  const json options = read_options(given);
  const auto machine = share(self);
  return json_text(unwrap(interruptible([&](const std::stop_token&) -> Result<json> {
    planning::PlanOrigin origin;
    GPUWARDEN_TRY(auto request, plan_request(model, options, machine.get(), origin));
    GPUWARDEN_TRY(const auto answer, planning::answer(std::move(request)));
    return planning::to_json(answer, origin);
  })));
}

std::string diagnose(const OpenMachine* self, const std::vector<std::string>& paths,
                     std::optional<double> min_confidence) {
  const auto machine = share(self);
  return json_text(unwrap(interruptible([&](const std::stop_token& stop) -> Result<json> {
    std::optional<facts::Snapshot> snapshot;
    if (machine) snapshot = look_at(*machine, json::object(), stop);
    const auto report = logs::diagnose(paths, {snapshot ? &*snapshot : nullptr, min_confidence});
    if (report.logs.files.empty() && !report.logs.problems.empty())
      return std::unexpected(report.logs.problems.front());
    return logs::to_json(report);
  })));
}

Result<json> replay_trace(const std::string& file, const json& options) {
  constexpr std::size_t kLargest = std::size_t{16} << 30U;
  GPUWARDEN_TRY(const std::string content, read_file(file, kLargest));
  GPUWARDEN_TRY(const auto trace, memtrace::read_trace(content, printable(file)));
  memtrace::StepRequest wanted{.repeat = std::max(1U, option_or(options, "repeat", 1U)),
                               .tokens = option_or(options, "tokens", 0U)};
  GPUWARDEN_TRY(const auto steps, memtrace::steps_of(trace, wanted));
  const auto script = memtrace::make_script(trace, steps);
  memtrace::ReplayReport report{.file = file, .trace = trace, .device_memory = 80_GiB, .steps = steps};
  if (options.contains("device_memory")) {
    GPUWARDEN_TRY(report.device_memory, parse_size(words_of(options["device_memory"]).at(0)));
  }
  const std::string name = option_or(options, "strategy", "balanced");
  for (const memory::Strategy& strategy : memory::strategies()) {
    if (name != "all" && name != strategy.name) continue;
    GPUWARDEN_TRY(auto one, memtrace::replay(
                                script, {.strategy = &strategy, .device_memory = report.device_memory, .rounds = 1}));
    report.replays.push_back(std::move(one));
  }
  if (report.replays.empty())
    return fail(ErrorCode::invalid_argument, "unknown strategy '" + printable(name) + "'",
                "balanced, steady, greedy, consolidated, fragmentation_aware or all");
  return memtrace::to_json(report);
}

std::string replay(const std::string& file, const std::string& text) {
  const json options = read_options(text);
  return json_text(unwrap(interruptible([&](const std::stop_token&) { return replay_trace(file, options); })));
}

}  // namespace

void bind_judges(nb::module_& module) {
  module.def("doctor", &doctor, nb::arg("machine"), nb::arg("options"));
  module.def("compat", &compat, nb::arg("machine").none(), nb::arg("question"), nb::arg("options"));
  module.def("plan", &plan, nb::arg("machine").none(), nb::arg("model"), nb::arg("options"));
  module.def("models", [] { return json_text(planning::to_json(unwrap(planning::list_catalog()))); });
  module.def("diagnose", &diagnose, nb::arg("machine").none(), nb::arg("paths"), nb::arg("min_confidence").none());
  module.def("replay", &replay, nb::arg("trace"), nb::arg("options"));
}

}  // namespace gpuwarden::python
