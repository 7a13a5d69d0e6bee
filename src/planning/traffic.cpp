// SPDX-License-Identifier: Apache-2.0
// What a strategy sends over links, and how long that takes.
#include <algorithm>

#include "equations.hpp"
#include "gpuwarden/planning/throughput.hpp"

namespace gpuwarden::planning {

namespace {

constexpr double kGiga = 1e9;

/// A ring's share of a whole buffer that each of `ranks` sends for one gather or one reduce-scatter.
double ring(double ranks) { return ranks <= 1 ? 0 : (ranks - 1) / ranks; }

/// Bytes of a micro-batch for tensor parallelism: an all-reduce, or a gather and a reduce-scatter of the same volume,
/// behind attention and MLP, forward and backward, and forward again where it is recomputed (Megatron-LM, arXiv
/// 1909.08053; Korthikanti et al. 2022, arXiv 2205.05198).
double tensor_bytes(const ModelFigures& model, const Settings& settings, double layers) {
  const Parallelism& p = settings.parallel;
  const bool again = settings.trains() && settings.recompute == Recompute::full;
  const double passes = !settings.trains() ? 1 : again ? 3 : 2;
  return passes * 2 * 2 * ring(p.tensor) * 2 * model.shape.hidden * settings.tokens() * layers;
}

/// Tokens go to their experts and back, forward and backward (GShard, arXiv 2006.16668).
double expert_bytes(const ModelFigures& model, const Settings& settings, double layers) {
  const double passes = settings.trains() ? 2 : 1;
  return passes * 2 * ring(settings.parallel.expert) * 2 * model.shape.hidden * settings.tokens() *
         model.shape.experts.experts_per_token * layers;
}

/// Keys and values go round once forward and twice backward (ring attention, arXiv 2310.01889).
double context_bytes(const ModelFigures& model, const Settings& settings, double layers) {
  const double parts = settings.parallel.context;
  return 3 * 2 * 2 * static_cast<double>(key_width(model.shape)) * settings.tokens() * (parts - 1) * layers;
}

/// Sharded weights are gathered forward and backward and their gradients reduced in every micro-batch (ZeRO, arXiv
/// 1910.02054: 1.5 times DDP's volume); DDP, ZeRO-1 and -2 send gradients, and get gradients or weights back, once a
/// step.
double data_bytes(const ModelFigures& model, const Settings& settings) {
  const Parallelism& p = settings.parallel;
  const double ranks = static_cast<double>(p.data) * p.context;
  const double held = model.total / (static_cast<double>(p.tensor) * p.pipeline);
  const bool full = settings.task == Task::full_training;
  const double gradients = 2 * (full ? held : model.adapters(settings.adapters));
  if (!settings.trains()) return 0;
  if (shards_of(settings).weights <= 1) return 2 * ring(ranks) * gradients / settings.accumulation;
  const double each = settings.fp8 == Fp8::gathered ? 1 : compute_bytes(settings);
  return ring(ranks) * (2 * each * held + gradients);
}

}  // namespace

Links links_of(const GpuGroup& gpus, std::uint32_t gpus_per_node) {
  const double within =
      gpus.nvlink_gb_s > 0 ? gpus.nvlink_gb_s * kGiga * figures().link_nvlink_share : figures().link_pcie_bytes;
  return {.within = within, .between = figures().link_network_bytes, .gpus_per_node = std::max(1U, gpus_per_node)};
}

Traffic traffic_of(const ModelFigures& model, const Settings& asked, const Links& links) {
  const Settings settings = as_run(asked);
  const Parallelism& p = settings.parallel;
  const double layers = static_cast<double>(model.shape.layers + model.shape.encoder_layers) / p.pipeline;
  const std::uint32_t closest = p.tensor * p.context;
  const double outside = p.gpus() > links.gpus_per_node ? links.between : links.within;
  const double of_tensors = p.tensor > links.gpus_per_node ? links.between : links.within;
  const double of_context = closest > links.gpus_per_node ? links.between : links.within;
  const double of_experts = std::uint64_t{closest} * p.expert > links.gpus_per_node ? links.between : links.within;
  Traffic traffic;
  traffic.waiting += tensor_bytes(model, settings, layers) / of_tensors;
  if (p.expert > 1) traffic.waiting += expert_bytes(model, settings, layers) / of_experts;
  traffic.beside += context_bytes(model, settings, layers) / of_context;
  traffic.beside += data_bytes(model, settings) / outside;
  return traffic;
}

}  // namespace gpuwarden::planning
