// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/gpu_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <span>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "knowledge/names.hpp"

namespace gpuwarden::knowledge {
namespace {

using Words = std::vector<std::string>;

/// What people call a model whose own name has other words.
struct OtherName {
  std::string_view name;
  std::string_view model;
  std::string_view source;
};
constexpr OtherName kOtherNames[] = {
#include "knowledge/gpu_names.inc"
};

/// Words of other makers' GPUs; a word that ends with '#' stands for one that goes on with a digit.
struct OtherMaker {
  std::string_view words;
  std::string_view maker;
  std::string_view source;
};
constexpr OtherMaker kOtherMakers[] = {
#include "knowledge/other_makers.inc"
};

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// "rtx4090" and "3090ti" as people without a space bar write them.
void add_parted(std::string word, Words& words) {
  for (const std::string_view series : {"rtx", "gtx", "quadro", "tesla"}) {
    if (!word.starts_with(series) || word.size() == series.size()) continue;
    words.emplace_back(series);
    word.erase(0, series.size());
  }
  const std::size_t digits = std::min(word.find_first_not_of("0123456789"), word.size());
  std::string_view rest = std::string_view(word).substr(digits);
  constexpr std::size_t kShortestNumber = 3;  // of a "960"
  if (digits < kShortestNumber || (rest != "ti" && rest != "super" && rest != "tisuper" && rest != "d")) {
    words.push_back(word);
    return;
  }
  words.push_back(word.substr(0, digits));
  if (rest == "tisuper") {
    words.emplace_back("ti");
    rest.remove_prefix(2);
  }
  words.emplace_back(rest);
}

/// The words of a name as people write it, without the maker's.
Words typed_words(std::string_view name) {
  Words words;
  for (const std::string& word : words_of(name)) {
    if (word != "nvidia") add_parted(word, words);
  }
  return words;
}

/// A name as it was typed.
struct Typed {
  Words words;                 ///< without the maker and the amount of memory
  std::optional<double> size;  ///< of the memory, in GB
  std::string size_word;       ///< "80gb"
};

/// 80 of "80gb", "80gib", "80g".
std::optional<double> size_of(const std::string& word) {
  const std::size_t digits = std::min(word.find_first_not_of("0123456789"), word.size());
  const std::string_view unit = std::string_view(word).substr(digits);
  if (digits == 0 || (unit != "gb" && unit != "gib" && (unit != "g" || digits < 2))) return std::nullopt;
  return parse_number(word.substr(0, digits));
}

Typed typed(std::string_view name) {
  Typed result;
  for (std::string& word : typed_words(name)) {
    if (const auto size = size_of(word)) {
      result.size = size;
      result.size_word = std::move(word);
    } else {
      result.words.push_back(std::move(word));
    }
  }
  return result;
}

/// "sxm" is every generation of it.
bool is_word(std::string_view have, std::string_view wanted) {
  return have == wanted || (wanted == "sxm" && have.starts_with(wanted));
}

bool has_beside(const Words& have, std::span<const std::string> wanted) {
  return !wanted.empty() && std::ranges::search(have, wanted, is_word).begin() != have.end();
}

bool has_all(const Words& have, std::span<const std::string> wanted) {
  return !wanted.empty() && std::ranges::all_of(wanted, [&](const std::string& word) {
    return std::ranges::any_of(have, [&](const std::string& one) { return is_word(one, word); });
  });
}

bool has_size(const GpuModel& model, const Words& have, const Typed& name) {
  return !name.size || model.memory_gb == *name.size || std::ranges::find(have, name.size_word) != have.end();
}

bool ends_with(const Words& have, const Words& wanted) {
  return wanted.size() <= have.size() &&
         std::equal(wanted.begin(), wanted.end(), have.end() - static_cast<std::ptrdiff_t>(wanted.size()));
}

using Finder = bool (*)(const Words&, std::span<const std::string>);

std::vector<const GpuModel*> models_with(const Knowledge& knowledge, const Typed& name, Finder has) {
  std::vector<const GpuModel*> found;
  for (const GpuModel& model : knowledge.models()) {
    const Words have = words_of(model.name);
    if (has(have, name.words) && has_size(model, have, name)) found.push_back(&model);
  }
  return found;
}

/// "ti" of the RTX 3080 Ti: who asks for an RTX 3080 of 12 GB means no other board, though one has that memory.
void leave_other_boards(const Knowledge& knowledge, const Typed& name, std::vector<const GpuModel*>& found) {
  constexpr auto kOtherBoard = std::to_array<std::string_view>({"ti", "super", "d", "laptop", "ada"});
  const bool is_whole = std::ranges::any_of(
      knowledge.models(), [&](const GpuModel& model) { return ends_with(words_of(model.name), name.words); });
  if (!name.size || !is_whole) return;
  std::erase_if(found, [&](const GpuModel* model) {
    const Words have = words_of(model->name);
    return std::ranges::any_of(kOtherBoard, [&](std::string_view word) {
      return std::ranges::find(have, word) != have.end() && std::ranges::find(name.words, word) == name.words.end();
    });
  });
}

/// "sxm", "sxm5" and "hgx h100": how a board is mounted, which names of GPUs do not always say.
bool is_mounting(std::string_view word) { return word.starts_with("sxm") || word == "hgx" || word == "dgx"; }

/// For a mounting that the names leave out: boards that are cards or pairs of cards are none of it.
std::vector<const GpuModel*> mounted_models(const Knowledge& knowledge, Typed& name) {
  if (std::erase_if(name.words, is_mounting) == 0) return {};
  auto found = models_with(knowledge, name, has_beside);
  std::erase_if(found, [](const GpuModel* model) {
    return model->name.contains("PCI") || model->name.contains("NVL") || model->name.contains("GH");
  });
  return found;
}

/// The smaller, the more people mean it by words that are all in the name.
int rank_of(const GpuModel& model, const Words& wanted) {
  const Words have = words_of(model.name);
  const auto has = [&](std::string_view word) {
    return std::ranges::any_of(have, [&](const std::string& one) { return is_word(one, word); });
  };
  if (!wanted.empty() && have.back() == wanted.back() && !has("laptop")) return has("geforce") ? 0 : 2;
  if (has("sxm") || has("hbm3")) return 1;
  return has("pcie") ? 3 : 4;
}

/// The model that has this very name, or is called so; nullptr: none.
const GpuModel* model_called(const Knowledge& knowledge, std::string_view name) {
  std::string wanted = to_lower(trim(name));
  const Words words = typed_words(name);
  const auto* const other =
      std::ranges::find_if(kOtherNames, [&](const OtherName& one) { return typed_words(one.name) == words; });
  if (other != std::end(kOtherNames)) wanted = to_lower(other->model);
  const auto models = knowledge.models();
  const auto model = std::ranges::find(models, wanted, [](const GpuModel& one) { return to_lower(one.name); });
  return model == models.end() ? nullptr : &*model;
}

/// "MI300X" is of "MI#".
bool is_of(std::string_view word, std::string_view pattern) {
  if (!pattern.ends_with('#')) return word == pattern;
  pattern.remove_suffix(1);
  return word.starts_with(pattern) && word.size() > pattern.size() && is_digit(word[pattern.size()]);
}

}  // namespace

Words words_of(std::string_view text) {
  std::string spaced = to_lower(text);
  for (char& c : spaced) {
    if ((c < 'a' || c > 'z') && !is_digit(c)) c = ' ';
  }
  Words words;
  for (const auto word : split_words(spaced)) words.emplace_back(word);
  return words;
}

std::vector<const GpuModel*> models_named(const Knowledge& knowledge, std::string_view text) {
  const GpuModel* const called = model_called(knowledge, text);
  Typed name = typed(text);
  // One letter names nothing, though it is a word of "TITAN X".
  if (called == nullptr && join(name.words, "").size() < 2) return {};
  auto found = models_with(knowledge, name, has_beside);
  if (found.empty()) found = models_with(knowledge, name, has_all);
  if (found.empty()) found = mounted_models(knowledge, name);
  leave_other_boards(knowledge, name, found);
  // "NVIDIA H100" alone is a rare board of 94 GB; who says H100 means the 80 GB one.
  std::ranges::stable_sort(found, [&](const GpuModel* a, const GpuModel* b) {
    const int left = rank_of(*a, name.words);
    const int right = rank_of(*b, name.words);
    return left != right ? left < right : a->memory_gb > b->memory_gb;
  });
  if (called == nullptr) return found;
  std::erase(found, called);
  found.insert(found.begin(), called);
  return found;
}

bool is_whole_name(const GpuModel& model, std::string_view name) {
  return ends_with(words_of(model.name), typed_words(name));
}

std::string_view other_maker_of(std::string_view name) {
  const Words words = words_of(name);
  const auto* const found = std::ranges::find_if(kOtherMakers, [&](const OtherMaker& one) {
    const std::string pattern = to_lower(one.words);
    return std::ranges::search(words, split_words(pattern), is_of).begin() != words.end();
  });
  return found == std::end(kOtherMakers) ? std::string_view() : found->maker;
}

std::optional<Error> refusal_of_other_makers(std::string_view name) {
  const std::string_view maker = other_maker_of(name);
  if (maker.empty()) return std::nullopt;
  return Error{ErrorCode::not_found,
               fmt::format("gpuwarden judges NVIDIA GPUs only; {} is {}'s", printable(trim(name)), maker), ""};
}

std::optional<Error> refusal_of_memory(const Knowledge& knowledge, std::string_view text) {
  constexpr std::size_t kShown = 4;
  Typed name = typed(text);
  if (!name.size || join(name.words, "").size() < 2 || !models_named(knowledge, text).empty()) return std::nullopt;
  const double size = *name.size;
  name.size = std::nullopt;
  auto near = models_with(knowledge, name, has_beside);
  if (near.empty()) return std::nullopt;
  std::ranges::stable_sort(near, {}, [&](const GpuModel* one) {
    return std::pair(!ends_with(words_of(one->name), name.words), one->memory_gb != size);
  });
  std::vector<std::string> names;
  for (const GpuModel* one : near) {
    if (names.size() < kShown) names.push_back(fmt::format("{} ({:g} GB)", without_maker(one->name), one->memory_gb));
  }
  return Error{ErrorCode::not_found,
               fmt::format("no GPU of the name '{}' with that memory is in the knowledge base", printable(trim(text))),
               "the nearest are: " + join(names, ", ")};
}

std::string nearest_gpu_name(const Knowledge& knowledge, std::string_view name) {
  constexpr std::size_t kLongest = 100;
  std::vector<std::string> names;
  for (const GpuModel& model : knowledge.models()) {
    names.emplace_back(without_maker(model.name));
    constexpr std::string_view kSeries = "GeForce ";
    if (names.back().starts_with(kSeries)) names.push_back(names.back().substr(kSeries.size()));
    // "H100" of "H100 80GB HBM3": what people say of it.
    std::string product = names.back().substr(0, names.back().find(' '));
    if (std::ranges::any_of(product, [](char c) { return c >= '0' && c <= '9'; })) names.push_back(std::move(product));
  }
  const std::string wanted = to_lower(name.substr(0, kLongest));
  std::vector<std::string> lowered;
  std::ranges::transform(names, std::back_inserter(lowered), [](const std::string& one) { return to_lower(one); });
  // "RTX 5080 Ti": a number is the product, what stands behind it a variant that there may not be.
  std::string found;
  for (const std::string& one : lowered) {
    if (one.size() > found.size() && wanted.starts_with(one + " ")) found = one;
  }
  if (found.empty()) found = closest_match(wanted, lowered);
  const auto at = std::ranges::find(lowered, found);
  return at == lowered.end() ? "" : names[static_cast<std::size_t>(at - lowered.begin())];
}

}  // namespace gpuwarden::knowledge
