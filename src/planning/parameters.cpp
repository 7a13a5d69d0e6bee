// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "planning/families.hpp"

namespace gpuwarden::planning {
namespace {

constexpr std::uint64_t kVector = 1;

/// Modules of a family that nobody has heard of: Llama's.
const ModuleNames& modules_of(const ModelShape& model) {
  const Family* const family = find_family(model.family);
  return family != nullptr ? family->modules : families().front().modules;
}

/// Writes down the weights of one model, part by part.
class Inventory {
 public:
  explicit Inventory(const ModelShape& model) : model_(model), names_(modules_of(model)) {}

  std::vector<Weight> take() && {
    embedding();
    layers();
    tail();
    return std::move(weights_);
  }

 private:
  void add(Weight weight) {
    if (weight.copies > 0 && weight.inputs > 0 && weight.outputs > 0) weights_.push_back(std::move(weight));
  }
  /// Inputs and outputs of a matrix, and what it is for.
  struct Matrix {
    std::uint64_t inputs;
    std::uint64_t outputs;
    Role role = Role::other;
  };
  void linear(std::string_view module, Component component, Matrix matrix, bool bias, std::uint64_t copies) {
    add({std::string(module), component, matrix.inputs, matrix.outputs, bias, true, copies, copies, matrix.role});
  }
  void table(std::string_view module, Component component, std::uint64_t rows, std::uint64_t width, bool bias = false) {
    add({std::string(module), component, rows, width, bias, false, 1, 1});
  }
  void vector(std::string_view module, Component component, std::uint64_t width, std::uint64_t copies) {
    add({std::string(module), component, kVector, width, false, false, copies, copies});
  }
  /// A norm of this width: its weight, and its bias where this kind has one.
  void norm(std::string_view module, std::uint64_t width, std::uint64_t copies) {
    if (model_.norm == NormKind::layer_norm_plain) return;
    const bool bias = model_.norm == NormKind::layer_norm;
    add({std::string(module), Component::norm, kVector, width, bias, false, copies, copies});
  }

  void embedding() {
    const std::uint64_t width = model_.embedding_dim > 0 ? model_.embedding_dim : model_.hidden;
    table("embed_tokens", Component::embedding, model_.vocab, width);
    table("embed_positions", Component::embedding, model_.position_rows, model_.hidden);
    table("token_type_embeddings", Component::embedding, model_.type_rows, model_.hidden);
    if (width != model_.hidden) {
      linear("project_in", Component::embedding, {width, model_.hidden}, false, 1);
      linear("project_out", Component::embedding, {model_.hidden, width}, false, 1);
    }
    if (model_.image.patch > 0) image_embedding();
    if (model_.embedding_norm) norm("embed_norm", model_.hidden, 1);
    const std::uint64_t stacks = model_.encoder_layers > 0 ? 2 : 1;
    if (model_.layer_inputs.width > 0) layer_inputs();
    if (model_.position_buckets > 0)
      add({"relative_attention_bias", Component::embedding, model_.position_buckets, model_.heads, false, false, stacks,
           stacks});
  }

  /// Source: modeling_gemma3n.py of transformers.
  void layer_inputs() {
    const LayerInputs& own = model_.layer_inputs;
    const std::uint64_t h = model_.hidden;
    const std::uint64_t all = std::uint64_t{own.width} * model_.layers;
    table("embed_tokens_per_layer", Component::embedding, own.vocab, all);
    table("per_layer_model_projection", Component::embedding, h, all);
    vector("per_layer_projection_norm", Component::norm, own.width, 1);
    const std::uint64_t others = own.streams > 0 ? own.streams - 1 : 0;
    add({"altup_projections", Component::embedding, h, h, false, false, 2 * others, 2 * others});
    const std::uint64_t streams = own.streams;
    vector("altup", Component::norm, 2 * h + streams * (h + streams + streams * streams), model_.layers);
    linear("linear_left", Component::mlp, {h, own.low_rank}, false, model_.layers);
    linear("linear_right", Component::mlp, {own.low_rank, h}, false, model_.layers);
    linear("per_layer_input_gate", Component::mlp, {h, own.width}, false, model_.layers);
    linear("per_layer_projection", Component::mlp, {own.width, h}, false, model_.layers);
  }

  void image_embedding() {
    const ImageShape& image = model_.image;
    const std::uint64_t edge = image.image / image.patch;
    const std::uint64_t pixels = std::uint64_t{image.patch} * image.patch * image.channels;
    table("patch_embeddings", Component::embedding, pixels, model_.hidden, true);
    table("cls_token", Component::embedding, kVector, model_.hidden);
    table("position_embeddings", Component::embedding, edge * edge + 1, model_.hidden);
  }

  void layers() {
    const std::uint64_t all = std::uint64_t{model_.layers} + model_.encoder_layers;
    // A decoder beside an encoder looks twice in each layer: at itself, and across.
    const std::uint64_t attentions = all + (model_.encoder_layers > 0 ? model_.layers : 0);
    const std::uint64_t linear_layers = model_.linear_attention.layers;
    linear_attention(linear_layers);
    attention(attentions - std::min(attentions, linear_layers));
    indexer();
    const std::uint64_t cross_norms = model_.encoder_layers > 0 ? model_.layers : 0;
    norm("layer_norm", model_.hidden, all * model_.norms_per_layer + cross_norms);
    const std::uint64_t with_experts = expert_layers(model_);
    mlp(Component::mlp, model_.intermediate, model_.mlp_bias, all - with_experts);
    if (with_experts > 0) experts(with_experts);
  }

  /// Sources: modeling_qwen3_next.py and modeling_qwen3_5.py of transformers (GatedDeltaNet).
  void linear_attention(std::uint64_t copies) {
    if (copies == 0) return;
    const LinearAttention& own = model_.linear_attention;
    const std::uint64_t h = model_.hidden;
    const std::uint64_t keys = std::uint64_t{own.key_heads} * own.key_dim;
    const std::uint64_t values = std::uint64_t{own.value_heads} * own.value_dim;
    if (names_.delta_apart) {
      linear("in_proj_qkv", Component::attention, {h, 2 * keys + values}, false, copies);
      linear("in_proj_z", Component::attention, {h, values}, false, copies);
      linear("in_proj_b", Component::attention, {h, own.value_heads}, false, copies);
      linear("in_proj_a", Component::attention, {h, own.value_heads}, false, copies);
    } else {
      linear("in_proj_qkvz", Component::attention, {h, 2 * keys + 2 * values}, false, copies);
      linear("in_proj_ba", Component::attention, {h, 2 * std::uint64_t{own.value_heads}}, false, copies);
    }
    vector("conv1d", Component::attention, (2 * keys + values) * own.kernel, copies);
    vector("dt_bias", Component::attention, 2 * std::uint64_t{own.value_heads}, copies);  // and A_log
    vector("linear_norm", Component::norm, own.value_dim, copies);
    linear("out_proj", Component::attention, {values, h}, false, copies);
  }

  void attention(std::uint64_t copies) {
    if (copies == 0) return;
    if (model_.latent.kv_rank > 0) return latent_attention(copies);
    const std::uint64_t h = model_.hidden;
    const std::uint64_t q = query_width(model_);
    const std::uint64_t k = key_width(model_);
    if (names_.qkv.empty()) {
      linear(names_.query, Component::attention, {h, model_.gated_attention ? 2 * q : q, Role::query},
             model_.query_bias, copies);
      linear(names_.key, Component::attention, {h, k, Role::key}, model_.key_bias, copies);
      linear(names_.value, Component::attention, {h, k, Role::value}, model_.value_bias, copies);
    } else {
      linear(names_.qkv, Component::attention, {h, q + 2 * k, Role::qkv}, model_.query_bias, copies);
    }
    linear(names_.out, Component::attention, {q, h, Role::output}, model_.attention_out_bias, copies);
    if (model_.attention_sinks) vector("sinks", Component::attention, model_.heads, copies);
    if (model_.qk_norm == QkNorm::none) return;
    const bool each = model_.qk_norm == QkNorm::per_head;
    norm("q_norm", each ? model_.head_dim : q, copies);
    norm("k_norm", each ? model_.head_dim : k, copies);
  }

  /// Source: modeling_deepseek_v32.py and modeling_glm_moe_dsa.py of transformers: a LayerNorm on the keys; loaders of
  /// 4- and 8-bit weights leave what weighs the heads as it is.
  void indexer() {
    const AttentionIndexer& own = model_.indexer;
    const std::uint64_t rank = model_.latent.query_rank > 0 ? model_.latent.query_rank : model_.hidden;
    linear("wq_b", Component::attention, {rank, std::uint64_t{own.heads} * own.head_dim}, false, own.layers);
    linear("wk", Component::attention, {model_.hidden, own.head_dim}, false, own.layers);
    vector("indexer_k_norm", Component::norm, 2 * std::uint64_t{own.head_dim}, own.layers);
    add({"weights_proj", Component::attention, model_.hidden, own.heads, false, false, own.layers, own.layers});
  }

  /// Source: modeling_deepseek_v2.py and modeling_deepseek_v3.py of transformers.
  void latent_attention(std::uint64_t copies) {
    const LatentAttention& latent = model_.latent;
    const std::uint64_t h = model_.hidden;
    const std::uint64_t a = model_.heads;
    if (latent.query_rank > 0) {
      linear("q_a_proj", Component::attention, {h, latent.query_rank}, model_.query_bias, copies);
      norm("q_a_layernorm", latent.query_rank, copies);
      linear("q_b_proj", Component::attention, {latent.query_rank, query_width(model_)}, false, copies);
    } else {
      linear("q_proj", Component::attention, {h, query_width(model_)}, false, copies);
    }
    const std::uint64_t compressed = std::uint64_t{latent.kv_rank} + latent.rope_dim;
    linear("kv_a_proj_with_mqa", Component::attention, {h, compressed}, model_.key_bias, copies);
    norm("kv_a_layernorm", latent.kv_rank, copies);
    linear("kv_b_proj", Component::attention, {latent.kv_rank, a * (std::uint64_t{latent.nope_dim} + latent.value_dim)},
           false, copies);
    linear("o_proj", Component::attention, {a * latent.value_dim, h, Role::output}, model_.attention_out_bias, copies);
  }

  void mlp(Component component, std::uint64_t width, bool bias, std::uint64_t copies) {
    const std::uint64_t h = model_.hidden;
    if (model_.gated_mlp && !names_.gate_up.empty() && component == Component::mlp) {
      linear(names_.gate_up, component, {h, 2 * width, Role::up}, bias, copies);
    } else {
      if (model_.gated_mlp) linear(names_.gate, component, {h, width, Role::gate}, bias, copies);
      linear(names_.up, component, {h, width, Role::up}, bias, copies);
    }
    linear(names_.down, component, {width, h, Role::down}, bias, copies);
  }

  void experts(std::uint64_t layers) {
    const ExpertShape& experts = model_.experts;
    const std::uint64_t h = model_.hidden;
    const std::size_t first = weights_.size();
    mlp(Component::experts, experts.intermediate, experts.biases, layers * experts.experts);
    for (std::size_t i = first; i < weights_.size(); ++i) {
      weights_[i].active_copies = layers * std::min(experts.experts, experts.experts_per_token);
    }
    mlp(Component::shared_expert, experts.shared_intermediate, experts.biases, layers);
    if (experts.shared_gate) add({"shared_expert_gate", Component::shared_expert, h, 1, false, false, layers, layers});
    // Loaders of 4- and 8-bit weights leave routers as they are.
    add({"router", Component::router, h, experts.experts, experts.router_bias, false, layers, layers});
    if (experts.balance_bias)
      add({"e_score_correction_bias", Component::router, kVector, experts.experts, false, false, layers, 0});
  }

  void tail() {
    const std::uint64_t stacks = model_.encoder_layers > 0 ? 2 : 1;
    if (model_.final_norm) norm("final_norm", model_.hidden, stacks);
    const std::uint64_t width = model_.embedding_dim > 0 ? model_.embedding_dim : model_.hidden;
    if (model_.output_head && !model_.tied_embeddings) {
      table("lm_head", Component::head, width, model_.vocab, model_.output_bias);
    } else if (model_.output_head && model_.output_bias) {
      table("lm_head_bias", Component::head, kVector, model_.vocab);
    }
    if (model_.pooler) table("pooler", Component::head, model_.hidden, model_.hidden, true);
    table("classifier", Component::head, model_.hidden, model_.image.classes, true);
    table("towers", Component::tower, kVector, model_.tower_parameters);
  }

  const ModelShape& model_;
  const ModuleNames& names_;
  std::vector<Weight> weights_;
};

/// Where a component is summed up.
std::uint64_t& part_of(ParameterCount& count, Component component) {
  switch (component) {
    case Component::embedding:
      return count.embedding;
    case Component::head:
      return count.head;
    case Component::tower:
      return count.towers;
    case Component::attention:
      return count.attention;
    case Component::mlp:
      return count.mlp;
    case Component::experts:
    case Component::shared_expert:
    case Component::router:
      return count.experts;
    case Component::norm:
      return count.norms;
  }
  std::unreachable();
}

/// The model with one layer of its largest kind.
ModelShape single_layer(const ModelShape& model) {
  ModelShape one = model;
  one.layers = 1;
  one.linear_attention.layers = std::min(1U, model.linear_attention.layers);
  one.indexer.layers = std::min(1U, model.indexer.layers);
  one.encoder_layers = 0;
  one.experts.dense_layers = 0;
  one.embedding_norm = false;
  one.final_norm = false;
  return one;
}

bool belongs_to_layer(Component component) {
  return component != Component::embedding && component != Component::head && component != Component::tower;
}

}  // namespace

std::string_view to_string(Component component) {
  switch (component) {
    case Component::embedding:
      return "embedding";
    case Component::attention:
      return "attention";
    case Component::mlp:
      return "mlp";
    case Component::experts:
      return "experts";
    case Component::shared_expert:
      return "shared_expert";
    case Component::router:
      return "router";
    case Component::norm:
      return "norm";
    case Component::head:
      return "head";
    case Component::tower:
      return "tower";
  }
  std::unreachable();
}

std::vector<Weight> weights_of(const ModelShape& model) { return Inventory(model).take(); }

ParameterCount count_parameters(const ModelShape& model) {
  ParameterCount count;
  for (const Weight& weight : weights_of(model)) {
    const std::uint64_t all = weight.elements() * weight.copies;
    count.total += all;
    count.active += weight.elements() * weight.active_copies;
    part_of(count, weight.component) += all;
    if (weight.linear) count.linear += weight.inputs * weight.outputs * weight.copies;
  }
  for (const Weight& weight : weights_of(single_layer(model))) {
    if (belongs_to_layer(weight.component)) count.layer += weight.elements() * weight.copies;
  }
  // A decoder's layer beside an encoder has a second attention, and its norm.
  if (model.encoder_layers > 0)
    count.layer += count.attention / (model.encoder_layers + 2 * std::uint64_t{model.layers}) + model.hidden;
  if (model.stated_parameters > 0) {
    const std::uint64_t idle = count.total - count.active;
    count.total = model.stated_parameters;
    count.active = count.total - std::min(count.total, idle);
  }
  return count;
}

double approximate_parameters(const ModelShape& model) {
  const double h = model.hidden;
  const double layers = static_cast<double>(model.layers) + model.encoder_layers;
  const LatentAttention& latent = model.latent;
  const double ranks = static_cast<double>(latent.query_rank) + latent.kv_rank + latent.rope_dim;
  const double latent_width = static_cast<double>(model.heads) * (latent.nope_dim + latent.rope_dim + latent.value_dim);
  const double attention = h * (4.0 * model.heads * model.head_dim) + ranks * (h + latent_width) + h * latent_width;
  const double indexer = model.indexer.layers * (ranks + h) * model.indexer.heads * model.indexer.head_dim;
  const double experts =
      static_cast<double>(model.experts.experts) * model.experts.intermediate + model.experts.shared_intermediate;
  const double widest = 3.0 * h * std::max(static_cast<double>(model.intermediate), experts);
  const double image = static_cast<double>(model.image.image) * model.image.image * h;
  const double tables = h * (2.0 * model.vocab + model.position_rows + model.type_rows);
  const LinearAttention& own = model.linear_attention;
  const double states =
      static_cast<double>(own.key_heads) * own.key_dim + static_cast<double>(own.value_heads) * own.value_dim;
  const double linear_attention = own.layers * states * (3 * h + 2.0 * own.kernel);
  const LayerInputs& inputs = model.layer_inputs;
  const double streams = inputs.streams;
  const double layer_inputs = model.layers * (inputs.width * (inputs.vocab + 3 * h) + 2 * h * inputs.low_rank +
                                              streams * (h + streams * streams)) +
                              2 * streams * h * h;
  return layers * (attention + widest) + indexer + image + tables + linear_attention + layer_inputs +
         static_cast<double>(model.tower_parameters);
}

std::vector<std::string> default_lora_targets(const ModelShape& model) {
  // PEFT names none for latent attention; these make queries, keys and values.
  if (model.latent.kv_rank > 0) return {model.latent.query_rank > 0 ? "q_b_proj" : "q_proj", "kv_b_proj"};
  std::vector<std::string> targets;
  for (const auto word : split_words(modules_of(model).lora)) targets.emplace_back(word);
  return targets;
}

Result<std::uint64_t> lora_parameters(const ModelShape& model, std::uint64_t rank,
                                      const std::vector<std::string>& targets) {
  const std::vector<std::string> wanted = targets.empty() ? default_lora_targets(model) : targets;
  const std::vector<Weight> weights = weights_of(model);
  std::uint64_t total = 0;
  for (const std::string& target : wanted) {
    bool found = false;
    for (const Weight& weight : weights) {
      const bool in_layer = weight.linear && belongs_to_layer(weight.component);
      if (!in_layer || (target != "all-linear" && weight.module != target)) continue;
      found = true;
      total += rank * (weight.inputs + weight.outputs) * weight.copies;
    }
    if (found) continue;
    std::vector<std::string> known;
    for (const Weight& weight : weights) {
      if (weight.linear && std::ranges::find(known, weight.module) == known.end()) known.push_back(weight.module);
    }
    return fail(ErrorCode::invalid_argument,
                fmt::format("LoRA target '{}': the model has no such matrix", printable(target)),
                fmt::format("its matrices are {}; all-linear stands for all of them", join(known, ", ")));
  }
  return total;
}

}  // namespace gpuwarden::planning
