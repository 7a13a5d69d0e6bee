// SPDX-License-Identifier: Apache-2.0
// The shape of a transformer, as a planner needs it: every number that decides how many parameters it has, what it
// keeps for the backward pass and what a token costs in the KV cache. Plain values; config.hpp reads them from a
// config.json, catalog.hpp knows common models by name, parameters.hpp counts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuwarden::planning {

struct FileWeights;

enum class ModelKind {
  decoder,          ///< causal language model
  encoder,          ///< BERT
  encoder_decoder,  ///< T5
  vision_encoder,   ///< ViT
};

enum class NormKind {
  layer_norm,               ///< weight and bias
  layer_norm_without_bias,  ///< weight
  layer_norm_plain,         ///< no parameters (OLMo 1)
  rms_norm,                 ///< weight; kept in fp32 by Hugging Face's implementations
};

/// Norms on queries and keys inside attention.
enum class QkNorm {
  none,
  per_head,   ///< one weight of head_dim each, shared by all heads (Qwen3, Gemma 3)
  all_heads,  ///< one weight for every head's dimension (OLMo 2)
};

enum class Activation { gelu, relu, silu };

enum class Positions {
  rotary,
  learned,   ///< a table of position_rows
  alibi,     ///< biases computed, nothing stored
  relative,  ///< T5: a small table of buckets
};

/// What an element of a tensor is stored as.
enum class DataType { float32, float16, bfloat16, float8, int8, int4 };

/// Experts instead of one MLP. `experts` 0: the model is dense.
struct ExpertShape {
  std::uint32_t experts = 0;              ///< routed experts of a layer
  std::uint32_t experts_per_token = 0;    ///< of them, for one token
  std::uint32_t intermediate = 0;         ///< of one routed expert
  std::uint32_t shared_intermediate = 0;  ///< of the shared experts together; 0: none
  std::uint32_t dense_layers = 0;         ///< layers that have the ordinary MLP instead
  bool shared_gate = false;               ///< Qwen2-MoE: one weight vector that scales the shared expert
  bool router_bias = false;               ///< GPT-OSS: one number per expert
  bool balance_bias = false;              ///< DeepSeek V3: the same, but it only steers which experts are chosen
  bool biases = false;                    ///< GPT-OSS: on the experts' matrices
  bool operator==(const ExpertShape&) const = default;
};

/// Multi-head latent attention (DeepSeek V2, arXiv 2405.04434): keys and values are stored compressed. `kv_rank` 0: no.
struct LatentAttention {
  std::uint32_t query_rank = 0;  ///< 0: queries are not compressed
  std::uint32_t kv_rank = 0;
  std::uint32_t nope_dim = 0;   ///< of a head's query and key without position
  std::uint32_t rope_dim = 0;   ///< of a head's query, and of the one key shared by all, with position
  std::uint32_t value_dim = 0;  ///< of a head
  bool operator==(const LatentAttention&) const = default;
};

/// Chooses the tokens that latent attention looks at (DeepSeek Sparse Attention, arXiv 2512.02556). `layers` 0: none.
struct AttentionIndexer {
  std::uint32_t layers = 0;  ///< of the model's; the others take what an earlier one chose (GLM-5.2)
  std::uint32_t heads = 0;
  std::uint32_t head_dim = 0;
  bool operator==(const AttentionIndexer&) const = default;
};

/// Layers whose attention keeps a state of fixed size instead of every token's keys and values (Gated DeltaNet, arXiv
/// 2412.06464, as Qwen3-Next has it). `layers` 0: none.
struct LinearAttention {
  std::uint32_t layers = 0;  ///< of the model's; the others have ordinary attention
  std::uint32_t key_heads = 0;
  std::uint32_t value_heads = 0;
  std::uint32_t key_dim = 0;    ///< of a head
  std::uint32_t value_dim = 0;  ///< of a head
  std::uint32_t kernel = 0;     ///< tokens that its convolution sees
  bool operator==(const LinearAttention&) const = default;
};

/// What Gemma 3n adds to a layer: embeddings of each layer's own, alternating predictions of the residual (AltUp, arXiv
/// 2301.13310) and a low-rank residual (LAuReL, arXiv 2411.07501). `width` 0: nothing.
struct LayerInputs {
  std::uint32_t width = 0;      ///< of a layer's own embedding
  std::uint32_t vocab = 0;      ///< rows of it
  std::uint32_t streams = 0;    ///< residuals side by side
  std::uint32_t low_rank = 0;   ///< of LAuReL
  std::uint32_t kv_shared = 0;  ///< layers at the end that use earlier layers' keys and values
  bool operator==(const LayerInputs&) const = default;
};

/// Patches of an image. `patch` 0: no images.
struct ImageShape {
  std::uint32_t image = 0;  ///< pixels along one edge
  std::uint32_t patch = 0;
  std::uint32_t channels = 3;
  std::uint32_t classes = 0;  ///< of the head; 0: backbone only
  bool operator==(const ImageShape&) const = default;
};

/// A model. Counts are elements, never bytes. `layers` are the decoder's where there is one, else the encoder's.
struct ModelShape {
  std::string name;    ///< "meta-llama/Llama-3.1-8B"; may be empty
  std::string family;  ///< row of the family table: "llama", "gpt2", "deepseek" ...
  ModelKind kind = ModelKind::decoder;

  std::uint32_t hidden = 0;
  std::uint32_t layers = 0;
  std::uint32_t encoder_layers = 0;  ///< besides `layers` (T5); 0: none
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;  ///< equal to heads without grouped-query attention
  std::uint32_t head_dim = 0;
  std::uint32_t intermediate = 0;  ///< of the dense MLP
  std::uint32_t vocab = 0;         ///< rows of the embedding, padding included
  std::uint32_t max_positions = 0;
  /// Where those are not known, of the release whose shape it has; else 0.
  std::uint32_t kin_positions = 0;
  /// With longrope, those of the model before it was stretched, which vLLM takes unless it is told more; else 0.
  std::uint32_t unscaled_positions = 0;
  std::uint32_t num_ctx = 0;        ///< of a model of ollama's: tokens that its own parameters name; 0: none
  std::uint32_t embedding_dim = 0;  ///< where it differs from hidden (OPT-350m projects); 0: hidden

  Positions positions = Positions::rotary;
  std::uint32_t position_rows = 0;     ///< learned positions that are stored
  std::uint32_t type_rows = 0;         ///< BERT's token types
  std::uint32_t position_buckets = 0;  ///< T5's relative positions; one table per stack
  bool tied_embeddings = false;        ///< the output matrix is the embedding
  bool output_head = true;             ///< false: backbone without output matrix (BERT, ViT)
  bool output_bias = false;
  bool pooler = false;  ///< BERT: a hidden x hidden layer behind the first token

  NormKind norm = NormKind::rms_norm;
  std::uint32_t norms_per_layer = 2;  ///< of width hidden
  bool embedding_norm = false;        ///< BLOOM, BERT
  bool final_norm = true;
  QkNorm qk_norm = QkNorm::none;
  bool attention_sinks = false;  ///< GPT-OSS: one number per head

  bool query_bias = false;  ///< biases of the attention's matrices
  bool key_bias = false;
  bool value_bias = false;
  bool attention_out_bias = false;
  bool mlp_bias = false;
  bool gated_mlp = true;           ///< three matrices (SwiGLU, GeGLU) instead of two
  bool parallel_residual = false;  ///< attention and MLP read the same input (Falcon, NeoX, Phi)
  Activation activation = Activation::silu;
  bool eager_only = false;  ///< transformers has no flash or SDPA attention for it (T5's biases)
  bool dropout = false;     ///< configured above 0: training keeps masks

  ExpertShape experts;
  LatentAttention latent;
  AttentionIndexer indexer;
  LinearAttention linear_attention;
  bool gated_attention = false;  ///< queries come with a gate as wide as they are (Qwen3-Next)
  LayerInputs layer_inputs;
  ImageShape image;
  /// Parameters of towers for images and sound beside the language model, in 16 bit however that is stored; 0: none, or
  /// not counted (a note says so).
  std::uint64_t tower_parameters = 0;

  std::uint32_t sliding_window = 0;  ///< tokens that a sliding layer sees; 0: no such layer
  std::uint32_t sliding_layers = 0;  ///< layers that see only the window; the others see all

  std::optional<DataType> stored_type;      ///< of the published weights (torch_dtype)
  std::optional<std::string> quantization;  ///< of a checkpoint that is quantised: "gptq", "awq", "fp8" ...
  std::uint32_t quantization_bits = 0;      ///< of its linear weights; 0: not quantised
  std::uint32_t quantization_group = 0;     ///< weights that share a scale; 0: as the format usually has it
  bool quantized_experts_only = false;      ///< matrices besides the experts' stay in 16 bit
  bool quantized_weights_only = false;      ///< what comes into a matrix stays in 16 bit, and so do products
  bool gguf = false;                        ///< of llama.cpp's files or ollama's tags
  bool tag = false;                         ///< of these, ollama's
  bool assumed_mix = false;                 ///< of such a file, whose name says no width
  std::string dynamic_mix;  ///< the mix of such a file that no rule gives ("UD-Q4_K_XL"); `quantization` is the nearest
  bool mxfp4_experts = false;  ///< they were published so: llama.cpp's files keep them, whatever their mix

  /// Where the shape comes from: a file's name, a catalogue row's source, or how it was estimated.
  std::string source;
  /// True where only a parameter count was given and the shape was derived from it: figures are rougher.
  bool estimated = false;
  /// Parameters of the whole model where its file was opened; 0: count them.
  std::uint64_t stated_parameters = 0;
  /// What the tensors of its file take (gguf.hpp), where that was opened; else null.
  std::shared_ptr<const FileWeights> file;
  /// Sentences about what the figures leave out ("the vision tower is not counted").
  std::vector<std::string> notes;

  bool operator==(const ModelShape&) const = default;
};

/// Width of all heads' queries together: heads x head_dim (latent: heads x (nope + rope)).
std::uint64_t query_width(const ModelShape& model);
/// Width of the keys of one layer, before any compression: kv_heads x head_dim.
std::uint64_t key_width(const ModelShape& model);
/// What one token stores in one layer's KV cache, in elements: 2 x kv_heads x head_dim, or kv_rank + rope_dim (latent;
/// source: DeepSeek-V2, arXiv 2405.04434).
std::uint64_t kv_elements_per_layer(const ModelShape& model);
/// The same in bytes, where an element has `bytes`.
double kv_bytes_per_layer(const ModelShape& model, double bytes);
/// What one token stores in one layer's cache of the indexer, whatever the KV cache is stored in; 0 without one.
double indexer_bytes_per_layer(const ModelShape& model);
/// Layers that store keys and values of their own for every token.
std::uint32_t kv_layers(const ModelShape& model);
/// Bytes that a request holds in layers of linear attention, however long it is: a matrix in fp32 for each head, and
/// the tokens of the convolution.
double linear_state_bytes(const ModelShape& model);
/// Layers that have experts.
std::uint32_t expert_layers(const ModelShape& model);

std::string_view to_string(ModelKind kind);
std::string_view to_string(DataType type);
/// Bytes of one element; int4 is half a byte.
double bytes_per_element(DataType type);

}  // namespace gpuwarden::planning
