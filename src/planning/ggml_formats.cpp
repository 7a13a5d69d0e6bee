// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/gguf.hpp"

namespace gpuwarden::planning {
namespace {

/// Numbers, weights and bytes of a block. Sources: ggml_type of llama.cpp's ggml/include/ggml.h and the block structs
/// of ggml/src/ggml-common.h, both told by its gguf-py/gguf/constants.py (GGMLQuantizationType, GGML_QUANT_SIZES).
constexpr GgmlFormat kGgmlFormats[] = {{GgmlType::f32, 0, "f32", 1, 4},
                                       {GgmlType::f16, 1, "f16", 1, 2},
                                       {GgmlType::bf16, 30, "bf16", 1, 2},
                                       {GgmlType::q8_0, 8, "q8_0", 32, 34},
                                       {GgmlType::q4_0, 2, "q4_0", 32, 18},
                                       {GgmlType::q4_1, 3, "q4_1", 32, 20},
                                       {GgmlType::q5_0, 6, "q5_0", 32, 22},
                                       {GgmlType::q5_1, 7, "q5_1", 32, 24},
                                       {GgmlType::q2_k, 10, "q2_K", 256, 84},
                                       {GgmlType::q3_k, 11, "q3_K", 256, 110},
                                       {GgmlType::q4_k, 12, "q4_K", 256, 144},
                                       {GgmlType::q5_k, 13, "q5_K", 256, 176},
                                       {GgmlType::q6_k, 14, "q6_K", 256, 210},
                                       {GgmlType::iq1_s, 19, "iq1_s", 256, 50},
                                       {GgmlType::iq1_m, 29, "iq1_m", 256, 56},
                                       {GgmlType::iq2_xxs, 16, "iq2_xxs", 256, 66},
                                       {GgmlType::iq2_xs, 17, "iq2_xs", 256, 74},
                                       {GgmlType::iq2_s, 22, "iq2_s", 256, 82},
                                       {GgmlType::iq3_xxs, 18, "iq3_xxs", 256, 98},
                                       {GgmlType::iq3_s, 21, "iq3_s", 256, 110},
                                       {GgmlType::iq4_nl, 20, "iq4_nl", 32, 18},
                                       {GgmlType::iq4_xs, 23, "iq4_xs", 256, 136},
                                       {GgmlType::tq1_0, 34, "tq1_0", 256, 54},
                                       {GgmlType::tq2_0, 35, "tq2_0", 256, 66},
                                       {GgmlType::mxfp4, 39, "mxfp4", 32, 17},
                                       {GgmlType::nvfp4, 40, "nvfp4", 64, 36},
                                       {GgmlType::q1_0, 41, "q1_0", 128, 18}};

}  // namespace

std::span<const GgmlFormat> ggml_formats() { return kGgmlFormats; }

const GgmlFormat& format_of(GgmlType type) { return *std::ranges::find(kGgmlFormats, type, &GgmlFormat::type); }

const GgmlFormat* find_ggml_format(std::string_view word) {
  const auto* const found = std::ranges::find_if(
      kGgmlFormats, [lower = to_lower(word)](const GgmlFormat& row) { return to_lower(row.word) == lower; });
  return found == std::end(kGgmlFormats) ? nullptr : found;
}

const GgmlFormat* find_ggml_format(std::uint32_t number) {
  const auto* const found = std::ranges::find(kGgmlFormats, number, &GgmlFormat::number);
  return found == std::end(kGgmlFormats) ? nullptr : found;
}

double bytes_per_element(GgmlType type) {
  const GgmlFormat& format = format_of(type);
  return static_cast<double>(format.bytes) / format.weights;
}

}  // namespace gpuwarden::planning
