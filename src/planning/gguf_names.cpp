// SPDX-License-Identifier: Apache-2.0
#include "planning/gguf_names.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/model_catalog.hpp"
#include "gpuwarden/planning/gguf_file.hpp"
#include "planning/name_parts.hpp"

namespace gpuwarden::planning {
namespace {

constexpr std::size_t kLongestGgufName = 200;
/// What a file in parts ends with.
constexpr std::string_view kPart = "-00001-of-00003";
constexpr auto kHosts = std::to_array<std::string_view>({"https://", "huggingface.co/", "hf.co/"});
constexpr auto kWholeTitles = std::to_array<std::string_view>({"f16", "bf16", "fp16", "f32", "fp32"});
/// What stands beside a width and says nothing of it.
constexpr auto kBesides = std::to_array<std::string_view>({"gguf", "i1", "imat", "imatrix"});

/// unsloth's titles of mixes that it makes tensor by tensor, and the nearest of llama.cpp's.
struct DynamicTitle {
  std::string_view title;
  Quantization nearest;
};
constexpr DynamicTitle kDynamicTitles[] = {{"q8_k_xl", Quantization::q8_0},   {"q6_k_xl", Quantization::q6_k},
                                           {"q5_k_xl", Quantization::q5_k_m}, {"q4_k_xl", Quantization::q4_k_m},
                                           {"q3_k_xl", Quantization::q3_k_m}, {"q2_k_xl", Quantization::q2_k}};

bool separates(char c) { return c == '-' || c == '.' || c == '_' || c == ':' || c == ' '; }

/// Whether the text ends with this word, as a word of its own.
bool ends_in_word(std::string_view text, std::string_view word) {
  if (!text.ends_with(word)) return false;
  return text.size() == word.size() || separates(text[text.size() - word.size() - 1]);
}

void cut(std::string& text, std::size_t letters) {
  text.resize(text.size() - letters);
  while (!text.empty() && separates(text.back())) text.pop_back();
}

void strip_besides(std::string& text) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view word : kBesides) {
      if (text.size() == word.size() || !ends_in_word(to_lower(text), word)) continue;
      cut(text, word.size());
      again = true;
    }
  }
}

/// A width that ends a name.
struct WidthAtEnd {
  std::size_t letters = 0;  ///< 0: none does
  const FileMix* mix = nullptr;
};

/// The longest: "Q4_K_M", not another's "M". "F16" and "mxfp4" are checkpoints' words, too.
WidthAtEnd width_at_end(std::string_view lower, bool file) {
  constexpr auto kShort = std::to_array<std::string_view>({"q3_k", "q4_k", "q5_k"});
  WidthAtEnd width;
  const auto take = [&](std::string_view word, const FileMix* mix) {
    if (word.size() > width.letters && ends_in_word(lower, word)) width = {word.size(), mix};
  };
  for (const FileMix& mix : file_mixes()) {
    if (file || mix.kind != Quantization::mxfp4_moe) take(to_lower(mix.title), &mix);
  }
  for (const std::string_view word : kShort) take(word, mix_named(word));
  for (const std::string_view word : kWholeTitles) {
    if (file) take(word, nullptr);
  }
  return width;
}

/// A title of unsloth's alone; "Q3_K_XL" is bartowski's without its mark.
const DynamicTitle* dynamic_at_end(std::string_view lower, const WidthAtEnd& width) {
  const auto* const found = std::ranges::find_if(kDynamicTitles, [&](const DynamicTitle& row) {
    return ends_in_word(lower, "ud-" + std::string(row.title)) ||
           (width.letters == 0 && ends_in_word(lower, row.title));
  });
  return found == std::end(kDynamicTitles) ? nullptr : found;
}

void take_width(std::string& text, GgufName& name, bool file) {
  const std::string lower = to_lower(text);
  WidthAtEnd width = width_at_end(lower, file);
  const DynamicTitle* const dynamic = dynamic_at_end(lower, width);
  if (dynamic != nullptr) width = {dynamic->title.size(), find_mix(dynamic->nearest)};
  if (width.letters == 0) return;
  const bool marked = ends_in_word(lower.substr(0, lower.size() - width.letters), "ud-");
  if (marked) width.letters += std::string_view("ud-").size();
  if (marked || dynamic != nullptr) name.dynamic = text.substr(text.size() - width.letters);
  name.mix = width.mix;
  name.whole = width.mix == nullptr;
  cut(text, width.letters);
}

void strip_part(std::string& text) {
  if (is_part_of_file(text)) cut(text, kPart.size());
}

std::string without_host(std::string_view text) {
  for (const std::string_view host : kHosts) {
    if (to_lower(text.substr(0, host.size())) == host) text.remove_prefix(host.size());
  }
  return std::string(text);
}

}  // namespace

bool is_part_of_file(std::string_view stem) {
  if (stem.size() <= kPart.size()) return false;
  const std::string_view end = stem.substr(stem.size() - kPart.size());
  const auto is_number = [](std::string_view text) {
    return text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return end.starts_with('-') && end.substr(6, 4) == "-of-" && is_number(end.substr(1, 5)) && is_number(end.substr(10));
}

std::optional<GgufName> read_gguf_name(std::string_view given) {
  if (given.size() > kLongestGgufName) return {};
  std::string text = without_host(trim(given));
  const bool names_file = to_lower(text).ends_with(".gguf");
  if (names_file) text = text.substr(text.rfind('/') + 1);
  bool file = to_lower(text).contains("gguf");
  GgufName name;
  strip_besides(text);
  strip_part(text);
  // Of a repository the width stands behind a colon; of a tag so does the size.
  const std::size_t colon = text.rfind(':');
  const bool in_repository = colon != std::string::npos && text.substr(0, colon).contains('/');
  name.tag = colon != std::string::npos && !in_repository && !name_of_tag(text).empty();
  file = file || name.tag;
  take_width(text, name, file);
  strip_besides(text);
  if (ends_in_word(to_lower(text), "qat")) {
    name.trained = true;
    cut(text, std::string_view("qat").size());
  }
  if (!file && name.mix == nullptr) return {};
  if (in_repository && colon < text.size()) return {};  // a word that is no width
  name.model = name.tag ? name_of_tag(text.contains(':') ? text : text + ":latest") : without_second_publisher(text);
  if (name.model.empty() || name.model == trim(given)) return {};
  return name;
}

std::string without_second_publisher(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  const std::string_view own = slash == std::string_view::npos ? name : name.substr(slash + 1);
  const std::size_t end = own.find('_');
  if (end == std::string_view::npos || end == 0) return std::string(name);
  const std::string publisher = to_lower(own.substr(0, end)) + "/";
  const bool known = std::ranges::any_of(knowledge::model_catalog(), [&](const knowledge::CatalogModel& row) {
    return to_lower(row.name).starts_with(publisher);
  });
  return known ? std::string(own.substr(0, end)) + "/" + std::string(own.substr(end + 1)) : std::string(name);
}

}  // namespace gpuwarden::planning
