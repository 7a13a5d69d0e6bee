// SPDX-License-Identifier: Apache-2.0
#include "answer_notes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engines.hpp"
#include "formats.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/gguf.hpp"

namespace gpuwarden::planning {
namespace {

/// Whether the GPU multiplies in the weights' format or only stores them so. Sources: NVIDIA's Blackwell and Hopper
/// tuning guides (types of tensor cores); vLLM's documentation, "Quantization" (weight-only kernels).
void note_format(PlanAnswer& answer, int capability, const std::string& name) {
  const Settings& settings = answer.request.work.settings;
  const WeightFormat* const format = find_format(settings.quantization);
  // What an 8-bit type without tensor cores for it comes to is said below.
  if (format == nullptr || settings.trains() || format->kind == Quantization::fp8) return;
  const int from = computes_from(answer.request.work.model, settings.quantization);
  if (from > 0 && capability >= from) return;
  answer.notes.push_back(
      fmt::format("{} only stores weights in {}: products are in 16 bit", name, to_string(settings.quantization)));
}

/// What a GPU without bf16 or fp8 does instead. Sources: CUDA programming guide, arithmetic by compute capability;
/// vLLM's documentation, "FP8 W8A8" (Marlin kernels before 8.9, from 8.0 on) and "Quantized KV Cache".
void note_types(PlanAnswer& answer) {
  const GpuGroup& gpus = answer.request.gpus;
  Settings& settings = answer.request.work.settings;
  const int capability = 10 * gpus.capability_major + gpus.capability_minor;
  if (capability == 0) return;
  const std::string name = printable(gpus.name);
  if (capability < 80 && settings.precision == Precision::bf16 && !settings.trains()) {
    settings.precision = Precision::fp16;
    answer.notes.push_back(fmt::format("{} has no bf16: 16 bit are fp16", name));
  }
  note_format(answer, capability, name);
  if (capability >= 89) return;
  if (settings.quantization == Quantization::fp8)
    answer.notes.push_back(
        capability >= 80
            ? fmt::format("{} has no 8-bit floating point: fp8 weights spare memory, and are computed with in 16 bit",
                          name)
            : fmt::format("{} has no 8-bit floating point, and engines such as vLLM load fp8 weights from compute "
                          "capability 8.0 on: take int8 or int4",
                          name));
  if (!settings.trains() && settings.kv_bytes == 1)
    answer.notes.push_back(fmt::format(
        "{} has no 8-bit floating point: an fp8 KV cache is converted as it is read, if the engine brings that", name));
}

/// Source: vllm-project/recipes#632 (its default share does not start), logs of vLLM's start in public issues:
/// 101.3 GiB free (MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#47) to 115 of 121.69.
void note_shared_memory(PlanAnswer& answer) {
  if (answer.request.gpus.name != "NVIDIA GB10") return;
  answer.notes.emplace_back(
      "NVIDIA GB10 shares this memory with the CPU: what the system, programs and files in its page cache hold is "
      "missing here; of 121.69 GiB, 101 to 115 are seen free when engines start (vLLM: --gpu-memory-utilization 0.8 "
      "to 0.85)");
}

/// How long requests are where nobody says so, and why.
void tell_length(PlanAnswer& answer) {
  const Workload& work = answer.request.work;
  if (work.length == Length::given || work.length == Length::assumed) return;
  const EngineTraits& engine = traits_of(work.engine);
  const std::uint32_t window = usual_window(work.model, work.engine);
  if (work.model.max_positions == 0)
    answer.notes.push_back(
        fmt::format("the window of this release is not known: that of {} is taken for it; {} says otherwise",
                    printable(work.model.name), engine.length_option));
  // Of itself this engine does not shorten: it was told to.
  const bool automatic = work.length == Length::fitted && !engine.shortens;
  std::string note = automatic ? fmt::format("{} auto: {} takes the model's window, {} tokens", engine.length_option,
                                             engine.title, window)
                               : fmt::format("where {} names no length, {} takes the model's window, {} tokens",
                                             engine.length_option, engine.title, window);
  if (window < work.model.max_positions)
    note +=
        fmt::format(" (without longrope's stretching; {} up to {})", engine.length_option, work.model.max_positions);
  if (work.length == Length::usual) {
    answer.notes.push_back(fmt::format(
        "where num_ctx names no length, ollama takes {} tokens on GPUs of this memory, the model's window at "
        "most: {}",
        usual_context(Bytes(answer.request.gpus.usable.value * answer.request.gpus.count)), work.settings.sequence));
    return;
  }
  if (work.length == Length::window) note += ", and does not start where its KV cache cannot hold one such request";
  if (work.settings.sequence < window)
    note += fmt::format(", and of them what its KV cache holds: {}", work.settings.sequence);
  answer.notes.push_back(std::move(note));
}

/// What is counted beside the model, now that it is known how long requests are.
void tell_draft(PlanAnswer& answer) {
  const Workload& work = answer.request.work;
  if (work.beside.name.empty()) return;
  const auto size = [](double bytes) { return format_size(Bytes(static_cast<std::uint64_t>(bytes))); };
  answer.notes.push_back(fmt::format(
      "the draft model {} is counted beside it, whole on each GPU: {} of weights and {} of cache for {} tokens",
      printable(work.beside.name), size(work.beside.fixed), size(work.beside.cache(work.settings.sequence)),
      work.settings.sequence));
}

/// What a framework's replicas usually share is told where there are replicas; a single one has nothing to share.
void tell_usual_sharding(PlanAnswer& answer) {
  const Workload& work = answer.request.work;
  const Parallelism& parallel = work.settings.parallel;
  if (!work.usual_sharding || std::uint64_t{parallel.data} * parallel.context == 1) return;
  answer.notes.emplace_back(parallel.sharding == Sharding::fsdp2
                                ? "replicas are taken to share weights by FSDP, as torchtitan's do"
                                : "replicas are taken to share Megatron's optimizer (--use-distributed-optimizer); "
                                  "without it: --strategy ddp");
}

/// What of a GGUF file is planned, so that it can be held against the file.
void note_file(PlanAnswer& answer) {
  const Settings& settings = answer.request.work.settings;
  const ModelShape& model = answer.request.work.model;
  const bool opened = is_own_file(model, settings);
  if (find_mix(settings.quantization) == nullptr && !opened) return;
  constexpr double kGB = 1e9;
  const FileWeights file = file_weights(model, settings);
  const double packed = static_cast<double>(answer.count.total - answer.count.towers);
  std::string note = fmt::format("{}: {} {:.4g} GB, {:.2f} bits a weight",
                                 opened && !model.quantization ? "16 or 32 bit" : to_string(settings.quantization),
                                 opened ? "the file was opened, its tensors take" : "a file of about",
                                 file.file() / kGB, 8 * file.file() / std::max(1.0, packed));
  if (file.towers > 0)
    note += fmt::format(", and {:.2g} GB for images and sound (mmproj) in 16 bit", file.towers / kGB);
  answer.notes.push_back(std::move(note));
}

/// llama.cpp's ways that are not in the figures.
void note_split(PlanAnswer& answer) {
  const auto& split = answer.request.work.settings.split;
  if (!split || answer.request.gpus.count < 2) return;
  if (split->mode == LayerSplit::Mode::row)
    answer.notes.emplace_back(
        "--split-mode row divides dense matrices; experts, norms and the KV cache stay with their layers (llama.cpp "
        "calls it deprecated)");
  else if (split->mode == LayerSplit::Mode::layer && split->shares.empty())
    answer.notes.emplace_back(
        "llama.cpp gives each GPU layers by its free memory, alike where nothing else uses them; --tensor-split says "
        "otherwise");
}

}  // namespace

void add_notes(PlanAnswer& answer) {
  tell_length(answer);
  tell_draft(answer);
  tell_usual_sharding(answer);
  note_types(answer);
  note_shared_memory(answer);
  note_file(answer);
  note_split(answer);
}

std::string engine_options(const Workload& work, const Settings& settings) {
  const LayerSplit split = settings.split.value_or(LayerSplit{});
  if (work.engine == Engine::ollama) {
    std::string text = fmt::format("OLLAMA_CONTEXT_LENGTH={}", settings.sequence);
    if (work.max_requests > 1) text += fmt::format(" OLLAMA_NUM_PARALLEL={}", work.max_requests);
    if (split.gpu_layers) text += fmt::format(", num_gpu {}", *split.gpu_layers);
    if (split.keys != "f16") text += fmt::format(", OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE={}", split.keys);
    return text;
  }
  std::string text =
      fmt::format("-ngl {} -c {}", split.gpu_layers ? fmt::to_string(*split.gpu_layers) : "all", settings.sequence);
  const std::uint32_t gpus = settings.parallel.gpus();
  if (split.mode == LayerSplit::Mode::none)
    text += " --split-mode none";
  else if (gpus > 1)
    text += split.mode == LayerSplit::Mode::row ? " --split-mode row" : " --split-mode layer";
  if (gpus > 1 && !split.shares.empty()) text += fmt::format(" --tensor-split {}", fmt::join(split.shares, ","));
  if (split.host_experts > 0) text += fmt::format(" --n-cpu-moe {}", split.host_experts);
  text += settings.attention == Attention::flash ? " -fa on" : " -fa off";
  if (split.keys != "f16" || split.values != "f16") text += fmt::format(" -ctk {} -ctv {}", split.keys, split.values);
  if (work.max_requests > 0) text += fmt::format(" -np {}", work.max_requests);
  if (work.batched_tokens > 0) text += fmt::format(" -ub {}", work.batched_tokens);
  return text;
}

void note_static_share(PlanAnswer& answer) {
  const double share = answer.request.work.static_share;
  const double total = static_cast<double>(answer.request.gpus.usable.value) - answer.pool->outside;
  const double rest = (1 - share) * total;
  if (share == 0 || rest >= answer.pool->activations) return;
  const auto size = [](double bytes) { return format_size(Bytes(static_cast<std::uint64_t>(std::max(0.0, bytes)))); };
  answer.notes.push_back(
      fmt::format("--mem-fraction-static {:g} leaves {} of each GPU, and SGLang computes with about {}: it starts, and "
                  "may run out of memory when prompts come; a smaller share, or a smaller --chunked-prefill-size",
                  share, size(rest), size(answer.pool->activations)));
}

}  // namespace gpuwarden::planning
