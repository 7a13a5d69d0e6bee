// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <ranges>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/model_catalog.hpp"
#include "gpuwarden/planning/config.hpp"
#include "planning/gguf_names.hpp"
#include "planning/name_parts.hpp"
#include "planning/similar_names.hpp"

namespace gpuwarden::planning {
namespace {

using knowledge::CatalogModel;

/// What says how a model was trained or stored, not what shape it has.
struct Ending {
  std::string_view word;
  std::string_view stored = {};  ///< as a config's quantization_config would say
  std::uint32_t bits = 0;
  bool weights_only = false;  ///< products are in 16 bit
  bool vague = false;         ///< a width alone: a method beside it says which format has it
};
/// Bits of weights that are not packed.
constexpr std::uint32_t kWhole = 16;
/// Before any that is the end of it.
constexpr Ending kEndings[] = {{"bnb4bit", "bitsandbytes", 4},
                               {"4bit", "bitsandbytes", 4, false, true},
                               {"8bit", "bitsandbytes", 8, false, true},
                               {"instruct"},
                               {"quantized"},
                               {"think"},
                               {"thinking"},
                               {"reasoning"},
                               {"preview"},
                               {"uncased"},
                               {"dynamic"},
                               {"chat"},
                               {"base"},
                               {"bnb"},
                               {"unsloth"},
                               {"gptq", "gptq", 4, true},
                               {"awq", "awq", 4},
                               {"w4a16", "int4", 4},
                               {"w8a8", "int8", 8},
                               {"w8a16", "int8", 8, true},
                               {"int4", "int4", 4},
                               {"int8", "int8", 8},
                               {"hqq", "hqq", 4},
                               {"nvfp4a16", "nvfp4", 4, true},
                               {"nvfp4", "nvfp4", 4},
                               {"mxfp4", "mxfp4", 4},
                               {"fp4", "nvfp4", 4},
                               {"bf16", "", kWhole},
                               {"fp16", "", kWhole},
                               {"f16", "", kWhole},
                               {"fp8", "fp8", 8},
                               {"sft"},
                               {"dpo"},
                               {"v01"},
                               {"hf"},
                               {"it"},
                               {"pt"}};
constexpr std::size_t kLongestName = 200;

/// Letters and digits of the name behind the publisher, in small letters.
std::string bare(std::string_view name) {
  if (const std::size_t slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  std::string result;
  for (const char c : to_lower(name)) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) result += c;
  }
  return result;
}

/// A name without what stands behind the model's own, and what that said.
struct Stem {
  std::string name;
  std::string_view stored = {};  ///< as the outermost word about how weights are stored has it
  std::uint32_t bits = 0;        ///< 0: no word says so
  bool vague = false;            ///< so far only their width is named
  bool weights_only = false;     ///< any of the words says so
  bool dated = false;
};

/// "AWQ-4bit" and "4bit-AWQ" are AWQ's; "GPTQ-8bit" is its format of 8 bits.
void note_ending(Stem& stem, const Ending& ending) {
  stem.weights_only = stem.weights_only || ending.weights_only;
  if (ending.bits == 0) return;
  const bool packed = ending.bits < kWhole && stem.bits < kWhole;
  if (stem.bits == 0) {
    stem.stored = ending.stored;
    stem.bits = ending.bits;
    stem.vague = ending.vague;
  } else if (packed && stem.vague && !ending.vague && ending.bits <= stem.bits) {
    stem.stored = ending.bits == stem.bits ? ending.stored : "int8";
    stem.weights_only = stem.weights_only || ending.bits < stem.bits;
    stem.vague = false;
  } else if (packed && ending.vague && ending.bits > stem.bits) {
    stem.stored = "int8";
    stem.bits = ending.bits;
    stem.weights_only = true;
  }
}

Stem stem_of(std::string name) {
  Stem stem;
  bool again = true;
  while (again) {
    again = false;
    for (const Ending& ending : kEndings) {
      if (name.size() <= ending.word.size() + 2 || !name.ends_with(ending.word)) continue;
      name.resize(name.size() - ending.word.size());
      note_ending(stem, ending);
      again = true;
    }
  }
  stem.name = std::move(name);
  return stem;
}

std::string without_endings(std::string name) { return stem_of(std::move(name)).name; }

/// "2507" and "0324": a year and a month, or a month and a day.
bool is_date(std::string_view word) {
  const auto number = word.size() == 4 ? parse_integer(word) : std::nullopt;
  if (!number) return false;
  const auto first = *number / 100;
  const auto second = *number % 100;
  return (first >= 23 && first <= 29 && second >= 1 && second <= 12) ||
         (first >= 1 && first <= 12 && second >= 1 && second <= 31);
}

const Ending* ending_of(std::string_view word) {
  const auto* const found = std::ranges::find(kEndings, to_lower(word), &Ending::word);
  return found == std::end(kEndings) ? nullptr : found;
}

/// The words of a name behind the publisher.
std::vector<std::string_view> words_in(std::string_view name) {
  if (const std::size_t slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t cut = name.find_first_of("-_ ");
    words.push_back(name.substr(0, cut));
    if (cut == std::string_view::npos) return words;
    name.remove_prefix(cut + 1);
  }
}

/// The name without such words wherever they stand: "Mistral-7B-Instruct-v0.3", "internlm2-chat-7b".
Stem scattered_stem_of(std::string_view name) {
  Stem stem;
  std::vector<std::string_view> own;
  for (const std::string_view word : words_in(name) | std::views::reverse) {
    if (const Ending* const ending = ending_of(word))
      note_ending(stem, *ending);
    else
      own.push_back(word);
  }
  std::string rest;
  for (const std::string_view word : own | std::views::reverse) rest += word;
  stem.name = without_endings(bare(rest));
  return stem;
}

/// The name without a date among its endings ("Qwen3-4B-Instruct-2507-FP8"), and what the endings said.
Stem undated_stem_of(std::string_view name) {
  Stem stem;
  std::string rest(name);
  while (true) {
    const std::size_t cut = rest.find_last_of("-_ ");
    if (cut == std::string::npos) break;
    const std::string word = rest.substr(cut + 1);
    const Ending* const ending = ending_of(word);
    const bool date = is_date(word);
    if (ending == nullptr && !date) break;
    if (ending != nullptr) note_ending(stem, *ending);
    stem.dated = stem.dated || date;
    rest.resize(cut);
  }
  stem.name = without_endings(bare(rest));
  return stem;
}

std::vector<std::string_view> names_of(const CatalogModel& model) {
  std::vector<std::string_view> names{model.name};
  for (const auto alias : split_words(model.aliases)) names.push_back(alias);
  return names;
}

template <class Same>
const CatalogModel* find_if_named(Same same) {
  for (const CatalogModel& model : knowledge::model_catalog()) {
    if (std::ranges::any_of(names_of(model), same)) return &model;
  }
  return nullptr;
}

/// A row, and what the name said besides.
struct Found {
  const CatalogModel* row = nullptr;
  Stem stem;
  bool in_part = false;  ///< the row's name is a part of it
};

/// "8b" of "Llama-3.1-8B", "1.8b" of "Qwen-1_8B", where it stands apart from what is before it; empty elsewhere.
std::string size_in(std::string_view name) {
  std::string text = to_lower(name);
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (text[i] == '_' && is_digit(text[i - 1]) && is_digit(text[i + 1])) text[i] = '.';
  }
  std::string size;
  for (const std::string_view word : words_in(text)) {
    const bool number = word.size() >= 2 && word.back() == 'b' &&
                        word.substr(0, word.size() - 1).find_first_not_of("0123456789.") == std::string_view::npos;
    if (number && size.empty()) size = word;
  }
  return size;
}

/// Names of one spelling may mean a tenth of the other: "llama-6.5b" is no "llama-65b".
bool has_other_size(std::string_view asked, std::string_view known) {
  const std::string own = size_in(asked);
  const std::string its = size_in(known);
  return !own.empty() && !its.empty() && own != its;
}

/// The whole name first, then without the publisher, without endings, without such words anywhere, then a part of it:
/// the closest meaning wins.
Found find_row(std::string_view name) {
  if (name.size() > kLongestName) return {};
  const std::string lower = to_lower(trim(name));
  if (const auto* row = find_if_named([&](std::string_view known) { return to_lower(known) == lower; }))
    return {row, {}};
  const std::string wanted = bare(name);
  if (wanted.empty()) return {};
  const auto whole = [&](std::string_view known) { return bare(known) == wanted && !has_other_size(lower, known); };
  if (const auto* row = find_if_named(whole)) return {row, {}};
  Stem stem = stem_of(wanted);
  const auto with_stem = [&](std::string_view known) {
    return without_endings(bare(known)) == stem.name && !has_other_size(lower, known);
  };
  if (const auto* row = find_if_named(with_stem)) return {row, std::move(stem)};
  stem = undated_stem_of(trim(name));
  if (const auto* row = find_if_named(with_stem)) return {row, std::move(stem)};
  stem = scattered_stem_of(trim(name));
  if (stem.name.empty()) return {};
  const auto* const row = find_if_named([&](std::string_view known) {
    return scattered_stem_of(known).name == stem.name && !has_other_size(lower, known);
  });
  if (row != nullptr) return {row, std::move(stem)};
  // Of a sentence no part is a name.
  if (trim(name).contains(' ')) return {};
  return {find_named_part(trim(name)), scattered_stem_of(trim(name)), true};
}

/// exllama's files, whose widths are any number.
bool names_exl(std::string_view name) {
  const std::string text = to_lower(name.substr(0, kLongestName));
  return text.contains("exl2") || text.contains("exl3");
}

/// "3.2", "24" and "2506" of "Mistral-Small-3.2-24B-Instruct-2506".
std::vector<std::string_view> numbers_in(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789";
  std::vector<std::string_view> numbers;
  for (std::size_t at = name.find_first_of(kDigits); at != std::string_view::npos;) {
    std::size_t end = std::min(name.find_first_not_of("0123456789.", at), name.size());
    while (name[end - 1] == '.') --end;
    numbers.push_back(name.substr(at, end - at));
    at = name.find_first_of(kDigits, end);
  }
  return numbers;
}

/// An alias of another release or date: "DeepSeek-V3.1" of DeepSeek-V3, "Devstral-Small-2507" of -2505. A size is none:
/// "mistral-nemo-12b".
bool has_other_numbers(std::string_view asked, std::string_view known) {
  const auto own = numbers_in(known);
  const auto is_other = [&](std::string_view number) { return std::ranges::find(own, number) == own.end(); };
  return std::ranges::any_of(words_in(asked), [&](std::string_view word) {
    return ending_of(word) == nullptr && size_in(word).empty() && std::ranges::any_of(numbers_in(word), is_other);
  });
}

/// A checkpoint of which the name says that its packed model was unpacked: "gpt-oss-20b-BF16".
void unpack(std::string_view asked, ModelShape& model) {
  if (!model.quantization) return;
  model.notes.push_back(fmt::format("'{}': the shape of {}, whose matrices are stored in {} bits, here in 16",
                                    printable(asked), model.name, model.quantization_bits));
  model.quantization.reset();
  model.quantization_bits = 0;
  model.quantization_group = 0;
  model.quantized_experts_only = false;
  model.quantized_weights_only = false;
}

/// What the name says of how weights are stored stands in the place of a config's word.
void apply_stem(const Found& found, std::string_view asked, ModelShape& model) {
  const Stem& stem = found.stem;
  const bool other_release = stem.dated || (!found.in_part && has_other_numbers(asked, model.name));
  // Another release has often another context (Qwen3's of 2507 have 262,144 positions, not 40,960).
  if (other_release && model.positions == Positions::rotary)
    model.kin_positions = std::exchange(model.max_positions, 0U);
  if (stem.bits == kWhole) {
    unpack(asked, model);
  } else if (stem.bits > 0) {
    model.quantization = std::string(stem.stored);
    model.quantization_bits = stem.bits;
    model.quantized_weights_only = stem.weights_only;
    model.notes.push_back(fmt::format("'{}': the shape of {}, its matrices stored in {} bits ({})", printable(asked),
                                      model.name, stem.bits, stem.stored));
  } else if (found.in_part) {
    model.notes.push_back(
        fmt::format("'{}' is planned with the shape of {}, which its name names", printable(asked), model.name));
  } else if (other_release) {
    model.notes.push_back(fmt::format("'{}' is planned with the shape of {}", printable(asked), model.name));
  }
}

/// Checkpoints of one shape with windows of their own, by words of their names: "Qwen2.5-7B-Instruct" has 32,768
/// positions, where the base model has 131,072. Of several words the least holds. How another release was trained says
/// nothing of its window, its date and its number do.
void apply_words(const CatalogModel& row, std::string_view asked, ModelShape& model) {
  const auto config = nlohmann::json::parse(row.config, nullptr, false);
  if (!config.is_object() || !config.contains("positions_of") || (model.max_positions == 0 && model.kin_positions == 0))
    return;
  std::uint32_t least = 0;
  for (const auto& [word, positions] : config["positions_of"].items()) {
    if (model.kin_positions > 0 && ending_of(word) != nullptr) continue;
    const bool named =
        std::ranges::any_of(words_in(asked), [&](std::string_view one) { return to_lower(one) == word; });
    const auto count = positions.get<std::uint32_t>();
    if (named && (least == 0 || count < least)) least = count;
  }
  if (least == 0) return;
  model.max_positions = least;
  model.kin_positions = 0;
}

/// The nearest names that there are, for a hint.
std::string similar_names(std::string_view name) {
  std::vector<KnownName> known;
  for (const CatalogModel& model : knowledge::model_catalog())
    known.push_back({model.name, without_endings(bare(model.name))});
  const auto names = names_like(without_endings(bare(name.substr(0, kLongestName))), known);
  return names.empty() ? "gpuwarden plan --list shows all names" : "known: " + join(names, ", ");
}

/// What to give in the place of a name that is not known; "owner/name" may be a repository, and a gated one.
std::string where_its_config_is(std::string_view name) {
  const auto parts = split(trim(name), '/');
  const auto is_plain = [](std::string_view part) {
    return !part.empty() && std::ranges::all_of(part, [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
             c == '.';
    });
  };
  if (parts.size() != 2 || name.size() > kLongestName || !std::ranges::all_of(parts, is_plain))
    return "give its config.json";
  return fmt::format(
      "give its config.json: a file of https://huggingface.co/{}/tree/main, of a gated model once its terms are "
      "accepted",
      trim(name));
}

/// "vllm serve a/b --tp 2" in one word: its options would be lost.
bool is_command_line(std::string_view name) {
  const std::string_view publisher = trim(name).substr(0, trim(name).rfind('/'));
  return (publisher.size() < trim(name).size() && split_words(publisher).size() > 1) ||
         std::ranges::any_of(split_words(name) | std::views::drop(1),
                             [](std::string_view word) { return word.starts_with('-') && word.size() > 1; });
}

/// The model as a file of llama.cpp's holds it. Where the name says no width: llama.cpp's -hf takes Q4_K_M, as most of
/// ollama's library has it; what was trained to be quantised ("qat") was so for Q4_0 (from memory).
ModelShape as_file(ModelShape model, const GgufName& name, std::string_view asked) {
  model.mxfp4_experts = model.quantization == "mxfp4";
  model.gguf = true;
  model.tag = name.tag;
  if (name.whole) {
    // Experts that were published in mxfp4 stay so beside whole matrices (gpt-oss's F16), which is not the mix MXFP4.
    if (model.mxfp4_experts)
      model.quantization = "mxfp4 experts";
    else
      unpack(asked, model);
    return model;
  }
  const Quantization usual = name.trained          ? Quantization::q4_0
                             : model.mxfp4_experts ? Quantization::mxfp4_moe
                                                   : Quantization::q4_k_m;
  const FileMix& mix = name.mix != nullptr ? *name.mix : *find_mix(usual);
  model.assumed_mix = name.mix == nullptr && !model.mxfp4_experts && !name.trained;
  model.dynamic_mix = printable(name.dynamic);
  model.quantization = std::string(mix.title);
  model.quantization_bits = static_cast<std::uint32_t>(8 * bytes_per_element(mix.base));
  model.quantization_group = 0;
  model.quantized_experts_only = false;
  model.quantized_weights_only = true;
  return model;
}

}  // namespace

Result<ModelShape> find_model(std::string_view name) {
  if (is_command_line(name))
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}': a command line, not a model's name", printable(name.substr(0, kLongestName))),
                "write its words without quotes around them");
  if (names_exl(name))
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}': the name does not say how many bits its weights have",
                            printable(name.substr(0, kLongestName))),
                "plan the model's own name with --quantization int8 or int4, the nearest widths");
  if (const auto file = read_gguf_name(name)) {
    auto model = find_model(file->model);
    if (model) return as_file(*std::move(model), *file, name);
    if (!file->tag) return model;
  }
  const Found found = find_row(name);
  const CatalogModel* const row = found.row;
  if (row == nullptr)
    return fail(ErrorCode::not_found,
                fmt::format("no model '{}' in the catalogue", printable(name.substr(0, kLongestName))),
                fmt::format("{}, or only its size; {}", where_its_config_is(name), similar_names(name)));
  GPUWARDEN_TRY(ModelShape model, read_config(row->config, row->name, row->family));
  model.name = row->name;
  model.source = row->source;
  apply_stem(found, name, model);
  apply_words(*row, name, model);
  return model;
}

std::vector<std::string> catalog_names() {
  std::vector<std::string> names;
  for (const CatalogModel& model : knowledge::model_catalog()) names.emplace_back(model.name);
  return names;
}

}  // namespace gpuwarden::planning
