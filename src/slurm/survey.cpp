// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/slurm/survey.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::slurm {
namespace {

constexpr std::chrono::minutes kSurveyPatience{10};
constexpr std::size_t kMostOutput = std::size_t{256} << 20U;
/// The task tells where it is, and goes on as what was asked for.
constexpr const char* kTellNode = "echo \"$SLURMD_NODENAME\"; exec \"$0\" \"$@\"";

std::string reason_against(const Node& node, bool constrained) {
  if (!takes_jobs(node))
    return fmt::format("it takes no jobs ({}{})", to_lower(node.state), node.reason.empty() ? "" : ": " + node.reason);
  if (node.cpus && node.cpus_used && *node.cpus_used >= *node.cpus) return "jobs use all of its CPUs";
  if (constrained && sum_of(node.used) > 0) return "jobs use some of its GPUs, and others see none of these";
  return "";
}

std::vector<std::string> srun_words(const std::vector<std::string>& nodes, const std::string& partition, int gpus,
                                    const std::vector<std::string>& command) {
  std::vector<std::string> words{"srun",
                                 "--label",
                                 "--quiet",
                                 fmt::format("--nodes={}", nodes.size()),
                                 "--nodelist=" + join(nodes, ","),
                                 "--ntasks-per-node=1",
                                 "--cpus-per-task=1",
                                 "--mem=200M",
                                 "--time=10",
                                 "--immediate=60",
                                 "--kill-on-bad-exit=0"};
  if (!partition.empty()) words.push_back("--partition=" + partition);
  if (gpus > 0) words.push_back(fmt::format("--gres=gpu:{}", gpus));
  words.insert(words.end(), {"sh", "-c", kTellNode});
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

/// A task's first line is its node.
NodeAnswer answer_of(const std::string& said, const std::string& complaint) {
  const std::size_t end = said.find('\n');
  if (end == std::string::npos) return {};
  return {.node = printable(trim(said.substr(0, end))),
          .output = said.substr(end + 1),
          .problem = printable(trim(complaint))};
}

void ask(Programs& programs, const SurveyStep& step, std::vector<NodeAnswer>& answers) {
  const auto done = programs.run({.argv = step.argv, .deadline = kSurveyPatience, .output_cap = kMostOutput});
  const auto said = parse_labelled(done ? done->standard_output : "");
  auto complaints = parse_labelled(done ? done->standard_error : "");
  std::vector<std::string> silent = step.nodes;
  for (const auto& [task, text] : said) {
    NodeAnswer answer = answer_of(text, complaints[task]);
    if (std::erase(silent, answer.node) > 0) answers.push_back(std::move(answer));
  }
  // What srun itself says has no label.
  std::string why = done ? std::string(trim(std::string_view(done->standard_error))) : done.error().message;
  if (why.empty()) why = "it did not answer";
  for (const std::string& node : silent) answers.push_back({node, "", printable(why.substr(0, why.find('\n')))});
}

}  // namespace

SurveyPlan plan_survey(const Site& site, const std::string& partition, const std::vector<std::string>& command) {
  SurveyPlan plan;
  std::map<int, std::vector<std::string>> groups;
  for (const Node& node : site.nodes) {
    const bool in = partition.empty() || std::ranges::find(node.partitions, partition) != node.partitions.end();
    if (!in) continue;
    const std::string reason = reason_against(node, site.constrains_devices);
    if (reason.empty())
      groups[site.constrains_devices ? sum_of(node.gpus) : 0].push_back(node.name);
    else
      plan.left_out.push_back({node.name, "", reason});
  }
  for (auto& [gpus, nodes] : groups)
    plan.steps.push_back({srun_words(nodes, partition, gpus, command), std::move(nodes)});
  return plan;
}

std::map<std::uint32_t, std::string> parse_labelled(std::string_view text) {
  std::map<std::uint32_t, std::string> tasks;
  for (std::string_view line : split(text, '\n')) {
    const std::size_t colon = line.find(':');
    const auto task = colon < 10 ? parse_integer(trim(line.substr(0, colon))) : std::nullopt;
    if (!task || *task < 0) continue;
    line.remove_prefix(colon + 1);
    if (line.starts_with(' ')) line.remove_prefix(1);
    tasks[static_cast<std::uint32_t>(*task)].append(line).append("\n");
  }
  return tasks;
}

std::vector<NodeAnswer> survey(Programs& programs, const SurveyPlan& plan) {
  std::vector<NodeAnswer> answers = plan.left_out;
  for (const SurveyStep& step : plan.steps) ask(programs, step, answers);
  std::ranges::sort(answers, {}, &NodeAnswer::node);
  return answers;
}

}  // namespace gpuwarden::slurm
