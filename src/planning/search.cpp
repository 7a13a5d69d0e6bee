// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "search_parts.hpp"

namespace gpuwarden::planning {

namespace {

/// Of its cost: what a larger micro-batch has to spare before it is worth a GPU that is filled to the brim.
constexpr double kWorthwhile = 0.02;
/// How much faster another framework's strategy has to be before it is spoken of.
constexpr double kMuchFaster = 1.5;

std::uint32_t rank_of(Fit fit) { return fit == Fit::fits ? 0 : fit == Fit::tight ? 1 : 2; }

}  // namespace

std::uint64_t share_of(const SearchRequest& request, const Settings& settings) {
  if (!settings.trains()) return 0;
  return (request.global_batch + settings.parallel.data - 1) / settings.parallel.data;
}

namespace {

/// How many micro-batches an optimizer step takes.
std::uint32_t accumulation_for(const SearchRequest& request, const Settings& settings, std::uint32_t micro_batch) {
  if (!settings.trains()) return settings.accumulation;
  const std::uint64_t share = share_of(request, settings);
  if (share == 0) {
    // A pipeline needs micro-batches to fill it.
    return std::max(settings.accumulation, settings.parallel.pipeline > 1 ? 4 * settings.parallel.pipeline : 1);
  }
  return static_cast<std::uint32_t>((share + micro_batch - 1) / micro_batch);
}

/// Bytes that nothing has: what a strategy needs that check() refuses.
constexpr double kRefused = 1e30;

}  // namespace

Estimate need_at(const ModelFigures& model, const SearchRequest& request, Settings& settings,
                 std::uint32_t micro_batch) {
  settings.micro_batch = micro_batch;
  settings.accumulation = accumulation_for(request, settings, micro_batch);
  const Result<Estimate> answer =
      request.calibration ? calibrated(model, settings, *request.calibration) : estimate(model, settings);
  if (answer) return *answer;
  Estimate none;
  none.allocated = kRefused;
  return none;
}

namespace {

std::string gib(double bytes) { return fmt::format("{:.1f} GiB", bytes / kBytesPerGiB); }

bool is_plain(const Parallelism& p) { return p.tensor * p.pipeline * p.context * p.expert == 1; }

/// What people try first and what does not surely fit: of the plainest sharding that has no variant that does, the one
/// that needs the least.
const Candidate* plainest_misfit(const std::vector<Candidate>& candidates) {
  const auto surely_fits = [&](Sharding sharding) {
    return std::ranges::any_of(candidates, [&](const Candidate& other) {
      return other.fit == Fit::fits && is_plain(other.settings.parallel) &&
             other.settings.parallel.sharding == sharding;
    });
  };
  const Candidate* found = nullptr;
  for (const Candidate& candidate : candidates) {
    const Parallelism& parallel = candidate.settings.parallel;
    if (!is_plain(parallel) || surely_fits(parallel.sharding)) continue;
    const bool plainer = found == nullptr || parallel.sharding < found->settings.parallel.sharding ||
                         (parallel.sharding == found->settings.parallel.sharding &&
                          candidate.estimate.expected() < found->estimate.expected());
    if (plainer) found = &candidate;
  }
  return found;
}

std::string words_of(const Candidate& candidate) {
  std::string words = candidate.name;
  if (candidate.other_framework) words += fmt::format(" in {}", title_of(candidate.settings.framework));
  if (!candidate.settings.trains()) return words;
  switch (candidate.settings.recompute) {
    case Recompute::none:
      return words;
    case Recompute::selective:
      return words + " with selective recomputation";
    case Recompute::full:
    case Recompute::full_offloaded:
      return words + " with gradient checkpointing";
  }
  return words;
}

/// What is to be said where the program's own framework and another one differ by much.
std::string framework_words(const SearchRequest& request, const Search& search) {
  const Candidate& chosen = search.candidates[*search.recommended];
  const std::string_view own = title_of(request.settings.framework);
  if (chosen.other_framework)
    return fmt::format("; it takes {}: {} does not divide a model so", title_of(chosen.settings.framework), own);
  // Of those that fit with room the cheapest comes first.
  const auto other = std::ranges::find_if(search.candidates, [](const Candidate& candidate) {
    return candidate.other_framework && candidate.fit == Fit::fits && !candidate.misses_global_batch;
  });
  if (other == search.candidates.end()) return "";
  const double times = chosen.seconds_per_token / other->seconds_per_token;
  if (!(times >= kMuchFaster)) return "";
  return fmt::format("; {} should be about {:.2g} times as fast", words_of(*other), times);
}

/// What is to be said where a step cannot have exactly the samples that were asked for.
std::string batch_words(const SearchRequest& request, const Candidate& chosen) {
  if (!chosen.misses_global_batch) return "";
  return fmt::format("; the global batch of {} cannot be met: micro-batch {} x {} data-parallel x {} accumulated is {}",
                     request.global_batch, chosen.settings.micro_batch, chosen.settings.parallel.data,
                     chosen.settings.accumulation, chosen.effective_batch);
}

std::string reason_for(const SearchRequest& request, const Search& search) {
  const Beside& beside = request.gpu.beside;
  const std::uint32_t tokens = request.settings.sequence;
  const double usable = request.gpu.left(tokens);
  if (!search.recommended && usable == 0)
    return fmt::format("nothing fits: the draft model {} alone needs {} of each GPU, which has {}",
                       printable(beside.name), gib(beside.bytes(tokens)),
                       gib(static_cast<double>(request.gpu.usable.value)));
  const std::string of = gib(usable) + (beside.name.empty() ? "" : " that the draft model leaves");
  if (request.fixed_strategy && !search.recommended) {
    const Candidate& only = search.candidates.front();
    return fmt::format("{} does not fit: {} of {}", words_of(only), gib(only.estimate.expected()), of);
  }
  const Candidate* misfit = plainest_misfit(search.candidates);
  if (search.recommended && misfit == &search.candidates[*search.recommended]) misfit = nullptr;
  std::string text;
  if (misfit != nullptr) {
    text = fmt::format("{} {}: {} of {}", words_of(*misfit), misfit->fit == Fit::tight ? "is tight" : "does not fit",
                       gib(misfit->estimate.expected()), of);
  }
  if (!search.recommended) {
    const Candidate& least = search.candidates.front();
    text =
        fmt::format("nothing fits: {} needs the least, {} of {}", words_of(least), gib(least.estimate.expected()), of);
    return text;
  }
  const Candidate& chosen = search.candidates[*search.recommended];
  const double spare = usable - chosen.estimate.expected();
  if (!text.empty()) text += "; ";
  return text +
         fmt::format("{} {} with {} to spare", words_of(chosen),
                     chosen.fit == Fit::fits ? "fits" : "is tight, though it should fit,", gib(spare)) +
         framework_words(request, search) + batch_words(request, chosen);
}

}  // namespace

bool better(const Candidate& a, const Candidate& b) {
  const bool a_fits = a.fit != Fit::does_not_fit;
  const bool b_fits = b.fit != Fit::does_not_fit;
  if (a_fits != b_fits) return a_fits;
  const auto words = [](const Candidate& one) { return std::pair(std::string_view(one.name), one.settings.recompute); };
  if (!a_fits) {
    const double least = a.estimate.expected() - b.estimate.expected();
    return least != 0 ? least < 0 : words(a) < words(b);
  }
  // What fits at all with the program's own framework goes before what another one would have to be taken for.
  if (a.other_framework != b.other_framework) return b.other_framework;
  if (rank_of(a.fit) != rank_of(b.fit)) return rank_of(a.fit) < rank_of(b.fit);
  if (a.misses_global_batch != b.misses_global_batch) return b.misses_global_batch;
  if (a.seconds_per_token != b.seconds_per_token) return a.seconds_per_token < b.seconds_per_token;
  return words(a) < words(b);
}

namespace {

/// The largest count of samples up to `most` whose judgement is no worse than `wanted`; 0: not even one is. Need grows
/// with samples, so halving finds it.
template <class Judge>
std::uint32_t largest_samples(std::uint32_t most, Fit wanted, Judge judge_at) {
  const auto good = [&](std::uint32_t samples) { return rank_of(judge_at(samples)) <= rank_of(wanted); };
  if (!good(1)) return 0;
  std::uint32_t largest = 1;
  std::uint32_t above = most + 1;
  for (std::uint64_t step = 2; step <= most; step *= 2) {
    if (!good(static_cast<std::uint32_t>(step))) {
      above = static_cast<std::uint32_t>(step);
      break;
    }
    largest = static_cast<std::uint32_t>(step);
  }
  while (above - largest > 1) {
    const std::uint32_t middle = largest + (above - largest) / 2;
    (good(middle) ? largest : above) = middle;
  }
  return largest;
}

/// The largest divisor of a rank's share of the global batch that fits with room, else the largest that is tight,
/// else 1.
template <class Judge>
std::uint32_t largest_divisor(std::uint64_t share, std::uint32_t most, Judge judge_at) {
  std::uint32_t tight = 0;
  for (auto samples = static_cast<std::uint32_t>(std::min<std::uint64_t>(share, most)); samples > 0; --samples) {
    if (share % samples != 0) continue;
    const Fit fit = judge_at(samples);
    if (fit == Fit::fits) return samples;
    if (fit == Fit::tight && tight == 0) tight = samples;
  }
  return std::max(1U, tight);
}

/// Of a candidate that is tight whatever it takes, the smallest micro-batch of the largest's halves that costs hardly
/// more for a token; 1 where none fits.
std::uint32_t smallest_worthwhile(const ModelFigures& model, const SearchRequest& request, const Candidate& candidate) {
  Settings settings = candidate.settings;
  const auto cost = [&](std::uint32_t samples) {
    settings.micro_batch = samples;
    settings.accumulation = accumulation_for(request, settings, samples);
    return seconds_per_token(model, request, settings);
  };
  std::uint32_t chosen = std::max(1U, candidate.largest_micro_batch);
  const double most = cost(chosen) * (1 + kWorthwhile);
  while (chosen > 1 && cost(chosen / 2) <= most) chosen /= 2;
  return chosen;
}

}  // namespace

void settle(const ModelFigures& model, const SearchRequest& request, Candidate& candidate, std::size_t& searched) {
  Settings& settings = candidate.settings;
  const std::uint32_t fixed = request.micro_batch > 0 ? request.micro_batch
                              : settings.trains()     ? 0
                                                      : settings.micro_batch;
  const std::uint64_t share = share_of(request, settings);
  const auto judge_at = [&](std::uint32_t samples) {
    ++searched;
    candidate.estimate = need_at(model, request, settings, samples);
    candidate.fit = judge(candidate.estimate, request.gpu, settings.sequence);
    return candidate.fit;
  };
  candidate.largest_micro_batch = largest_samples(request.largest_micro_batch, Fit::tight, judge_at);
  std::uint32_t chosen = fixed;
  if (fixed == 0 && share > 0) chosen = largest_divisor(share, request.largest_micro_batch, judge_at);
  if (fixed == 0 && share == 0) {
    // The largest is tight by nature; what is recommended fits with room.
    const std::uint32_t roomy = largest_samples(candidate.largest_micro_batch, Fit::fits, judge_at);
    chosen = roomy > 0 ? roomy : smallest_worthwhile(model, request, candidate);
  }
  if (judge_at(chosen) != Fit::does_not_fit)
    candidate.largest_micro_batch = std::max(candidate.largest_micro_batch, chosen);
  candidate.effective_batch = std::uint64_t{chosen} * settings.parallel.data * settings.accumulation;
  candidate.misses_global_batch = share > 0 && candidate.effective_batch != request.global_batch;
  candidate.seconds_per_token = seconds_per_token(model, request, settings);
}

std::optional<Candidate> best_of(const ModelFigures& model, const SearchRequest& request, std::size_t& searched) {
  std::optional<Candidate> best;
  for (Candidate& candidate : strategies(model, request)) {
    settle(model, request, candidate, searched);
    if (!best || better(candidate, *best)) best = std::move(candidate);
  }
  return best;
}

namespace {

/// Why the request has no candidate.
std::string unshared_words(const ModelFigures& model, const SearchRequest& request) {
  const Parallelism& asked = request.settings.parallel;
  const std::uint32_t heads = model.shape.heads;
  if (request.fixed_strategy && heads % asked.tensor != 0)
    return fmt::format("{} attention heads cannot be divided by tensor parallelism {}", heads, asked.tensor);
  if (request.fixed_strategy && asked.pipeline > model.shape.layers)
    return fmt::format("{} layers cannot be {} stages of a pipeline", model.shape.layers, asked.pipeline);
  return fmt::format("{} GPUs cannot share this task: its heads and layers cannot be spread over them{}", request.gpus,
                     request.fixed_strategy ? " as was asked" : "");
}

}  // namespace

Result<Search> plan(const ModelFigures& model, const SearchRequest& request) {
  GPUWARDEN_CHECK(check(request.settings));
  if (request.gpus == 0 || request.gpus > kMostGpusSearched || request.gpus_per_node == 0) {
    return fail(ErrorCode::invalid_argument, fmt::format("a plan for {} GPUs", request.gpus),
                fmt::format("give 1 to {}", kMostGpusSearched));
  }
  if (request.gpu.usable.value == 0) {
    return fail(ErrorCode::invalid_argument, "the GPUs have no memory", "give their usable memory");
  }
  Search search;
  search.candidates = strategies(model, request);
  for (Candidate& candidate : search.candidates) settle(model, request, candidate, search.searched);
  std::erase_if(search.candidates, [](const Candidate& one) { return one.estimate.allocated >= kRefused; });
  std::ranges::sort(search.candidates, better);
  const bool fits = !search.candidates.empty() && search.candidates.front().fit != Fit::does_not_fit;
  if (fits) search.recommended = 0;
  if (search.candidates.empty()) {
    search.reason = unshared_words(model, request);
  } else {
    search.reason = reason_for(request, search);
  }
  // What was measured holds for these settings on these GPUs only.
  SearchRequest other = request;
  other.calibration.reset();
  count_gpus(model, other, search);
  if (!fits) search.changes = changes_for(model, other, search.smallest_gpus, search.searched);
  return search;
}

}  // namespace gpuwarden::planning
