// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/parameters.hpp"
#include "planning/config_fields.hpp"
#include "planning/families.hpp"
#include "planning/quantized_config.hpp"
#include "planning/vision_tower.hpp"

namespace gpuwarden::planning {
namespace {

using nlohmann::json;

constexpr std::size_t kDeepest = 32;
constexpr std::uint64_t kMostLayers = 10'000;
constexpr std::uint64_t kMostHeads = 65'536;
constexpr std::uint64_t kWidest = std::uint64_t{1} << 24U;
constexpr std::uint64_t kMostPositions = 0xFFFF'FFFF;
/// Two thousand times the largest published model: a slip of the pen.
constexpr double kMostParameters = 1e15;
/// Configs that keep the language model inside, by the key of it.
constexpr std::string_view kNested[] = {"text_config", "llm_config", "language_config", "language_model_config"};

/// "12:4" of a byte.
std::string place_of(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const auto line = 1 + std::ranges::count(before, '\n');
  const std::size_t last = before.rfind('\n');
  const std::size_t column = last == std::string_view::npos ? before.size() : before.size() - last - 1;
  return fmt::format("{}:{}", line, std::max<std::size_t>(column, 1));
}

/// Whether brackets outside of texts nest deeper than `limit`.
bool nests_deeper_than(std::string_view text, std::size_t limit) {
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') ++i;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if ((c == '{' || c == '[') && ++depth > limit) return true;
    if ((c == '}' || c == ']') && depth > 0) --depth;
  }
  return false;
}

Result<json> parse(std::string_view text, std::string_view name) {
  if (text.size() > kLargestConfig)
    return fail(ErrorCode::corrupt,
                fmt::format("{}: has {} bytes; a config.json has a few thousand", name, text.size()));
  if (nests_deeper_than(text, kDeepest))
    return fail(ErrorCode::corrupt, fmt::format("{}: nested deeper than {} levels", name, kDeepest));
  try {
    json parsed = json::parse(text);
    if (parsed.is_object()) return parsed;
    return fail(ErrorCode::corrupt, fmt::format("{}: is JSON, but not an object", name),
                "give the model's config.json, or the folder that holds it");
  } catch (const json::parse_error& error) {
    const std::string place = place_of(text, error.byte);
    if (trim(text).empty()) return fail(ErrorCode::corrupt, fmt::format("{}: is empty", name));
    if (error.byte > text.size())
      return fail(ErrorCode::corrupt, fmt::format("{}:{}: the JSON ends in the middle", name, place),
                  "the file was cut off: fetch it again");
    return fail(ErrorCode::corrupt, fmt::format("{}:{}: not valid JSON from here on", name, place),
                "give the model's config.json, or the folder that holds it");
  } catch (const json::exception&) {
    return fail(ErrorCode::corrupt, fmt::format("{}: has a number that no computer can hold", name));
  }
}

std::optional<std::string> text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

/// What diffusers writes: pipelines and their parts say `_class_name`; none is a transformers model.
std::optional<Error> diffusion_error(const json& object, std::string_view name) {
  const auto part = text_at(object, "_class_name");
  const bool unet = object.contains("down_block_types") || object.contains("up_block_types");
  if (!part && !unet && !object.contains("_diffusers_version")) return std::nullopt;
  return Error{ErrorCode::invalid_argument,
               fmt::format("{}: is the config of a diffusion model ({}); only transformers are planned", name,
                           printable(part.value_or(unet ? "a UNet" : "written by diffusers"))),
               "give the config.json of a language model, a BERT, a T5 or a ViT"};
}

/// "LlamaForCausalLM" as "Llama".
std::string_view without_task(std::string_view architecture) {
  for (const std::string_view task :
       {"ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "ForMaskedLM", "ForPreTraining",
        "ForImageClassification", "ForSequenceClassification", "EncoderModel", "Model"}) {
    if (architecture.size() > task.size() && architecture.ends_with(task))
      return architecture.substr(0, architecture.size() - task.size());
  }
  return architecture;
}

std::string first_architecture(const json& object) {
  const auto found = object.find("architectures");
  if (found == object.end() || !found->is_array() || found->empty() || !found->front().is_string()) return {};
  return found->front().get<std::string>();
}

constexpr std::string_view kFieldsNeeded =
    "hidden_size, num_hidden_layers, num_attention_heads, intermediate_size and vocab_size";

Result<const Family*> family_of(const json& object, std::string_view name, std::string_view wanted) {
  if (!wanted.empty()) {
    if (const Family* const family = find_family(wanted)) return family;
    return fail(ErrorCode::invalid_argument, fmt::format("unknown model family '{}'", printable(wanted)),
                fmt::format("known: {}", join(known_families(), ", ")));
  }
  const auto type = text_at(object, "model_type");
  if (type) {
    if (const Family* const family = find_family(*type)) return family;
  }
  const std::string architecture = first_architecture(object);
  if (const Family* const family = find_family(without_task(architecture))) return family;
  const std::string hint = fmt::format(
      "if its layers are like those of a known family, say --family NAME; the config then needs {}. Known: {}",
      kFieldsNeeded, join(known_families(), ", "));
  if (!type && architecture.empty())
    return fail(ErrorCode::invalid_argument, fmt::format("{}: says neither model_type nor architectures", name), hint);
  return fail(ErrorCode::invalid_argument,
              fmt::format("{}: unknown architecture '{}'", name, printable(type ? *type : architecture)), hint);
}

void read_sizes(ConfigFields& fields, ModelShape& model) {
  fields.take(model.hidden, {"hidden_size", "n_embd", "d_model", "dim", "n_embed"}, 1, kWidest);
  fields.take(model.layers, {"num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_layer"}, 1, kMostLayers);
  fields.take(model.heads, {"num_attention_heads", "n_head", "n_heads", "num_heads"}, 1, kMostHeads);
  fields.take(model.kv_heads, {"num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads"}, 1, kMostHeads);
  fields.take(model.head_dim, {"head_dim", "d_kv", "kv_channels"}, 1, kMostHeads);
  fields.take(model.intermediate,
              {"intermediate_size", "n_inner", "ffn_dim", "d_ff", "inter_dim", "ffn_hidden_size", "hidden_dim"}, 1,
              kWidest);
  fields.take(model.vocab, {"padded_vocab_size", "vocab_size"}, 1, kWidest);
  fields.take(model.max_positions,
              {"max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "seq_length", "seq_len"}, 1,
              kMostPositions);
  fields.take(model.sliding_window, {"sliding_window", "sliding_window_size"}, 1, kMostPositions);
}

/// Positions that rope scaling adds, as vLLM counts them (_get_and_verify_max_len): longrope's and llama3's are within
/// max_position_embeddings already, and so are Gemma 3's.
void read_rope_scaling(ConfigFields& fields, ModelShape& model) {
  constexpr double kMostTimes = 1024;
  auto rope = fields.inside("rope_scaling");
  if (!rope) rope = fields.inside("rope_parameters");
  if (!rope || model.max_positions == 0 || model.family == "gemma3") return;
  const std::string type = rope->text({"rope_type", "type"}).value_or("");
  const double times = rope->decimal({"factor"}, 1, kMostTimes).value_or(1);
  double positions = model.max_positions;
  // "su" is what the first of these models called it. Source: vllm/config/model.py, "For LongRoPE, default to
  // original_max_position_embeddings".
  if (type == "longrope" || type == "su")
    fields.take(model.unscaled_positions, {"original_max_position_embeddings"}, 1, kMostPositions);
  if (type == "yarn")
    positions =
        times *
        static_cast<double>(
            rope->number({"original_max_position_embeddings"}, 1, kMostPositions).value_or(model.max_positions));
  if (type == "linear" || type == "dynamic") positions *= times;
  positions = std::min(positions, static_cast<double>(kMostPositions));
  model.max_positions = std::max(model.max_positions, static_cast<std::uint32_t>(positions));
}

void read_experts(ConfigFields& fields, ModelShape& model) {
  ExpertShape& experts = model.experts;
  // A family whose every model has experts: none is a slip, and what the file leaves out is the class's default.
  const bool has_experts = experts.experts > 0;
  const bool named = fields.has("num_local_experts") || fields.has("num_experts") || fields.has("n_routed_experts");
  if (has_experts && !named)
    model.notes.push_back(
        fmt::format("the config names no number of experts: {} of a layer, as transformers takes it", experts.experts));
  fields.take(experts.experts, {"num_local_experts", "num_experts", "n_routed_experts"}, has_experts ? 1 : 0,
              kMostHeads);
  fields.take(experts.experts_per_token,
              {"num_experts_per_tok", "n_activated_experts", "experts_per_token", "moe_topk"}, 1, kMostHeads);
  fields.take(experts.intermediate, {"moe_intermediate_size", "moe_inter_dim"}, 1, kWidest);
  if (experts.experts == 0) experts = {};
  if (experts.experts > 0 && experts.intermediate == 0) experts.intermediate = model.intermediate;
  if (experts.experts > 0 && experts.experts_per_token == 0) experts.experts_per_token = 2;
  if (experts.experts > 0 && experts.experts_per_token > experts.experts)
    fields.complain("num_experts_per_tok",
                    fmt::format("is {}, more than the {} experts", experts.experts_per_token, experts.experts));
}

void read_switches(ConfigFields& fields, ModelShape& model) {
  fields.take(model.tied_embeddings, {"tie_word_embeddings"});
  fields.take(model.parallel_residual, {"parallel_residual"});
  fields.take(model.output_bias, {"lm_head_bias"});
  fields.take(model.norms_per_layer, {"rmsnorms_per_layer"}, 1, 8);
  if (const auto bias = fields.flag({"attention_bias"}))
    model.query_bias = model.key_bias = model.value_bias = model.attention_out_bias = *bias;
  if (const auto bias = fields.flag({"attention_bias_qkv", "add_qkv_bias", "use_qkv_bias"}))
    model.query_bias = model.key_bias = model.value_bias = *bias;
  if (const auto norm = fields.flag({"qk_norm"})) model.qk_norm = *norm ? QkNorm::per_head : QkNorm::none;
  bool named = false;
  bool above_zero = false;
  for (const std::string_view key : {"resid_pdrop", "attn_pdrop", "embd_pdrop", "hidden_dropout_prob", "hidden_dropout",
                                     "attention_dropout", "attention_probs_dropout_prob", "dropout", "dropout_rate"}) {
    const auto share = fields.decimal({key}, 0, 1);
    named = named || share.has_value();
    above_zero = above_zero || share.value_or(0) > 0;
  }
  if (named) model.dropout = above_zero;
}

constexpr std::uint64_t kMostInTowers = 1'000'000'000'000;

void take_towers(ModelShape& model, std::uint64_t parameters) {
  model.tower_parameters = parameters;
  model.notes.push_back(fmt::format("towers for images and sound are counted: {:.2f} B parameters in 16 bit",
                                    static_cast<double>(parameters) / 1e9));
}

/// The catalogue's key: towers for images and sound, which a config.json describes but does not count.
void read_towers(ConfigFields& fields, ModelShape& model) {
  if (const auto counted = fields.number({"tower_parameters"}, 1, kMostInTowers)) take_towers(model, *counted);
}

/// The tower for images beside the language model: counted where its kind is known, else said to be left out.
void read_vision_tower(const json& object, std::string_view name, ModelShape& model) {
  if (!object.contains("vision_config")) return;
  const ConfigFields outer(object, name, "");
  auto vision = outer.inside("vision_config");
  const auto counted = vision ? vision_tower_parameters(*vision, model.hidden) : std::nullopt;
  if (counted && *counted <= kMostInTowers) return take_towers(model, *counted);
  model.notes.emplace_back("only the language model is counted, not the vision tower");
}

void read_activation(ConfigFields& fields, ModelShape& model) {
  const auto name = fields.text({"hidden_activation", "hidden_act", "activation_function"});
  if (!name) return;
  if (name->contains("gelu")) model.activation = Activation::gelu;
  if (name->contains("relu")) model.activation = Activation::relu;
  if (name->contains("silu") || name->contains("swiglu")) model.activation = Activation::silu;
}

std::optional<DataType> data_type_of(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  if (name == "bfloat16") return DataType::bfloat16;
  if (name == "float16") return DataType::float16;
  if (name == "float32") return DataType::float32;
  if (name.starts_with("float8")) return DataType::float8;
  return std::nullopt;
}

void read_storage(ConfigFields& fields, ModelShape& model) {
  if (const auto type = fields.text({"torch_dtype", "dtype"})) {
    model.stored_type = *type == "fp8" ? DataType::float8 : data_type_of(*type);
  }
  read_quantization(fields, model);
}

/// The sizes that every family needs and that are still not known, by their names in most files.
std::vector<std::string> missing_fields(const ModelShape& model) {
  std::vector<std::string> missing;
  const auto need = [&](std::uint32_t value, const char* name) {
    if (value == 0) missing.emplace_back(name);
  };
  need(model.hidden, "hidden_size");
  need(model.layers, "num_hidden_layers");
  need(model.heads, "num_attention_heads");
  // Where every layer has experts, there is no other MLP (Qwen3.5's).
  const ExpertShape& experts = model.experts;
  const bool experts_alone = experts.experts > 0 && experts.dense_layers == 0 && experts.intermediate > 0;
  if (model.gated_mlp && !experts_alone) need(model.intermediate, "intermediate_size");
  if (model.kind != ModelKind::vision_encoder) need(model.vocab, "vocab_size");
  if (model.positions == Positions::learned && model.kind != ModelKind::vision_encoder && model.position_rows == 0)
    missing.emplace_back("max_position_embeddings");
  return missing;
}

/// Fills what follows from other sizes.
Result<void> derive(ModelShape& model, std::string_view name) {
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.intermediate == 0 && !model.gated_mlp) model.intermediate = 4 * model.hidden;
  if (model.latent.kv_rank > 0) model.head_dim = model.latent.value_dim;
  if (model.head_dim == 0 && model.hidden % model.heads != 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: hidden_size {} cannot be divided among {} heads", name, model.hidden, model.heads),
                "a model with heads of another width says head_dim");
  if (model.head_dim == 0) model.head_dim = model.hidden / model.heads;
  if (model.heads % model.kv_heads != 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: {} attention heads cannot share {} key-value heads evenly", name, model.heads,
                            model.kv_heads));
  return {};
}

Result<ModelShape> read_shape(const json& object, std::string_view name, const std::string& path,
                              const Family& family) {
  ModelShape model;
  model.family = family.name;
  model.source = name;
  family.traits(model);
  ConfigFields fields(object, name, path);
  read_sizes(fields, model);
  read_rope_scaling(fields, model);
  read_experts(fields, model);
  read_switches(fields, model);
  read_activation(fields, model);
  read_storage(fields, model);
  read_towers(fields, model);
  if (!fields.error() && family.read != nullptr) family.read(fields, model);
  if (fields.error()) return std::unexpected(*fields.error());
  if (const auto missing = missing_fields(model); !missing.empty())
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: {} {} not there; a {} config needs {}", name, join(missing, ", "),
                            missing.size() == 1 ? "is" : "are", family.name, missing.size() == 1 ? "it" : "them"),
                "give the model's own config.json");
  GPUWARDEN_CHECK(derive(model, name));
  if (approximate_parameters(model) > kMostParameters)
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("{}: its sizes make {:.3g} parameters; no model has so many", name, approximate_parameters(model)),
        "one of hidden_size, num_hidden_layers, intermediate_size, vocab_size or the experts is wrong");
  return model;
}

/// A size of a class in transformers, as its constructor has it.
struct ClassSize {
  std::string_view family;
  const char* key;
  std::uint32_t value;
};
/// Source: configuration_llama.py, configuration_mistral.py, configuration_qwen2.py (transformers 4.48). A language
/// model inside of another leaves out what is its class's (LLaVA 1.5's text_config has no sizes).
constexpr ClassSize kClassSizes[] = {{"llama", "hidden_size", 4096},           {"llama", "intermediate_size", 11'008},
                                     {"llama", "num_hidden_layers", 32},       {"llama", "num_attention_heads", 32},
                                     {"llama", "vocab_size", 32'000},          {"mistral", "hidden_size", 4096},
                                     {"mistral", "intermediate_size", 14'336}, {"mistral", "num_hidden_layers", 32},
                                     {"mistral", "num_attention_heads", 32},   {"mistral", "num_key_value_heads", 8},
                                     {"mistral", "vocab_size", 32'000},        {"qwen2", "hidden_size", 4096},
                                     {"qwen2", "intermediate_size", 22'016},   {"qwen2", "num_hidden_layers", 32},
                                     {"qwen2", "num_attention_heads", 32},     {"qwen2", "vocab_size", 151'936}};

/// The object with its class's sizes where it has none.
json with_class_sizes(json object, std::string_view family) {
  for (const ClassSize& size : kClassSizes) {
    if (size.family == family && !object.contains(size.key)) object[size.key] = size.value;
  }
  return object;
}

void note_class_sizes(const json& object, std::string_view family, ModelShape& model) {
  std::vector<std::string> taken;
  for (const ClassSize& size : kClassSizes) {
    if (size.family == family && !object.contains(size.key)) taken.emplace_back(size.key);
  }
  if (!taken.empty())
    model.notes.push_back(fmt::format("{} {} not named: as transformers' {} class has {}", join(taken, ", "),
                                      taken.size() == 1 ? "is" : "are", family, taken.size() == 1 ? "it" : "them"));
}

/// The task's own layers, which a count of the backbone or of the language model leaves out.
void note_head(std::string_view architecture, ModelShape& model) {
  const auto ends_with_any = [&](std::initializer_list<std::string_view> endings) {
    return std::ranges::any_of(endings, [&](std::string_view ending) { return architecture.ends_with(ending); });
  };
  const bool classifies = ends_with_any(
      {"ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMultipleChoice"});
  const bool image = ends_with_any({"ForImageClassification"}) && model.image.classes == 0;
  const bool encoder = model.kind == ModelKind::encoder && ends_with_any({"ForMaskedLM", "ForPreTraining"});
  if (model.kind == ModelKind::decoder && classifies)
    model.notes.push_back(
        fmt::format("counted with the language model's head, which {} has not", printable(architecture)));
  else if (classifies || image || encoder)
    model.notes.push_back(fmt::format("the head of {} is not counted, only the backbone", printable(architecture)));
}

/// How the weights are stored stands beside the inner object as often as in it, and so does whether the output matrix
/// is the embedding.
json with_outer_keys(json inner, const json& outer) {
  for (const char* const key : {"quantization_config", "tie_word_embeddings"}) {
    if (!inner.contains(key) && outer.contains(key)) inner[key] = outer[key];
  }
  return inner;
}

std::string name_in(const json& object) { return printable(text_at(object, "_name_or_path").value_or("")); }

}  // namespace

Result<ModelShape> read_config(std::string_view text, std::string_view name, std::string_view family) {
  GPUWARDEN_TRY(const json object, parse(text, name));
  if (auto error = diffusion_error(object, name)) return std::unexpected(std::move(*error));
  for (const std::string_view key : kNested) {
    const auto inner = object.find(std::string(key));
    if (inner == object.end() || inner->is_null()) continue;
    if (!inner->is_object())
      return fail(ErrorCode::invalid_argument, fmt::format("{}: {} is not an object", name, key),
                  "it holds the language model's sizes: give the model's own config.json");
    if (object.contains("hidden_size")) continue;
    // The outer type tells the family where the inner object says none.
    const bool speaks = inner->contains("model_type") || !family.empty();
    GPUWARDEN_TRY(const Family* const found, family_of(speaks ? *inner : object, name, family));
    GPUWARDEN_TRY(ModelShape model, read_shape(with_class_sizes(with_outer_keys(*inner, object), found->name), name,
                                               std::string(key) + ".", *found));
    note_class_sizes(*inner, found->name, model);
    model.name = name_in(object);
    read_vision_tower(object, name, model);
    if (object.contains("audio_config"))
      model.notes.emplace_back("only the language model is counted, not the audio tower");
    return model;
  }
  GPUWARDEN_TRY(const Family* const found, family_of(object, name, family));
  GPUWARDEN_TRY(ModelShape model, read_shape(object, name, "", *found));
  model.name = name_in(object);
  note_head(first_architecture(object), model);
  if (model.tower_parameters == 0) read_vision_tower(object, name, model);
  return model;
}

bool is_known_family(std::string_view family) { return find_family(family) != nullptr; }

std::vector<std::string> known_families() {
  std::vector<std::string> names;
  for (const Family& family : families()) names.emplace_back(family.name);
  std::ranges::sort(names);
  return names;
}

}  // namespace gpuwarden::planning
