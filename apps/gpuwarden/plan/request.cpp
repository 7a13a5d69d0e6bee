// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/catalog.hpp"
#include "gpuwarden/planning/config.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "plan/settings.hpp"

namespace gpuwarden::cli {
namespace {

namespace fs = std::filesystem;
using namespace planning;

constexpr double kMostTokens = 1e18;

Result<ModelShape> read_config_file(const fs::path& path, const std::string& family) {
  GPUWARDEN_TRY(const std::string text, read_file(path, kLargestConfig));
  GPUWARDEN_TRY(ModelShape model, read_config(text, printable(path.string()), family));
  if (model.name.empty()) model.name = printable(fs::absolute(path).parent_path().filename().string());
  return model;
}

/// What a model's folder holds.
Result<ModelShape> read_folder(const fs::path& folder, const std::string& family) {
  std::error_code ignored;
  if (fs::is_regular_file(folder / "config.json", ignored)) return read_config_file(folder / "config.json", family);
  if (fs::is_regular_file(folder / "model_index.json", ignored))
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("{}: holds a diffusion pipeline; only transformers are planned", printable(folder.string())),
        "give the folder of a language model, a BERT, a T5 or a ViT");
  return fail(ErrorCode::not_found, fmt::format("{}: holds no config.json", printable(folder.string())),
              "give the folder into which the model was downloaded, or its config.json");
}

Result<ModelShape> read_sized(const Args& args) {
  GPUWARDEN_TRY(const double parameters, parse_parameters(*args.text("params")));
  ShapeHints hints;
  const std::pair<const char*, std::uint32_t*> sizes[] = {{"hidden", &hints.hidden},
                                                          {"layers", &hints.layers},
                                                          {"heads", &hints.heads},
                                                          {"kv-heads", &hints.kv_heads},
                                                          {"intermediate", &hints.intermediate},
                                                          {"vocab", &hints.vocab}};
  for (const auto& [key, value] : sizes) {
    GPUWARDEN_TRY(const auto given, count_option(args, key, 1U << 24U));
    if (given) *value = *given;
  }
  GPUWARDEN_TRY(ModelShape model, shape_of_size(parameters, hints));
  model.name = "a model of " + printable(*args.text("params"));
  return model;
}

/// A number such as 2T, 300B, 1e12.
Result<std::optional<double>> tokens_option(const Args& args, const std::string& key) {
  const auto text = args.text(key);
  if (!text) return std::nullopt;
  std::string_view digits = trim(*text);
  double factor = 1;
  constexpr std::pair<char, double> kUnits[] = {{'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'T', 1e12}};
  for (const auto& [unit, value] : kUnits) {
    const bool has = !digits.empty() && (digits.back() == unit || digits.back() == unit + ('a' - 'A'));
    if (has && factor == 1) {
      factor = value;
      digits.remove_suffix(1);
    }
  }
  const auto number = parse_number(digits);
  if (!number || *number <= 0 || *number * factor > kMostTokens)
    return fail(ErrorCode::invalid_argument, fmt::format("--{}: '{}' is no number of tokens", key, printable(*text)),
                "for example 300B, 2T, 50000000");
  return *number * factor;
}

/// "45%", "45", "0.45".
Result<std::optional<double>> share_option(const Args& args, const std::string& key) {
  auto text = args.text(key);
  if (!text) return std::nullopt;
  const bool percent = text->ends_with('%');
  if (percent) text->pop_back();
  const auto number = parse_number(*text);
  const double share = number ? (percent || *number > 1 ? *number / 100 : *number) : -1;
  if (share <= 0 || share > 1)
    return fail(ErrorCode::invalid_argument, fmt::format("--{}: '{}' is no share", key, printable(*text)),
                "for example 45%");
  return share;
}

/// "1=23.4,2=30.1": micro-batches and their peaks in GiB.
Result<std::vector<MeasuredPeak>> peaks_option(const Args& args) {
  constexpr double kGiB = 1073741824.0;
  constexpr double kMostGiB = 1e6;
  std::vector<MeasuredPeak> peaks;
  for (const std::string& pair : args.list("calibrate")) {
    const auto parts = split(pair, '=');
    const auto micro_batch = parse_integer(parts.front());
    const auto gib = parts.size() == 2 ? parse_number(parts.back()) : std::nullopt;
    const bool good = micro_batch && gib && *micro_batch > 0 && *micro_batch <= 1 << 20 && *gib > 0 && *gib < kMostGiB;
    if (!good)
      return fail(ErrorCode::invalid_argument, fmt::format("--calibrate: '{}' is not MICRO-BATCH=GiB", printable(pair)),
                  "for example 1=23.4,2=30.1: torch.cuda.max_memory_allocated() / 2**30 at two or three micro-batches");
    peaks.push_back({static_cast<std::uint32_t>(*micro_batch), Bytes(static_cast<std::uint64_t>(*gib * kGiB))});
  }
  return peaks;
}

/// CPU cores of the machine whose GPUs these are; 0: not known.
std::uint32_t cpus_beside(const Machine& machine, const facts::Snapshot& snapshot) {
  if (snapshot.environment && snapshot.environment->host.cpus)
    return static_cast<std::uint32_t>(std::clamp(*snapshot.environment->host.cpus, 0, 1 << 16));
  return machine.captured || snapshot.simulated ? 0 : std::thread::hardware_concurrency();
}

Result<void> read_gpus(Context& context, PlanRequest& request) {
  if (const auto named = context.args.text("gpus")) {
    request.gpus_from = "--gpus";
    GPUWARDEN_TRY(request.gpus, gpus_named(*named));
    return {};
  }
  GPUWARDEN_TRY(const Machine machine, open_machine(context));
  const facts::Snapshot snapshot = machine.read();
  request.simulated = snapshot.simulated;
  request.gpus_from = machine.captured     ? printable(machine.capture_name)
                      : snapshot.simulated ? "simulated fleet"
                                           : "this machine";
  auto group = gpus_of(snapshot);
  if (!group) {
    Error error = group.error();
    error.code = machine.captured ? ErrorCode::invalid_argument : ErrorCode::unavailable;
    return std::unexpected(std::move(error));
  }
  request.gpus = std::move(*group);
  if (request.cpus == 0) request.cpus = cpus_beside(machine, snapshot);
  return {};
}

Result<void> read_amounts(const Args& args, PlanRequest& request) {
  GPUWARDEN_TRY(request.train_tokens, tokens_option(args, "tokens"));
  GPUWARDEN_TRY(request.mfu, share_option(args, "mfu"));
  GPUWARDEN_TRY(request.measured, peaks_option(args));
  GPUWARDEN_TRY(const auto utilization, share_option(args, "utilization"));
  request.serving_utilization = utilization.value_or(request.serving_utilization);
  GPUWARDEN_TRY(request.global_batch, count_option(args, "global-batch", 1U << 30U));
  if (request.global_batch == 0U) return fail(ErrorCode::invalid_argument, "--global-batch: 0 is too few");
  GPUWARDEN_TRY(const auto cpus, count_option(args, "cpus", 1U << 16U));
  request.cpus = cpus.value_or(0);
  GPUWARDEN_TRY(const auto per_node, count_option(args, "gpus-per-node", 1024));
  if (per_node == 0U) return fail(ErrorCode::invalid_argument, "--gpus-per-node: 0 is too few");
  request.gpus_per_node = per_node.value_or(request.gpus_per_node);
  return {};
}

/// Products in 8 bits need a GPU that has them.
Result<void> check_fp8(const PlanRequest& request) {
  const int capability = 10 * request.gpus.capability_major + request.gpus.capability_minor;
  if (request.settings.fp8 == Fp8::none || capability == 0 || capability >= 89) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("--precision fp8: {} has no 8-bit floating point", printable(request.gpus.name)),
              "GPUs of compute capability 8.9 and later have it: RTX 4090, L40S, H100");
}

/// The GPUs of a strategy that was named: data-parallel ranks are what the other axes leave.
Result<void> spread(PlanRequest& request) {
  Parallelism& parallel = request.settings.parallel;
  const std::uint64_t others = std::uint64_t{parallel.tensor} * parallel.pipeline * parallel.context;
  if (others > request.gpus.count || request.gpus.count % others != 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} GPUs cannot be divided among tensor {} x pipeline {} x context {}", request.gpus.count,
                            parallel.tensor, parallel.pipeline, parallel.context),
                "their product must divide the number of GPUs");
  parallel.data = request.gpus.count / static_cast<std::uint32_t>(others);
  return {};
}

}  // namespace

Result<ModelShape> read_plan_model(const Args& args) {
  const std::string family = args.text("family").value_or("");
  const bool sized = args.has("params");
  if (args.rest.size() > 1)
    return fail(ErrorCode::invalid_argument,
                fmt::format("one model at a time: '{}' is the second", printable(args.rest[1])));
  if (sized && !args.rest.empty())
    return fail(ErrorCode::invalid_argument, "a model and --params cannot be given together");
  if (sized) return read_sized(args);
  for (const char* key : {"hidden", "layers", "heads", "kv-heads", "intermediate", "vocab"}) {
    if (args.has(key))
      return fail(ErrorCode::invalid_argument, fmt::format("--{} completes --params, which is not given", key),
                  "a named model has its own sizes");
  }
  if (args.rest.empty())
    return fail(ErrorCode::invalid_argument, "no model is named",
                "give a name (gpuwarden plan --list), a config.json or its folder, or --params 7B");
  const fs::path path(args.rest.front());
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return read_folder(path, family);
  if (fs::exists(path, ignored)) return read_config_file(path, family);
  if (path.extension() == ".json") return read_config_file(path, family);
  return find_model(args.rest.front());
}

Result<PlanRequest> read_plan_request(Context& context) {
  PlanRequest request;
  GPUWARDEN_TRY(request.model, read_plan_model(context.args));
  GPUWARDEN_TRY(request.settings, read_plan_settings(context.args, request.model));
  GPUWARDEN_CHECK(read_amounts(context.args, request));
  GPUWARDEN_CHECK(read_gpus(context, request));
  GPUWARDEN_CHECK(check_fp8(request));
  if (context.args.text("strategy") == "single") request.gpus.count = 1;
  request.micro_batch_given = context.args.has("micro-batch");
  request.recompute_given = context.args.has("recompute");
  for (const char* key : {"strategy", "tensor-parallel", "pipeline-parallel", "context-parallel", "expert-parallel"}) {
    request.strategy_given = request.strategy_given || context.args.has(key);
  }
  GPUWARDEN_CHECK(spread(request));
  // DDP keeps everything on each GPU; the stage that offloads follows from what is.
  if (request.settings.parallel.offload != Offload::none && !context.args.has("strategy"))
    request.settings.parallel.sharding = Sharding::zero2;
  return request;
}

}  // namespace gpuwarden::cli
