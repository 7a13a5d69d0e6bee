// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/survey.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpuwarden/doctor/json.hpp"
#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::doctor {
namespace {

Result<facts::Snapshot> snapshot_of(const MachineAnswer& answer) {
  const auto document = nlohmann::json::parse(answer.output, nullptr, false);
  if (!document.is_object()) return fail(ErrorCode::corrupt, "it sent no snapshot");
  return facts::snapshot_from_json(document);
}

}  // namespace

bool Survey::is_bad() const {
  const bool sick =
      std::ranges::any_of(examinations, [](const Examination& one) { return one.worst >= Severity::error; });
  return sick || !outliers.empty() || !not_looked_at.empty();
}

Survey survey(std::vector<MachineAnswer> answers, const knowledge::Knowledge& knowledge) {
  Survey result;
  for (MachineAnswer& answer : answers) {
    auto snapshot = snapshot_of(answer);
    if (!snapshot) {
      if (answer.problem.empty()) answer.problem = snapshot.error().message;
      result.not_looked_at.push_back(std::move(answer));
      continue;
    }
    result.examinations.push_back(examine(*snapshot, knowledge, {}, {}));
    result.machines.push_back({answer.machine, std::move(*snapshot)});
  }
  result.outliers = outliers(result.machines);
  return result;
}

nlohmann::json to_json(const Survey& survey) {
  nlohmann::json nodes = nlohmann::json::array();
  for (std::size_t i = 0; i < survey.machines.size(); ++i)
    nodes.push_back({{"node", survey.machines[i].name},
                     {"simulated", survey.machines[i].snapshot.simulated},
                     {"examination", to_json(survey.examinations[i], survey.machines[i].snapshot.simulated)}});
  nlohmann::json others = nlohmann::json::array();
  for (const MachineAnswer& one : survey.not_looked_at)
    others.push_back({{"node", one.machine}, {"reason", one.problem}});
  const bool simulated =
      std::ranges::any_of(survey.machines, [](const NamedMachine& one) { return one.snapshot.simulated; });
  return facts::answer({{"nodes", nodes}, {"outliers", to_json(survey.outliers)}, {"not_looked_at", others}},
                       simulated);
}

}  // namespace gpuwarden::doctor
