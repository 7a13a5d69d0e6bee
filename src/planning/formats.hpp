// SPDX-License-Identifier: Apache-2.0
// How formats of frozen weights pack them, and which GPUs multiply in them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gpuwarden/planning/model.hpp"
#include "gpuwarden/planning/settings.hpp"

namespace gpuwarden::planning {

/// One format: `bits` for each weight, `scale_bytes` for each `group` of weights (scale, zero point), and once more
/// `outer_bytes` for each `outer_group` of weights where scales themselves are quantised.
struct WeightFormat {
  Quantization kind;
  double bits;
  double scale_bytes;
  std::uint32_t group;
  double outer_bytes;
  std::uint32_t outer_group;
  /// Compute capability x 10 from which tensor cores multiply in it; 0: it is only stored, products are in 16 bit.
  int computes_from;
  bool experts_only;  ///< other matrices stay in 16 bit
  std::string_view source;
};

/// A format as a model's weights have it.
struct FrozenFormat {
  const WeightFormat* format = nullptr;  ///< null: weights are not quantised
  std::uint32_t group = 0;               ///< weights that share a scale
  bool experts_only = false;
};

/// Of the settings' quantization; group and which matrices as the model's file says where it is stored in that format.
FrozenFormat frozen_format(const ModelShape& model, Quantization quantization);
/// Bytes of one weight, its share of scales and zero points included; `otherwise` where it is not quantised.
double frozen_bytes(const FrozenFormat& format, double otherwise);
/// "4 bit + 2.5 B for 128": the sum behind frozen_bytes(); empty where nothing is quantised.
std::string formula_of(const FrozenFormat& format);
/// The row of a format; null for none.
const WeightFormat* find_format(Quantization quantization);
/// From which compute capability x 10 on a model's products are in the format of its weights; 0: never, since nothing
/// multiplies in it, or since the checkpoint packs its weights alone (GPTQ in 8 bits, W8A16, NVFP4A16).
int computes_from(const ModelShape& model, Quantization quantization);
/// The format in which a checkpoint is stored, as its file or name says.
Quantization stored_quantization(const ModelShape& model);

}  // namespace gpuwarden::planning
