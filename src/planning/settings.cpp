// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "gpuwarden/planning/gguf.hpp"

namespace gpuwarden::planning {

namespace {

using namespace std::string_view_literals;

/// Names in the order of the enumerators.
template <class E, std::size_t N>
std::string_view name_in(const std::array<std::string_view, N>& names, E value) {
  const auto index = static_cast<std::size_t>(std::to_underlying(value));
  return index < N ? names[index] : "?"sv;
}

struct Range {
  std::string_view name;
  std::uint64_t value;
  std::uint64_t largest;
};

Result<void> check_counts(const Settings& settings) {
  const Parallelism& parallel = settings.parallel;
  const std::array<Range, 10> ranges{{
      {"sequence length", settings.sequence, 1ULL << 27U},
      {"micro-batch", settings.micro_batch, 1ULL << 20U},
      {"accumulation", settings.accumulation, 1ULL << 24U},
      {"data parallelism", parallel.data, 1ULL << 20U},
      {"tensor parallelism", parallel.tensor, 1024},
      {"pipeline parallelism", parallel.pipeline, 1024},
      {"context parallelism", parallel.context, 1024},
      {"expert parallelism", parallel.expert, 1024},
      {"layer stages", parallel.layer_stages, 1024},
      {"virtual stages", parallel.virtual_stages, 1024},
  }};
  for (const Range& range : ranges) {
    if (range.value < 1 || range.value > range.largest) {
      return fail(ErrorCode::invalid_argument, fmt::format("{} is {}", range.name, range.value),
                  fmt::format("give 1 to {}", range.largest));
    }
  }
  return {};
}

}  // namespace

Result<void> check(const Settings& settings) {
  GPUWARDEN_CHECK(check_counts(settings));
  if (settings.prompt > settings.sequence) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("a prompt of {} tokens is longer than the sequence of {}", settings.prompt, settings.sequence),
        "the sequence is prompt and answer together");
  }
  if (!(settings.kv_bytes > 0 && settings.kv_bytes <= 8)) {
    return fail(ErrorCode::invalid_argument, fmt::format("an element of the KV cache has {} bytes", settings.kv_bytes),
                "2 for 16 bit, 1 for 8 bit");
  }
  if (settings.parallel.expert > settings.parallel.data * settings.parallel.tensor) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("expert parallelism {} is more than data parallelism {} x tensor parallelism {}",
                            settings.parallel.expert, settings.parallel.data, settings.parallel.tensor),
                "experts are spread over data-parallel ranks");
  }
  if (settings.trains() && settings.parallel.offload != Offload::none && settings.framework == Framework::megatron) {
    return fail(ErrorCode::invalid_argument, "what Megatron keeps on the host is not planned",
                "offload with ZeRO or FSDP of transformers, or with torchtitan's FSDP");
  }
  if (settings.trains() && settings.parallel.offload != Offload::none && settings.parallel.sharding == Sharding::none &&
      settings.parallel.data > 1) {
    return fail(ErrorCode::invalid_argument, "DDP keeps everything on each GPU: nothing of it is offloaded",
                "offload with a ZeRO or FSDP strategy");
  }
  if (settings.task == Task::full_training && settings.quantization != Quantization::none &&
      settings.quantization != Quantization::fp8) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("weights in {} cannot be trained", to_string(settings.quantization)),
                "train adapters beside them (QLoRA), or drop the quantization");
  }
  if (settings.trains() && find_mix(settings.quantization) != nullptr) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("nothing is trained beside a GGUF file's weights ({})", to_string(settings.quantization)),
                "--task qlora trains adapters beside the model's own weights in 4 bits (nf4)");
  }
  // Megatron multiplies frozen weights in 8 bits, too (NVIDIA-NeMo/Megatron-Bridge, docs/performance-summary.md, LoRA).
  const bool frozen = settings.task == Task::adapters && settings.framework == Framework::megatron;
  if (settings.fp8 != Fp8::none && settings.task != Task::full_training && !frozen) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("fp8 is a precision of full training, not of {}", to_string(settings.task)),
                settings.task == Task::adapters ? "Megatron's adapters have it: --framework megatron"
                                                : "weights that are not trained are kept in fp8 by their quantization");
  }
  if (settings.task == Task::adapters && (settings.adapters.rank < 1 || settings.adapters.rank > 65536)) {
    return fail(ErrorCode::invalid_argument, fmt::format("adapters of rank {}", settings.adapters.rank),
                "give 1 to 65536; 8 to 64 are common");
  }
  return {};
}

std::string_view to_string(Task value) {
  return name_in(std::array{"full_training"sv, "adapters"sv, "inference"sv, "serving"sv}, value);
}
std::string_view to_string(Precision value) {
  return name_in(std::array{"fp32"sv, "bf16"sv, "fp16"sv, "mixed"sv, "mixed_low"sv, "master_weights"sv}, value);
}
std::string_view to_string(Fp8 value) { return name_in(std::array{"none"sv, "matrices"sv, "gathered"sv}, value); }
std::string_view to_string(Optimizer value) {
  return name_in(
      std::array{"adamw"sv, "adamw_8bit"sv, "adafactor"sv, "lion"sv, "sgd"sv, "sgd_momentum"sv, "adamw_4bit"sv}, value);
}
std::string_view to_string(OptimizerStep value) {
  return name_in(std::array{"foreach"sv, "fused"sv, "in_backward"sv, "foreach_twice"sv}, value);
}
std::string_view to_string(Recompute value) {
  return name_in(std::array{"none"sv, "selective"sv, "full"sv, "full_offloaded"sv}, value);
}
std::string_view to_string(Attention value) { return name_in(std::array{"flash"sv, "eager"sv}, value); }
std::string_view to_string(LossKernel value) {
  return name_in(std::array{"standard"sv, "triton"sv, "low"sv, "chunked"sv, "fused_linear"sv, "compiled"sv}, value);
}
std::string_view to_string(Quantization value) {
  if (const FileMix* const mix = find_mix(value)) return mix->title;
  return name_in(
      std::array{"none"sv, "nf4"sv, "nf4_double"sv, "int4"sv, "int8"sv, "fp8"sv, "mxfp4"sv, "hqq"sv, "nvfp4"sv}, value);
}
std::string title_of(Quantization value) {
  std::string title(to_string(value));
  if (find_mix(value) == nullptr) std::ranges::replace(title, '_', ' ');
  return title;
}
std::string_view to_string(Framework value) {
  return name_in(
      std::array{"transformers"sv, "transformers_legacy"sv, "torchtitan"sv, "torchtune"sv, "litgpt"sv, "megatron"sv},
      value);
}
std::string_view title_of(Framework value) {
  return name_in(
      std::array{"transformers"sv, "transformers"sv, "torchtitan"sv, "torchtune"sv, "litgpt"sv, "Megatron"sv}, value);
}
std::string_view to_string(Sharding value) {
  return name_in(std::array{"none"sv, "zero1"sv, "zero2"sv, "zero3"sv, "fsdp1"sv, "fsdp2"sv}, value);
}
std::string_view title_of(Sharding value) {
  return name_in(std::array{"DDP"sv, "ZeRO-1"sv, "ZeRO-2"sv, "ZeRO-3"sv, "FSDP1"sv, "FSDP2"sv}, value);
}
std::string_view to_string(Offload value) { return name_in(std::array{"none"sv, "optimizer"sv, "all"sv}, value); }

}  // namespace gpuwarden::planning
