// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/estimate.hpp"

#include <algorithm>
#include <numeric>

#include "equations.hpp"
#include "gpuwarden/planning/gguf.hpp"
#include "gpuwarden/planning/layer_split.hpp"
#include "gpuwarden/planning/parameters.hpp"
#include "gpuwarden/planning/serving.hpp"

namespace gpuwarden::planning {

namespace {

/// The figure of this kind of plan: its `low` is how much less, its `high` how much more may be measured.
const knowledge::PlanningFigure& uncertainty_of(const ModelFigures& model, const Settings& settings) {
  const Figures& f = figures();
  // What ggml packs lies in memory as it lies in its file.
  const bool packed = settings.quantization != Quantization::none && settings.quantization != Quantization::fp8 &&
                      (find_mix(settings.quantization) == nullptr || !model.shape.dynamic_mix.empty());
  if (model.shape.estimated) return f.uncertainty_shape;
  if (!settings.trains()) return packed ? f.uncertainty_packed : f.uncertainty_inference;
  const Parallelism& parallel = settings.parallel;
  if (parallel.offload != Offload::none) return f.uncertainty_offload;
  const bool experts = model.shape.experts.experts > 0;
  if (experts || std::max({parallel.tensor, parallel.pipeline, parallel.expert}) > 1) return f.uncertainty_parallel;
  if (settings.framework == Framework::torchtitan) return f.uncertainty_compiled;
  return settings.varied_lengths ? f.uncertainty_varied : f.uncertainty_training;
}

/// Logits of a whole prompt, which AutoAWQ's models and transformers before 4.45 compute, in 16 bit and in fp32; where
/// the prompt is not told, it may be all of a request.
double prompt_logits(const ModelFigures& model, const Settings& settings) {
  if (settings.task != Task::inference || !model.shape.output_head) return 0;
  constexpr double kBytes = 2 + 4;
  const double prompt = settings.prompt > 0 ? settings.prompt : settings.sequence;
  return kBytes * model.shape.vocab / settings.parallel.tensor * prompt * settings.micro_batch;
}

/// llama.cpp brings its kernels without torch, and leaves to the host what is not on GPUs.
void add_llama_cpps_own(const ModelFigures& model, const Settings& settings, Estimate& estimate) {
  const LayerLoad host = layer_loads(model, settings).host;
  estimate.context = static_cast<double>(ServingBudget{}.outside.value);
  estimate.host = host.weights + host.cache;
}

}  // namespace

double Moment::total() const { return std::accumulate(uses.begin(), uses.end(), 0.0); }

ModelFigures figures_of(const ModelShape& model) {
  const ParameterCount count = count_parameters(model);
  ModelFigures figures;
  figures.shape = model;
  figures.total = static_cast<double>(count.total);
  figures.active = static_cast<double>(count.active);
  figures.linear = static_cast<double>(count.linear);
  figures.experts = 3.0 * model.experts.experts * model.experts.intermediate * model.hidden * expert_layers(model);
  figures.embedding = static_cast<double>(model.vocab) * model.hidden;
  figures.root = static_cast<double>(count.embedding + count.head) + model.hidden;
  figures.layer = static_cast<double>(count.layer);
  return figures;
}

Result<Estimate> estimate(const ModelFigures& model, const Settings& asked) {
  GPUWARDEN_CHECK(check(asked));
  const Settings settings = as_run(asked);
  Estimate result;
  if (settings.trains()) {
    add_training_moments(model, settings, result);
  } else {
    add_generation_moment(model, settings, result);
  }
  result.allocated = result.peak_moment().total();
  result.context = figures().cuda_context;
  if (settings.split) add_llama_cpps_own(model, settings, result);
  result.communication = settings.parallel.gpus() > settings.parallel.layer_stages ? figures().nccl_buffers : 0;
  result.reserve = allocator_reserve(model, settings, result);
  const knowledge::PlanningFigure& uncertainty = uncertainty_of(model, settings);
  result.uncertainty = uncertainty.low;
  result.more_share = uncertainty.high - uncertainty.low;
  result.more_bytes = prompt_logits(model, settings);
  return result;
}

Result<Estimate> estimate(const ModelShape& model, const Settings& settings) {
  return estimate(figures_of(model), settings);
}

double Beside::cache(std::uint32_t tokens) const { return token * tokens + windowed_token * std::min(tokens, window); }

double GpuBudget::left(std::uint32_t tokens) const {
  return std::max(0.0, static_cast<double>(usable.value) - beside.bytes(tokens));
}

Fit judge(const Estimate& estimate, const GpuBudget& gpu, std::uint32_t tokens) {
  const double usable = gpu.left(tokens);
  if (estimate.expected() > usable) return Fit::does_not_fit;
  const bool spare = estimate.expected() * 1.15 <= usable;
  return spare || estimate.high() <= usable ? Fit::fits : Fit::tight;
}

}  // namespace gpuwarden::planning
