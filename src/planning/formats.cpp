// SPDX-License-Identifier: Apache-2.0
#include "formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "gpuwarden/planning/gguf.hpp"

namespace gpuwarden::planning {
namespace {

constexpr std::uint32_t kFp8Block = 128 * 128;

constexpr WeightFormat kWeightFormats[] = {
    {.kind = Quantization::nf4,
     .bits = 4,
     .scale_bytes = 4,
     .group = 64,
     .source = "QLoRA, arXiv 2305.14314: an fp32 constant for 64 weights; bitsandbytes multiplies in 16 bit"},
    {.kind = Quantization::nf4_double,
     .bits = 4,
     .scale_bytes = 1,
     .group = 64,
     .outer_bytes = 4,
     .outer_group = 64 * 256,
     .source = "QLoRA, arXiv 2305.14314: constants in 8 bit, an fp32 one for 256 of them"},
    {.kind = Quantization::int4,
     .bits = 4,
     .scale_bytes = 2.5,
     .group = 128,
     .source = "AutoGPTQ and AutoAWQ pack a 16-bit scale and a 4-bit zero for a group (qweight, scales, qzeros)"},
    {.kind = Quantization::int8,
     .bits = 8,
     .scale_bytes = 3,
     .group = 128,
     .computes_from = 75,
     .source = "AutoGPTQ: a 16-bit scale and an 8-bit zero for a group, and products in 16 bit; "
               "bitsandbytes' LLM.int8() and compressed-tensors' W8A8 multiply in 8 bits"},
    {.kind = Quantization::fp8,
     .bits = 8,
     .scale_bytes = 4,
     .group = kFp8Block,
     .computes_from = 89,
     .source = "DeepSeek-V3's weight_block_size [128, 128]: an fp32 scale a block"},
    {.kind = Quantization::mxfp4,
     .bits = 4,
     .scale_bytes = 1,
     .group = 32,
     .computes_from = 100,
     .experts_only = true,
     .source = "OCP Microscaling Formats 1.0: a shared exponent for 32 weights"},
    {.kind = Quantization::hqq,
     .bits = 4,
     .scale_bytes = 4,
     .group = 64,
     .source = "HQQ (dropbox/hqq): scale and zero in 16 bit for a group"},
    {.kind = Quantization::nvfp4,
     .bits = 4,
     .scale_bytes = 1,
     .group = 16,
     .computes_from = 100,
     .source = "NVIDIA Model Optimizer: an 8-bit scale for 16 weights, an fp32 one for a matrix"}};

}  // namespace

const WeightFormat* find_format(Quantization quantization) {
  const auto* const found = std::ranges::find(kWeightFormats, quantization, &WeightFormat::kind);
  return found == std::end(kWeightFormats) ? nullptr : found;
}

int computes_from(const ModelShape& model, Quantization quantization) {
  const WeightFormat* const format = find_format(quantization);
  if (format == nullptr) return 0;
  // A word on the command line has no file behind it.
  const bool meant = !model.quantization || stored_quantization(model) == quantization;
  return model.quantized_weights_only && meant ? 0 : format->computes_from;
}

Quantization stored_quantization(const ModelShape& model) {
  if (!model.quantization || model.quantization_bits == 0) return Quantization::none;
  const std::string& name = *model.quantization;
  if (const FileMix* const mix = model.gguf ? mix_named(name) : nullptr) return mix->kind;
  if (name.contains("bitsandbytes") && model.quantization_bits == 4) return Quantization::nf4;
  if (name.contains("nvfp4")) return Quantization::nvfp4;
  if (name.contains("mxfp4")) return Quantization::mxfp4;
  if (name.contains("fp8")) return Quantization::fp8;
  if (name.contains("hqq") && model.quantization_bits == 4) return Quantization::hqq;
  if (model.quantization_bits <= 4) return Quantization::int4;
  return model.quantization_bits <= 8 ? Quantization::int8 : Quantization::none;
}

FrozenFormat frozen_format(const ModelShape& model, Quantization quantization) {
  const WeightFormat* const format = find_format(quantization);
  if (format == nullptr) return {};
  FrozenFormat frozen{format, format->group, format->experts_only};
  if (stored_quantization(model) != quantization) return frozen;
  if (model.quantization_group > 0) frozen.group = model.quantization_group;
  frozen.experts_only = frozen.experts_only || model.quantized_experts_only;
  return frozen;
}

double frozen_bytes(const FrozenFormat& format, double otherwise) {
  if (format.format == nullptr) return otherwise;
  const WeightFormat& row = *format.format;
  const double outer = row.outer_group > 0 ? row.outer_bytes / row.outer_group : 0;
  return row.bits / 8 + row.scale_bytes / std::max(1U, format.group) + outer;
}

std::string formula_of(const FrozenFormat& format) {
  if (format.format == nullptr) return "";
  const WeightFormat& row = *format.format;
  std::string text = fmt::format("{:.0f} bit + {:g} B for {}", row.bits, row.scale_bytes, format.group);
  if (row.outer_group > 0) text += fmt::format(" + {:g} B for {}", row.outer_bytes, row.outer_group);
  return text;
}

}  // namespace gpuwarden::planning
