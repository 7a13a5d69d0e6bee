// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/logs/diagnose.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "gpuwarden/diagnosis/json.hpp"

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

Json to_json(const LogRead& file) {
  return {{"file", file.name},
          {"rank", file.rank ? Json(*file.rank) : Json()},
          {"lines", file.lines},
          {"bytes", file.bytes}};
}

}  // namespace

Report diagnose(const std::vector<std::string>& paths, const Options& options) {
  const LogFiles files = find_logs(paths);
  Report report{.logs = read_logs(files), .diagnosis = {}, .machine = ""};
  report.logs.problems.insert(report.logs.problems.begin(), files.problems.begin(), files.problems.end());
  const Snapshot* told = report.logs.machine ? &report.logs.machine->snapshot : nullptr;
  report.diagnosis = diagnosis::diagnose(report.logs.reading, options.machine, told);
  // What is simulated says so, even where only a bundle among the logs is.
  const Snapshot* simulated = told != nullptr && told->simulated ? told : nullptr;
  if (const Snapshot* machine = options.machine != nullptr ? options.machine : simulated) {
    report.machine = name_of(*machine);
    report.simulated = machine->simulated;
  }
  report.doubtful = std::erase_if(report.diagnosis.causes, [&](const diagnosis::Cause& cause) {
    return cause.confidence < options.min_confidence;
  });
  return report;
}

Json to_json(const Report& report) {
  Json json = diagnosis::to_json(report.diagnosis);
  json["simulated"] = report.simulated;
  json["machine"] = report.machine.empty() ? Json() : Json(report.machine);
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
