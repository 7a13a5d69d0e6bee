// SPDX-License-Identifier: Apache-2.0
#include "planning/quantized_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::planning {
namespace {

/// What was found out about the weights.
struct Stored {
  std::uint32_t bits = 0;     ///< as the file says; 0: it does not
  std::string type;           ///< "fp8", "int4", "nvfp4" ...: where the method leaves it open
  std::uint32_t group = 0;    ///< weights that share a scale; 0: as the format usually has it
  bool weights_only = false;  ///< what comes into a matrix stays in 16 bit
  std::uint32_t others = 0;   ///< bits of other matrices (ModelOpt's MIXED_PRECISION); 0: all have the same
};

/// Methods whose weights have one width, or one where none is named.
struct Method {
  std::string_view name;
  std::uint32_t bits;         ///< 0: the file has to say
  bool weights_only = false;  ///< its kernels multiply in 16 bit
};
constexpr Method kMethods[] = {{"awq", 4, true},
                               {"gptq", 0, true},
                               {"bitsandbytes", 0},
                               {"fp8", 8},
                               {"fbgemm_fp8", 8},
                               {"mxfp4", 4},
                               {"eetq", 8, true},
                               {"auto-round", 0, true},
                               {"intel/auto-round", 0, true},
                               {"autoround", 0, true},
                               {"hqq", 0, true},
                               {"torchao", 0},
                               {"quanto", 0},
                               {"compressed-tensors", 0},
                               {"modelopt", 0},
                               {"aqlm", 2, true},
                               {"bitnet", 2},
                               {"higgs", 4, true},
                               {"spqr", 3, true},
                               {"vptq", 2, true}};

/// A word of a name, and the weights that it stands for.
struct WidthWord {
  std::string_view word;
  std::uint32_t bits;
  std::string_view type;
};
/// In the order in which they are looked for: what names the weights goes before what may be the activations'.
constexpr WidthWord kWidthWords[] = {{"int4weight", 4, "int4"},  {"int4_weight", 4, "int4"}, {"int8weight", 8, "int8"},
                                     {"int8_weight", 8, "int8"}, {"nvfp4", 4, "nvfp4"},      {"mxfp4", 4, "mxfp4"},
                                     {"w4a", 4, "int4"},         {"fp8", 8, "fp8"},          {"float8", 8, "fp8"},
                                     {"w8a", 8, "int8"},         {"int8", 8, "int8"},        {"int4", 4, "int4"},
                                     {"int2", 2, "int2"}};

/// "Int8DynamicActivationInt4WeightConfig", "float8_e4m3", "W4A16_AWQ": the width of the weights.
Stored stored_by_name(std::string_view name) {
  const std::string text = to_lower(name);
  const auto* const found =
      std::ranges::find_if(kWidthWords, [&](const WidthWord& row) { return text.contains(row.word); });
  if (found == std::end(kWidthWords)) return {};
  const bool alone = text.contains("weightonly") || text.contains("weight_only") || text.contains("a16");
  return {.bits = found->bits, .type = std::string(found->type), .weights_only = alone};
}

/// Weights that share a scale; files write -1 or null for a whole channel.
std::uint32_t group_in(ConfigFields& object) {
  constexpr double kMost = 65'536;
  return static_cast<std::uint32_t>(
      std::max(0.0, object.decimal({"group_size", "q_group_size"}, -1, kMost).value_or(0)));
}

/// Words that lead to the layers of the language model in a module's name or a pattern of names ("\d").
constexpr std::string_view kWayToLayers[] = {"model", "language_model", "layers", "d"};

/// How an entry ends that means a layer's attention, or its output, which stands for all of it. Qwen3.5's layers of
/// linear attention are attention as well.
constexpr std::string_view kEndsOfAttention[] = {".self_attn.o_proj", ".self_attn", ".linear_attn.out_proj",
                                                 ".linear_attn"};

bool leads_to_layers(std::string_view text) {
  std::string words(text);
  for (char& c : words) {
    if ((c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_') c = ' ';
  }
  return std::ranges::all_of(split_words(words), [](std::string_view word) {
    return std::ranges::find(kWayToLayers, word) != std::end(kWayToLayers);
  });
}

/// Whether an entry of what stays in 16 bit means attention as a whole, in all layers: "self_attn",
/// "re:.*self_attn.*", "model.layers.*.self_attn". One that goes on ("re:.*self_attn.kv_b_proj") is about a part of it.
bool names_all_attention(std::string_view entry) {
  constexpr std::string_view kPattern = "re:";
  constexpr std::string_view kAttention = "self_attn";
  if (entry.starts_with(kPattern)) entry.remove_prefix(kPattern.size());
  const std::size_t at = entry.find(kAttention);
  if (at == std::string_view::npos || !leads_to_layers(entry.substr(0, at))) return false;
  return entry.substr(at + kAttention.size()).find_first_not_of(".*$\\") == std::string_view::npos;
}

/// "model.layers.7.self_attn.o_proj", or all of that layer's attention ("model.layers.7.self_attn*").
bool names_a_layers_attention(std::string_view entry) {
  if (entry.contains("vision") || entry.contains("visual") || entry.contains("audio")) return false;
  while (entry.ends_with('*') || entry.ends_with('.')) entry.remove_suffix(1);
  return std::ranges::any_of(kEndsOfAttention, [&](std::string_view end) { return entry.ends_with(end); });
}

/// Whether attention stays in 16 bit: then the experts alone are packed. Files name it as a whole, or its matrices
/// layer by layer; then its output in most layers stands for the others.
bool spares_attention(const ConfigFields& object, std::uint32_t layers) {
  std::size_t outputs = 0;
  for (const std::string_view key : {"ignore", "modules_to_not_convert"}) {
    for (const std::string& entry : object.list_texts(key)) {
      if (names_all_attention(entry)) return true;
      outputs += names_a_layers_attention(entry) ? 1 : 0;
    }
  }
  return outputs > layers / 2;
}

/// Bits of the second group's weights, where they are not the first one's; else 0.
std::uint32_t other_bits(const ConfigFields& groups, std::uint64_t bits) {
  const auto group = groups.inside("group_1");
  auto weights = group ? group->inside("weights") : std::nullopt;
  const auto others = weights ? weights->number({"num_bits"}, 1, 16) : std::nullopt;
  return others && *others != bits ? static_cast<std::uint32_t>(*others) : 0;
}

/// compressed-tensors and newer files of ModelOpt: groups of layers, the weights of each with a width and a type.
Stored stored_in_groups(const ConfigFields& object) {
  auto groups = object.inside("config_groups");
  if (!groups) return {};
  auto group = groups->inside("group_0");
  if (!group) group = groups->first_inside();
  auto weights = group ? group->inside("weights") : std::nullopt;
  if (!weights) return {};
  const auto bits = weights->number({"num_bits"}, 1, 16);
  if (!bits) return {};
  const bool real = weights->text({"type"}).value_or("int") == "float";
  const auto width = static_cast<std::uint32_t>(*bits);
  const std::uint32_t shared = group_in(*weights);
  const bool alone = !group->inside("input_activations");
  const std::uint32_t others = other_bits(*groups, *bits);
  if (real)
    return {width, width == 8 ? "fp8" : width == 4 ? "nvfp4" : fmt::format("fp{}", width), shared, alone, others};
  return {width, fmt::format("int{}", width), shared, alone, others};
}

/// hqq: one width for all layers, or one for each kind of them, of which the first stands for all.
Stored stored_by_hqq(const ConfigFields& object) {
  auto config = object.inside("quant_config");
  if (!config) return {};
  auto weights = config->inside("weight_quant_params");
  if (!weights) {
    const auto layer = config->first_inside();
    if (layer) weights = layer->inside("weight_quant_params");
  }
  const auto bits = weights ? weights->number({"nbits"}, 1, 16) : std::nullopt;
  if (!bits) return {};
  return {.bits = static_cast<std::uint32_t>(*bits), .type = {}, .group = group_in(*weights)};
}

/// torchao: the name of a configuration's class, or of an older way ("int4_weight_only"), within one more object.
Stored stored_by_torchao(ConfigFields& object) {
  if (auto type = object.inside("quant_type")) {
    auto standard = type->inside("default");
    ConfigFields& config = standard ? *standard : *type;
    return stored_by_name(config.text({"_type"}).value_or(""));
  }
  return stored_by_name(object.text({"quant_type"}).value_or(""));
}

Stored stored_in(ConfigFields& object, std::string_view method) {
  if (const auto bits = object.number({"bits", "w_bit"}, 1, 16))
    return {.bits = static_cast<std::uint32_t>(*bits), .type = {}, .group = group_in(object)};
  if (object.is_true("load_in_4bit")) return {.bits = 4};
  if (object.is_true("load_in_8bit")) return {.bits = 8};
  if (method == "hqq") return stored_by_hqq(object);
  if (method == "torchao") return stored_by_torchao(object);
  if (method == "quanto") {
    Stored stored = stored_by_name(object.text({"weights"}).value_or(""));
    stored.weights_only = !object.text({"activations"});
    return stored;
  }
  if (const Stored named = stored_by_name(object.text({"quant_algo"}).value_or("")); named.bits > 0) return named;
  if (const Stored grouped = stored_in_groups(object); grouped.bits > 0) return grouped;
  const auto* const known = std::ranges::find(kMethods, method, &Method::name);
  if (known != std::end(kMethods)) return {.bits = known->bits};
  return stored_by_name(method);
}

/// The nearest width that is planned with.
std::uint32_t planned_bits(std::uint32_t bits) {
  if (bits == 0 || bits > 8) return 0;
  return bits <= 4 ? 4 : 8;
}

bool packs_weights_only(std::string_view method, const Stored& stored) {
  const auto* const known = std::ranges::find(kMethods, method, &Method::name);
  return stored.weights_only || (known != std::end(kMethods) && known->weights_only);
}

/// What the figures are off by, or empty.
std::string note_on(std::string_view method, const Stored& stored, std::uint32_t planned) {
  const bool known = std::ranges::find(kMethods, method, &Method::name) != std::end(kMethods);
  if (stored.bits == 16) return "";
  if (stored.bits > 8) return fmt::format("weights of {} bits are counted as 16-bit ones", stored.bits);
  if (planned == 0)
    return fmt::format("quantization_config ({}) does not say how wide the weights are: they are counted in 16 bit",
                       method);
  std::string text;
  if (stored.others > 0)
    text = fmt::format("some matrices have {} bits, others {}: all are counted as {}-bit ones", stored.bits,
                       stored.others, planned);
  else if (stored.bits != planned)
    text = fmt::format("weights of {} bits are counted as {}-bit ones", stored.bits, planned);
  if (known) return text;
  return fmt::format("unknown quantization method '{}': its weights are counted as {}-bit ones", method, planned);
}

}  // namespace

void read_quantization(ConfigFields& fields, ModelShape& model) {
  auto object = fields.inside("quantization_config");
  if (!object) {
    if (fields.has("quantization_config"))
      fields.complain("quantization_config", "is not an object", "remove it, or give the model's own config.json");
    return;
  }
  const std::string method = printable(to_lower(object->text({"quant_method"}).value_or("")));
  const Stored stored = stored_in(*object, method);
  fields.absorb(*object);
  if (fields.error()) return;
  model.quantization_bits = planned_bits(stored.bits);
  model.quantization_group = stored.group;
  model.quantized_weights_only = model.quantization_bits > 0 && packs_weights_only(method, stored);
  model.quantized_experts_only = model.experts.experts > 0 && spares_attention(*object, model.layers);
  std::string name = method.empty() ? "quantised" : method;
  if (!stored.type.empty() && !name.contains(stored.type)) name += " " + stored.type;
  model.quantization = name;
  if (std::string note = note_on(method.empty() ? "no quant_method" : method, stored, model.quantization_bits);
      !note.empty())
    model.notes.push_back(std::move(note));
}

}  // namespace gpuwarden::planning
