// SPDX-License-Identifier: Apache-2.0
#include "planning/vision_tower.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace gpuwarden::planning {
namespace {

constexpr std::uint64_t kChannels = 3;

/// Sizes of a tower; 0: not named.
struct TowerSizes {
  std::uint64_t hidden = 0;
  std::uint64_t layers = 0;
  std::uint64_t intermediate = 0;
  std::uint64_t patch = 0;
  std::uint64_t frames = 1;     ///< that one patch takes in
  std::uint64_t positions = 0;  ///< learned
  std::uint64_t merged = 0;     ///< patches along an edge that become one token
  std::uint64_t output = 0;
};

std::uint64_t affine(std::uint64_t inputs, std::uint64_t outputs) { return inputs * outputs + outputs; }

/// LayerNorms around attention with one matrix for queries, keys and values and an MLP of two, all with biases.
std::uint64_t layers_of(const TowerSizes& sizes) {
  const std::uint64_t h = sizes.hidden;
  const std::uint64_t attention = affine(h, 3 * h) + affine(h, h);
  const std::uint64_t mlp = affine(h, sizes.intermediate) + affine(sizes.intermediate, h);
  return sizes.layers * (4 * h + attention + mlp);
}

std::uint64_t embedding_of(const TowerSizes& sizes) {
  return affine(kChannels * sizes.frames * sizes.patch * sizes.patch, sizes.hidden) + sizes.positions * sizes.hidden;
}

/// Patches put side by side, through two matrices into the language model's width; a LayerNorm of `norm` before.
std::uint64_t merger_of(const TowerSizes& sizes, std::uint64_t norm) {
  const std::uint64_t wide = sizes.hidden * sizes.merged * sizes.merged;
  return 2 * norm + affine(wide, wide) + affine(wide, sizes.output);
}

std::uint64_t size_in(ConfigFields& fields, std::string_view key) {
  constexpr std::uint64_t kMost = 65'536;
  return fields.number({key}, 1, kMost).value_or(0);
}

bool is_whole(const TowerSizes& sizes) {
  return std::ranges::min({sizes.hidden, sizes.layers, sizes.intermediate, sizes.patch, sizes.frames, sizes.positions,
                           sizes.merged, sizes.output}) > 0 &&
         sizes.layers <= 1000 && sizes.merged <= 16 && sizes.patch <= 1024;
}

/// Source: modular_qwen3_vl.py and modular_qwen3_5.py of transformers; the sums are those of the checkpoints.
std::optional<std::uint64_t> qwen_tower(ConfigFields& vision) {
  const TowerSizes sizes{.hidden = size_in(vision, "hidden_size"),
                         .layers = size_in(vision, "depth"),
                         .intermediate = size_in(vision, "intermediate_size"),
                         .patch = size_in(vision, "patch_size"),
                         .frames = size_in(vision, "temporal_patch_size"),
                         .positions = size_in(vision, "num_position_embeddings"),
                         .merged = size_in(vision, "spatial_merge_size"),
                         .output = size_in(vision, "out_hidden_size")};
  if (vision.error() || !is_whole(sizes)) return std::nullopt;
  // Layers in the middle of the tower lead into the language model as well (DeepStack), their patches merged first.
  const std::uint64_t deep = std::min<std::uint64_t>(vision.list_size("deepstack_visual_indexes").value_or(0), 1000);
  const std::uint64_t wide = sizes.hidden * sizes.merged * sizes.merged;
  return embedding_of(sizes) + layers_of(sizes) + merger_of(sizes, sizes.hidden) + deep * merger_of(sizes, wide);
}

/// Source: vLLM's kimi_k25_vit.py (positions of time are computed, a LayerNorm behind the layers).
std::optional<std::uint64_t> kimi_tower(ConfigFields& vision, std::uint64_t text_hidden) {
  const TowerSizes sizes{.hidden = size_in(vision, "vt_hidden_size"),
                         .layers = size_in(vision, "vt_num_hidden_layers"),
                         .intermediate = size_in(vision, "vt_intermediate_size"),
                         .patch = size_in(vision, "patch_size"),
                         .positions = size_in(vision, "init_pos_emb_height") * size_in(vision, "init_pos_emb_width"),
                         .merged = size_in(vision, "merge_kernel_size"),
                         .output = text_hidden};
  if (vision.error() || !is_whole(sizes)) return std::nullopt;
  return embedding_of(sizes) + layers_of(sizes) + 2 * sizes.hidden + merger_of(sizes, sizes.hidden);
}

}  // namespace

std::optional<std::uint64_t> vision_tower_parameters(ConfigFields& vision, std::uint64_t text_hidden) {
  const std::string type = vision.text({"model_type"}).value_or("");
  if (type.starts_with("qwen3_vl") || type.starts_with("qwen3_5")) return qwen_tower(vision);
  if (vision.has("vt_hidden_size") && vision.text({"mm_projector_type"}) == "patchmerger")
    return kimi_tower(vision, text_hidden);
  return std::nullopt;
}

}  // namespace gpuwarden::planning
