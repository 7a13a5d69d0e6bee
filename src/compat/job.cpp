// SPDX-License-Identifier: Apache-2.0
// Which GPU for a job, and which driver for each GPU.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/compat/answer.hpp"
#include "gpuwarden/planning/gpu_count.hpp"

namespace gpuwarden::compat {
namespace {

using knowledge::DriverStanding;
using knowledge::GpuModel;
using knowledge::Knowledge;

constexpr std::string_view kNotServed = "the newest CUDA or PyTorch has left it: take an older PyTorch";

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

/// How many GPUs of this model the job takes, of those that the place has.
std::optional<JobAnswer::Here> on_gpus(const PlaceGpu& gpu, const planning::Workload& job) {
  planning::GpuGroup group = planning::gpus_of(*gpu.model);
  group.count = static_cast<std::uint32_t>(gpu.count);
  const auto count = planning::count_gpus_for(job, group);
  return count ? std::optional(JobAnswer::Here{gpu.model, count->gpus, group.count}) : std::nullopt;
}

/// How many of them the place has against how many the job takes: on a machine as many must do as there are; GPUs that
/// are named are candidates, of which the ranking says how many there should be. Of a model of which the ranking knows
/// no rate it is asked, too.
void add_place(const Asked& asked, JobAnswer& answer) {
  if (asked.place.gpus.empty()) return;
  for (const Suggestion& one : answer.ranking) {
    const auto gpu = std::ranges::find(asked.place.gpus, one.model, &PlaceGpu::model);
    if (gpu == asked.place.gpus.end()) continue;
    if (asked.place.named && static_cast<std::uint32_t>(gpu->count) < one.gpus) continue;
    if ((answer.here = on_gpus(*gpu, answer.job))) return;
  }
  for (const PlaceGpu& gpu : asked.place.gpus) {
    if (gpu.model == nullptr ||
        std::ranges::find(answer.ranking, gpu.model, &Suggestion::model) != answer.ranking.end())
      continue;
    if ((answer.here = on_gpus(gpu, answer.job))) return;
  }
  answer.does_not_fit = !asked.place.named;
}

std::string remark_on(const GpuModel& model, bool training, const Suggestion& suggestion, planning::Fit fit) {
  if (suggestion.half) return "no BF16: loss scaling in FP16";
  if (fit == planning::Fit::tight) return "tight";
  if (suggestion.gpus > 1 && model.nvlink_gb_s == 0) return "no NVLink: exchange over PCIe";
  if (suggestion.gpus > planning::kUsualNode) return "more than one machine";
  return training && model.memory_bandwidth_gb_s < 400 ? "slow memory" : "";
}

std::optional<Suggestion> suggestion_of(const Knowledge& knowledge, const planning::Workload& job,
                                        const GpuModel& model) {
  const bool training = job.settings.trains();
  Suggestion one{.model = &model, .half = training && model.bf16_dense_tflops == 0};
  const double tensor = one.half ? model.fp16_dense_tflops : model.bf16_dense_tflops;
  const double rate = training ? tensor : model.memory_bandwidth_gb_s;
  planning::GpuGroup group = planning::gpus_of(model);
  group.count = kMostForJob;
  if (rate <= 0 || group.usable == Bytes{}) return std::nullopt;
  const auto count = planning::count_gpus_for(job, group);
  if (!count) return std::nullopt;
  one.gpus = count->gpus;
  one.rate = one.gpus * rate;
  one.remark = remark_on(model, training, one, count->candidate.fit);
  if (!knowledge::is_served_by_newest(knowledge, model))
    one.remark += one.remark.empty() ? kNotServed : fmt::format("; {}", kNotServed);
  return one;
}

/// What the newest software has left is nothing to buy; who has it, or names it, wants to know what it holds.
std::vector<Suggestion> ranking_of(const Asked& asked, const planning::Workload& job) {
  std::vector<Suggestion> ranking;
  const bool chosen = !asked.place.gpus.empty();
  for (const GpuModel* model : candidates(asked)) {
    if (!chosen && !knowledge::is_served_by_newest(asked.knowledge, *model)) continue;
    if (auto one = suggestion_of(asked.knowledge, job, *model)) ranking.push_back(*std::move(one));
  }
  std::ranges::stable_sort(ranking, [](const Suggestion& a, const Suggestion& b) {
    return std::tuple(a.gpus, a.half, -a.rate) < std::tuple(b.gpus, b.half, -b.rate);
  });
  return ranking;
}

std::string rule_of(const JobAnswer& answer) {
  const planning::Workload& job = answer.job;
  return fmt::format(
      "{} of {}{}, {:.3g} billion parameters, {} tokens a {}: on how many idle GPUs it has room to spare, as gpuwarden "
      "plan counts it; ranked by fewest GPUs, then by {}",
      planning::words_of(job.settings.task), printable(job.model.name),
      job.model.estimated ? " (its shape is a guess)" : "", answer.parameters / 1e9, job.settings.sequence,
      job.settings.trains() ? "sample" : "request",
      job.settings.trains() ? "dense BF16 rate" : "memory bandwidth, which limits decoding");
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

JobAnswer answer_job(const Asked& asked, const planning::Workload& job) {
  JobAnswer answer;
  answer.job = job;
  answer.parameters = static_cast<double>(planning::count_parameters(job.model).total);
  if (const auto alone = planning::estimate(job.model, job.settings)) answer.bytes_needed = alone->expected();
  answer.rule = rule_of(answer);
  answer.ranking = ranking_of(asked, job);
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
