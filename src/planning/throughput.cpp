// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/throughput.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "equations.hpp"

namespace gpuwarden::planning {

namespace {

/// Part of a GPU's name, and the row of its prior. The first that fits is taken.
struct Prior {
  std::string_view gpu;
  std::string_view row;
};

constexpr std::array kPriors{
    Prior{"A100-SXM4-40", "mfu_a100_40"},
    Prior{"A100-PCIE-40", "mfu_a100_40"},
    Prior{"A800-SXM4-40", "mfu_a100_40"},
    Prior{"A800 40GB", "mfu_a100_40"},
    Prior{"A100", "mfu_a100"},
    Prior{"A800", "mfu_a100"},
    Prior{"H200", "mfu_h100"},
    Prior{"H20", "mfu_h20"},
    Prior{"H100", "mfu_h100"},
    Prior{"H800", "mfu_h100"},
};

/// GPUs on NVSwitch for which steps of Megatron's kind were published, Hopper's and, by the same code, Blackwell's.
constexpr std::array<std::string_view, 8> kWholeSteps{"H100 80GB HBM3", "H200", "H800",  "GH200",
                                                      "B200",           "B300", "GB200", "GB300"};

/// llm-foundry's smallest model has 125 million parameters.
constexpr double kLeastPublished = 1e8;

double model_parallel(const Settings& settings) {
  const Parallelism& p = settings.parallel;
  return static_cast<double>(p.tensor) * p.pipeline * p.layer_stages;
}

std::chrono::seconds seconds_for(double tokens, double per_second) {
  constexpr double kMost = 1e15;
  return std::chrono::seconds(static_cast<std::int64_t>(std::min(kMost, std::ceil(tokens / per_second))));
}

}  // namespace

Utilization utilization_prior(std::string_view gpu_model, Precision precision, bool fp8) {
  std::string_view row = "mfu_unknown";
  for (const Prior& prior : kPriors) {
    if (!gpu_model.contains(prior.gpu)) continue;
    row = prior.row;
    break;
  }
  if (fp8) row = row == "mfu_h100" ? "mfu_h100_fp8" : "mfu_unknown_fp8";
  Utilization found;
  if (const knowledge::PlanningFigure* figure = knowledge::find_planning_figure(row); figure != nullptr) {
    found = {figure->low, figure->value, figure->high, figure->source};
  }
  if (precision == Precision::fp32) found.low *= 0.7;  // TF32's peak is reached less often
  return found;
}

std::optional<Utilization> whole_step_utilization(const ModelFigures& model, const Settings& settings,
                                                  std::string_view gpu_model) {
  const bool published = std::ranges::any_of(
      kWholeSteps, [&](std::string_view name) { return gpu_model.contains(name) && !gpu_model.contains("PCIe"); });
  if (!published || !settings.trains() || settings.precision == Precision::fp32) return std::nullopt;
  if (settings.framework != Framework::megatron || settings.parallel.offload != Offload::none) return std::nullopt;
  const bool eight = settings.fp8 != Fp8::none;
  const bool experts = model.shape.experts.experts > 0;
  const std::string_view row =
      experts ? (eight ? "mfu_experts_fp8" : "mfu_experts") : (eight ? "mfu_megatron_fp8" : "mfu_megatron");
  const knowledge::PlanningFigure* const figure = knowledge::find_planning_figure(row);
  if (figure == nullptr) return std::nullopt;
  return Utilization{figure->low, figure->value, figure->high, figure->source};
}

std::optional<Utilization> expert_loop_utilization(const ModelFigures& model, const Settings& settings,
                                                   double peak_flops) {
  const bool loops =
      settings.framework == Framework::transformers || settings.framework == Framework::transformers_legacy;
  if (!loops || !settings.trains() || model.shape.experts.experts == 0) return std::nullopt;
  if (shards_of(as_run(settings)).weights <= 1) return std::nullopt;
  const knowledge::PlanningFigure* const figure = knowledge::find_planning_figure("mfu_expert_loop");
  if (figure == nullptr) return std::nullopt;
  // Launches and gathering hold it up, not arithmetic: of a lesser peak than the H100's it is a larger share.
  constexpr double kPublishedPeak = 989e12;
  const double scale = std::clamp(kPublishedPeak / peak_flops, 0.4, 6.0);
  return Utilization{scale * figure->low, scale * figure->value, scale * figure->high, figure->source};
}

bool speed_known(const ModelFigures& model) { return model.active >= kLeastPublished; }

StepWork step_work(const ModelFigures& model, const Settings& settings) {
  const double tokens = settings.tokens();
  const double attention = static_cast<double>(model.shape.layers + model.shape.encoder_layers) *
                           static_cast<double>(query_width(model.shape)) * settings.sequence * tokens;
  StepWork work;
  switch (settings.task) {
    case Task::full_training:
      work.model_flops = 6 * model.active * tokens + 12 * attention;
      break;
    case Task::adapters:
      work.model_flops = 4 * model.active * tokens + 12 * attention;
      break;
    case Task::inference:
    case Task::serving:
      work.model_flops = 2 * model.active * tokens + 4 * attention;
      break;
  }
  work.model_flops /= model_parallel(settings);
  const double forward = (2 * model.active * tokens + 4 * attention) / model_parallel(settings);
  const bool again =
      settings.trains() && (settings.recompute == Recompute::full || settings.recompute == Recompute::full_offloaded);
  work.hardware_flops = work.model_flops + (again ? forward : 0);
  return work;
}

namespace {

/// How a micro-batch may go: at which utilization, how much of its arithmetic hides traffic, how much of what
/// arithmetic waits for is not hidden, how long the host's optimizer takes.
struct Course {
  double utilization;
  double hides;
  double waits;
  double host;
};

/// Seconds of a micro-batch on one GPU: arithmetic, what links add, what a pipeline is idle, a step on the host.
struct MicroSeconds {
  double arithmetic = 0;
  double links = 0;
  double idle = 0;
  double host = 0;
  double total() const { return arithmetic + links + idle + host; }
};

/// A pipeline is busy for the share `busy` of what its GPUs do.
MicroSeconds seconds_of(const Course& course, double flops_at_peak, const Traffic& traffic, double busy) {
  const double arithmetic = flops_at_peak / course.utilization;
  const double links = course.waits * traffic.waiting + std::max(0.0, traffic.beside - course.hides * arithmetic);
  return {arithmetic, links, (arithmetic + links) * (1 / busy - 1), course.host};
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): what, on which GPU, and what the user knows better
Result<Speed> speed_of(const ModelFigures& model, const Settings& settings, std::string_view gpu_model,
                       double peak_flops, std::optional<double> measured, double tokens, const Links& links) {
  GPUWARDEN_CHECK(check(settings));
  if (!(peak_flops > 0)) {
    return fail(ErrorCode::invalid_argument, fmt::format("a peak of {} FLOPS", peak_flops),
                "give the GPU's dense peak, for instance 989e12");
  }
  if (measured && !(*measured > 0 && *measured <= 1)) {
    return fail(ErrorCode::invalid_argument, fmt::format("a utilization of {}", *measured),
                "give a share: 0.4 for 40%");
  }
  // What whole steps reach has their links and pipelines in it, as what a user measured has.
  auto whole = measured ? std::nullopt : whole_step_utilization(model, settings, gpu_model);
  if (!measured && !whole) whole = expert_loop_utilization(model, settings, peak_flops);
  const bool told = measured.has_value() || whole.has_value();
  Utilization share = whole ? *whole : utilization_prior(gpu_model, settings.precision, settings.fp8 != Fp8::none);
  if (measured) share = {*measured, *measured, *measured, "measured, given by the user"};
  const StepWork work = step_work(model, settings);
  const double replicas = static_cast<double>(settings.parallel.data);
  const double micro = static_cast<double>(settings.micro_batch) * settings.sequence * replicas;
  // A pipeline idles while it fills and drains (GPipe, arXiv 1811.06965); a measured utilization has that in it.
  const double stages = settings.parallel.pipeline;
  const double plain = settings.accumulation / (settings.accumulation + stages - 1);
  const double busy = told ? 1 : plain;
  const Traffic traffic = told ? Traffic{} : traffic_of(model, settings, links);
  const double ideal = work.model_flops / peak_flops;
  const double slowest = (measured ? work.model_flops : work.hardware_flops) / peak_flops;
  const auto rate = [&](const MicroSeconds& each) { return micro / each.total(); };
  const Figures& f = figures();
  const MicroSeconds expected =
      seconds_of({share.expected, f.cost_overlap, 1, traffic.host_step}, ideal, traffic, busy);
  Speed speed;
  speed.low = rate(
      seconds_of({share.low, f.cost_overlap_low, 1, traffic.host_step_most}, slowest, traffic, measured ? 1 : plain));
  speed.expected = rate(expected);
  speed.high = rate(seconds_of({share.high, f.cost_overlap_high, 0.5, traffic.host_step_least}, ideal, traffic, busy));
  speed.achieved = ideal / expected.total();
  speed.link_seconds = expected.links * settings.accumulation;
  speed.idle_seconds = expected.idle * settings.accumulation;
  speed.host_seconds = expected.host * settings.accumulation;
  speed.utilization = share.expected;
  speed.source = share.source;
  speed.tokens_per_step = micro * settings.accumulation;
  speed.step_seconds = speed.tokens_per_step / speed.expected;
  if (tokens > 0) {
    speed.duration = seconds_for(tokens, speed.expected);
    speed.shortest = seconds_for(tokens, speed.high);
    speed.longest = seconds_for(tokens, speed.low);
  }
  return speed;
}

Loading loading_advice(std::uint32_t cpus, std::uint32_t gpus) {
  const std::uint32_t each = std::max(1U, cpus / std::max(1U, gpus));
  Loading advice;
  advice.workers = each <= 1 ? 0 : std::min(8U, each - 1);
  advice.threads = std::max(1U, each - advice.workers);
  if (each <= 1) {
    advice.reason = fmt::format(
        "{} CPUs for {} GPUs: no worker has a CPU of its own, so data is loaded between steps; "
        "tokenize beforehand",
        cpus, gpus);
  } else if (each <= 3) {
    advice.reason =
        fmt::format("{} CPUs for each GPU are few: tokenize beforehand and keep prefetch_factor at 2 to 4", each);
  } else {
    advice.reason = fmt::format("{} CPUs for each GPU: {} workers, the rank itself keeps {}", each, advice.workers,
                                each - advice.workers);
  }
  return advice;
}

}  // namespace gpuwarden::planning
