// SPDX-License-Identifier: Apache-2.0
// How much work a step is, how fast GPUs like these have been seen to do it, and what that means in tokens a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/planning/estimate.hpp"
#include "gpuwarden/planning/gpus.hpp"
#include "gpuwarden/planning/settings.hpp"

namespace gpuwarden::planning {

/// Model FLOPs utilization: the share of a GPU's peak that goes into the model's own arithmetic.
struct Utilization {
  double low = 0;  ///< 0 to 1, as the two below; low <= expected <= high
  double expected = 0;
  double high = 0;
  std::string_view source;  ///< where it was published
};
/// What was published for such a GPU ("NVIDIA H100 80GB HBM3" and the like). Unknown models get a wide range.
/// Source: mosaicml/llm-foundry, scripts/train/benchmarking (GPT-like models of 125M to 70B, FSDP, 8 to 512 GPUs).
/// With `fp8`, of the 8-bit peak.
Utilization utilization_prior(std::string_view gpu_model, Precision precision, bool fp8 = false);

/// Of steps that were published whole, what their links and pipelines take included: Megatron's on NVSwitch, dense
/// models and models of experts apart. Empty where nobody published one; then utilization_prior and traffic_of tell.
std::optional<Utilization> whole_step_utilization(const ModelFigures& model, const Settings& settings,
                                                  std::string_view gpu_model);

/// Of transformers' loop over experts whose weights are gathered for each (ZeRO-3, FSDP), links included. Empty where
/// nothing loops or nothing is gathered.
std::optional<Utilization> expert_loop_utilization(const ModelFigures& model, const Settings& settings,
                                                   double peak_flops);

struct StepWork {
  double model_flops = 0;  ///< of one micro-batch on one GPU: 6 N T + 12 L q s T (PaLM, arXiv 2204.02311, appendix B)
  double hardware_flops = 0;  ///< with what is computed again: the forward pass again under full recomputation: x 4/3,
                              ///< beside a frozen base x 3/2
};
/// Work of one micro-batch, forward and backward, divided over the model-parallel GPUs. Adapters spare the gradients of
/// frozen weights: 4 N T. Inference: 2 N T.
StepWork step_work(const ModelFigures& model, const Settings& settings);

/// Whether the published utilizations say anything of a model: 100 million active parameters or more. Smaller ones are
/// held up by launching kernels and by loading.
bool speed_known(const ModelFigures& model);

/// How fast GPUs send to each other: bytes a second and GPU in one direction, as collectives reach them.
struct Links {
  double within = 240e9;  ///< a node: NVLink of an A100
  double between = 20e9;  ///< nodes
  std::uint32_t gpus_per_node = 8;
  double host = 20e9;  ///< a GPU and its host, one direction
};
/// NVLink where the GPUs have it, else PCIe; between nodes what training clusters usually have (planning_figures.csv).
Links links_of(const GpuGroup& gpus, std::uint32_t gpus_per_node);

/// Seconds on links for one micro-batch on one GPU.
struct Traffic {
  double waiting = 0;  ///< arithmetic waits for it: tensor parallelism's and the experts' collectives
  double beside = 0;   ///< runs beside arithmetic: sharded weights, gradients, context's ring, what goes to the host
  /// A micro-batch's share of an optimizer's step on the host, which nothing runs beside; 0 where it runs on the GPU.
  double host_step_least = 0, host_step = 0, host_step_most = 0;
};
/// From the strategy's volumes: Megatron-LM (arXiv 1909.08053), ZeRO (arXiv 1910.02054), ring attention (arXiv
/// 2310.01889), pipelines (arXiv 2104.04473), ZeRO-Offload (arXiv 2101.06840). Inference gathers no sharded weights
/// here.
///
/// A collective is a ring in nccl-tests' sense (doc/PERFORMANCE.md): of n ranks each sends (n - 1)/n of the buffer for
/// a gather or a reduction. Where it leaves a node in which it has k ranks, k rings leave it through k network links,
/// each with 1/k of the bytes: the rate is the lesser of `within` and k x `between`. An all-to-all and a ring of
/// neighbours have a rank's own link alone.
Traffic traffic_of(const ModelFigures& model, const Settings& settings, const Links& links);

struct Speed {
  double low = 0;  ///< tokens per second of all GPUs together
  double expected = 0;
  double high = 0;
  double achieved = 0;         ///< share of the GPUs' peak that goes into the model's arithmetic at `expected`
  double utilization = 0;      ///< the same before links, pipelines and the host slow it down: where the sum begins
  std::string_view source;     ///< of it
  double step_seconds = 0;     ///< of an optimizer step, expected
  double link_seconds = 0;     ///< of them, what waits for links beyond what published runs did
  double idle_seconds = 0;     ///< of them, what a pipeline takes to fill and drain
  double host_seconds = 0;     ///< of them, the optimizer's step on the host
  double tokens_per_step = 0;  ///< of all GPUs
  /// For the asked number of tokens: as long as expected, and at the ends of the range.
  std::optional<std::chrono::seconds> duration, shortest, longest;
};
/// `peak_flops` is the GPU's dense peak per second in the type of computing; `measured` utilization, where the user
/// has one, stands in the place of the prior. Fails with invalid_argument on a peak that is not positive and on a
/// utilization outside of 0 to 1.
///
/// The published runs sharded data over NVLink and fast networks; traffic adds what arithmetic cannot hide: expected,
/// half of a micro-batch's arithmetic runs beside it; at the low end less, and recomputation costs its whole forward
/// pass; at the high end nearly all, and half of what tensors wait for. An optimizer's step on the host is added whole.
/// A measured utilization contains all of that.
Result<Speed> speed_of(const ModelFigures& model, const Settings& settings, std::string_view gpu_model,
                       double peak_flops, std::optional<double> measured = {}, double tokens = 0,
                       const Links& links = {});

/// Advice on loading data.
struct Loading {
  std::uint32_t workers = 0;  ///< of each rank
  std::uint32_t threads = 0;  ///< OMP_NUM_THREADS of each rank
  std::string reason;
};
/// From the CPUs that a job has for each GPU: one stays with the rank itself; more than 8 workers seldom help text.
Loading loading_advice(std::uint32_t cpus, std::uint32_t gpus);

}  // namespace gpuwarden::planning
