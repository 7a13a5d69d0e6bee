// SPDX-License-Identifier: Apache-2.0
#include "slurm/doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/doctor/survey.hpp"
#include "machine.hpp"
#include "render/columns.hpp"
#include "render/print_json.hpp"
#include "slurm/request.hpp"

namespace gpuwarden::cli {
namespace {

using doctor::Examination;
using doctor::NamedMachine;
using doctor::Outlier;

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

std::string text_of(const doctor::Survey& report, const Style& style) {
  std::string text;
  for (std::size_t i = 0; i < report.machines.size(); ++i)
    text += node_line(report.machines[i], report.examinations[i]);
  for (const doctor::MachineAnswer& one : report.not_looked_at)
    text += fmt::format("{}: not looked at: {}\n", printable(one.machine), printable(one.problem));
  if (report.machines.size() < 2) return text;
  if (report.outliers.empty())
    return text + fmt::format("\n{} nodes compared: none stands apart\n", report.machines.size());
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
  GPUWARDEN_TRY(const std::string partition, jobs::known_partition(context.args.text("partition").value_or(""), site));
  std::vector<std::string> command{node_program(context.args), "snapshot"};
  if (const auto fleet = context.args.text("simulate")) command.push_back("--simulate=" + *fleet);
  const auto report = jobs::examine_nodes(*programs, site, partition, command, knowledge);
  if (context.args.has("json"))
    print_json(doctor::to_json(report));
  else
    fmt::print("{}", text_of(report, style));
  return report.is_bad() ? kNo : kFine;
}

}  // namespace gpuwarden::cli
