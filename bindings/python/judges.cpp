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
#include "gpuwarden/knowledge/overlays.hpp"
#include "gpuwarden/knowledge/site_rules.hpp"
#include "gpuwarden/logs/diagnose.hpp"
#include "gpuwarden/logs/unpack.hpp"
#include "gpuwarden/machine/compat_place.hpp"
#include "gpuwarden/machine/examine.hpp"
#include "gpuwarden/manager/plan_question.hpp"
#include "gpuwarden/memtrace/json.hpp"
#include "gpuwarden/memtrace/read.hpp"
#include "gpuwarden/memtrace/report.hpp"
#include "gpuwarden/memtrace/steps.hpp"
#include "gpuwarden/planning/catalog_list.hpp"
#include "gpuwarden/planning/json.hpp"
#include "gpuwarden/planning/pasted_line.hpp"
#include "gpuwarden/planning/words.hpp"
#include "support/arguments.hpp"
#include "support/open_machine.hpp"

namespace gpuwarden::python {

void bind_judges(nb::module_& module);

namespace {

using machine::Machine;
using nlohmann::json;
using MachinePtr = std::shared_ptr<const Machine>;

MachinePtr share(const OpenMachine* machine) { return machine == nullptr ? nullptr : machine->share(); }

facts::Snapshot look_at(const Machine& machine, const json& options, const std::stop_token& stop) {
  return machine.survey(survey_options(options),
                        {.detail = probe::Detail::full, .links = true, .holders = true, .stop = stop});
}

std::string doctor(const OpenMachine& self, const std::string& text) {
  const json options = read_options(text);
  const auto machine = self.share_any();
  return json_text(unwrap(interruptible([&](const std::stop_token& stop) -> Result<json> {
    GPUWARDEN_TRY(const auto knowledge, machine->knowledge());
    NamedValues asked;
    for (const char* list : {"only", "skip"}) asked.set(list, option_or(options, list, std::vector<std::string>{}));
    if (options.contains("purpose")) asked.set("for", {option<std::string>(options, "purpose")});
    if (options.contains("expect")) asked.set("expect", {option<std::string>(options, "expect")});
    GPUWARDEN_TRY(const auto request, machine::read_examination(asked, knowledge));
    GPUWARDEN_TRY(auto patient, self.patient(machine));
    GPUWARDEN_TRY(const auto done,
                  machine::examine(*patient.machine, knowledge, request,
                                   {.survey = survey_options(options), .told = std::move(patient.told), .stop = stop}));
    return doctor::to_json(machine::report_of(done, request));
  })));
}

std::optional<std::string> text_option(const json& options, const char* key) {
  return options.contains(key) ? std::optional(option<std::string>(options, key)) : std::nullopt;
}

std::string compat(const OpenMachine* self, const std::string& text, const std::string& given) {
  const json options = read_options(given);
  const auto machine = share(self);
  return json_text(unwrap(interruptible([&](const std::stop_token&) -> Result<json> {
    GPUWARDEN_TRY(const auto known, machine
                                        ? machine->knowledge()
                                        : knowledge::read_knowledge(knowledge::overlay_files(current_environment())));
    compat::Inquiry inquiry{.text = text,
                            .cuda = text_option(options, "cuda"),
                            .purpose = text_option(options, "purpose"),
                            .matrix = option_or(options, "matrix", false),
                            .gpus = options.contains("gpus") ? words_of(options["gpus"]) : std::vector<std::string>{},
                            .driver = text_option(options, "driver")};
    GPUWARDEN_TRY(const auto question, compat::read_question(inquiry, known));
    const bool told = machine != nullptr && (machine->captured() || machine->simulated());
    const bool counts = machine != nullptr && machine::counts_for(inquiry, question, told);
    GPUWARDEN_TRY(compat::Place place, machine::place_for(inquiry, counts ? machine.get() : nullptr, known));
    if (inquiry.driver) compat::take_branch_for_serving(place);
    NamedValues dates;
    if (options.contains("on")) dates.set("on", {option<std::string>(options, "on")});
    GPUWARDEN_TRY(const auto day, read_option(dates, "on", compat::parse_date));
    const compat::Asked asked{known, place, day.value_or(std::chrono::system_clock::now())};
    GPUWARDEN_TRY(const auto answer, compat::answer(asked, question));
    return compat::to_json(asked, question, answer);
  })));
}

/// The keywords as words; behind them what the line in `command` says.
Result<planning::Words> plan_words(const std::string& model, json options) {
  // Their types, so that what is wrong is told of the keyword.
  option_or(options, "gpus", "");
  option_or(options, "cpus", 0U);
  option_or(options, "gpus_per_node", 8U);
  const std::string line = option_or(options, "command", "");
  options.erase("command");
  planning::Words words = workload_words(options);
  if (!model.empty()) words.set("model", {model});
  if (line.empty()) return words;
  GPUWARDEN_TRY(const auto pasted, planning::read_pasted_line(line));
  for (const std::string& name : pasted.words.names()) {
    if (!words.has(name)) words.set(name, pasted.words.list(name));
  }
  return words;
}

std::string plan(const OpenMachine* self, const std::string& model, const std::string& given) {
  const json options = read_options(given);
  const auto machine = share(self);
  auto answer = interruptible([&](const std::stop_token&) -> Result<json> {
    GPUWARDEN_TRY(const auto words, plan_words(model, options));
    GPUWARDEN_TRY(auto question, manager::read_plan_question(words, manager::model_downloads(current_environment())));
    if (!words.has("gpus")) {
      if (machine == nullptr) return fail(ErrorCode::invalid_argument, "no GPUs are given", "gpus=\"8xh100\"");
      GPUWARDEN_CHECK(manager::plan_for(*machine, question));
    }
    GPUWARDEN_TRY(const auto answer, planning::answer(std::move(question.request)));
    return planning::to_json(answer, question.origin);
  });
  // Of a line of another program's the words stay as they stand there.
  return json_text(unwrap(options.contains("command") ? std::move(answer) : Arguments().told(std::move(answer))));
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
  GPUWARDEN_TRY(const auto strategies, memory::strategies_named(option_or(options, "strategy", "balanced")));
  Bytes device_memory = 80_GiB;
  if (options.contains("device_memory")) {
    GPUWARDEN_TRY(device_memory, size_argument("device_memory", options["device_memory"]));
  }
  GPUWARDEN_TRY(std::string content, read_file(file, kLargest));
  GPUWARDEN_TRY(content, logs::unpack_one(std::move(content), printable(file)));
  GPUWARDEN_TRY(const auto trace, memtrace::read_trace(content, printable(file)));
  GPUWARDEN_TRY(auto steps, memtrace::steps_of(trace, {.repeat = std::max(1U, option_or(options, "repeat", 1U)),
                                                       .tokens = option_or(options, "tokens", 0U)}));
  GPUWARDEN_TRY(const auto report, memtrace::replay_all(file, trace, std::move(steps), strategies, device_memory));
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
