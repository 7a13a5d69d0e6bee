// SPDX-License-Identifier: Apache-2.0
#include "slurm/doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/doctor/json.hpp"
#include "gpuwarden/doctor/outliers.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/slurm/survey.hpp"
#include "machine.hpp"
#include "render/columns.hpp"
#include "render/print_json.hpp"
#include "slurm/request.hpp"

namespace gpuwarden::cli {
namespace {

using doctor::Examination;
using doctor::NamedMachine;
using doctor::Outlier;
using slurm::NodeAnswer;

/// What the nodes are, those that could not be looked at, and how they compare.
struct ClusterReport {
  std::vector<NamedMachine> nodes;
  std::vector<Examination> examinations;  ///< of each of these
  std::vector<NodeAnswer> not_looked_at;
  std::vector<Outlier> outliers;
};

ClusterReport judge(std::vector<NodeAnswer> answers, const knowledge::Knowledge& knowledge) {
  ClusterReport report;
  for (NodeAnswer& answer : answers) {
    const auto document = nlohmann::json::parse(answer.output, nullptr, false);
    auto snapshot = document.is_object() ? facts::snapshot_from_json(document)
                                         : Result<facts::Snapshot>(fail(ErrorCode::corrupt, "it sent no snapshot"));
    if (!snapshot) {
      if (answer.problem.empty()) answer.problem = snapshot.error().message;
      report.not_looked_at.push_back(std::move(answer));
      continue;
    }
    report.examinations.push_back(doctor::examine(*snapshot, knowledge, {}, {}));
    report.nodes.push_back({answer.node, std::move(*snapshot)});
  }
  report.outliers = doctor::outliers(report.nodes);
  return report;
}

nlohmann::json to_json(const ClusterReport& report) {
  nlohmann::json nodes = nlohmann::json::array();
  for (std::size_t i = 0; i < report.nodes.size(); ++i)
    nodes.push_back({{"node", report.nodes[i].name},
                     {"simulated", report.nodes[i].snapshot.simulated},
                     {"examination", doctor::to_json(report.examinations[i])}});
  nlohmann::json others = nlohmann::json::array();
  for (const NodeAnswer& one : report.not_looked_at) others.push_back({{"node", one.node}, {"reason", one.problem}});
  return {{"nodes", nodes}, {"outliers", doctor::to_json(report.outliers)}, {"not_looked_at", others}};
}

std::string node_line(const NamedMachine& node, const Examination& examination) {
  const auto worth_telling = [](const doctor::Finding& one) { return one.severity >= doctor::Severity::warning; };
  const auto count = std::ranges::count_if(examination.findings, worth_telling);
  std::string text =
      fmt::format("{}{}: {} GPU{}, driver {}, {}\n", node.snapshot.simulated ? "[simulated] " : "", node.name,
                  node.snapshot.gpus.size(), node.snapshot.gpus.size() == 1 ? "" : "s",
                  printable(node.snapshot.driver_version.value_or("-")),
                  count == 0 ? "nothing wrong" : fmt::format("{} finding{}", count, count == 1 ? "" : "s"));
  for (const doctor::Finding& one : examination.findings) {
    if (worth_telling(one)) text += fmt::format("  {}: {}\n", to_string(one.severity), printable(one.title));
  }
  return text;
}

std::string text_of(const ClusterReport& report, const Style& style) {
  std::string text;
  for (std::size_t i = 0; i < report.nodes.size(); ++i) text += node_line(report.nodes[i], report.examinations[i]);
  for (const NodeAnswer& one : report.not_looked_at)
    text += fmt::format("{}: not looked at: {}\n", printable(one.node), printable(one.problem));
  if (report.nodes.size() < 2) return text;
  if (report.outliers.empty())
    return text + fmt::format("\n{} nodes compared: none stands apart\n", report.nodes.size());
  std::vector<std::vector<std::string>> rows{{"node", "what", "here", "elsewhere"}};
  for (const Outlier& one : report.outliers) rows.push_back({one.machine, one.what, one.value, one.usual});
  return text + "\nnot as the others:\n" + columns(rows, style);
}

}  // namespace

Result<int> examine_partition(const Context& context) {
  GPUWARDEN_TRY(const Style style, style_of(context));
  GPUWARDEN_TRY(const auto knowledge, open_knowledge(context));
  const auto programs = slurm::real_programs(context.environment);
  GPUWARDEN_TRY(const slurm::Site site, slurm::read_site(*programs));
  GPUWARDEN_TRY(const std::string partition, known_partition(context.args, site));
  std::vector<std::string> command{node_program(context.args), "snapshot"};
  if (const auto fleet = context.args.text("simulate")) command.push_back("--simulate=" + *fleet);
  const auto report = judge(slurm::survey(*programs, slurm::plan_survey(site, partition, command)), knowledge);
  if (context.args.has("json"))
    print_json(to_json(report));
  else
    fmt::print("{}", text_of(report, style));
  const bool bad = std::ranges::any_of(report.examinations,
                                       [](const Examination& one) { return one.worst >= doctor::Severity::error; });
  return bad || !report.outliers.empty() || !report.not_looked_at.empty() ? kNo : kFine;
}

}  // namespace gpuwarden::cli
