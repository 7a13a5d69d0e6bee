// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/model.hpp"

#include <algorithm>
#include <utility>

namespace gpuwarden::planning {

std::uint64_t query_width(const ModelShape& model) {
  const LatentAttention& latent = model.latent;
  const std::uint64_t head = latent.kv_rank > 0 ? std::uint64_t{latent.nope_dim} + latent.rope_dim : model.head_dim;
  return model.heads * head;
}

std::uint64_t key_width(const ModelShape& model) {
  if (model.latent.kv_rank > 0) return query_width(model);
  return std::uint64_t{model.kv_heads} * model.head_dim;
}

std::uint64_t kv_elements_per_layer(const ModelShape& model) {
  if (model.latent.kv_rank > 0) return std::uint64_t{model.latent.kv_rank} + model.latent.rope_dim;
  return 2 * key_width(model);
}

double kv_bytes_per_layer(const ModelShape& model, double bytes) {
  const double elements = static_cast<double>(kv_elements_per_layer(model));
  if (model.indexer.layers == 0 || bytes > 1) return elements * bytes;
  // Sparse attention's 8-bit cache: an fp32 scale for 128 of the compressed elements, positions in 16 bit. Source:
  // vllm/v1/attention/backends/mla/flashmla_sparse.py (656 bytes for DeepSeek V3.2).
  constexpr double kScaled = 128;
  return model.latent.kv_rank * (bytes + 4 / kScaled) + 2.0 * model.latent.rope_dim;
}

double indexer_bytes_per_layer(const ModelShape& model) {
  if (model.indexer.layers == 0) return 0;
  // Keys in fp8 with an fp32 scale for 128 of them. Sources: vllm/model_executor/models/deepseek_v2.py (Indexer's
  // k_cache), SGLang's NSATokenToKVPool (index_k_with_scale_buffer).
  constexpr std::uint32_t kScaled = 128;
  const std::uint32_t scales = model.indexer.head_dim / kScaled;
  return model.indexer.head_dim + 4.0 * scales;
}

std::uint32_t kv_layers(const ModelShape& model) {
  const std::uint32_t without = model.linear_attention.layers + model.layer_inputs.kv_shared;
  return model.layers - std::min(model.layers, without);
}

double linear_state_bytes(const ModelShape& model) {
  const LinearAttention& own = model.linear_attention;
  const double keys = static_cast<double>(own.key_heads) * own.key_dim;
  const double values = static_cast<double>(own.value_heads) * own.value_dim;
  return own.layers * (4 * values * own.key_dim + 2 * (2 * keys + values) * own.kernel);
}

std::uint32_t expert_layers(const ModelShape& model) {
  if (model.experts.experts == 0) return 0;
  return model.layers - std::min(model.layers, model.experts.dense_layers);
}

std::string_view to_string(ModelKind kind) {
  switch (kind) {
    case ModelKind::decoder:
      return "decoder";
    case ModelKind::encoder:
      return "encoder";
    case ModelKind::encoder_decoder:
      return "encoder_decoder";
    case ModelKind::vision_encoder:
      return "vision_encoder";
  }
  std::unreachable();
}

std::string_view to_string(DataType type) {
  switch (type) {
    case DataType::float32:
      return "float32";
    case DataType::float16:
      return "float16";
    case DataType::bfloat16:
      return "bfloat16";
    case DataType::float8:
      return "float8";
    case DataType::int8:
      return "int8";
    case DataType::int4:
      return "int4";
  }
  std::unreachable();
}

double bytes_per_element(DataType type) {
  switch (type) {
    case DataType::float32:
      return 4;
    case DataType::float16:
    case DataType::bfloat16:
      return 2;
    case DataType::float8:
    case DataType::int8:
      return 1;
    case DataType::int4:
      return 0.5;
  }
  std::unreachable();
}

}  // namespace gpuwarden::planning
