// SPDX-License-Identifier: Apache-2.0
// Slurm: what it granted this job, what it believes of this node, and which nodes it has lost.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/groups.hpp"
#include "doctor/queries.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

namespace {

void gpus_not_constrained(const Subject& subject, Report& report) {
  const auto& slurm = subject.environment.slurm;
  if (!slurm || slurm->constrain_devices != false || nvidia_gpus(subject).empty()) return;
  report.say("Slurm does not keep jobs from each other's GPUs (ConstrainDevices=no)",
             {"echo 'ConstrainDevices=yes' | sudo tee -a /etc/slurm/cgroup.conf", "sudo systemctl restart slurmd"});
}

void job_without_gpus(const Subject& subject, Report& report) {
  const auto& slurm = subject.environment.slurm;
  if (!slurm || !slurm->job_id || !slurm->granted_gpus.empty() || nvidia_gpus(subject).empty()) return;
  report.say(fmt::format("Slurm job {} was granted no GPU, though the node has {}", *slurm->job_id,
                         nvidia_gpus(subject).size()),
             {"sbatch --gpus=1 ...", "srun --gpus=1 ..."});
}

void job_sees_more(const Subject& subject, Report& report) {
  const auto& slurm = subject.environment.slurm;
  if (!slurm || !slurm->job_id || slurm->granted_gpus.empty()) return;
  const auto* mask = facts::find_variable(subject.environment, "CUDA_VISIBLE_DEVICES");
  if (mask == nullptr || trim(*mask).empty()) return;
  const std::size_t seen = split(*mask, ',').size();
  if (seen <= slurm->granted_gpus.size()) return;
  report.say(fmt::format("CUDA_VISIBLE_DEVICES names {} GPUs, Slurm granted {} to job {}", seen,
                         slurm->granted_gpus.size(), *slurm->job_id),
             {"[@nvidia] leave CUDA_VISIBLE_DEVICES as Slurm set it"});
}

void fewer_than_requested(const Subject& subject, Report& report) {
  const auto& slurm = subject.environment.slurm;
  if (!slurm || !slurm->gpus_requested || nvidia_gpus(subject).empty()) return;
  const auto seen = static_cast<int>(nvidia_gpus(subject).size());
  if (*slurm->gpus_requested <= seen || !slurm->job_id) return;
  report.say(
      fmt::format("job {} asked for {} GPUs on this node and sees {}", *slurm->job_id, *slurm->gpus_requested, seen),
      {"scontrol show node $(hostname)   # a GPU may be drained or lost", "gpuwarden list"});
}

/// "gpu:a100:4(S:0-1)" is 4.
int gres_count(std::string_view gres) {
  gres = gres.substr(0, gres.find('('));
  const std::size_t colon = gres.rfind(':');
  const auto number = colon == std::string_view::npos ? std::nullopt : parse_integer(gres.substr(colon + 1));
  return number && *number > 0 && *number < 1024 ? static_cast<int>(*number) : 0;
}

void gres_differs(const Subject& subject, Report& report) {
  const auto& slurm = subject.environment.slurm;
  if (!slurm || slurm->job_id || slurm->gres.empty() || nvidia_gpus(subject).empty()) return;
  int configured = 0;
  for (const auto& gres : slurm->gres) configured += gres.starts_with("gpu") ? gres_count(gres) : 0;
  std::size_t present = 0;
  for (const auto* gpu : nvidia_gpus(subject)) present += gpu->mig_devices.empty() ? 1 : gpu->mig_devices.size();
  if (configured == 0 || static_cast<std::size_t>(configured) == present) return;
  report.say(fmt::format("Slurm's configuration gives this node {} GPUs, it has {}", configured, present),
             {"correct Gres= in slurm.conf and gres.conf (AutoDetect=nvml)", "sudo scontrol reconfigure"});
}

/// How a node's state keeps it from work; the worst stands first.
struct NodeTrouble {
  std::string_view words;  ///< states and flags of sinfo(1), in short and long form
  std::string_view says;
};
constexpr auto kNodeTroubles = std::to_array<NodeTrouble>({
    {"down error inval invalid_reg", "down"},
    {"fail failing failg", "failing"},
    {"drain drained draining drng", "drained"},
    {"no_respond not_responding", "not responding"},
});
/// source: sinfo(1), NODE STATE CODES: '*' behind a state says that the node does not respond.
constexpr char kNotResponding = '*';

/// "drained" of "IDLE+DRAIN", "down" of "down*"; empty where the node works, or is to come back by itself (powered
/// down, rebooting, under maintenance).
std::string_view trouble_of(const facts::SlurmNode& node) {
  std::vector<std::string> words;
  for (const auto part : split(node.state, '+')) {
    const std::string_view word = part.substr(0, part.find_first_of("*~#!%$@^-"));
    if (part.contains(kNotResponding)) words.emplace_back("no_respond");
    words.push_back(to_lower(word));
  }
  const auto has = [&](std::string_view list) {
    return std::ranges::any_of(split_words(list),
                               [&](std::string_view one) { return std::ranges::find(words, one) != words.end(); });
  };
  // '$' is a reservation for maintenance.
  if (has("maint maintenance") || node.state.contains('$')) return "";
  const auto* const found = std::ranges::find_if(kNodeTroubles, [&](const NodeTrouble& one) { return has(one.words); });
  return found == kNodeTroubles.end() ? "" : found->says;
}

/// Nodes that are out for the same reason.
struct NodesOut {
  std::string_view trouble;
  std::string reason;
  std::vector<std::string> names;
  int count = 0;
  bool is_here = false;  ///< this machine is one of them
};

std::vector<NodesOut> nodes_out(const Subject& subject) {
  std::vector<NodesOut> all;
  if (!subject.environment.slurm) return all;
  const std::string_view host = std::string_view(subject.snapshot.host).substr(0, subject.snapshot.host.find('.'));
  for (const facts::SlurmNode& node : subject.environment.slurm->nodes) {
    const std::string_view trouble = trouble_of(node);
    if (trouble.empty()) continue;
    auto group = std::ranges::find_if(
        all, [&](const NodesOut& one) { return one.trouble == trouble && one.reason == node.reason; });
    if (group == all.end()) group = all.insert(group, {trouble, node.reason, {}, 0, false});
    group->names.push_back(node.name);
    group->count += node.count;
    group->is_here = group->is_here || (!host.empty() && node.name == host);
  }
  return all;
}

void nodes_not_working(const Subject& subject, Report& report) {
  for (const NodesOut& group : nodes_out(subject)) {
    const std::string names = shell_word(join(group.names, ","));
    const std::string reason = group.reason.empty() || to_lower(group.reason) == "none" ? "" : ": " + group.reason;
    report.say(group.is_here ? Severity::error : Severity::warning,
               fmt::format("Slurm has {} {} ({}){}", group.count == 1 ? "a node" : fmt::format("{} nodes", group.count),
                           group.trouble, join(group.names, ", "), reason),
               {fmt::format("scontrol show node {}   # who took it out, and why", names),
                fmt::format("sudo scontrol update nodename={} state=resume   # once it is fixed", names)});
  }
}

constexpr auto kClusterChecks = std::to_array<Check>({
    {"slurm-gpus-not-constrained", Area::cluster, Severity::warning, "Slurm's device constraint",
     "Jobs can take GPUs that were granted to others.", "Slurm documentation, cgroup.conf",
     "https://slurm.schedmd.com/cgroup.conf.html", gpus_not_constrained},
    {"slurm-job-without-gpus", Area::cluster, Severity::error, "the GPUs of this job",
     "Programs of this job should not use any.", "Slurm documentation, gres", "https://slurm.schedmd.com/gres.html",
     job_without_gpus},
    {"slurm-mask-wider-than-grant", Area::cluster, Severity::error, "CUDA_VISIBLE_DEVICES against the grant",
     "The job would use GPUs of others, or fail on them.", "Slurm documentation, gres",
     "https://slurm.schedmd.com/gres.html", job_sees_more},
    {"slurm-fewer-gpus-than-asked", Area::cluster, Severity::error, "the GPUs that are seen against those asked for",
     "Ranks without a GPU fail at start.", "Slurm documentation, sbatch --gpus-per-node",
     "https://slurm.schedmd.com/gres.html", fewer_than_requested},
    {"slurm-gres-differs", Area::cluster, Severity::warning, "Slurm's count of GPUs",
     "Slurm drains the node, or starts jobs that find no GPU.", "Slurm documentation, gres.conf",
     "https://slurm.schedmd.com/gres.conf.html", gres_differs},
    {"slurm-nodes-out", Area::cluster, Severity::warning, "nodes that are drained, down or failing",
     "No job starts there; those that wait for such GPUs wait longer.", "sinfo(1), node state codes",
     "https://slurm.schedmd.com/sinfo.html", nodes_not_working},
});

}  // namespace

std::span<const Check> cluster_checks() { return kClusterChecks; }

}  // namespace gpuwarden::doctor
