// SPDX-License-Identifier: Apache-2.0
// Which GPU for a job, and which driver for each GPU.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compat/answer.hpp"
#include "gpuwarden/base/text.hpp"
#include "render/columns.hpp"

namespace gpuwarden::cli::compat {
namespace {

using knowledge::DriverStanding;
using knowledge::GpuModel;
using knowledge::Suggestion;
using knowledge::Version;
using Json = nlohmann::json;

constexpr std::size_t kSuggestionsShown = 15;

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

std::vector<std::string> row_of(const Suggestion& one, const knowledge::Job& job) {
  const double rate = job.training ? one.rate : one.rate / 1000;
  return {fmt::format("{} x", one.gpus), std::string(one.model->name), fmt::format("{:g} GB", one.model->memory_gb),
          fmt::format("{:.{}f} {}", rate, rate < 100 ? 1 : 0, job.training ? "TFLOPS" : "TB/s"), one.remark};
}

/// How many of them the place has against how many the job takes.
void add_place(const Asked& asked, const std::vector<Suggestion>& ranking, Answer& answer) {
  answer.json["here"] = nullptr;
  if (asked.place.gpus.empty()) return;
  for (const Suggestion& one : ranking) {
    const auto gpu = std::ranges::find(asked.place.gpus, one.model, &PlaceGpu::model);
    if (gpu == asked.place.gpus.end() || gpu->count < one.gpus) continue;
    answer.json["here"] = {{"gpu", one.model->name}, {"needed", one.gpus}, {"present", gpu->count}};
    answer.text += line(asked, "here", fmt::format("{} of {} {} hold it", one.gpus, gpu->count, one.model->name));
    return;
  }
  if (!asked.place.named) {
    answer.text += line(asked, "here", "its GPUs do not hold it");
    answer.exit_code = kNo;
  }
}

struct MatrixRow {
  const GpuModel* model = nullptr;
  knowledge::DriverNeeds needs;
  std::optional<Version> cuda;
};

std::vector<MatrixRow> matrix(const Asked& asked, std::optional<Version> work, const std::string& workload) {
  std::vector<MatrixRow> rows;
  for (const GpuModel* model : candidates(asked)) {
    const auto* wheel = knowledge::newest_torch_for(asked.knowledge, {knowledge::architecture_of(*model)}, {});
    MatrixRow row{.model = model, .needs = {}, .cuda = work};
    if (!work && wheel != nullptr) row.cuda = knowledge::cuda_of_build(wheel->build);
    row.needs = knowledge::driver_needs(asked.knowledge, *model, row.cuda, workload, asked.when);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string shown(const Version& version) { return version ? to_string(version) : "-"; }

Json json_of(const MatrixRow& row, const std::string& standing) {
  return {{"gpu", row.model->name},
          {"cuda", row.cuda ? Json(to_string(*row.cuda)) : Json()},
          {"minimum", version_json(row.needs.minimum)},
          {"required", version_json(row.needs.required)},
          {"recommended", version_json(row.needs.recommended)},
          {"optimal", version_json(row.needs.optimal)},
          {"last_branch", row.needs.last_branch != 0 ? Json(row.needs.last_branch) : Json()},
          {"standing", standing.empty() ? Json() : Json(standing)}};
}

bool is_bad(DriverStanding standing) {
  return standing == DriverStanding::below_minimum || standing == DriverStanding::too_new ||
         standing == DriverStanding::below_required;
}

}  // namespace

Answer answer_job(const Asked& asked, const knowledge::Job& job) {
  Answer answer;
  const auto ranking = knowledge::rank_for(asked.knowledge, job, candidates(asked));
  answer.json = {{"training", job.training},
                 {"parameters", job.parameters},
                 {"bytes_needed", knowledge::bytes_needed(job)},
                 {"rule", knowledge::rule_of(job)},
                 {"ranking", Json::array()}};
  answer.text = line(asked, "rule", knowledge::rule_of(job));
  add_place(asked, ranking, answer);
  std::vector<std::vector<std::string>> table{{"GPUs", "model", "each", "rate", "remark"}};
  for (const Suggestion& one : ranking) {
    answer.json["ranking"].push_back({{"gpu", one.model->name},
                                      {"gpus", one.gpus},
                                      {"memory_gb", one.model->memory_gb},
                                      {"rate", one.rate},
                                      {"rate_unit", job.training ? "TFLOPS" : "GB/s"},
                                      {"remark", one.remark}});
    if (table.size() > kSuggestionsShown) continue;
    table.push_back(row_of(one, job));
    answer.sources.push_back(fmt::format("{}: {}", one.model->name, one.model->source));
  }
  if (ranking.empty()) {
    answer.text += "\nno GPU among these holds it, even 64 of them\n";
    answer.exit_code = kNo;
    return answer;
  }
  answer.text += "\n" + columns(table, asked.style);
  if (ranking.size() > kSuggestionsShown)
    answer.text += fmt::format("  and {} more (--json shows all)\n", ranking.size() - kSuggestionsShown);
  return answer;
}

Answer answer_matrix(const Asked& asked, std::optional<Version> work, const std::string& workload) {
  Answer answer;
  std::vector<std::vector<std::string>> table{{"GPU", "CUDA", "minimum", "required", "recommended", "optimal", "last"}};
  if (asked.place.driver) table[0].push_back(to_string(*asked.place.driver));
  std::set<std::string> sources;
  answer.json["matrix"] = Json::array();
  for (const MatrixRow& row : matrix(asked, work, workload)) {
    const auto standing =
        asked.place.driver ? knowledge::standing_of(row.needs, *asked.place.driver) : DriverStanding::unknown;
    const std::string word = asked.place.driver ? std::string(to_string(standing)) : "";
    answer.json["matrix"].push_back(json_of(row, word));
    table.push_back({std::string(row.model->name), row.cuda ? to_string(*row.cuda) : "-", shown(row.needs.minimum),
                     shown(row.needs.required), shown(row.needs.recommended), shown(row.needs.optimal),
                     row.needs.last_branch != 0 ? std::to_string(row.needs.last_branch) : ""});
    if (asked.place.driver) table.back().push_back(word);
    if (is_bad(standing) && !asked.place.gpus.empty()) answer.exit_code = kNo;
    sources.insert(row.needs.sources.begin(), row.needs.sources.end());
  }
  answer.text = columns(table, asked.style, 0);
  constexpr std::string_view kLegend =
      "minimum: the first branch that knows the GPU; required: the oldest driver that runs the CUDA of the work (of "
      "the "
      "newest PyTorch where none is named); recommended: the branch to take today; optimal: the driver with which "
      "nothing of that CUDA is missing (or the last that serves the GPU); last: the last branch that serves the GPU. "
      "--why shows the sources.";
  answer.text += "\n" + wrapped(kLegend, 0, 0, asked.style.width) + "\n";
  answer.sources.assign(sources.begin(), sources.end());
  return answer;
}

}  // namespace gpuwarden::cli::compat
