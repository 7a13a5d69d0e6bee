// SPDX-License-Identifier: Apache-2.0
#include "render/plan_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::cli {
namespace {

using namespace planning;

constexpr std::size_t kNameWidth = 22;
constexpr std::size_t kBarWidth = 24;
constexpr std::size_t kMostRows = 12;
constexpr std::size_t kRecomputeWidth = 9;
constexpr std::size_t kVerdictWidth = 12;

std::string gib(double bytes) { return fmt::format("{:.2f} GiB", bytes / planning::kBytesPerGiB); }

/// "62.1 k", "1.2 M": so many digits, by the largest unit of which there is one when rounded so.
std::string scaled(double value, int digits) {
  constexpr std::pair<double, std::string_view> kUnits[] = {{1e12, " T"}, {1e9, " B"}, {1e6, " M"}, {1e3, " k"}};
  for (const auto& [unit, letter] : kUnits) {
    const double one = unit * (1 - 0.5 * std::pow(10, -digits));
    if (value >= one) return fmt::format("{:.{}g}{}", value / unit, digits, letter);
  }
  return fmt::format("{:.{}g}", value, digits);
}

/// "8.03 B", "124 M", "12345".
std::string count_words(std::uint64_t count) {
  return count < 1'000'000 ? std::to_string(count) : scaled(static_cast<double>(count), 4);
}

Tone tone_of(Fit fit) {
  if (fit == Fit::fits) return Tone::good;
  return fit == Fit::tight ? Tone::warning : Tone::bad;
}

std::string model_line(const PlanAnswer& answer, const Style& style) {
  const ModelShape& model = answer.request.work.model;
  std::string line = style.paint(printable(model.name.empty() ? model.family : model.name), Tone::bold);
  line += fmt::format(": {}{} parameters", model.estimated ? "about " : "", count_words(answer.count.total));
  if (answer.count.active != answer.count.total) line += fmt::format(", {} active", count_words(answer.count.active));
  line += fmt::format(", {} layers of {}, {}\n", model.layers, model.hidden, model.family);
  for (const std::string& note : model.notes) line += "  note: " + printable(note) + "\n";
  return line;
}

std::string settings_line(const PlanAnswer& answer) {
  const Settings& settings = answer.best().settings;
  std::vector<std::string> words{spaced(to_string(settings.task)), spaced(to_string(settings.precision))};
  if (settings.trains()) {
    words.push_back(spaced(to_string(settings.optimizer)) + " " + spaced(to_string(settings.step)));
    words.push_back(settings.recompute == Recompute::none ? "no recomputation"
                                                          : spaced(to_string(settings.recompute)) + " recomputation");
    words.push_back(spaced(to_string(settings.loss)) + " loss");
  }
  if (settings.task == Task::adapters)
    words.push_back(
        fmt::format("rank {}, {} trained", settings.adapters.rank, count_words(settings.adapters.stated_parameters)));
  if (settings.quantization != Quantization::none) words.push_back(title_of(settings.quantization) + " weights");
  words.push_back(fmt::format("{} x {} tokens", settings.micro_batch, settings.sequence));
  return "task: " + join(words, ", ") + "\n";
}

std::string gpus_line(const PlanAnswer& answer, const PlanOrigin& origin) {
  const PlanRequest& request = answer.request;
  std::string text =
      fmt::format("on:   {} x {}, {} usable{}{} ({})\n", request.gpus.count, printable(request.gpus.name),
                  gib(static_cast<double>(request.gpus.usable.value)), request.gpus.count > 1 ? " each" : "",
                  request.gpus.usable_measured ? "" : " (about)", printable(origin.gpus_from));
  if (origin.other_gpus > 0)
    text += fmt::format("      the kind with the most memory together; {} of another kind {} not planned for\n",
                        origin.other_gpus == 1 ? "one GPU" : fmt::format("{} GPUs", origin.other_gpus),
                        origin.other_gpus == 1 ? "is" : "are");
  for (const std::string& note : origin.gpu_notes) text += "      " + printable(note) + "\n";
  for (const std::string& note : answer.notes) text += "  note: " + printable(note) + "\n";
  return text;
}

std::string bars(const PlanAnswer& answer, const Style& style, bool explained) {
  const Candidate& best = answer.best();
  const auto usable = static_cast<double>(answer.request.gpus.usable.value);
  const bool one = best.settings.parallel.gpus() == 1;
  std::string text = fmt::format("\nmemory of {} at its peak ({}):\n", one ? best.name : "each GPU, " + best.name + ",",
                                 spaced(to_string(best.estimate.peak_moment().kind)));
  for (const ExplainedUse& line : answer.lines) {
    text += fmt::format("  {} {:>11}  {}\n", fit(spaced(line.name), kNameWidth), gib(line.bytes),
                        bar(usable > 0 ? line.bytes / usable : 0, kBarWidth));
    if (!explained) continue;
    text += "      = " + wrapped(line.formula, 8, 8, style.width) + "\n";
    text += style.paint("      source: " + wrapped(line.source, 14, 14, style.width), Tone::dim) + "\n";
  }
  const Estimate& estimate = best.estimate;
  text += fmt::format("  {} {:>11}  {} of {}\n", fit("needed", kNameWidth), gib(estimate.expected()),
                      bar(usable > 0 ? estimate.expected() / usable : 0, kBarWidth), gib(usable));
  text += fmt::format("  {} {} to {}\n", fit("likely between", kNameWidth), gib(estimate.low()), gib(estimate.high()));
  if (estimate.host > 0)
    text += fmt::format("  {} {:>11}{}\n", fit("on the host", kNameWidth), gib(estimate.host),
                        best.settings.split ? "" : " for each GPU");
  return text;
}

std::string moments(const PlanAnswer& answer) {
  const Estimate& estimate = answer.best().estimate;
  if (estimate.moment_count < 2) return "";
  std::string text = "\nallocated at each moment of a step:\n";
  for (std::size_t i = 0; i < estimate.moment_count; ++i) {
    text += fmt::format("  {} {:>11}{}\n", fit(spaced(to_string(estimate.moments[i].kind)), kNameWidth),
                        gib(estimate.moments[i].total()), i == estimate.peak ? "  <- peak" : "");
  }
  return text;
}

/// "4 (<= 13)": what is proposed, and the most that fits.
std::string batch_words(const Candidate& one) {
  if (one.largest_micro_batch == 0) return "-";
  return fmt::format("{} (<= {})", one.settings.micro_batch, one.largest_micro_batch);
}

std::string table_row(const Candidate& one, bool chosen, const Style& style) {
  const std::string recompute = one.settings.trains() ? spaced(to_string(one.settings.recompute)) : "";
  return fmt::format("{} {} {} {:>11}  {}  {:>13}{}{}\n", chosen ? "*" : " ", fit(one.name, kNameWidth),
                     fit(recompute, kRecomputeWidth), gib(one.estimate.expected()),
                     style.paint(fit(spaced(to_string(one.fit)), kVerdictWidth), tone_of(one.fit)), batch_words(one),
                     one.settings.trains() ? fmt::format("  {:>10}", one.settings.accumulation) : std::string(),
                     one.other_framework ? fmt::format("  ({})", title_of(one.settings.framework)) : std::string());
}

/// "3 (tight on 1)".
std::string fewest(const planning::Search& search) {
  if (!search.smallest_gpus) return "";
  const std::uint32_t room = search.roomy_gpus.value_or(*search.smallest_gpus);
  std::string note;
  if (!search.roomy_gpus)
    note = " (tight)";
  else if (room > *search.smallest_gpus)
    note = fmt::format(" (tight on {})", *search.smallest_gpus);
  return fmt::format("  fewest GPUs on which a strategy fits: {}{}\n", room, note);
}

std::string table(const PlanAnswer& answer, const Style& style) {
  const bool trains = answer.request.work.settings.trains();
  std::string text = fmt::format(
      "\n  {} {} {:>11}  {}  {:>13}{}\n", fit("strategy", kNameWidth), fit(trains ? "recompute" : "", kRecomputeWidth),
      "needs", fit("verdict", kVerdictWidth), trains ? "micro-batch" : "batch", trains ? "  accumulate" : "");
  const auto& candidates = answer.search.candidates;
  for (std::size_t i = 0; i < std::min(candidates.size(), kMostRows); ++i) {
    text += table_row(candidates[i], answer.fits && i == answer.chosen, style);
  }
  if (candidates.size() > kMostRows) text += fmt::format("  and {} more (--json)\n", candidates.size() - kMostRows);
  return text + fewest(answer.search);
}

std::string rate(double tokens) { return scaled(tokens, 3); }

std::string duration(std::chrono::seconds time) { return format_duration(std::chrono::milliseconds(time)); }

/// Digits, not powers of ten, however long a step is.
std::string step_words(double seconds) {
  return seconds < 100 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

/// "4.1%", "40%": two digits.
std::string share_words(double share) { return fmt::format("{:.{}f}%", 100 * share, share < 0.0995 ? 1 : 0); }

/// Where a plan's share of the peak is less than that of arithmetic alone: what takes the time of a step.
std::string slowed_by(const Speed& speed) {
  constexpr double kLeastTold = 0.01;  // of a step
  std::vector<std::string> parts;
  const auto part = [&](double seconds, std::string_view what) {
    if (seconds >= kLeastTold * speed.step_seconds) parts.push_back(fmt::format("{} {}", step_words(seconds), what));
  };
  part(speed.link_seconds, "waiting for links");
  part(speed.idle_seconds, "while the pipeline fills and drains");
  part(speed.host_seconds, "for the optimizer on the host");
  if (parts.empty()) return "";
  return fmt::format("       arithmetic alone reaches {}; of a step go {}\n", share_words(speed.utilization),
                     join(parts, ", "));
}

std::string speed(const PlanAnswer& answer) {
  if (!answer.speed) return "";
  const Speed& speed = *answer.speed;
  std::string text =
      fmt::format("\nspeed: about {} tokens/s ({} to {}), {} of the GPUs' peak; {} a step of {:.0f} tokens\n",
                  rate(speed.expected), rate(speed.low), rate(speed.high), share_words(speed.achieved),
                  step_words(speed.step_seconds), speed.tokens_per_step);
  text += slowed_by(speed);
  if (speed.duration && speed.shortest && speed.longest)
    text += fmt::format("       {} tokens take {} ({} to {})\n", rate(answer.request.train_tokens.value_or(0)),
                        duration(*speed.duration), duration(*speed.shortest), duration(*speed.longest));
  return text;
}

std::string advice(const PlanAnswer& answer, const Style& style) {
  std::string text;
  if (answer.calibration) text += "\n" + wrapped("calibrated: " + answer.calibration->note, 0, 2, style.width) + "\n";
  if (answer.loading)
    text += fmt::format("\ndata loading: {} workers for each rank, OMP_NUM_THREADS={} ({})\n", answer.loading->workers,
                        answer.loading->threads, answer.loading->reason);
  return text;
}

/// "layers 0 to 15 and the output": what one of the GPUs, or the host, holds.
std::string held_words(const LayerLoad& load, std::uint32_t first) {
  if (load.layers == 0) return load.output ? "the output" : "no layer";
  const std::string text = load.layers == 1
                               ? fmt::format("layer {}", first)
                               : fmt::format("{} layers, {} to {}", load.layers, first, first + load.layers - 1);
  return load.output ? text + ", and the output" : text;
}

/// Which GPU holds which layers of what llama.cpp spreads, and what says so to it.
std::string layers(const PlanAnswer& answer) {
  if (!answer.loads) return "";
  const LayerLoads& loads = *answer.loads;
  std::string text;
  const auto line = [&](const std::string& where, const std::string& what, const LayerLoad& load) {
    const std::string cache = load.cache > 0 ? ", KV cache " + gib(load.cache) : "";
    text += fmt::format("  {} {}: weights {}{}\n", fit(where, kNameWidth), what, gib(load.weights), cache);
  };
  std::uint32_t first = loads.host.layers;
  if (loads.gpus.size() > 1 || first > 0) {
    for (std::size_t i = 0; i < loads.gpus.size(); ++i) {
      line(fmt::format("GPU {}", i), held_words(loads.gpus[i], first), loads.gpus[i]);
      first += loads.gpus[i].layers;
    }
  }
  std::vector<std::string> on_host{"the input's embedding"};
  if (loads.host.layers > 0) on_host.push_back(held_words(loads.host, 0));
  const LayerSplit split = answer.best().settings.split.value_or(LayerSplit{});
  if (split.host_experts > loads.host.layers)
    on_host.push_back(fmt::format("experts of layers up to {}", split.host_experts - 1));
  if (on_host.size() > 1) on_host.back().insert(0, "and ");
  line("host", join(on_host, ", "), loads.host);
  return answer.fits ? text + fmt::format("  {} {}\n", fit("options", kNameWidth), answer.engine_options) : text;
}

std::string serving(const PlanAnswer& answer) {
  if (!answer.pool) return "";
  const ServingPool& pool = *answer.pool;
  const bool one = answer.best().settings.parallel.gpus() == 1;
  const std::string_view each = one ? "" : " on each GPU";
  const std::string requests = fmt::format("{:.1f} requests of {} tokens at once", std::floor(10 * pool.requests) / 10,
                                           answer.best().settings.sequence);
  // Where no request fits, a shorter one leaves more room: how long it may be is the verdict's.
  const std::string tokens = answer.longest_request
                                 ? ""
                                 : fmt::format(", {} tokens ({})", pool.tokens,
                                               answer.request.work.engine == Engine::ollama ? "num_ctx" : "-c");
  std::string text =
      answer.loads
          ? fmt::format("\nserving: beside weights and compute buffer there is room for {} of KV cache{}{}: {}\n",
                        gib(pool.cache), each, tokens, requests)
          : fmt::format("\nserving: {} of KV cache{} at {} hold {} tokens: {}\n", gib(pool.cache), each,
                        planning::share_words(answer.request.work), pool.tokens, requests);
  text +=
      fmt::format("  by engine and version: weights {} to {}, cache {} to {}, {} to {} tokens\n", gib(pool.weights_low),
                  gib(pool.weights_high), gib(pool.cache_low), gib(pool.cache_high), pool.tokens_low, pool.tokens_high);
  return text + layers(answer);
}

/// What lies in the host's memory for each GPU, where that is worth a word.
std::string on_host_words(const Estimate& estimate) {
  constexpr double kLeastTold = 1U << 30U;
  return estimate.host < kLeastTold ? "" : fmt::format(", and {} of the host's memory for each", gib(estimate.host));
}

std::string verdict(const PlanAnswer& answer, const Style& style) {
  const Tone tone = answer.fits ? tone_of(answer.best().fit) : Tone::bad;
  std::string text = "\n" + style.paint(wrapped(answer.search.reason, 0, 0, style.width), tone) + "\n";
  if (answer.fits || answer.search.changes.empty()) return text;
  text += "what would make it fit, cheapest first:\n";
  for (const Change& change : answer.search.changes)
    text += fmt::format("  {} ({}: {}{})\n", wrapped(change.what, 2, 4, style.width), change.candidate.name,
                        gib(change.candidate.estimate.expected()), on_host_words(change.candidate.estimate));
  return text;
}

}  // namespace

std::string plan_text(const PlanAnswer& answer, const PlanOrigin& origin, const Style& style, bool explained) {
  std::string text = origin.simulated ? style.paint("simulated GPUs", Tone::warning) + "\n" : "";
  text += model_line(answer, style) + settings_line(answer) + gpus_line(answer, origin);
  text += bars(answer, style, explained);
  if (explained) text += moments(answer);
  text += table(answer, style) + serving(answer) + speed(answer) + advice(answer, style) + verdict(answer, style);
  return text;
}

}  // namespace gpuwarden::cli
