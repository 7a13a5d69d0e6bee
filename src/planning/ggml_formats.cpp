// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/gguf.hpp"

namespace gpuwarden::planning {
namespace {

/// Weights and bytes of a block. Sources: the block structs of llama.cpp's ggml/src/ggml-common.h, whose sizes its
/// gguf-py/gguf/constants.py tells (GGML_QUANT_SIZES).
constexpr GgmlFormat kGgmlFormats[] = {{GgmlType::f32, "f32", 1, 4},
                                       {GgmlType::f16, "f16", 1, 2},
                                       {GgmlType::bf16, "bf16", 1, 2},
                                       {GgmlType::q8_0, "q8_0", 32, 34},
                                       {GgmlType::q4_0, "q4_0", 32, 18},
                                       {GgmlType::q4_1, "q4_1", 32, 20},
                                       {GgmlType::q5_0, "q5_0", 32, 22},
                                       {GgmlType::q5_1, "q5_1", 32, 24},
                                       {GgmlType::q2_k, "q2_K", 256, 84},
                                       {GgmlType::q3_k, "q3_K", 256, 110},
                                       {GgmlType::q4_k, "q4_K", 256, 144},
                                       {GgmlType::q5_k, "q5_K", 256, 176},
                                       {GgmlType::q6_k, "q6_K", 256, 210},
                                       {GgmlType::iq1_s, "iq1_s", 256, 50},
                                       {GgmlType::iq1_m, "iq1_m", 256, 56},
                                       {GgmlType::iq2_xxs, "iq2_xxs", 256, 66},
                                       {GgmlType::iq2_xs, "iq2_xs", 256, 74},
                                       {GgmlType::iq2_s, "iq2_s", 256, 82},
                                       {GgmlType::iq3_xxs, "iq3_xxs", 256, 98},
                                       {GgmlType::iq3_s, "iq3_s", 256, 110},
                                       {GgmlType::iq4_nl, "iq4_nl", 32, 18},
                                       {GgmlType::iq4_xs, "iq4_xs", 256, 136},
                                       {GgmlType::tq1_0, "tq1_0", 256, 54},
                                       {GgmlType::tq2_0, "tq2_0", 256, 66},
                                       {GgmlType::mxfp4, "mxfp4", 32, 17}};

}  // namespace

std::span<const GgmlFormat> ggml_formats() { return kGgmlFormats; }

const GgmlFormat& format_of(GgmlType type) { return *std::ranges::find(kGgmlFormats, type, &GgmlFormat::type); }

const GgmlFormat* find_ggml_format(std::string_view word) {
  const auto* const found = std::ranges::find_if(
      kGgmlFormats, [lower = to_lower(word)](const GgmlFormat& row) { return to_lower(row.word) == lower; });
  return found == std::end(kGgmlFormats) ? nullptr : found;
}

double bytes_per_element(GgmlType type) {
  const GgmlFormat& format = format_of(type);
  return static_cast<double>(format.bytes) / format.weights;
}

}  // namespace gpuwarden::planning
