// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/logs/diagnose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/diagnosis/json.hpp"
#include "gpuwarden/diagnosis/overview.hpp"
#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/knowledge/platform_steps.hpp"
#include "gpuwarden/logs/findings.hpp"
#include "gpuwarden/logs/recognise.hpp"

namespace gpuwarden::logs {
namespace {

using facts::Snapshot;
using Json = nlohmann::json;

/// "SIMULATED h100x8", "FROM smi.txt: smi_table", "node1".
std::string name_of(const Snapshot& machine) {
  if (machine.simulated) return "SIMULATED " + machine.fleet;
  if (!machine.origin.empty()) return "FROM " + machine.origin;
  return machine.host.empty() ? "this machine" : machine.host;
}

/// "pip install ...", "sudo apt install ...": what the doctor has worked out for the machine in the text.
bool is_installation(const std::string& step) {
  return doctor::is_command(step) && (step.contains(" install ") || step.contains(" -S "));
}

/// The commands for this machine before the general advice.
void take_commands(const doctor::Finding& finding, diagnosis::Cause& cause) {
  std::vector<std::string> commands;
  for (const std::string& step : finding.fix) {
    if (is_installation(step) && std::ranges::find(cause.fix, step) == cause.fix.end()) commands.push_back(step);
  }
  cause.fix.insert(cause.fix.begin(), commands.begin(), commands.end());
}

bool has_torch(const Snapshot& machine) {
  return machine.environment &&
         std::ranges::any_of(machine.environment->pythons, [](const facts::PythonEnvironment& python) {
           return facts::find_package(python, "torch") != nullptr;
         });
}

/// What is wrong with the environment that the text tells of; what a cause says already goes into that cause.
std::vector<doctor::Finding> judge(const Snapshot& told, const knowledge::Knowledge& knowledge,
                                   diagnosis::Diagnosis& diagnosis) {
  Snapshot machine = told;
  take_platform(diagnosis.platform, machine);
  std::vector<doctor::Finding> findings = doctor::examine(machine, knowledge).findings;
  std::erase_if(findings, [](const doctor::Finding& finding) { return finding.severity < doctor::Severity::error; });
  // Somebody asked whether CUDA is there: what failed with an error of its own is told by that.
  if (diagnosis.ordinary)
    std::erase_if(findings, [](const doctor::Finding& finding) { return finding.id == "reported-not-available"; });
  const bool without_torch = diagnosis.without_torch && !has_torch(machine);
  for (doctor::Finding& finding : findings) {
    finding.fix = knowledge::steps_on(diagnosis.platform, finding.fix);
    if (without_torch) diagnosis::leave_out_torch(finding.fix);
  }
  std::vector<std::string> taken;
  for (diagnosis::Cause& cause : diagnosis.causes) {
    // What the facts prove is not made less of by a guess. A sure cause is an error at least, and says why it is so:
    // that a container lost its devices tells more than NVML's critical "Unknown Error" does.
    if (severity_of(diagnosis, cause) < doctor::Severity::error) continue;
    for (const std::string& id : checks_like(cause.id)) {
      const auto same = std::ranges::find(findings, id, &doctor::Finding::id);
      if (same == findings.end() || std::ranges::find(taken, id) != taken.end()) continue;
      take_commands(*same, cause);
      taken.push_back(id);
    }
  }
  std::erase_if(findings,
                [&](const doctor::Finding& finding) { return std::ranges::find(taken, finding.id) != taken.end(); });
  return findings;
}

/// How many causes were too doubtful. They stand likeliest first, so that it is the last ones.
std::size_t leave_out(diagnosis::Diagnosis& diagnosis, std::optional<double> min_confidence) {
  const auto first = std::ranges::find_if(diagnosis.causes, [&](const diagnosis::Cause& cause) {
    return min_confidence ? cause.confidence < *min_confidence : weight_among(diagnosis, cause) < kLeastWeight;
  });
  const auto count = static_cast<std::size_t>(diagnosis.causes.end() - first);
  diagnosis.causes.erase(first, diagnosis.causes.end());
  return count;
}

/// A finding goes before the first cause that is less bad: what the facts prove to be broken explains what follows.
std::vector<Answer> rank(const Report& report) {
  std::vector<Answer> answers;
  std::size_t next = 0;
  const auto& findings = report.environment;
  for (std::size_t i = 0; i < report.diagnosis.causes.size(); ++i) {
    const doctor::Severity own = severity_of(report.diagnosis, report.diagnosis.causes[i]);
    for (; next < findings.size() && findings[next].severity > own; ++next) answers.push_back({false, next});
    answers.push_back({true, i});
  }
  for (; next < findings.size(); ++next) answers.push_back({false, next});
  return answers;
}

Json to_json(const doctor::Finding& finding) {
  return {{"id", finding.id},       {"severity", doctor::to_string(finding.severity)},
          {"title", finding.title}, {"why", finding.why},
          {"fix", finding.fix},     {"link", finding.link}};
}

Json to_json(const LogRead& file) {
  return {{"file", file.name},
          {"rank", file.rank ? Json(*file.rank) : Json()},
          {"lines", file.lines},
          {"bytes", file.bytes}};
}

}  // namespace

Report diagnose(const std::vector<std::string>& paths, const Options& options) {
  const LogFiles files = find_logs(paths);
  Report report{.logs = read_logs(files), .diagnosis = {}, .environment = {}, .machine = ""};
  report.logs.problems.insert(report.logs.problems.begin(), files.problems.begin(), files.problems.end());
  const Snapshot* told = report.logs.machine ? &report.logs.machine->snapshot : nullptr;
  report.diagnosis = diagnosis::diagnose(report.logs.reading, options.machine, told);
  // What is simulated says so, even where only a bundle among the logs is.
  const Snapshot* simulated = told != nullptr && told->simulated ? told : nullptr;
  if (const Snapshot* machine = options.machine != nullptr ? options.machine : simulated) {
    report.machine = name_of(*machine);
    report.simulated = machine->simulated;
  }
  // Before the environment is judged: a cause that is not told must not take a finding with it.
  report.doubtful = leave_out(report.diagnosis, options.min_confidence);
  if (told != nullptr && options.knowledge != nullptr)
    report.environment = judge(*told, *options.knowledge, report.diagnosis);
  report.answers = rank(report);
  return report;
}

Report report_of(diagnosis::Diagnosis diagnosis) {
  Report report{.logs = {}, .diagnosis = std::move(diagnosis), .environment = {}, .machine = ""};
  report.answers = rank(report);
  return report;
}

bool shows_failure(const Report& report) {
  return !report.diagnosis.causes.empty() || report.diagnosis.only_consequences || !report.environment.empty();
}

Result<double> parse_confidence(std::string_view text) {
  const auto number = parse_number(text);
  if (number && *number >= 0 && *number <= 1) return *number;
  return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a confidence", printable(text)),
              "a number from 0 to 1, for example 0.5");
}

Json to_json(const Report& report) {
  Json json = diagnosis::to_json(report.diagnosis);
  json["simulated"] = report.simulated;
  json["machine"] = report.machine.empty() ? Json() : Json(report.machine);
  json["environment"] = Json::array();
  for (const doctor::Finding& finding : report.environment) json["environment"].push_back(to_json(finding));
  json["answers"] = Json::array();
  for (const Answer& answer : report.answers) {
    const auto& causes = report.diagnosis.causes;
    if (answer.is_cause && answer.index >= causes.size()) continue;
    json["answers"].push_back(
        {{"kind", answer.is_cause ? "cause" : "environment"},
         {"id", answer.is_cause ? causes[answer.index].id : report.environment[answer.index].id}});
  }
  json["files"] = Json::array();
  for (const LogRead& file : report.logs.files) json["files"].push_back(to_json(file));
  json["not_read"] = Json::array();
  for (const auto* errors : {&report.logs.problems, &report.logs.skipped}) {
    for (const Error& error : *errors) json["not_read"].push_back(error.message);
  }
  json["events_dropped"] = report.logs.reading.dropped;
  return json;
}

}  // namespace gpuwarden::logs
