// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/json.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"
#include "planning/engines.hpp"

namespace gpuwarden::planning {
namespace {

using Json = nlohmann::json;

/// Negative only where measured peaks are below the equations.
std::int64_t whole(double bytes) { return std::llround(bytes); }

}  // namespace

Json to_json(const Settings& settings) {
  const Parallelism& parallel = settings.parallel;
  return {{"task", std::string(to_string(settings.task))},
          {"precision", std::string(to_string(settings.precision))},
          {"fp8", std::string(to_string(settings.fp8))},
          {"optimizer", std::string(to_string(settings.optimizer))},
          {"optimizer_step", std::string(to_string(settings.step))},
          {"sequence", settings.sequence},
          {"micro_batch", settings.micro_batch},
          {"accumulation", settings.accumulation},
          {"recompute", std::string(to_string(settings.recompute))},
          {"attention", std::string(to_string(settings.attention))},
          {"loss", std::string(to_string(settings.loss))},
          {"quantization", std::string(to_string(settings.quantization))},
          {"lora_rank", settings.task == Task::adapters ? Json(settings.adapters.rank) : Json()},
          {"framework", std::string(to_string(settings.framework))},
          {"sharding", std::string(to_string(parallel.sharding))},
          {"offload", std::string(to_string(parallel.offload))},
          {"data_parallel", parallel.data},
          {"tensor_parallel", parallel.tensor},
          {"pipeline_parallel", parallel.pipeline},
          {"context_parallel", parallel.context},
          {"expert_parallel", parallel.expert}};
}

Json to_json(const std::vector<Change>& changes) {
  Json list = Json::array();
  for (const Change& change : changes) {
    list.push_back({{"what", change.what},
                    {"strategy", change.candidate.name},
                    {"expected_bytes", whole(change.candidate.estimate.expected())},
                    {"settings", to_json(change.candidate.settings)}});
  }
  return list;
}

namespace {

Json model_json(const PlanAnswer& answer) {
  const ModelShape& model = answer.request.work.model;
  return {{"name", model.name},
          {"family", model.family},
          {"kind", std::string(to_string(model.kind))},
          {"parameters", answer.count.total},
          {"active_parameters", answer.count.active},
          {"embedding_parameters", answer.count.embedding},
          {"trained_parameters", model.estimated ? Json()
                                                 : Json(answer.request.work.settings.task == Task::adapters
                                                            ? answer.request.work.settings.adapters.stated_parameters
                                                            : answer.count.total)},
          {"estimated", model.estimated},
          {"source", model.source},
          {"notes", model.notes}};
}

Json gpus_json(const PlanRequest& request, const PlanOrigin& origin) {
  return {{"count", request.gpus.count},
          {"name", request.gpus.name},
          {"usable_bytes", request.gpus.usable.value},
          {"usable_measured", request.gpus.usable_measured},
          {"from", origin.gpus_from},
          {"other_gpus", origin.other_gpus},
          {"notes", origin.gpu_notes}};
}

Json moments_json(const Estimate& estimate) {
  Json moments = Json::array();
  for (std::size_t i = 0; i < estimate.moment_count; ++i) {
    const Moment& moment = estimate.moments[i];
    Json components = Json::object();
    for (std::size_t use = 0; use < kUses; ++use) {
      if (moment.uses[use] > 0) components[std::string(to_string(static_cast<Use>(use)))] = whole(moment.uses[use]);
    }
    moments.push_back({{"name", std::string(to_string(moment.kind))},
                       {"bytes", whole(moment.total())},
                       {"peak", i == estimate.peak},
                       {"components", components}});
  }
  return moments;
}

Json per_gpu_json(const PlanAnswer& answer) {
  const Estimate& estimate = answer.best().estimate;
  Json components = Json::array();
  for (const ExplainedUse& line : answer.lines) {
    components.push_back({{"name", line.name},
                          {"bytes", whole(line.bytes)},
                          {"formula", line.formula},
                          {"source", std::string(line.source)}});
  }
  return {{"low_bytes", whole(estimate.low())},
          {"expected_bytes", whole(estimate.expected())},
          {"high_bytes", whole(estimate.high())},
          {"allocated_bytes", whole(estimate.allocated)},
          {"host_bytes", whole(estimate.host)},
          {"peak_moment", std::string(to_string(estimate.peak_moment().kind))},
          {"components", components},
          {"moments", moments_json(estimate)}};
}

Json strategy_json(const Candidate& candidate) {
  return {{"name", candidate.name},
          {"verdict", std::string(to_string(candidate.fit))},
          {"expected_bytes", whole(candidate.estimate.expected())},
          {"micro_batch", candidate.settings.micro_batch},
          {"largest_micro_batch", candidate.largest_micro_batch},
          {"accumulation", candidate.settings.accumulation},
          {"effective_batch", candidate.effective_batch},
          {"misses_global_batch", candidate.misses_global_batch},
          {"other_framework", candidate.other_framework},
          {"settings", to_json(candidate.settings)}};
}

Json seconds(const std::optional<std::chrono::seconds>& duration) {
  return duration ? Json(duration->count()) : Json();
}

Json speed_json(const std::optional<Speed>& speed) {
  if (!speed) return nullptr;
  return {{"low_tokens_per_second", speed->low},
          {"expected_tokens_per_second", speed->expected},
          {"high_tokens_per_second", speed->high},
          {"utilization_percent", speed->achieved * 100},
          {"arithmetic_utilization_percent", speed->utilization * 100},
          {"step_seconds", speed->step_seconds},
          {"link_seconds", speed->link_seconds},
          {"idle_seconds", speed->idle_seconds},
          {"host_seconds", speed->host_seconds},
          {"tokens_per_step", speed->tokens_per_step},
          {"duration_seconds", seconds(speed->duration)},
          {"shortest_seconds", seconds(speed->shortest)},
          {"longest_seconds", seconds(speed->longest)},
          {"source", std::string(speed->source)}};
}

Json calibration_json(const std::optional<Calibration>& calibration) {
  if (!calibration) return nullptr;
  return {{"fixed_bytes", whole(calibration->fixed)},
          {"bytes_per_sample", whole(calibration->per_sample)},
          {"branch_changed", calibration->branch_changed},
          {"branch_changes_at", calibration->branch_changes_at ? Json(*calibration->branch_changes_at) : Json()},
          {"note", calibration->note}};
}

Json loading_json(const std::optional<Loading>& loading) {
  if (!loading) return nullptr;
  return {{"workers", loading->workers}, {"threads", loading->threads}, {"reason", loading->reason}};
}

std::string_view to_string(Length length) {
  if (length == Length::given) return "given";
  if (length == Length::assumed) return "assumed";
  if (length == Length::usual) return "usual";
  return length == Length::window ? "window" : "fitted";
}

Json load_json(const LayerLoad& load) {
  return {{"layers", load.layers},
          {"output", load.output},
          {"weights_bytes", whole(load.weights)},
          {"cache_bytes", whole(load.cache)}};
}

/// Which GPU holds which layers; null where an engine divides matrices instead.
Json layers_json(const PlanAnswer& answer) {
  if (!answer.loads) return nullptr;
  const auto& split = answer.best().settings.split;
  constexpr std::string_view kModes[] = {"layer", "row", "none"};
  Json gpus = Json::array();
  for (const LayerLoad& load : answer.loads->gpus) gpus.push_back(load_json(load));
  return {{"mode", std::string(kModes[static_cast<std::size_t>(split.value_or(LayerSplit{}).mode)])},
          {"gpus", gpus},
          {"host", load_json(answer.loads->host)},
          {"options", answer.engine_options}};
}

Json pool_json(const PlanAnswer& answer) {
  const std::optional<ServingPool>& pool = answer.pool;
  if (!pool) return nullptr;
  const Workload& work = answer.request.work;
  const std::uint32_t window = usual_window(work.model, work.engine);
  return {{"engine", std::string(traits_of(work.engine).word)},
          {"length", std::string(to_string(work.length))},
          {"window", window > 0 ? Json(window) : Json()},
          {"longest_request", answer.longest_request ? Json(*answer.longest_request) : Json()},
          {"cache_bytes", whole(pool->cache)},
          {"tokens", pool->tokens},
          {"requests", pool->requests},
          {"cache_bytes_low", whole(pool->cache_low)},
          {"cache_bytes_high", whole(pool->cache_high)},
          {"tokens_low", pool->tokens_low},
          {"tokens_high", pool->tokens_high},
          {"weights_bytes", whole(pool->weights)},
          {"weights_bytes_low", whole(pool->weights_low)},
          {"weights_bytes_high", whole(pool->weights_high)},
          {"activations_bytes", whole(pool->activations)},
          {"outside_bytes", whole(pool->outside)},
          {"layers", layers_json(answer)}};
}

}  // namespace

Json to_json(const PlanAnswer& answer, const PlanOrigin& origin) {
  const Search& search = answer.search;
  Json strategies = Json::array();
  for (const Candidate& candidate : search.candidates) strategies.push_back(strategy_json(candidate));
  const Candidate& best = answer.best();
  Json recommended;
  if (answer.fits) {
    recommended = strategy_json(best);
    recommended["reason"] = search.reason;
  }
  const Fit verdict = answer.fits ? best.fit : Fit::does_not_fit;
  return facts::answer({{"verdict", std::string(to_string(verdict))},
                        {"reason", search.reason},
                        {"model", model_json(answer)},
                        {"gpus", gpus_json(answer.request, origin)},
                        {"per_gpu", per_gpu_json(answer)},
                        {"recommended", recommended},
                        {"strategies", strategies},
                        {"notes", answer.notes},
                        {"searched", search.searched},
                        {"smallest_gpus", search.smallest_gpus ? Json(*search.smallest_gpus) : Json()},
                        {"roomy_gpus", search.roomy_gpus ? Json(*search.roomy_gpus) : Json()},
                        {"changes", to_json(search.changes)},
                        {"serving", pool_json(answer)},
                        {"throughput", speed_json(answer.speed)},
                        {"calibration", calibration_json(answer.calibration)},
                        {"data_loading", loading_json(answer.loading)}},
                       origin.simulated);
}

}  // namespace gpuwarden::planning
