// SPDX-License-Identifier: Apache-2.0
// Files of llama.cpp (GGUF): how ggml packs a tensor, and which tensors of a model a file's mix ("Q4_K_M") packs how.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/planning/model.hpp"
#include "gpuwarden/planning/settings.hpp"

namespace gpuwarden::planning {

/// How ggml stores a tensor.
enum class GgmlType {
  f32,
  f16,
  bf16,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq1_s,
  iq1_m,
  iq2_xxs,
  iq2_xs,
  iq2_s,
  iq3_xxs,
  iq3_s,
  iq4_nl,
  iq4_xs,
  tq1_0,
  tq2_0,
  mxfp4,
  nvfp4,
  q1_0,
};

/// One format: a row of a tensor is made of blocks.
struct GgmlFormat {
  GgmlType type;
  std::uint32_t number;   ///< in files
  std::string_view word;  ///< "q4_K", as ggml_type_name() has it
  std::uint32_t weights;  ///< of a block
  std::uint32_t bytes;    ///< of a block
};
std::span<const GgmlFormat> ggml_formats();
const GgmlFormat& format_of(GgmlType type);
/// By name, letter case ignored; null where ggml has none such.
const GgmlFormat* find_ggml_format(std::string_view word);
/// By its number in files; null where it is of a later or another program.
const GgmlFormat* find_ggml_format(std::uint32_t number);
/// Bytes of one element, its share of the block's scales included.
double bytes_per_element(GgmlType type);

/// What a file's name says of its mix.
struct FileMix {
  Quantization kind;
  std::string_view title;  ///< "Q4_K_M"
  GgmlType base;           ///< of every matrix that no rule excepts
  GgmlType embedding;      ///< of the tokens' table, where the output is a matrix of its own
  GgmlType output;
  Quantization rules;  ///< whose exceptions hold: its own, or those of the mix that it widens (Q4_K_L: Q4_K_M)
};
std::span<const FileMix> file_mixes();
/// Null for formats that are no mix of a GGUF file.
const FileMix* find_mix(Quantization quantization);
/// By its title or what else people call it ("Q4_K", "q4-k-m", "MXFP4_MOE"), letter case ignored; null: none.
const FileMix* mix_named(std::string_view word);

/// What a file's tensors take, in bytes, by where llama.cpp loads them.
struct FileWeights {
  double embedding = 0;         ///< stays with the CPU
  double output = 0;            ///< the last norm and the output; of tied models a second copy of the embedding
  std::vector<double> layers;   ///< each, in their order
  std::vector<double> dense;    ///< of each, matrices that --split-mode row divides: all but experts'
  std::vector<double> experts;  ///< of each, what --n-cpu-moe leaves with the CPU
  double towers = 0;            ///< for images and sound, in a file of their own (mmproj)
  double copied = 0;            ///< of the output, what is a copy of the embedding and not in the file (tied models)

  /// Of the file, without what its header takes.
  double file() const;
};
/// Of a model in the settings' quantization: its file's own where that was opened and nothing else is asked for, else a
/// mix's, else of every matrix alike.
FileWeights file_weights(const ModelShape& model, const Settings& settings);
/// Whether those are what a file that was opened holds.
bool is_own_file(const ModelShape& model, const Settings& settings);

}  // namespace gpuwarden::planning
