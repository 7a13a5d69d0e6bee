// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/logs/diagnose.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "gpuwarden/diagnosis/json.hpp"
#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/logs/findings.hpp"

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

/// What is wrong with the environment that the text tells of; what a cause says already is left out.
std::vector<doctor::Finding> judge(const Snapshot& told, const knowledge::Knowledge& knowledge,
                                   const diagnosis::Diagnosis& diagnosis) {
  std::vector<std::string> said;
  for (const doctor::ToldFinding& cause : findings_of(diagnosis))
    said.insert(said.end(), cause.same_as.begin(), cause.same_as.end());
  std::vector<doctor::Finding> findings = doctor::examine(told, knowledge).findings;
  std::erase_if(findings, [&](const doctor::Finding& finding) {
    return finding.severity < doctor::Severity::error || std::ranges::find(said, finding.id) != said.end();
  });
  return findings;
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
  if (told != nullptr && options.knowledge != nullptr)
    report.environment = judge(*told, *options.knowledge, report.diagnosis);
  report.doubtful = std::erase_if(report.diagnosis.causes, [&](const diagnosis::Cause& cause) {
    return cause.confidence < options.min_confidence;
  });
  return report;
}

Json to_json(const Report& report) {
  Json json = diagnosis::to_json(report.diagnosis);
  json["simulated"] = report.simulated;
  json["machine"] = report.machine.empty() ? Json() : Json(report.machine);
  json["environment"] = Json::array();
  for (const doctor::Finding& finding : report.environment) json["environment"].push_back(to_json(finding));
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
