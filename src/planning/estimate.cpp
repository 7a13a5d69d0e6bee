// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/estimate.hpp"

#include <algorithm>
#include <numeric>

#include "equations.hpp"
#include "gpuwarden/planning/parameters.hpp"

namespace gpuwarden::planning {

namespace {

/// About the 90th percentile of errors by kind of plan, mostly on rows that coefficients were chosen on; assumed where
/// nothing was measured (planning_figures.csv says which).
double uncertainty_of(const ModelFigures& model, const Settings& settings) {
  if (model.shape.estimated) return figures().uncertainty_shape;
  if (!settings.trains()) return figures().uncertainty_inference;
  const Parallelism& parallel = settings.parallel;
  if (parallel.tensor > 1 || parallel.pipeline > 1 || parallel.expert > 1) return figures().uncertainty_parallel;
  if (parallel.offload != Offload::none) return figures().uncertainty_parallel;
  return settings.varied_lengths ? figures().uncertainty_varied : figures().uncertainty_training;
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
  result.communication = settings.parallel.gpus() > settings.parallel.layer_stages ? figures().nccl_buffers : 0;
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
