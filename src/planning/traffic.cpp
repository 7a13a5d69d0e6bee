// SPDX-License-Identifier: Apache-2.0
// What a strategy sends over links, and how long that takes.
#include <algorithm>
#include <cmath>

#include "equations.hpp"
#include "gpuwarden/planning/throughput.hpp"

namespace gpuwarden::planning {

namespace {

constexpr double kGiga = 1e9;
constexpr double kBillion = 1e9;
/// Of an activation and its gradient between GPUs.
constexpr double kActivationBytes = 2;

/// Ranks of one collective, `stride` apart among a job's ranks. Megatron-LM's order, which torch's device meshes
/// follow: tensors innermost, then context, experts within data, data, stages outermost.
struct Group {
  double size = 1;
  double stride = 1;
};

/// Of a group's ranks, those that share a node.
double in_node(const Group& group, const Links& links) {
  return std::clamp(std::floor(links.gpus_per_node / group.stride), 1.0, group.size);
}

bool leaves_node(const Group& group, const Links& links) {
  return group.size > 1 && group.size * group.stride > links.gpus_per_node;
}

/// Bytes a second that each rank of a ring collective sends (nccl-tests, doc/PERFORMANCE.md: bus bandwidth). A group of
/// k ranks a node is run as k rings, each of which leaves the node through another rank's network link with 1/k of the
/// bytes (NVIDIA/nccl issue 601; NCCL's channels), so that the network carries k links' worth until the links within
/// the node are what is slowest.
double ring_rate(const Group& group, const Links& links) {
  if (!leaves_node(group, links)) return links.within;
  const double ranks = in_node(group, links);
  return ranks > 1 ? std::min(links.within, ranks * links.between) : links.between;
}

/// Where each rank passes what it has to the next, the slowest edge decides: one rank's network link.
double neighbour_rate(const Group& group, const Links& links) {
  return leaves_node(group, links) ? links.between : links.within;
}

/// A ring's share of a whole buffer that each of `ranks` sends for one gather or one reduce-scatter.
double ring(double ranks) { return ranks <= 1 ? 0 : (ranks - 1) / ranks; }

/// Seconds of an all-to-all: of each rank's `bytes`, 1/n is for every other rank; what is for ranks of its node goes
/// within, the remainder over its own network link, both at once.
double exchange_seconds(double bytes, const Group& group, const Links& links) {
  if (group.size <= 1) return 0;
  const double near = leaves_node(group, links) ? in_node(group, links) : group.size;
  const double within = bytes * (near - 1) / group.size / links.within;
  return std::max(within, bytes * (group.size - near) / group.size / links.between);
}

bool recomputes_all(const Settings& settings) {
  return settings.trains() &&
         (settings.recompute == Recompute::full || settings.recompute == Recompute::full_offloaded);
}

/// Tensor parallelism: an all-reduce, or a gather and a reduce-scatter of the same volume, behind attention and MLP,
/// forward and backward, and forward again where it is recomputed (Megatron-LM, arXiv 1909.08053; Korthikanti et al.
/// 2022, arXiv 2205.05198).
double tensor_seconds(const ModelFigures& model, const Settings& settings, double layers, const Links& links) {
  const Group group{.size = static_cast<double>(settings.parallel.tensor)};
  const double passes = !settings.trains() ? 1 : recomputes_all(settings) ? 3 : 2;
  const double bytes =
      passes * 2 * 2 * ring(group.size) * kActivationBytes * model.shape.hidden * settings.tokens() * layers;
  return bytes / ring_rate(group, links);
}

/// Tokens go to their experts and back, forward and backward (GShard, arXiv 2006.16668).
double expert_seconds(const ModelFigures& model, const Settings& settings, double layers, const Links& links) {
  const Parallelism& p = settings.parallel;
  const Group group{.size = static_cast<double>(p.expert), .stride = static_cast<double>(p.tensor) * p.context};
  const double passes = settings.trains() ? 2 : 1;
  const double bytes = passes * 2 * kActivationBytes * model.shape.hidden * settings.tokens() *
                       model.shape.experts.experts_per_token * layers;
  return exchange_seconds(bytes, group, links);
}

/// A stage's outputs go to the next one, their gradients back, with every run of layers; the tensor-parallel ranks of a
/// stage send a part each (Narayanan et al. 2021, arXiv 2104.04473, section 4.1).
double stage_seconds(const ModelFigures& model, const Settings& settings, const Links& links) {
  const Parallelism& p = settings.parallel;
  if (p.pipeline <= 1) return 0;
  const Group group{.size = static_cast<double>(p.pipeline),
                    .stride = static_cast<double>(p.tensor) * p.context * p.data};
  const double passes = settings.trains() ? 2 : 1;
  const double bytes = passes * p.virtual_stages * kActivationBytes * model.shape.hidden * settings.tokens() / p.tensor;
  return bytes / neighbour_rate(group, links);
}

/// Keys and values go round once forward and twice backward (ring attention, arXiv 2310.01889).
double context_seconds(const ModelFigures& model, const Settings& settings, double layers, const Links& links) {
  const Parallelism& p = settings.parallel;
  const Group group{.size = static_cast<double>(p.context), .stride = static_cast<double>(p.tensor)};
  const double width = static_cast<double>(key_width(model.shape)) / p.tensor;
  return 3 * 2 * kActivationBytes * width * settings.tokens() * (group.size - 1) * layers /
         neighbour_rate(group, links);
}

/// What a gradient has on its way: Megatron reduces its fp32 buffer (arguments.py: bf16 sets
/// accumulate_allreduce_grads_in_fp32), the others what they compute in.
double gradient_bytes(const Settings& settings) {
  return settings.framework == Framework::megatron ? 4 : compute_bytes(settings);
}

/// Sharded weights are gathered forward and backward and their gradients reduced in every micro-batch (ZeRO, arXiv
/// 1910.02054: 1.5 times DDP's volume); DDP, ZeRO-1 and -2 send gradients, and get gradients or weights back, once a
/// step. `weights` of them are held by each rank before sharding, `trained` parameters reduced.
double replica_seconds(const Settings& settings, const Group& group, double weights, double trained,
                       const Links& links) {
  const double share = ring(group.size) / ring_rate(group, links);
  const double reduced = gradient_bytes(settings) * trained;
  if (shards_of(settings).weights > 1) {
    const double each = settings.fp8 == Fp8::gathered ? 1 : compute_bytes(settings);
    return share * (2 * each * weights + reduced);
  }
  const bool whole = settings.parallel.sharding == Sharding::none;
  const double returned = whole ? reduced : compute_bytes(settings) * trained;
  return share * (reduced + returned) / settings.accumulation;
}

/// Replicas of what is not in experts, and of each expert: those are fewer by the degree that spreads them.
double data_seconds(const ModelFigures& model, const Settings& settings, const Links& links) {
  if (!settings.trains()) return 0;
  const Parallelism& p = settings.parallel;
  const double parts = static_cast<double>(p.tensor) * p.pipeline;
  const double experts = p.expert > 1 ? model.experts / parts / p.expert : 0;
  const double others = model.total / parts - experts * p.expert;
  const bool full = settings.task == Task::full_training;
  const Group all{.size = static_cast<double>(p.data) * p.context, .stride = static_cast<double>(p.tensor)};
  const Group of_experts{.size = std::max(1.0, all.size / p.expert), .stride = all.stride * p.expert};
  return replica_seconds(settings, all, others, full ? others : model.adapters(settings.adapters), links) +
         replica_seconds(settings, of_experts, experts, full ? experts : 0, links);
}

/// Parameters that this rank's part of the optimizer steps.
double stepped(const LocalParameters& local, const Settings& settings) {
  const double trained = settings.task == Task::adapters ? local.adapters + local.copies : local.total;
  return trained / shards_of(settings).states;
}

/// Layers' inputs go to the host in the forward pass and come back in the backward pass.
double checkpoint_bytes(const ModelFigures& model, const Settings& settings) {
  if (settings.recompute != Recompute::full_offloaded) return 0;
  const Widths widths = widths_of(model, settings);
  return 2 * (settings.fp32_residual ? 4 : 2) * widths.hidden * widths.layers * widths.tokens;
}

/// Bytes over PCIe while a micro-batch is worked on: each rank's part of the gradients to the host, and of weights that
/// rest there, once forward and once backward, as they are stored (ZeRO-Offload, arXiv 2101.06840, section 4;
/// ZeRO-Infinity, arXiv 2104.07857, section 6; torch's FSDP CPUOffload moves stored parts, too).
double host_bytes(const ModelFigures& model, const Settings& settings, const LocalParameters& local) {
  if (settings.parallel.offload == Offload::none) return 0;
  const Shards shards = shards_of(settings);
  const bool full = settings.task == Task::full_training;
  const StateBytes states = full ? state_bytes(model, settings) : adapter_bytes(settings);
  const double trained = full ? local.total : local.adapters + local.copies;
  const double gradients = states.gradients * trained / shards.gradients;
  if (settings.parallel.offload != Offload::all) return gradients;
  const double frozen =
      frozen_matrices(local, frozen_format(model.shape, settings.quantization), 2) + 2 * (local.total - local.linear);
  const double weights = full ? states.weights * local.total : frozen + states.weights * trained;
  return gradients + 2 * weights / shards.weights;
}

/// The optimizer's step on the host: its CPUs go through what all ranks of a node hold; new weights that rest on the
/// GPU come back over PCIe. Nothing runs beside it.
void add_host_step(const ModelFigures& model, const Settings& settings, const LocalParameters& local,
                   const Links& links, Traffic& traffic) {
  const Parallelism& p = settings.parallel;
  if (p.offload == Offload::none) return;
  const double each = stepped(local, settings);
  const double billions = each * std::min(p.gpus(), links.gpus_per_node) / kBillion / settings.accumulation;
  const bool fsdp = p.sharding == Sharding::fsdp1 || p.sharding == Sharding::fsdp2;
  const Figures& f = figures();
  const knowledge::PlanningFigure& adam = fsdp ? f.host_adam_torch : f.host_adam;
  const double weights =
      settings.task == Task::full_training ? state_bytes(model, settings).weights : adapter_bytes(settings).weights;
  const double back = p.offload == Offload::all ? 0 : weights * each / links.host / settings.accumulation;
  traffic.host_step_least = billions * adam.low + back;
  traffic.host_step = billions * adam.value + back;
  traffic.host_step_most = billions * adam.high + back;
}

}  // namespace

Links links_of(const GpuGroup& gpus, std::uint32_t gpus_per_node) {
  const Figures& f = figures();
  const double within = gpus.nvlink_gb_s > 0 ? gpus.nvlink_gb_s * kGiga * f.link_nvlink_share : f.link_pcie_bytes;
  return {.within = within,
          .between = f.link_network_bytes,
          .gpus_per_node = std::max(1U, gpus_per_node),
          .host = f.link_pcie_bytes};
}

Traffic traffic_of(const ModelFigures& model, const Settings& asked, const Links& links) {
  const Settings settings = as_run(asked);
  const double layers =
      static_cast<double>(model.shape.layers + model.shape.encoder_layers) / settings.parallel.pipeline;
  Traffic traffic;
  traffic.waiting += tensor_seconds(model, settings, layers, links);
  traffic.waiting += expert_seconds(model, settings, layers, links);
  traffic.waiting += stage_seconds(model, settings, links);
  traffic.beside += context_seconds(model, settings, layers, links);
  traffic.beside += data_seconds(model, settings, links);
  if (!settings.trains()) return traffic;
  const LocalParameters local = local_parameters(model, settings);
  traffic.beside += (host_bytes(model, settings, local) + checkpoint_bytes(model, settings)) / links.host;
  add_host_step(model, settings, local, links, traffic);
  return traffic;
}

}  // namespace gpuwarden::planning
