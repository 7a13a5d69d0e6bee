// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/estimate.hpp"

#include <algorithm>
#include <numeric>

#include "equations.hpp"
#include "gpuwarden/planning/parameters.hpp"

namespace gpuwarden::planning {

namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
/// A CUDA context with the kernels that training loads: 0.47 GiB lazily loaded to 0.92 (A100, torch 2.1; stas00).
constexpr double kContext = 1.0 * kGiB;
/// NCCL's buffers after the first collective of two ranks (stas00/ml-engineering).
constexpr double kCommunication = 1.5 * kGiB;

/// The 90th percentile of errors on rows that chose no coefficient, by kind of plan.
double uncertainty_of(const ModelFigures& model, const Settings& settings) {
  if (model.shape.estimated) return 0.25;
  if (!settings.trains()) return 0.03;
  const Parallelism& parallel = settings.parallel;
  if (parallel.tensor > 1 || parallel.pipeline > 1 || parallel.expert > 1) return 0.25;
  if (parallel.offload != Offload::none) return 0.25;
  return settings.varied_lengths ? 0.15 : 0.10;
}

}  // namespace

double Moment::total() const { return std::accumulate(uses.begin(), uses.end(), 0.0); }

ModelFigures figures_of(const ModelShape& model, std::uint64_t stated) {
  const ParameterCount count = count_parameters(model);
  ModelFigures figures;
  figures.shape = model;
  figures.total = static_cast<double>(stated > 0 ? stated : count.total);
  figures.active = static_cast<double>(count.active);
  figures.linear = static_cast<double>(count.linear);
  figures.experts = 3.0 * model.experts.experts * model.experts.intermediate * model.hidden * expert_layers(model);
  figures.embedding = static_cast<double>(model.vocab) * model.hidden;
  figures.root = static_cast<double>(count.embedding + count.head) + model.hidden;
  figures.layer = static_cast<double>(count.layer);
  return figures;
}

Result<Estimate> estimate(const ModelFigures& model, const Settings& settings) {
  GPUWARDEN_CHECK(check(settings));
  Estimate result;
  if (settings.trains()) {
    add_training_moments(model, settings, result);
  } else {
    add_generation_moment(model, settings, result);
  }
  result.allocated = result.peak_moment().total();
  result.context = kContext;
  result.communication = settings.parallel.gpus() > settings.parallel.layer_stages ? kCommunication : 0;
  result.reserve = allocator_reserve(model, settings, result);
  result.uncertainty = uncertainty_of(model, settings);
  return result;
}

Result<Estimate> estimate(const ModelShape& model, const Settings& settings) {
  return estimate(figures_of(model), settings);
}

Fit judge(const Estimate& estimate, const GpuBudget& gpu) {
  const auto usable = static_cast<double>(gpu.usable.value);
  if (estimate.expected() > usable) return Fit::does_not_fit;
  const bool spare = estimate.expected() * 1.15 <= usable;
  return spare || estimate.high() <= usable ? Fit::fits : Fit::tight;
}

}  // namespace gpuwarden::planning
