// SPDX-License-Identifier: Apache-2.0
#include "plan/answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gpuwarden::cli {
namespace {

using namespace planning;

/// What the GPU can do in the type that is computed in, a second; 0: not known.
double peak_flops(const GpuGroup& gpus, const Settings& settings) {
  double tflops = gpus.bf16_tflops > 0 ? gpus.bf16_tflops : gpus.fp16_tflops;
  if (settings.fp8 != Fp8::none && gpus.fp8_tflops > 0) tflops = gpus.fp8_tflops;
  if (settings.precision == Precision::fp16) tflops = gpus.fp16_tflops;
  if (settings.precision == Precision::fp32) tflops = gpus.tf32_tflops > 0 ? gpus.tf32_tflops : gpus.fp32_tflops;
  return tflops * 1e12;
}

SearchRequest search_request(const PlanAnswer& answer) {
  const PlanRequest& request = answer.request;
  SearchRequest search{.settings = request.settings, .gpu = {request.gpus.usable}, .gpus = request.gpus.count};
  search.gpus_per_node = request.gpus_per_node;
  search.global_batch = request.global_batch.value_or(0);
  const bool one = request.micro_batch_given || request.settings.task == Task::serving;
  search.micro_batch = one ? request.settings.micro_batch : 0;
  search.fixed_recompute = request.recompute_given;
  search.calibration = answer.calibration;
  search.fixed_strategy = request.strategy_given || answer.calibration;
  if (const double peak = peak_flops(request.gpus, request.settings); peak > 0) search.peak_flops = peak;
  const Links links = links_of(request.gpus, request.gpus_per_node);
  search.link_bytes = links.within;
  search.network_bytes = links.between;
  return search;
}

/// The largest divisor of `count` that is less than `below`.
std::uint32_t next_divisor(std::uint32_t count, std::uint32_t below) {
  for (std::uint32_t divisor = below - 1; divisor > 1; --divisor) {
    if (count % divisor == 0) return divisor;
  }
  return 1;
}

Result<void> search_strategies(PlanAnswer& answer) {
  SearchRequest request = search_request(answer);
  GPUWARDEN_TRY(answer.search, plan(answer.figures, request));
  // Heads that cannot be shared by all GPUs: copies on fewer of them.
  const bool copies = !request.settings.trains() && !request.fixed_strategy;
  while (answer.search.candidates.empty() && copies && request.gpus > 1) {
    request.gpus = next_divisor(answer.request.gpus.count, request.gpus);
    GPUWARDEN_TRY(answer.search, plan(answer.figures, request));
    answer.search.reason += fmt::format("; a copy takes {} of the {} GPUs", request.gpus, answer.request.gpus.count);
  }
  if (answer.search.candidates.empty())
    return fail(ErrorCode::unsatisfied, answer.search.reason,
                answer.search.smallest_gpus ? fmt::format("{} GPUs are enough", *answer.search.smallest_gpus)
                                            : std::string("take another number of GPUs"));
  answer.chosen = answer.search.recommended.value_or(0);
  return {};
}

Result<void> add_calibration(PlanAnswer& answer) {
  const PlanRequest& request = answer.request;
  if (request.measured.empty()) return {};
  if (!request.strategy_given && request.gpus.count > 1)
    return fail(ErrorCode::invalid_argument,
                "--calibrate: the peaks were measured under one strategy, which is not named",
                "say which: --strategy fsdp2");
  GPUWARDEN_TRY(answer.calibration, calibrate(answer.figures, request.settings, request.measured));
  return {};
}

/// The fewest GPUs whose best strategy leaves room for a request in the engine's share of their memory.
std::optional<std::uint32_t> fewest_for_pool(const PlanAnswer& answer, const ServingBudget& budget) {
  constexpr std::uint32_t kMost = 1024;
  SearchRequest request = search_request(answer);
  const std::uint32_t node = request.gpus_per_node;
  for (request.gpus = 1; request.gpus <= kMost; request.gpus += request.gpus < node ? 1 : node) {
    const auto found = plan(answer.figures, request);
    if (!found || !found->recommended) continue;
    const auto pool = serving_pool(answer.figures, found->candidates[*found->recommended].settings, budget);
    if (pool && pool->tokens >= request.settings.sequence) return request.gpus;
  }
  return {};
}

Result<void> add_pool(PlanAnswer& answer) {
  if (answer.request.settings.task != Task::serving) return {};
  const ServingBudget budget{.gpu = {answer.request.gpus.usable}, .utilization = answer.request.serving_utilization};
  GPUWARDEN_TRY(answer.pool, serving_pool(answer.figures, answer.best().settings, budget));
  const std::uint32_t sequence = answer.best().settings.sequence;
  if (!answer.fits || answer.pool->tokens >= sequence) return {};
  answer.fits = false;
  answer.search.smallest_gpus = fewest_for_pool(answer, budget);
  answer.search.changes = pool_changes(answer.figures, search_request(answer), budget, answer.search.smallest_gpus);
  answer.search.reason =
      fmt::format("the KV cache holds {} tokens: not one request of {}", answer.pool->tokens, sequence);
  return {};
}

Result<void> add_speed(PlanAnswer& answer) {
  const PlanRequest& request = answer.request;
  const double peak = peak_flops(request.gpus, request.settings);
  if (!answer.fits || peak <= 0 || !request.settings.trains()) return {};
  if (!request.mfu && !speed_known(answer.figures)) return {};
  GPUWARDEN_TRY(answer.speed,
                speed_of(answer.figures, answer.best().settings, request.gpus.name, peak, request.mfu,
                         request.train_tokens.value_or(0), links_of(request.gpus, request.gpus_per_node)));
  return {};
}

}  // namespace

Result<PlanAnswer> answer_plan(PlanRequest request) {
  PlanAnswer answer{.request = std::move(request)};
  answer.figures = figures_of(answer.request.model);
  answer.count = count_parameters(answer.request.model);
  GPUWARDEN_CHECK(check(answer.request.settings));
  GPUWARDEN_CHECK(add_calibration(answer));
  GPUWARDEN_CHECK(search_strategies(answer));
  answer.fits = answer.search.recommended.has_value();
  GPUWARDEN_CHECK(add_pool(answer));
  GPUWARDEN_CHECK(add_speed(answer));
  if (answer.request.cpus > 0 && answer.request.settings.trains())
    answer.loading =
        loading_advice(answer.request.cpus, std::min(answer.request.gpus.count, answer.request.gpus_per_node));
  answer.lines = explain(answer.figures, answer.best().settings, answer.best().estimate);
  if (answer.calibration)
    answer.lines.push_back({"measured difference",
                            answer.best().estimate.allocated - answer.best().estimate.peak_moment().total(),
                            "the measured peaks' line less what the equations give", "--calibrate"});
  return answer;
}

}  // namespace gpuwarden::cli
