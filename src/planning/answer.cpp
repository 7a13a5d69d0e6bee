// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "answer_notes.hpp"
#include "engines.hpp"
#include "gpuwarden/base/text.hpp"
#include "search_parts.hpp"

namespace gpuwarden::planning {
namespace {

/// What the GPU can do in the type that is computed in, a second; 0: not known.
double peak_flops(const GpuGroup& gpus, const Settings& settings) {
  double tflops = gpus.bf16_tflops > 0 ? gpus.bf16_tflops : gpus.fp16_tflops;
  if (settings.fp8 != Fp8::none && gpus.fp8_tflops > 0) return gpus.fp8_tflops * 1e12;
  if (settings.precision == Precision::fp16) tflops = gpus.fp16_tflops;
  if (settings.precision == Precision::fp32) tflops = gpus.tf32_tflops > 0 ? gpus.tf32_tflops : gpus.fp32_tflops;
  return tflops * 1e12;
}

SearchRequest request_of(const PlanAnswer& answer) {
  const PlanRequest& request = answer.request;
  SearchRequest search = search_request(request.work, request.gpus, request.gpus_per_node);
  search.calibration = answer.calibration;
  search.fixed_strategy = search.fixed_strategy || answer.calibration;
  return search;
}

ServingBudget budget_of(const Workload& work, const GpuGroup& gpus) {
  // Source: llama.cpp common/arg.cpp, --fit-target: 1024 MiB stay free on each GPU.
  constexpr std::uint64_t kLeftByFitting = 1ULL << 30U;
  const BatchSizes usual = usual_batch(work.engine, gpus);
  ServingBudget budget{.gpu = {gpus.usable, work.beside},
                       .utilization = work.serving_utilization,
                       .static_share = work.static_share,
                       .spared = traits_of(work.engine).spares,
                       .batched_tokens = work.batched_tokens > 0 ? work.batched_tokens : usual.tokens,
                       .requests = work.max_requests > 0 ? work.max_requests : usual.requests};
  if (!traits_of(work.engine).splits_layers) return budget;
  budget.pools = false;
  if (work.length == Length::fitted) budget.outside = Bytes(budget.outside.value + kLeftByFitting);
  return budget;
}

/// The work with requests as long as its engine lets them be on these GPUs.
Workload with_engines_length(const ModelFigures& figures, Workload work, const GpuGroup& gpus,
                             std::uint32_t gpus_per_node) {
  if (work.length == Length::usual) {
    const Bytes memory(gpus.usable.value * gpus.count);
    work.settings.sequence = std::min(work.settings.sequence, usual_context(memory));
  }
  if (work.length != Length::fitted) return work;
  SearchRequest request = search_request(work, gpus, gpus_per_node);
  const ServingBudget budget = budget_of(work, gpus);
  const std::uint32_t least = std::min(traits_of(work.engine).least, work.settings.sequence);
  std::uint32_t longest = longest_request(figures, request, budget);
  if (longest < least && !request.fixed_strategy) {
    for (const std::uint32_t count : fewer_counts(request)) {
      request.gpus = count;
      longest = std::max(longest, longest_request(figures, request, budget));
      if (longest >= least) break;
    }
  }
  work.settings.sequence = std::max(longest, least);
  work.settings.prompt = std::min(work.settings.prompt, work.settings.sequence);
  return work;
}

/// The best strategy over all of the GPUs; a serving engine's fits only if its pool holds a request.
std::optional<Candidate> best_on_all(const ModelFigures& figures, const Workload& work, const GpuGroup& gpus,
                                     std::uint32_t gpus_per_node) {
  const SearchRequest request = search_request(work, gpus, gpus_per_node);
  std::size_t searched = 0;
  std::optional<Candidate> best = best_of(figures, request, searched);
  if (!best || work.settings.task != Task::serving || best->fit == Fit::does_not_fit) return best;
  const auto pool = serving_pool(figures, best->settings, budget_of(work, gpus));
  if (!pool || pool->requests < 1) best->fit = Fit::does_not_fit;
  return best;
}

bool is_enough(const std::optional<Candidate>& best) { return best && best->fit != Fit::does_not_fit; }

/// How many of the GPUs to use where no strategy over all of them fits: as many as one fits, for what does not train
/// rather a divisor. Empty: none, or the strategy is given.
std::optional<std::uint32_t> fewer_of(const ModelFigures& figures, const Workload& work, GpuGroup gpus,
                                      std::uint32_t gpus_per_node) {
  const SearchRequest request = search_request(work, gpus, gpus_per_node);
  if (request.fixed_strategy) return {};
  std::size_t searched = 0;
  for (const std::uint32_t count : fewer_counts(request)) {
    gpus.count = count;
    const bool enough = work.settings.task == Task::serving ? is_enough(best_on_all(figures, work, gpus, gpus_per_node))
                                                            : anything_fits(figures, request, count, searched);
    if (enough) return count;
  }
  return {};
}

std::string fewer_words(const Candidate& chosen, std::uint32_t used, std::uint32_t all) {
  if (chosen.settings.trains())
    return fmt::format("; it takes {} of the {} GPUs: over all of them nothing fits", used, all);
  return fmt::format("; {} {} of the {} GPUs", chosen.settings.parallel.data > 1 ? "copies take" : "a copy takes", used,
                     all);
}

/// Where the GPUs cannot share the task at all: on as many of them as can, for what would be needed there.
Result<void> search_fewer(PlanAnswer& answer, SearchRequest request) {
  for (const std::uint32_t count : fewer_counts(request)) {
    request.gpus = count;
    if (strategies(answer.figures, request).empty()) continue;
    GPUWARDEN_TRY(answer.search, plan(answer.figures, request));
    return {};
  }
  return {};
}

/// What to do where a fixed strategy cannot be spread over the GPUs.
std::string hint_of(const PlanAnswer& answer) {
  const Parallelism& asked = answer.request.work.settings.parallel;
  if (asked.pipeline > answer.figures.shape.layers)
    return fmt::format("--pipeline-parallel {} at most", answer.figures.shape.layers);
  if (answer.search.smallest_gpus) return fmt::format("{} GPUs are enough", *answer.search.smallest_gpus);
  return "take another number of GPUs";
}

Result<void> search_strategies(PlanAnswer& answer) {
  SearchRequest request = request_of(answer);
  const PlanRequest& asked = answer.request;
  GPUWARDEN_TRY(answer.search, plan(answer.figures, request));
  const bool serves = request.settings.task == Task::serving;
  const bool enough = serves ? is_enough(best_on_all(answer.figures, asked.work, asked.gpus, asked.gpus_per_node))
                             : answer.search.recommended.has_value();
  if (!enough && !request.fixed_strategy) {
    const auto fewer = fewer_of(answer.figures, asked.work, asked.gpus, asked.gpus_per_node);
    if (fewer) {
      request.gpus = *fewer;
      GPUWARDEN_TRY(answer.search, plan(answer.figures, request));
      answer.search.reason += fewer_words(answer.search.candidates.front(), *fewer, asked.gpus.count);
    } else if (answer.search.candidates.empty()) {
      GPUWARDEN_CHECK(search_fewer(answer, request));
    }
  }
  if (answer.search.candidates.empty()) return fail(ErrorCode::unsatisfied, answer.search.reason, hint_of(answer));
  answer.chosen = answer.search.recommended.value_or(0);
  return {};
}

Result<void> add_calibration(PlanAnswer& answer) {
  PlanRequest& request = answer.request;
  Settings& settings = request.work.settings;
  if (request.measured.empty()) return {};
  if (settings.task == Task::serving)
    return fail(ErrorCode::invalid_argument,
                "--calibrate: an engine takes its share of the memory whatever is measured: it has no micro-batches",
                "leave it out; --utilization says the share");
  if (!request.work.fixed_strategy && request.gpus.count > 1)
    return fail(ErrorCode::invalid_argument,
                "--calibrate: the peaks were measured under one strategy, which is not named",
                "say which: --strategy fsdp2");
  const bool guess = settings.trains() && !request.work.fixed_recompute;
  if (guess) {
    GPUWARDEN_TRY(settings.recompute, nearest_recomputation(answer.figures, settings, request.measured));
  }
  GPUWARDEN_TRY(answer.calibration, calibrate(answer.figures, settings, request.measured));
  if (guess)
    answer.calibration->note += fmt::format("; --recompute was not given, and {} is nearest to the measured growth",
                                            to_string(settings.recompute));
  return {};
}

/// Whether two settings differ in the size of a step's batches alone.
bool same_but_for_batch(Settings a, const Settings& b) {
  a.micro_batch = b.micro_batch;
  a.accumulation = b.accumulation;
  return a == b;
}

/// What a change is called that also recomputes otherwise than was measured.
std::string words_for(const Change& change, const Settings& measured) {
  const Settings& changed = change.candidate.settings;
  if (changed.recompute == measured.recompute) return change.what;
  Settings alike = changed;
  alike.recompute = measured.recompute;
  if (same_but_for_batch(alike, measured) && changed.recompute != Recompute::none)
    return fmt::format("recompute what is not kept: {} recomputation", to_string(changed.recompute));
  return fmt::format("{}, with {} recomputation", change.what,
                     changed.recompute == Recompute::none ? "no" : to_string(changed.recompute));
}

/// What is offered where measured peaks do not fit rests on them: on their line where only the micro-batch changes,
/// else on the equations times what was measured of them. How few GPUs would do nobody measured.
void rest_changes_on_measured(PlanAnswer& answer) {
  if (!answer.calibration) return;
  answer.search.smallest_gpus.reset();
  answer.search.roomy_gpus.reset();
  const Settings& settings = answer.best().settings;
  const PlanRequest& request = answer.request;
  const GpuBudget gpu{request.gpus.usable};
  const auto corrected = [&](const Settings& changed, const Estimate& computed) {
    if (same_but_for_batch(changed, settings)) {
      if (const auto line = calibrated(answer.figures, changed, *answer.calibration)) return *line;
    }
    Estimate result = computed;
    result.allocated *= answer.calibration->factor;
    result.reserve *= answer.calibration->factor;
    return result;
  };
  std::vector<Change> kept;
  for (Change& change : answer.search.changes) {
    if (change.candidate.settings == settings) continue;
    if (!request.work.fixed_recompute) change.what = words_for(change, settings);
    change.candidate.estimate = corrected(change.candidate.settings, change.candidate.estimate);
    change.candidate.fit = judge(change.candidate.estimate, gpu);
    if (change.candidate.fit != Fit::does_not_fit) kept.push_back(std::move(change));
  }
  answer.search.changes = std::move(kept);
  if (!answer.search.changes.empty())
    answer.calibration->note +=
        fmt::format("; what would make it fit is computed, times {:.2f} as measured", answer.calibration->factor);
}

/// The fewest GPUs, `first` at least, whose best strategy leaves room for a request in the engine's share of their
/// memory; `with_room`: and is not tight.
std::optional<std::uint32_t> fewest_for_pool(const PlanAnswer& answer, std::uint32_t first, bool with_room) {
  constexpr std::uint32_t kMost = 1024;
  const PlanRequest& request = answer.request;
  const std::uint32_t node = request.gpus_per_node;
  GpuGroup gpus = request.gpus;
  for (gpus.count = first; gpus.count <= kMost; gpus.count = next_count(gpus.count, node)) {
    const auto best = best_on_all(answer.figures, request.work, gpus, node);
    if (with_room ? best && best->fit == Fit::fits : is_enough(best)) return gpus.count;
  }
  return {};
}

/// Where a request does not fit: how long one may be.
void add_longest(PlanAnswer& answer, std::uint32_t longest) {
  if (longest == 0 || longest >= answer.best().settings.sequence) return;
  answer.longest_request = longest;
  answer.search.reason += fmt::format("; the longest request that fits: {} {}",
                                      traits_of(answer.request.work.engine).length_option, longest);
}

/// Weights and a request may fit into a GPU, and no request into what the engine takes of it.
void refuse_without_a_request(PlanAnswer& answer, const ServingBudget& budget) {
  for (Candidate& one : answer.search.candidates) {
    const auto pool = serving_pool(answer.figures, one.settings, budget);
    if (pool && pool->requests >= 1) {
      one.largest_micro_batch = std::min(one.largest_micro_batch, static_cast<std::uint32_t>(pool->requests));
      continue;
    }
    one.fit = Fit::does_not_fit;
    one.largest_micro_batch = 0;
  }
}

Result<void> add_pool(PlanAnswer& answer) {
  const Workload& work = answer.request.work;
  if (work.settings.task != Task::serving) return {};
  const ServingBudget budget = budget_of(work, answer.request.gpus);
  GPUWARDEN_TRY(answer.pool, serving_pool(answer.figures, answer.best().settings, budget));
  note_static_share(answer);
  // The search counted what weights need, not what an engine's share of the memory leaves for a request.
  answer.search.smallest_gpus = fewest_for_pool(answer, 1, false);
  answer.search.roomy_gpus = fewest_for_pool(answer, answer.search.smallest_gpus.value_or(1), true);
  const std::uint32_t sequence = answer.best().settings.sequence;
  if (answer.fits && answer.pool->requests >= 1) {
    if (work.length == Length::assumed)
      answer.search.reason += fmt::format("; with requests of {} tokens, as the model's window is not known", sequence);
    return {};
  }
  SearchRequest shared = request_of(answer);
  shared.gpus = answer.best().settings.parallel.gpus();
  const std::uint32_t longest = longest_request(answer.figures, shared, budget);
  answer.search.changes = pool_changes(answer.figures, shared, budget, longest, answer.search.smallest_gpus);
  if (answer.fits)
    answer.search.reason =
        fmt::format("the KV cache holds {} tokens: not one request of {}", answer.pool->tokens, sequence);
  answer.fits = false;
  refuse_without_a_request(answer, budget);
  add_longest(answer, longest);
  return {};
}

Result<void> add_speed(PlanAnswer& answer) {
  const PlanRequest& request = answer.request;
  const double peak = peak_flops(request.gpus, request.work.settings);
  if (!answer.fits || peak <= 0 || !request.work.settings.trains()) return {};
  if (!request.mfu && !speed_known(answer.figures)) return {};
  GPUWARDEN_TRY(answer.speed,
                speed_of(answer.figures, answer.best().settings, request.gpus.name, peak, request.mfu,
                         request.train_tokens.value_or(0), links_of(request.gpus, request.gpus_per_node)));
  return {};
}

/// Products in 8 bits need a GPU that has them.
Result<void> check_fp8(const PlanRequest& request) {
  const int capability = 10 * request.gpus.capability_major + request.gpus.capability_minor;
  if (request.work.settings.fp8 == Fp8::none || capability == 0 || capability >= 89) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("precision fp8: {} has no 8-bit floating point", printable(request.gpus.name)),
              "GPUs of compute capability 8.9 and later have it: RTX 4090, L40S, H100");
}

/// Heads that cannot be shared are the fault of the degree, not of the number of GPUs.
Result<void> check_heads(const PlanRequest& request) {
  const std::uint32_t heads = request.work.model.heads;
  const std::uint32_t tensor = request.work.settings.parallel.tensor;
  if (!request.work.fixed_strategy || tensor == 0 || heads % tensor == 0) return {};
  std::vector<std::string> degrees;
  for (std::uint32_t degree = 1; degree <= std::min(heads, 64U); ++degree) {
    if (heads % degree == 0) degrees.push_back(fmt::to_string(degree));
  }
  return fail(ErrorCode::unsatisfied,
              fmt::format("{} attention heads cannot be shared evenly by tensor parallelism {}", heads, tensor),
              fmt::format("--tensor-parallel {}", join(degrees, ", ")));
}

/// Shares of GPUs that are not there.
Result<void> check_shares(const PlanRequest& request) {
  const auto& split = request.work.settings.split;
  if (!split || split->shares.size() <= request.gpus.count) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("--tensor-split names {} GPUs, and {} planned for", split->shares.size(),
                          request.gpus.count == 1 ? "one is" : fmt::format("{} are", request.gpus.count)),
              "one share for each GPU; --gpus says how many there are");
}

/// Which GPU holds which layers, and what says so to the engine.
void add_layers(PlanAnswer& answer) {
  const Settings& settings = answer.best().settings;
  if (!settings.split) return;
  answer.loads = layer_loads(answer.figures, settings);
  answer.engine_options = engine_options(answer.request.work, settings);
}

Result<void> check_spread(PlanRequest& request) {
  Parallelism& parallel = request.work.settings.parallel;
  if (!request.work.fixed_strategy) shard_what_is_offloaded(parallel);
  if (spread(request.work.settings, request.gpus.count)) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} GPUs cannot be divided among tensor {} x pipeline {} x context {}", request.gpus.count,
                          parallel.tensor, parallel.pipeline, parallel.context),
              "their product must divide the number of GPUs");
}

}  // namespace

SearchRequest search_request(const Workload& work, const GpuGroup& gpus, std::uint32_t gpus_per_node) {
  SearchRequest search{.settings = work.settings, .gpu = {gpus.usable, work.beside}, .gpus = gpus.count};
  search.gpus_per_node = gpus_per_node;
  search.global_batch = work.global_batch;
  const bool one = work.fixed_micro_batch || work.settings.task == Task::serving;
  search.micro_batch = one ? work.settings.micro_batch : 0;
  search.fixed_recompute = work.fixed_recompute;
  search.fixed_strategy = work.fixed_strategy;
  search.usual_sharding = work.usual_sharding;
  if (const double peak = peak_flops(gpus, work.settings); peak > 0) search.peak_flops = peak;
  const Links links = links_of(gpus, gpus_per_node);
  search.link_bytes = links.within;
  search.network_bytes = links.between;
  return search;
}

std::optional<Candidate> best_strategy(const ModelFigures& figures, const Workload& work, const GpuGroup& gpus,
                                       std::uint32_t gpus_per_node) {
  if (gpus.count == 0 || gpus.usable == Bytes{}) return {};
  if (work.length == Length::fitted || work.length == Length::usual) {
    Workload fitted = with_engines_length(figures, work, gpus, gpus_per_node);
    fitted.length = Length::given;
    return best_strategy(figures, fitted, gpus, gpus_per_node);
  }
  std::optional<Candidate> best = best_on_all(figures, work, gpus, gpus_per_node);
  if (is_enough(best)) return best;
  const auto fewer = fewer_of(figures, work, gpus, gpus_per_node);
  if (!fewer) return best;
  GpuGroup some = gpus;
  some.count = *fewer;
  return best_on_all(figures, work, some, gpus_per_node);
}

Bytes needed_free(const Workload& work, const Candidate& candidate, Bytes usable) {
  constexpr double kMost = 1e18;  // more than any GPU has, and less than Bytes hold
  const Bytes expected(static_cast<std::uint64_t>(std::min(kMost, candidate.estimate.expected())));
  if (work.settings.task != Task::serving || traits_of(work.engine).splits_layers) return expected;
  const double share = share_taken(work) * static_cast<double>(usable.value);
  return std::max(expected, Bytes(static_cast<std::uint64_t>(share)));
}

Result<PlanAnswer> answer(PlanRequest request) {
  PlanAnswer answer{.request = std::move(request)};
  answer.figures = figures_of(answer.request.work.model);
  answer.count = count_parameters(answer.request.work.model);
  GPUWARDEN_CHECK(check_spread(answer.request));
  GPUWARDEN_CHECK(check(answer.request.work.settings));
  GPUWARDEN_CHECK(check_fp8(answer.request));
  GPUWARDEN_CHECK(check_heads(answer.request));
  GPUWARDEN_CHECK(check_shares(answer.request));
  answer.request.work = with_engines_length(answer.figures, std::move(answer.request.work), answer.request.gpus,
                                            answer.request.gpus_per_node);
  answer.notes = answer.request.work.notes;
  add_notes(answer);
  GPUWARDEN_CHECK(add_calibration(answer));
  GPUWARDEN_CHECK(search_strategies(answer));
  rest_changes_on_measured(answer);
  answer.fits = answer.search.recommended.has_value();
  GPUWARDEN_CHECK(add_pool(answer));
  GPUWARDEN_CHECK(add_speed(answer));
  if (answer.request.cpus > 0 && answer.request.work.settings.trains())
    answer.loading =
        loading_advice(answer.request.cpus, std::min(answer.request.gpus.count, answer.request.gpus_per_node));
  add_layers(answer);
  answer.lines = explain(answer.figures, answer.best().settings, answer.best().estimate);
  if (answer.calibration)
    answer.lines.push_back({"measured difference",
                            answer.best().estimate.allocated - answer.best().estimate.peak_moment().total(),
                            "the measured peaks' line less what the equations give", "--calibrate"});
  return answer;
}

}  // namespace gpuwarden::planning
