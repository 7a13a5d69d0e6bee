// SPDX-License-Identifier: Apache-2.0
// From what a user asks for to a job that the cluster can do.
#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/slurm/site.hpp"

namespace gpuwarden::slurm {
namespace {

/// CPUs for a GPU where the site does not tell its nodes'.
constexpr std::uint32_t kCpusPerGpu = 4;

std::unexpected<Error> wrong(std::string what, std::string hint = {}) {
  return fail(ErrorCode::invalid_argument, std::move(what), std::move(hint));
}

/// "h100, v100", of nodes that are up or not.
std::string types_in_words(const Site& site, const std::string& partition) {
  std::string words;
  for (const TypeSummary& one : summarise(site, partition)) {
    if (!one.type.empty()) words += fmt::format("{}{}", words.empty() ? "" : ", ", one.type);
  }
  return words;
}

/// The site's own spelling of a type.
Result<std::string> type_of(const Request& request, const Site& site) {
  if (request.gpu_type.empty() || !site.is_seen) return request.gpu_type;
  for (const TypeSummary& one : summarise(site, request.partition)) {
    if (to_lower(one.type) == to_lower(request.gpu_type)) return one.type;
  }
  const std::string types = types_in_words(site, request.partition);
  const std::string where = request.partition.empty() ? "the cluster" : "partition " + request.partition;
  return wrong(fmt::format("{} has no GPUs of type '{}'", where, printable(request.gpu_type)),
               types.empty() ? "its GPUs have no types: leave out --gpu-type" : "it has " + types);
}

/// What a partition's nodes could do for a request.
struct Fit {
  int able = 0;  ///< nodes with as many GPUs, whether up or not
  int up = 0;    ///< of these, those that take jobs
  int most = 0;  ///< GPUs of the type on one node
  const Node* example = nullptr;
};

Fit fit_of(const Site& site, const std::string& partition, std::uint32_t gpus, const std::string& type) {
  Fit fit;
  for (const Node& node : site.nodes) {
    if (std::ranges::find(node.partitions, partition) == node.partitions.end()) continue;
    const int count = count_of(node.gpus, type);
    fit.most = std::max(fit.most, count);
    if (count < static_cast<int>(gpus)) continue;
    ++fit.able;
    fit.up += takes_jobs(node) ? 1 : 0;
    if (fit.example == nullptr) fit.example = &node;
  }
  return fit;
}

/// Slurm's default first.
std::vector<Partition> in_order(const Site& site, const std::string& wanted) {
  std::vector<Partition> partitions;
  for (const Partition& one : site.partitions) {
    if (wanted.empty() || one.name == wanted) partitions.push_back(one);
  }
  std::ranges::stable_partition(partitions, &Partition::is_default);
  return partitions;
}

std::string asked_in_words(const Request& request, const std::string& type) {
  const std::string gpus = request.gpus == 0
                               ? ""
                               : fmt::format(" with {} {}GPU{} each", request.gpus, type.empty() ? "" : type + " ",
                                             request.gpus == 1 ? "" : "s");
  return fmt::format("{} node{}{}", request.nodes, request.nodes == 1 ? "" : "s", gpus);
}

std::unexpected<Error> none_fits(const Request& request, const Site& site, const std::string& type) {
  std::string hint;
  for (const Partition& one : in_order(site, request.partition)) {
    const Fit fit = fit_of(site, one.name, request.gpus, type);
    hint += fmt::format("{}partition {}: {} such node{}, {} {}GPUs on a node at most", hint.empty() ? "" : "; ",
                        one.name, fit.able, fit.able == 1 ? "" : "s", fit.most, type.empty() ? "" : type + " ");
  }
  return wrong(fmt::format("no partition has {}", asked_in_words(request, type)), hint);
}

Result<Partition> partition_of(const Request& request, const Site& site, const std::string& type) {
  if (!site.is_seen) return Partition{.name = request.partition, .is_default = true, .up = true};
  const auto candidates = in_order(site, request.partition);
  if (candidates.empty()) {
    std::vector<std::string> names;
    for (const Partition& one : site.partitions) names.push_back(one.name);
    return wrong(fmt::format("there is no partition '{}'", printable(request.partition)),
                 names.empty() ? "" : "partitions: " + join(names, ", "));
  }
  for (const bool only_up : {true, false}) {
    for (const Partition& one : candidates) {
      const Fit fit = fit_of(site, one.name, request.gpus, type);
      const int enough = static_cast<int>(request.nodes);
      if (only_up && (!one.up || fit.up < enough)) continue;
      if (fit.able >= enough) return one;
    }
  }
  return none_fits(request, site, type);
}

/// As sinfo says where the user does not.
Result<void> limit_time(const Request& request, const Site& site, const Partition& partition, Placed& placed) {
  if (request.time && partition.max_time && *request.time > *partition.max_time)
    return wrong(fmt::format("--time {} is more than partition {} allows", format_time(*request.time), partition.name),
                 fmt::format("at most --time {}", format_time(*partition.max_time)));
  placed.job.time = request.time;
  if (request.time || !site.is_seen) return {};
  placed.job.time = partition.default_time ? partition.default_time : partition.max_time;
  placed.decisions.push_back(
      placed.job.time ? fmt::format("time limit {} ({} of partition {}; --time sets it)", format_time(*placed.job.time),
                                    partition.default_time ? "the default" : "the most", partition.name)
                      : fmt::format("no time limit (partition {} has none; --time sets one)", partition.name));
  return {};
}

std::uint32_t cpus_of(const Request& request, const Node* example) {
  if (request.cpus) return *request.cpus;
  const std::uint32_t usual = std::max(1U, request.gpus * kCpusPerGpu);
  if (example == nullptr || !example->cpus) return usual;
  const auto all = static_cast<std::uint32_t>(*example->cpus);
  const auto gpus = static_cast<std::uint32_t>(sum_of(example->gpus));
  // The share of the node that its GPUs are.
  return request.gpus > 0 && gpus > 0 ? std::max(1U, all * request.gpus / gpus) : std::min(usual, std::max(1U, all));
}

}  // namespace

Result<Placed> place(const Request& request, const Site& site) {
  GPUWARDEN_TRY(const std::string type, type_of(request, site));
  GPUWARDEN_TRY(const Partition partition, partition_of(request, site, type));
  const Fit fit = fit_of(site, partition.name, request.gpus, type);
  Placed placed;
  BatchJob& job = placed.job;
  job.name = plain_name(request.name.empty() ? "gpuwarden" : request.name);
  job.nodes = request.nodes;
  job.gpus = request.gpus;
  job.gpu_type = type;
  job.gpu_option = site.gpu_option;
  job.cpus = cpus_of(request, fit.example);
  if (!request.cpus && request.gpus > 0)
    placed.decisions.push_back(fmt::format("{} CPUs on a node (--cpus-per-task sets it)", job.cpus));
  job.memory = request.memory;
  job.partition = partition.name;
  if (request.partition.empty() && !partition.is_default)
    placed.decisions.push_back(fmt::format("partition {} (Slurm's default has no such nodes)", partition.name));
  if (!site.is_seen)
    placed.decisions.emplace_back(
        "this machine is of no Slurm cluster to ask: partition, GPU type and time limit are as given, or left to the "
        "cluster");
  if (site.is_seen && fit.up < static_cast<int>(request.nodes))
    placed.decisions.push_back(
        fmt::format("it will wait: {} of the {} nodes that could do it take jobs now", fit.up, fit.able));
  GPUWARDEN_CHECK(limit_time(request, site, partition, placed));
  job.account = request.account;
  job.qos = request.qos;
  job.constraint = request.constraint;
  job.reservation = request.reservation;
  job.node_list = request.node_list;
  job.signal = request.signal;
  job.exclude = request.exclude;
  return placed;
}

}  // namespace gpuwarden::slurm
