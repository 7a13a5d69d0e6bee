// SPDX-License-Identifier: Apache-2.0
// A model's shape, and what its tensors take, from the head of its file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/gguf.hpp"
#include "gpuwarden/planning/gguf_file.hpp"
#include "gpuwarden/planning/parameters.hpp"
#include "planning/families.hpp"

namespace gpuwarden::planning {
namespace {

constexpr std::uint32_t kMostLayers = 10'000;
constexpr std::uint32_t kMostHeads = 65'536;
constexpr std::uint32_t kWidest = 1U << 24U;

/// An architecture that is called otherwise than its family.
struct OtherName {
  std::string_view architecture;
  std::string_view family;
};
/// Source: MODEL_ARCH_NAMES of llama.cpp's gguf-py/gguf/constants.py.
constexpr OtherName kOtherNames[] = {
    {"deepseek2", "deepseek"}, {"deepseek32", "deepseek_v32"}, {"glm-dsa", "glm_moe_dsa"},
    {"phi2", "phi"},           {"starcoder", "gpt_bigcode"},   {"qwen2vl", "qwen2"},
    {"qwen3vl", "qwen3"},      {"qwen3vlmoe", "qwen3_moe"},    {"mistral3", "mistral"}};

/// How many layers one that sees all tokens comes after, where the head does not say it.
struct WindowPeriod {
  std::string_view architecture;
  std::uint32_t period;  ///< of so many layers one sees all
};
/// Source: set_swa_pattern of llama.cpp's src/models. Those of other architectures with a window in the head see all
/// tokens in every layer, as llama.cpp computes them.
constexpr WindowPeriod kWindowPeriods[] = {
    {"gemma2", 2},       {"gemma3", 6},          {"gemma3n", 5}, {"gpt-oss", 2},    {"cohere2", 4},
    {"exaone4", 4},      {"exaone-moe", 4},      {"olmo2", 4},   {"plamo3", 8},     {"afmoe", 4},
    {"smallthinker", 4}, {"gemma-embedding", 6}, {"llama4", 4},  {"modern-bert", 3}};

/// general.file_type, which llama-quantize writes. Source: llama_ftype in llama.cpp's include/llama.h.
struct FileType {
  std::uint32_t number;
  Quantization mix;
};
using Q = Quantization;
constexpr FileType kFileTypes[] = {
    {2, Q::q4_0},     {3, Q::q4_1},    {7, Q::q8_0},     {8, Q::q5_0},    {9, Q::q5_1},    {10, Q::q2_k},
    {11, Q::q3_k_s},  {12, Q::q3_k_m}, {13, Q::q3_k_l},  {14, Q::q4_k_s}, {15, Q::q4_k_m}, {16, Q::q5_k_s},
    {17, Q::q5_k_m},  {18, Q::q6_k},   {19, Q::iq2_xxs}, {20, Q::iq2_xs}, {21, Q::q2_k_s}, {22, Q::iq3_xs},
    {23, Q::iq3_xxs}, {24, Q::iq1_s},  {25, Q::iq4_nl},  {26, Q::iq3_s},  {27, Q::iq3_m},  {28, Q::iq2_s},
    {29, Q::iq2_m},   {30, Q::iq4_xs}, {31, Q::iq1_m},   {36, Q::tq1_0},  {37, Q::tq2_0},  {38, Q::mxfp4_moe}};

/// The head's numbers of its architecture, held within what a model can have.
class Sizes {
 public:
  explicit Sizes(const GgufHeader& header) : header_(header), prefix_(header.text("general.architecture")) {
    prefix_ += '.';
  }

  std::uint32_t at(std::string_view key, std::uint32_t most, std::uint32_t otherwise = 0) const {
    const auto number = header_.number(prefix_ + std::string(key));
    if (!number || !(*number >= 1)) return otherwise;
    return static_cast<std::uint32_t>(std::min(*number, static_cast<double>(most)));
  }
  /// One for each layer, or one for all; empty where there is none.
  std::vector<double> list(std::string_view key) const {
    const auto found = header_.numbers.find(prefix_ + std::string(key));
    return found == header_.numbers.end() ? std::vector<double>() : found->second;
  }
  bool has(std::string_view key) const { return header_.numbers.contains(prefix_ + std::string(key)); }

 private:
  const GgufHeader& header_;
  std::string prefix_;
};

/// The mean of those above 0 of an array for each layer, or the number for all; 0: none.
std::uint32_t usual_of(const std::vector<double>& list, std::uint32_t most) {
  double sum = 0;
  double count = 0;
  for (const double one : list) {
    if (!(one >= 1)) continue;
    sum += std::min(one, static_cast<double>(most));
    ++count;
  }
  return count > 0 ? static_cast<std::uint32_t>(std::lround(sum / count)) : 0;
}

const GgufTensor* find_tensor(const GgufHeader& header, std::string_view name) {
  const auto found = std::ranges::find(header.tensors, name, &GgufTensor::name);
  return found == header.tensors.end() ? nullptr : &*found;
}

const Family& family_of(std::string_view architecture) {
  const auto* const other = std::ranges::find(kOtherNames, architecture, &OtherName::architecture);
  const Family* const family = find_family(other == std::end(kOtherNames) ? architecture : other->family);
  return family != nullptr ? *family : families().front();
}

bool is_known(std::string_view architecture) {
  return std::ranges::find(kOtherNames, architecture, &OtherName::architecture) != std::end(kOtherNames) ||
         find_family(architecture) != nullptr;
}

/// Layers without keys and values keep a state of fixed size: Mamba's, or a Gated DeltaNet's, in fp32.
void read_states(const Sizes& sizes, const std::vector<double>& kv_heads, ModelShape& model) {
  LinearAttention& own = model.linear_attention;
  const auto none = static_cast<std::uint32_t>(std::ranges::count_if(kv_heads, [](double one) { return one == 0; }));
  const std::uint32_t each = sizes.at("full_attention_interval", kMostLayers, own.key_heads > 0 ? 4 : 0);
  own.layers = each > 0 ? model.layers - model.layers / each : std::min(none, model.layers);
  if (own.layers == 0) {
    own = {};
    return;
  }
  own.kernel = sizes.at("ssm.conv_kernel", 1024, own.kernel);
  own.key_dim = sizes.at("ssm.state_size", kMostHeads, own.key_dim);
  own.key_heads = sizes.at("ssm.group_count", kMostHeads, own.key_heads);
  const std::uint32_t heads = sizes.at("ssm.time_step_rank", kMostHeads, own.value_heads);
  const std::uint32_t inner = sizes.at("ssm.inner_size", kWidest, own.value_heads * own.value_dim);
  own.value_heads = heads > 0 && inner % heads == 0 ? heads : 1;
  own.value_dim = inner / own.value_heads;
}

void read_attention(const Sizes& sizes, ModelShape& model) {
  model.heads = usual_of(sizes.list("attention.head_count"), kMostHeads);
  const std::vector<double> kv_heads = sizes.list("attention.head_count_kv");
  model.kv_heads = usual_of(kv_heads, kMostHeads);
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  const std::uint32_t usual = model.heads > 0 ? model.hidden / model.heads : 0;
  const std::uint32_t key = sizes.at("attention.key_length", kMostHeads, usual);
  const std::uint32_t value = sizes.at("attention.value_length", kMostHeads, key);
  model.head_dim = (key + value + 1) / 2;
  read_states(sizes, kv_heads, model);
  model.layer_inputs.kv_shared = std::min(model.layers, sizes.at("attention.shared_kv_layers", kMostLayers));
  // Files from before April 2025 keep all heads' keys and values, whatever the model compresses them to.
  LatentAttention& latent = model.latent;
  latent = {};
  if (!sizes.has("attention.kv_lora_rank") || !sizes.has("attention.key_length_mla")) {
    model.indexer = {};
    return;
  }
  latent.query_rank = sizes.at("attention.q_lora_rank", kWidest);
  latent.kv_rank = sizes.at("attention.kv_lora_rank", kWidest);
  const std::uint32_t key_length = sizes.at("attention.key_length_mla", kMostHeads);
  latent.rope_dim = std::min(key_length, sizes.at("rope.dimension_count", kMostHeads));
  latent.nope_dim = key_length - latent.rope_dim;
  latent.value_dim = sizes.at("attention.value_length_mla", kMostHeads);
  model.kv_heads = model.heads;
  model.head_dim = latent.value_dim;
  model.indexer.heads = sizes.at("attention.indexer.head_count", kMostHeads);
  model.indexer.head_dim = sizes.at("attention.indexer.key_length", kMostHeads);
  model.indexer.layers = model.indexer.heads > 0 ? model.layers : 0;
}

void read_window(const Sizes& sizes, std::string_view architecture, ModelShape& model) {
  model.sliding_window = sizes.at(architecture == "llama4" ? "attention.chunk_size" : "attention.sliding_window",
                                  kWidest, model.sliding_window);
  const std::vector<double> pattern = sizes.list("attention.sliding_window_pattern");
  const auto* const known = std::ranges::find(kWindowPeriods, architecture, &WindowPeriod::architecture);
  std::uint32_t period = known == std::end(kWindowPeriods) ? 1 : known->period;
  if (pattern.size() == 1) period = static_cast<std::uint32_t>(std::clamp(pattern[0], 1.0, 1.0 * kMostLayers));
  model.sliding_layers = model.layers - model.layers / period;
  if (pattern.size() > 1)
    model.sliding_layers = std::min(
        model.layers, static_cast<std::uint32_t>(std::ranges::count_if(pattern, [](double one) { return one != 0; })));
  if (model.sliding_window == 0) model.sliding_layers = 0;
  if (model.sliding_layers == 0) model.sliding_window = 0;
}

void read_experts(const Sizes& sizes, ModelShape& model) {
  ExpertShape& experts = model.experts;
  experts.experts = sizes.at("expert_count", kMostHeads);
  if (experts.experts == 0) {
    experts = {};
    return;
  }
  experts.experts_per_token = std::min(experts.experts, sizes.at("expert_used_count", kMostHeads, 1));
  experts.intermediate = usual_of(sizes.list("expert_feed_forward_length"), kWidest);
  if (experts.intermediate == 0) experts.intermediate = model.intermediate;
  const std::uint32_t shared = sizes.at("expert_shared_count", kMostHeads);
  experts.shared_intermediate = sizes.at(
      "expert_shared_feed_forward_length", kWidest,
      static_cast<std::uint32_t>(std::min<std::uint64_t>(std::uint64_t{shared} * experts.intermediate, kWidest)));
  experts.dense_layers = std::min(model.layers, sizes.at("leading_dense_block_count", kMostLayers));
}

/// The layer of "blk.7.ffn_up.weight", or of an encoder's ("enc.blk.7..."); nullopt of what is in none.
std::optional<std::uint32_t> layer_of(std::string_view name, const ModelShape& model) {
  constexpr std::string_view kLayer = "blk.";
  const bool decoder = name.starts_with("dec.");
  if (decoder || name.starts_with("enc.")) name.remove_prefix(std::string_view("dec.").size());
  if (!name.starts_with(kLayer)) return std::nullopt;
  name.remove_prefix(kLayer.size());
  std::uint32_t layer = 0;
  if (std::from_chars(name.data(), name.data() + name.size(), layer).ec != std::errc()) return std::nullopt;
  return decoder ? layer + std::min(model.encoder_layers, kMostLayers) : layer;
}

bool is_of_input(std::string_view name) {
  constexpr auto kInputs =
      std::to_array<std::string_view>({"token_embd", "token_types", "position_embd", "per_layer_token_embd"});
  return std::ranges::any_of(kInputs, [&](std::string_view input) { return name.starts_with(input); });
}

bool is_of_tower(std::string_view name) {
  return name.starts_with("v.") || name.starts_with("a.") || name.starts_with("mm.");
}

/// Where llama.cpp loads each tensor. Layers behind the model's own are for drafting and are loaded nowhere.
FileWeights weights_in(const GgufHeader& header, const ModelShape& model) {
  FileWeights file;
  file.layers.resize(std::max(1U, model.layers + model.encoder_layers));
  file.dense.resize(file.layers.size());
  file.experts.resize(file.layers.size());
  for (const GgufTensor& tensor : header.tensors) {
    const auto bytes = static_cast<double>(tensor.bytes);
    const auto layer = layer_of(tensor.name, model);
    if (layer && *layer >= file.layers.size()) continue;
    if (layer) {
      const bool expert = tensor.name.contains("_exps.");
      file.layers[*layer] += bytes;
      if (expert) file.experts[*layer] += bytes;
      if (!expert && tensor.sizes.size() > 1) file.dense[*layer] += bytes;
    } else {
      (is_of_input(tensor.name) ? file.embedding : is_of_tower(tensor.name) ? file.towers : file.output) += bytes;
    }
  }
  const GgufTensor* const table = find_tensor(header, "token_embd.weight");
  if (model.tied_embeddings && table != nullptr) file.copied = static_cast<double>(table->bytes);
  file.output += file.copied;
  return file;
}

/// The mix that the head names, else the one whose usual format is nearest to what a weight takes here.
const FileMix* mix_of(const GgufHeader& header) {
  const double number = header.number("general.file_type").value_or(-1);
  const auto* const named = std::ranges::find_if(kFileTypes, [&](const FileType& row) { return row.number == number; });
  if (named != std::end(kFileTypes)) return find_mix(named->mix);
  double bytes = 0;
  double elements = 0;
  for (const GgufTensor& tensor : header.tensors) {
    bytes += static_cast<double>(tensor.bytes);
    elements += static_cast<double>(tensor.elements());
  }
  const double each = bytes / std::max(1.0, elements);
  constexpr double kPackedBelow = 1.5;  // Q8_0 has 1.06 bytes, 16 bit 2
  if (each >= kPackedBelow) return nullptr;
  const auto away = [&](const FileMix& mix) { return std::abs(bytes_per_element(mix.base) - each); };
  return &*std::ranges::min_element(file_mixes(), {}, away);
}

void read_storage(const GgufHeader& header, ModelShape& model) {
  model.gguf = true;
  const GgufTensor* const experts = find_tensor(header, "blk.0.ffn_gate_exps.weight");
  model.mxfp4_experts = experts != nullptr && experts->type == format_of(GgmlType::mxfp4).number;
  const FileMix* const mix = mix_of(header);
  if (mix == nullptr) {
    model.stored_type = header.number("general.file_type") == 0 ? DataType::float32 : DataType::bfloat16;
    return;
  }
  model.quantization = std::string(mix->title);
  model.quantization_bits = static_cast<std::uint32_t>(8 * bytes_per_element(mix->base));
  model.quantized_weights_only = true;
}

Result<void> check_kind(const GgufHeader& header, std::string_view name) {
  const std::string_view architecture = header.text("general.architecture");
  if (architecture.empty())
    return fail(ErrorCode::invalid_argument, fmt::format("{}: names no architecture", name),
                "of a model in parts, give the first: ...-00001-of-0000N.gguf");
  if (header.text("general.type") == "adapter")
    return fail(ErrorCode::invalid_argument, fmt::format("{}: holds adapters alone", name),
                "plan the model beside which they stand");
  if (architecture == "clip" || header.text("general.type") == "mmproj")
    return fail(ErrorCode::invalid_argument, fmt::format("{}: holds the tower for images or sound alone", name),
                "give the language model's file");
  return {};
}

Result<void> check_sizes(const ModelShape& model, std::string_view name) {
  std::vector<std::string> missing;
  const auto need = [&](std::uint32_t size, const char* key) {
    if (size == 0) missing.emplace_back(key);
  };
  need(model.hidden, "embedding_length");
  need(model.layers, "block_count");
  need(model.vocab, "token_embd.weight");
  if (!missing.empty())
    return fail(ErrorCode::invalid_argument, fmt::format("{}: its head has no {}", name, join(missing, ", ")),
                "give the file of a language model");
  return {};
}

void read_layers(const Sizes& sizes, ModelShape& model) {
  const std::uint32_t all = sizes.at("block_count", kMostLayers);
  const std::uint32_t drafting = std::min(all, sizes.at("nextn_predict_layers", kMostLayers));
  model.layers = all - drafting;
  if (drafting > 0)
    model.notes.emplace_back(
        "the layers for multi-token prediction are not counted: llama.cpp loads them to draft alone");
  const std::uint32_t decoder = sizes.at("decoder_block_count", kMostLayers, model.layers);
  if (model.kind == ModelKind::encoder_decoder) model.encoder_layers = std::exchange(model.layers, decoder);
}

}  // namespace

Result<ModelShape> model_of(const GgufHeader& header, std::string_view name) {
  GPUWARDEN_CHECK(check_kind(header, name));
  const std::string architecture = printable(header.text("general.architecture"));
  const Sizes sizes(header);
  ModelShape model;
  const Family& family = family_of(architecture);
  model.family = family.name;
  model.source = name;
  model.name = printable(header.text("general.name"));
  family.traits(model);
  if (!is_known(architecture))
    model.notes.push_back(
        fmt::format("{} is not among the known families: planned by its file's tensors and sizes", architecture));
  model.hidden = sizes.at("embedding_length", kWidest);
  read_layers(sizes, model);
  model.intermediate = usual_of(sizes.list("feed_forward_length"), kWidest);
  if (model.intermediate == 0) model.intermediate = 4 * model.hidden;
  model.max_positions = sizes.at("context_length", 0xFFFF'FFFF);
  const GgufTensor* const table = find_tensor(header, "token_embd.weight");
  const std::uint64_t rows = table != nullptr && table->sizes.size() > 1 ? table->sizes[1] : 0;
  model.vocab = static_cast<std::uint32_t>(std::min<std::uint64_t>(rows, kWidest));
  if (model.positions == Positions::learned) model.position_rows = model.max_positions;
  model.tied_embeddings = model.output_head && find_tensor(header, "output.weight") == nullptr;
  GPUWARDEN_CHECK(check_sizes(model, name));
  read_attention(sizes, model);
  // Mamba alone has no heads.
  model.heads = std::max(1U, model.heads);
  model.kv_heads = std::max(1U, model.kv_heads);
  model.head_dim = std::max(1U, model.head_dim);
  read_window(sizes, architecture, model);
  read_experts(sizes, model);
  read_storage(header, model);
  constexpr double kMostParameters = 1e15;  // as of a config.json
  if (approximate_parameters(model) > kMostParameters)
    return fail(ErrorCode::invalid_argument, fmt::format("{}: its head's sizes are those of no model", name),
                "download it again");
  for (const GgufTensor& tensor : header.tensors) model.stated_parameters += tensor.elements();
  model.file = std::make_shared<const FileWeights>(weights_in(header, model));
  return model;
}

}  // namespace gpuwarden::planning
