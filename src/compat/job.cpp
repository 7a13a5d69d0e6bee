// SPDX-License-Identifier: Apache-2.0
// Which GPU for a job, and which driver for each GPU.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "gpuwarden/compat/answer.hpp"

namespace gpuwarden::compat {
namespace {

using knowledge::DriverStanding;
using knowledge::GpuModel;
using knowledge::Suggestion;

/// The GPUs of the place once each; without any, the catalogue.
std::vector<const GpuModel*> candidates(const Asked& asked) {
  std::vector<const GpuModel*> models;
  const auto take = [&](const GpuModel* model) {
    if (model != nullptr && std::ranges::find(models, model) == models.end()) models.push_back(model);
  };
  for (const PlaceGpu& gpu : asked.place.gpus) {
    take(gpu.model);
    std::ranges::for_each(gpu.meant, take);
  }
  if (!models.empty()) return models;
  for (const GpuModel& model : asked.knowledge.models()) models.push_back(&model);
  return models;
}

/// How many of them the place has against how many the job takes.
void add_place(const Asked& asked, JobAnswer& answer) {
  if (asked.place.gpus.empty()) return;
  for (const Suggestion& one : answer.ranking) {
    const auto gpu = std::ranges::find(asked.place.gpus, one.model, &PlaceGpu::model);
    if (gpu == asked.place.gpus.end() || gpu->count < one.gpus) continue;
    answer.here = JobAnswer::Here{one.model, one.gpus, gpu->count};
    return;
  }
  answer.does_not_fit = !asked.place.named;
}

bool is_bad(DriverStanding standing) {
  return standing == DriverStanding::below_minimum || standing == DriverStanding::too_new ||
         standing == DriverStanding::below_required;
}

MatrixRow row_for(const Asked& asked, const GpuModel& model, std::optional<Version> work, const std::string& workload) {
  const auto* wheel = knowledge::newest_torch_for(asked.knowledge, {knowledge::architecture_of(model)}, {},
                                                  knowledge::machine_of_gpu(model.name));
  MatrixRow row{.model = &model, .cuda = work, .needs = {}, .standing = {}};
  if (!work && wheel != nullptr) row.cuda = knowledge::cuda_of_build(wheel->build);
  row.needs = knowledge::driver_needs(asked.knowledge, model, row.cuda, workload, asked.when);
  row.dropped = row.cuda && model.last_cuda && release_of(*row.cuda) > release_of(model.last_cuda);
  if (row.dropped) {
    row.needs.required = row.needs.recommended = row.needs.optimal = {};
    const int number = knowledge::architecture_of(model);
    if (const auto* architecture = asked.knowledge.architecture(number))
      row.needs.sources.push_back(fmt::format("sm_{}: {}", number, architecture->source));
  } else if (asked.place.driver)
    row.standing = knowledge::standing_of(row.needs, *asked.place.driver);
  return row;
}

}  // namespace

JobAnswer answer_job(const Asked& asked, const knowledge::Job& job) {
  JobAnswer answer;
  answer.job = job;
  answer.ranking = knowledge::rank_for(asked.knowledge, job, candidates(asked));
  add_place(asked, answer);
  answer.positive = !answer.ranking.empty() && !answer.does_not_fit;
  for (std::size_t i = 0; i < std::min(answer.ranking.size(), kSuggestionsShown); ++i) {
    const GpuModel& model = *answer.ranking[i].model;
    answer.sources.push_back(fmt::format("{}: {}", model.name, model.source));
  }
  return answer;
}

MatrixAnswer answer_matrix(const Asked& asked, std::optional<Version> work, const std::string& workload) {
  MatrixAnswer answer;
  std::set<std::string> sources;
  for (const GpuModel* model : candidates(asked)) {
    answer.rows.push_back(row_for(asked, *model, work, workload));
    const MatrixRow& row = answer.rows.back();
    const bool bad = row.dropped || (row.standing && is_bad(*row.standing));
    if (bad && !asked.place.gpus.empty()) answer.positive = false;
    sources.insert(row.needs.sources.begin(), row.needs.sources.end());
  }
  answer.sources.assign(sources.begin(), sources.end());
  return answer;
}

}  // namespace gpuwarden::compat
