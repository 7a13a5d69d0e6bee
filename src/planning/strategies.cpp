// SPDX-License-Identifier: Apache-2.0
// The ways to spread a task over GPUs, and what each costs in time.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "equations.hpp"
#include "gpuwarden/planning/throughput.hpp"
#include "search_parts.hpp"

namespace gpuwarden::planning {

namespace {

constexpr std::uint32_t kLongSequence = 32768;
constexpr std::uint32_t kMostTensorDegree = 1024;  ///< that check() lets through
constexpr std::uint32_t kMostStages = 64;          ///< that are worth a try

std::vector<std::uint32_t> divisors_up_to(std::uint32_t number, std::uint32_t most) {
  std::vector<std::uint32_t> result;
  for (std::uint32_t i = 1; i <= std::min(number, most); ++i) {
    if (number % i == 0) result.push_back(i);
  }
  return result;
}

std::string name_of(const Parallelism& p) {
  std::string name;
  const auto part = [&](std::string_view word, std::uint32_t degree) {
    if (degree > 1) name += fmt::format("{}{} {}", name.empty() ? "" : " x ", word, degree);
  };
  part("TP", p.tensor);
  part("PP", p.pipeline);
  part("CP", p.context);
  part("EP", p.expert);
  if (p.data * p.context > 1) {
    const bool fully = p.sharding == Sharding::fsdp1 || p.sharding == Sharding::fsdp2;
    const std::string_view kind = fully ? "FSDP" : title_of(p.sharding);
    name += name.empty() ? fmt::format("{} over {}", kind, p.data) : fmt::format(" x {} {}", kind, p.data);
  }
  if (p.virtual_stages > 1) name += fmt::format(", {} runs of layers a stage", p.virtual_stages);
  if (name.empty()) name = "one GPU";
  const bool fsdp = p.sharding == Sharding::fsdp1 || p.sharding == Sharding::fsdp2;
  // DeepSpeed's names and PyTorch's: they move different things (as_run).
  if (p.offload == Offload::optimizer) name += ", optimizer on the host (ZeRO-Offload)";
  if (p.offload == Offload::all) name += fsdp ? ", all on the host (CPUOffload)" : ", all on the host (ZeRO-Offload)";
  return name;
}

std::vector<std::uint32_t> tensor_degrees(const ModelFigures& model, const SearchRequest& request) {
  // Training keeps its all-reduces within a node; what is served may have to leave it (vLLM's documentation,
  // "Distributed serving").
  const std::uint32_t most = request.settings.trains() ? request.gpus_per_node : kMostTensorDegree;
  std::vector<std::uint32_t> degrees = divisors_up_to(request.gpus, most);
  // Heads of keys are divided, or each is copied to as many GPUs (vLLM's ModelConfig and Megatron's arguments refuse
  // the rest).
  const std::uint32_t keys = std::max(1U, model.shape.kv_heads);
  std::erase_if(degrees,
                [&](std::uint32_t t) { return model.shape.heads % t != 0 || (keys % t != 0 && t % keys != 0); });
  return degrees;
}

std::vector<std::uint32_t> pipeline_degrees(const ModelFigures& model, std::uint32_t left, bool crosses_nodes) {
  // Stages pay off where tensor parallelism ends: at a node's border.
  if (!crosses_nodes) return {1};
  // Layers need not divide: some stages then have one more than others.
  return divisors_up_to(left, std::clamp(model.shape.layers, 1U, kMostStages));
}

std::vector<std::uint32_t> context_degrees(const Settings& settings, std::uint32_t left) {
  if (!settings.trains() || settings.sequence < kLongSequence) return {1};
  return divisors_up_to(left, 8);
}

std::vector<std::uint32_t> expert_degrees(const ModelFigures& model, std::uint32_t data) {
  if (model.shape.experts.experts == 0) return {1};
  std::vector<std::uint32_t> degrees = divisors_up_to(data, 64);
  std::erase_if(degrees, [&](std::uint32_t e) { return model.shape.experts.experts % e != 0; });
  return degrees;
}

bool needs_other(Framework framework, const Parallelism& p) {
  if (framework == Framework::megatron || framework == Framework::torchtitan) return false;
  return p.tensor * p.pipeline * p.context * p.expert > 1;
}

/// Frameworks differ in which sharding they bring; FSDP stands for ZeRO-3 where they have it.
std::vector<Sharding> shardings(const SearchRequest& request, const Parallelism& parallel) {
  const bool alone = parallel.data * parallel.context == 1;
  const bool offloads = request.settings.parallel.offload != Offload::none;
  const bool elsewhere = needs_other(request.settings.framework, parallel);
  // Of the others torchtitan's FSDP has CPUOffload.
  if (elsewhere && offloads) return alone ? std::vector<Sharding>{} : std::vector{Sharding::fsdp2};
  if (alone) return {Sharding::none};
  // Megatron's DDP and distributed optimizer, torchtitan's FSDP.
  if (elsewhere) return {Sharding::none, Sharding::zero1, Sharding::fsdp2};
  const bool second = request.settings.parallel.sharding == Sharding::fsdp2 ||
                      request.settings.framework == Framework::torchtitan ||
                      request.settings.framework == Framework::torchtune;
  if (request.settings.framework == Framework::megatron) return {Sharding::none, Sharding::zero1};
  // DDP keeps everything on each GPU.
  if (offloads) return {Sharding::zero2, second ? Sharding::fsdp2 : Sharding::fsdp1};
  return {Sharding::none, Sharding::zero1, Sharding::zero2, second ? Sharding::fsdp2 : Sharding::fsdp1};
}

/// Who runs it: the settings' framework, or one that brings what it has not.
Framework framework_for(Framework own, const Parallelism& p) {
  if (!needs_other(own, p)) return own;
  return p.sharding == Sharding::fsdp1 || p.sharding == Sharding::fsdp2 ? Framework::torchtitan : Framework::megatron;
}

void add_recomputations(const SearchRequest& request, const Parallelism& parallel, std::vector<Candidate>& candidates) {
  Candidate candidate;
  candidate.settings = request.settings;
  candidate.settings.parallel = parallel;
  candidate.other_framework = request.settings.trains() && needs_other(request.settings.framework, parallel);
  // A measured line holds for the settings that it was measured with.
  if (candidate.other_framework && !request.calibration)
    candidate.settings = moved_to(framework_for(request.settings.framework, parallel), candidate.settings);
  candidate.name = name_of(as_run(candidate.settings).parallel);
  if (request.micro_batch > 0) candidate.settings.micro_batch = request.micro_batch;
  if (request.fixed_recompute || request.calibration || !request.settings.trains()) {
    candidates.push_back(std::move(candidate));
    return;
  }
  const Framework framework = candidate.settings.framework;
  const bool selects = framework == Framework::megatron || framework == Framework::torchtitan;
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    if (recompute == Recompute::selective && !selects) continue;
    candidate.settings.recompute = recompute;
    candidates.push_back(candidate);
  }
}

/// What is left to choose once tensors, stages and context are: experts, sharding, recomputation.
void add_shardings(const ModelFigures& model, const SearchRequest& request, Parallelism parallel,
                   std::vector<Candidate>& candidates) {
  const bool trains = request.settings.trains();
  // bitsandbytes and PEFT are transformers': nobody else trains beside weights that they quantised.
  const bool quantised = trains && request.settings.quantization != Quantization::none;
  for (const std::uint32_t expert : expert_degrees(model, parallel.data)) {
    parallel.expert = expert;
    if (quantised && needs_other(request.settings.framework, parallel)) continue;
    for (const Sharding sharding : trains ? shardings(request, parallel) : std::vector{Sharding::none}) {
      parallel.sharding = sharding;
      add_recomputations(request, parallel, candidates);
    }
  }
}

/// The strategy of the settings over the request's GPUs; none where they cannot be divided so.
std::vector<Candidate> fixed_strategy(const ModelFigures& model, const SearchRequest& request) {
  std::vector<Candidate> candidates;
  Parallelism parallel = request.settings.parallel;
  parallel.data = 1;
  const std::uint32_t others = parallel.gpus();
  const bool divides = others <= request.gpus && request.gpus % others == 0 &&
                       model.shape.heads % parallel.tensor == 0 && parallel.pipeline <= model.shape.layers;
  if (!divides) return candidates;
  parallel.data = request.gpus / others;
  const bool alone = parallel.data * parallel.context == 1;
  if (request.usual_sharding && alone && !request.calibration) parallel.sharding = Sharding::none;
  add_recomputations(request, parallel, candidates);
  return candidates;
}

/// The tensor-parallel degree beside which stages are worth it: the largest within a node that heads allow; 0: none.
std::uint32_t degree_of_stages(const SearchRequest& request, const std::vector<std::uint32_t>& degrees) {
  if (request.gpus <= request.gpus_per_node) return 0;
  std::uint32_t largest = 0;
  for (const std::uint32_t degree : degrees) {
    if (degree <= request.gpus_per_node) largest = std::max(largest, degree);
  }
  return largest;
}

/// llama.cpp spreads what it is told to: one way.
std::vector<Candidate> layer_split(const ModelFigures& model, const SearchRequest& request) {
  const LayerSplit& split = *request.settings.split;
  const std::uint64_t slots = std::uint64_t{model.shape.layers} + model.shape.encoder_layers + 1;
  if (request.gpus > slots || (split.mode == LayerSplit::Mode::none && request.gpus > 1)) return {};
  Candidate candidate;
  candidate.settings = request.settings;
  candidate.settings.parallel = {.layer_stages = request.gpus};
  candidate.name = request.gpus == 1 ? "one GPU"
                                     : fmt::format("{} split over {}",
                                                   split.mode == LayerSplit::Mode::row ? "row" : "layer", request.gpus);
  if (request.micro_batch > 0) candidate.settings.micro_batch = request.micro_batch;
  return {std::move(candidate)};
}

}  // namespace

std::vector<Candidate> strategies(const ModelFigures& model, const SearchRequest& request) {
  if (request.settings.split) return layer_split(model, request);
  if (request.fixed_strategy) return fixed_strategy(model, request);
  std::vector<Candidate> candidates;
  const std::vector<std::uint32_t> degrees = tensor_degrees(model, request);
  const std::uint32_t staged = degree_of_stages(request, degrees);
  for (const std::uint32_t tensor : degrees) {
    const std::uint32_t left = request.gpus / tensor;
    for (const std::uint32_t pipeline : pipeline_degrees(model, left, tensor == staged)) {
      // An engine is one copy of the model: replicas are engines of their own.
      if (left > pipeline && request.settings.task == Task::serving) continue;
      for (const std::uint32_t context : context_degrees(request.settings, left / pipeline)) {
        Parallelism parallel{.tensor = tensor, .pipeline = pipeline, .context = context};
        parallel.data = left / pipeline / context;
        parallel.offload = request.settings.parallel.offload;
        add_shardings(model, request, parallel, candidates);
      }
    }
  }
  return candidates;
}

double seconds_per_token(const ModelFigures& model, const SearchRequest& request, const Settings& settings) {
  const Figures& f = figures();
  const StepWork work = step_work(model, settings);
  double arithmetic = work.hardware_flops / (f.cost_utilization * request.peak_flops);
  if (settings.recompute == Recompute::selective) arithmetic *= 1 + f.cost_selective;
  // Small micro-batches leave a GPU's units idle.
  const double tokens = settings.tokens();
  arithmetic *= 1 + f.cost_half_tokens / std::max(1.0, tokens);
  // Tensor parallelism makes matrices narrower.
  arithmetic *= 1 + f.cost_narrower * std::log2(static_cast<double>(settings.parallel.tensor));
  const double stages = settings.parallel.pipeline;
  // Everybody waits for the stages that have a layer more.
  const double layers = std::max(1.0, static_cast<double>(model.shape.layers) + model.shape.encoder_layers);
  arithmetic *= std::ceil(layers / stages) * stages / layers;
  // Requests that follow each other keep the stages of an engine busy.
  const double idle = settings.trains() ? (settings.accumulation + stages - 1) / settings.accumulation : 1;
  const Links links{request.link_bytes, request.network_bytes, request.gpus_per_node, f.link_pcie_bytes};
  const Traffic traffic = traffic_of(model, settings, links);
  // What hides is a share of the traffic, so that less of it is always better.
  const double micro = (arithmetic + traffic.waiting) * idle + (1 - f.cost_overlap) * traffic.beside;
  // Sharding costs a little even where links are fast: more, smaller kernels and waits.
  const double order = 1 + f.cost_order * static_cast<double>(settings.parallel.sharding);
  return (micro * order + traffic.host_step) /
         (static_cast<double>(settings.micro_batch) * settings.sequence * settings.parallel.data);
}

}  // namespace gpuwarden::planning
