// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <ranges>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/model_catalog.hpp"
#include "gpuwarden/planning/config.hpp"

namespace gpuwarden::planning {
namespace {

using knowledge::CatalogModel;

/// What says how a model was trained or stored, not what shape it has.
struct Ending {
  std::string_view word;
  std::string_view stored = {};  ///< as a config's quantization_config would say
  std::uint32_t bits = 0;
  bool weights_only = false;  ///< products are in 16 bit
};
/// Before any that is the end of it.
constexpr Ending kEndings[] = {{"bnb4bit", "bitsandbytes", 4},
                               {"4bit", "bitsandbytes", 4},
                               {"8bit", "bitsandbytes", 8},
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
                               {"bf16"},
                               {"fp16"},
                               {"fp8", "fp8", 8},
                               {"sft"},
                               {"dpo"},
                               {"v01"},
                               {"v02"},
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
  const Ending* stored = nullptr;  ///< the outermost word about how weights are stored
  bool weights_only = false;       ///< any of the words says so
  bool dated = false;
};

void note_ending(Stem& stem, const Ending& ending) {
  const bool more_exact = stem.stored == nullptr || (ending.bits == 8 && stem.stored->stored == ending.stored);
  if (ending.bits > 0 && more_exact) stem.stored = &ending;
  stem.weights_only = stem.weights_only || ending.weights_only;
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

/// The name without a date among its endings ("Qwen3-4B-Instruct-2507-FP8"), and what the endings said.
Stem undated_stem_of(std::string_view name) {
  Stem stem;
  std::string rest(name);
  while (true) {
    const std::size_t cut = rest.find_last_of("-_ ");
    if (cut == std::string::npos) break;
    const std::string word = to_lower(std::string_view(rest).substr(cut + 1));
    const auto* const ending = std::ranges::find(kEndings, word, &Ending::word);
    const bool date = is_date(word);
    if (ending == std::end(kEndings) && !date) break;
    if (ending != std::end(kEndings)) note_ending(stem, *ending);
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
};

/// The whole name first, then without the publisher, then without endings: the closest meaning wins.
Found find_row(std::string_view name) {
  if (name.size() > kLongestName) return {};
  const std::string lower = to_lower(trim(name));
  if (const auto* row = find_if_named([&](std::string_view known) { return to_lower(known) == lower; }))
    return {row, {}};
  const std::string wanted = bare(name);
  if (wanted.empty()) return {};
  if (const auto* row = find_if_named([&](std::string_view known) { return bare(known) == wanted; })) return {row, {}};
  Stem stem = stem_of(wanted);
  const auto with_stem = [&](std::string_view known) { return without_endings(bare(known)) == stem.name; };
  if (const auto* row = find_if_named(with_stem)) return {row, std::move(stem)};
  stem = undated_stem_of(trim(name));
  return {find_if_named(with_stem), std::move(stem)};
}

/// Files of llama.cpp: which of many widths a repository's name alone does not say.
bool names_gguf(std::string_view name) {
  constexpr std::string_view kWidths[] = {"gguf",  "exl2",  "exl3",  "-q2_k", "-q3_k", "-q4_k",
                                          "-q5_k", "-q6_k", "-q8_0", "-q4_0", "-iq"};
  const std::string text = to_lower(name.substr(0, kLongestName));
  return std::ranges::any_of(kWidths, [&](std::string_view word) { return text.contains(word); });
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

/// An alias of another release or date: "DeepSeek-V3.1" of DeepSeek-V3, "Devstral-Small-2507" of -2505.
bool has_other_numbers(std::string_view asked, std::string_view known) {
  const auto own = numbers_in(known);
  return std::ranges::any_of(numbers_in(asked.substr(asked.rfind('/') + 1)),
                             [&](std::string_view number) { return std::ranges::find(own, number) == own.end(); });
}

/// What the name says of how weights are stored stands in the place of a config's word.
void apply_stem(const Stem& stem, std::string_view asked, ModelShape& model) {
  if (stem.stored != nullptr) {
    model.quantization = std::string(stem.stored->stored);
    model.quantization_bits = stem.stored->bits;
    model.quantized_weights_only = stem.weights_only;
    model.notes.push_back(fmt::format("'{}': the shape of {}, its matrices stored in {} bits ({})", printable(asked),
                                      model.name, stem.stored->bits, stem.stored->stored));
  } else if (stem.dated || has_other_numbers(asked, model.name)) {
    model.notes.push_back(fmt::format("'{}' is planned with the shape of {}", printable(asked), model.name));
  }
}

/// Letters to insert, delete or change (Levenshtein) between two short texts.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

/// Whether letters and digits of `name` hold `wanted`, and no longer number: "Llama-3-8B" holds "llama3", "llama-30b"
/// does not.
bool holds(std::string_view name, std::string_view wanted) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t start = 0; start < name.size(); ++start) {
    std::size_t matched = 0;
    std::size_t at = start;
    for (; at < name.size() && matched < wanted.size(); ++at) {
      const std::string letter = bare(name.substr(at, 1));
      if (letter.empty()) continue;
      if (letter.front() != wanted[matched]) break;
      ++matched;
    }
    if (matched == wanted.size() && (at == name.size() || !is_digit(name[at]))) return true;
  }
  return false;
}

/// The names that hold it; else those most like it, nearest first: about a third of the letters may differ.
std::string similar_names(std::string_view name) {
  constexpr std::size_t kMost = 5;
  constexpr std::size_t kFewestLetters = 4;
  const std::string wanted = without_endings(bare(name.substr(0, kLongestName)));
  std::vector<std::string> names;
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const CatalogModel& model : knowledge::model_catalog()) {
    const std::string_view own = model.name.substr(model.name.rfind('/') + 1);
    if (wanted.size() >= kFewestLetters && names.size() < kMost && holds(own, wanted)) names.emplace_back(model.name);
    const std::size_t away = distance(wanted, without_endings(bare(model.name)));
    if (3 * away <= wanted.size() + 1) near.emplace_back(away, model.name);
  }
  std::ranges::stable_sort(near, {}, &std::pair<std::size_t, std::string>::first);
  if (names.empty()) {
    for (const auto& [away, known] : near | std::views::take(kMost)) names.push_back(known);
  }
  return names.empty() ? "gpuwarden plan --list shows all names" : "known: " + join(names, ", ");
}

}  // namespace

Result<ModelShape> find_model(std::string_view name) {
  if (names_gguf(name))
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}': the name does not say how many bits its weights have",
                            printable(name.substr(0, kLongestName))),
                "plan the model's own name with --quantization int8 or int4, the nearest widths");
  const Found found = find_row(name);
  const CatalogModel* const row = found.row;
  if (row == nullptr)
    return fail(ErrorCode::not_found,
                fmt::format("no model '{}' in the catalogue", printable(name.substr(0, kLongestName))),
                fmt::format("give its config.json, or only its size; {}", similar_names(name)));
  GPUWARDEN_TRY(ModelShape model, read_config(row->config, row->name, row->family));
  model.name = row->name;
  model.source = row->source;
  apply_stem(found.stem, name, model);
  return model;
}

std::vector<std::string> catalog_names() {
  std::vector<std::string> names;
  for (const CatalogModel& model : knowledge::model_catalog()) names.emplace_back(model.name);
  return names;
}

}  // namespace gpuwarden::planning
