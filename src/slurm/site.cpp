// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/slurm/site.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::slurm {
namespace {

using nlohmann::json;

bool is_in(const Node& node, const std::string& partition) {
  return partition.empty() || std::ranges::find(node.partitions, partition) != node.partitions.end();
}

json to_json(const std::vector<GpuCount>& gpus) {
  json list = json::array();
  for (const GpuCount& one : gpus) list.push_back({{"type", one.type}, {"count", one.count}});
  return list;
}

json number(const std::optional<int>& value) { return value ? json(*value) : json(); }

json words_or_null(const std::string& text) { return text.empty() ? json() : json(text); }

}  // namespace

Result<Site> read_site(Programs& programs) {
  Site site;
  GPUWARDEN_TRY(const std::string config, output_of(programs, {"scontrol", "show", "config"}));
  GPUWARDEN_TRY(const std::string partitions, output_of(programs, {"sinfo", "-h", "-o", kPartitionFormat}));
  GPUWARDEN_TRY(const std::string nodes, output_of(programs, {"scontrol", "show", "node", "-d", "-o"}));
  site.cluster = configured(config, "ClusterName");
  site.version = configured(config, "SLURM_VERSION");
  site.gpu_option = configured(config, "SelectType") == "select/cons_tres" ? GpuOption::per_node : GpuOption::gres;
  site.constrains_devices = to_lower(configured(config, "ConstrainDevices")) == "yes";
  // "30 sec"
  const std::string wait = configured(config, "KillWait");
  if (const auto seconds = parse_integer(wait.substr(0, wait.find(' '))))
    site.kill_wait = std::chrono::seconds(*seconds);
  site.partitions = parse_partitions(partitions);
  GPUWARDEN_TRY(site.nodes, parse_nodes(nodes));
  return site;
}

Result<Site> read_site_if_any(Programs& programs) {
  if (has_cluster(programs)) return read_site(programs);
  Site site;
  site.is_seen = false;
  // The GPUs' numbers are not named in the script then: they may mean others within a job.
  site.constrains_devices = true;
  return site;
}

Result<std::vector<Job>> read_queue(Programs& programs, const std::string& user, const std::string& partition) {
  std::vector<std::string> words{"squeue", "-h", "-o", kQueueFormat};
  if (!user.empty()) words.push_back("--user=" + user);
  if (!partition.empty()) words.push_back("--partition=" + partition);
  GPUWARDEN_TRY(const std::string text, output_of(programs, words));
  return parse_queue(text);
}

std::optional<int> nodes_with_room(const Job& job, const Site& site) {
  const auto asked = gpus_in_gres(job.gpus);
  if (asked.empty()) return std::nullopt;
  return static_cast<int>(std::ranges::count_if(site.nodes, [&](const Node& node) {
    const bool listed = std::ranges::find(node.partitions, job.partition) != node.partitions.end();
    return listed && count_of(free_gpus(node), asked[0].type) >= asked[0].count;
  }));
}

std::vector<TypeSummary> summarise(const Site& site, const std::string& partition) {
  std::vector<TypeSummary> types;
  const auto row = [&](const std::string& type) -> TypeSummary& {
    const auto found = std::ranges::find(types, type, &TypeSummary::type);
    return found != types.end() ? *found : types.emplace_back(TypeSummary{type});
  };
  for (const Node& node : site.nodes) {
    if (!is_in(node, partition)) continue;
    for (const GpuCount& one : node.gpus) row(one.type).total += one.count;
    for (const GpuCount& one : free_gpus(node)) {
      TypeSummary& type = row(one.type);
      type.free += one.count;
      type.most_on_a_node = std::max(type.most_on_a_node, one.count);
    }
  }
  return types;
}

json to_json(const Site& site, const std::string& partition) {
  json types = json::array();
  for (const TypeSummary& one : summarise(site, partition))
    types.push_back(
        {{"type", one.type}, {"total", one.total}, {"free", one.free}, {"most_on_a_node", one.most_on_a_node}});
  json nodes = json::array();
  for (const Node& node : site.nodes) {
    if (!is_in(node, partition)) continue;
    nodes.push_back({{"name", node.name},
                     {"state", node.state},
                     {"reason", words_or_null(node.reason)},
                     {"takes_jobs", takes_jobs(node)},
                     {"partitions", node.partitions},
                     {"gpus", to_json(node.gpus)},
                     {"gpus_free", to_json(free_gpus(node))},
                     {"cpus", number(node.cpus)},
                     {"cpus_used", number(node.cpus_used)}});
  }
  return {{"cluster", site.cluster}, {"version", site.version}, {"types", types}, {"nodes", nodes}};
}

json to_json(const Job& job) {
  const JobStateRow* const state = find_job_state(job.state);
  return {{"id", job.id},
          {"name", job.name},
          {"user", words_or_null(job.user)},
          {"partition", words_or_null(job.partition)},
          {"state", job.state},
          {"state_words", state != nullptr ? json(state->words) : json()},
          {"reason", words_or_null(job.reason)},
          {"reason_words", words_or_null(reason_words(job.reason))},
          {"needs_change", needs_change(job.reason)},
          {"nodes", words_or_null(job.nodes)},
          {"node_count", number(job.node_count)},
          {"gpus_per_node", job.gpus.empty() ? json() : json(sum_of(gpus_in_gres(job.gpus)))},
          {"submitted", words_or_null(job.submitted)},
          {"started", words_or_null(job.started)},
          {"time_limit", words_or_null(job.time_limit)},
          {"run_time", words_or_null(job.run_time)},
          {"log", words_or_null(job.log)},
          {"exit_code", is_over(job) ? json(exit_code_of(job)) : json()}};
}

}  // namespace gpuwarden::slurm
