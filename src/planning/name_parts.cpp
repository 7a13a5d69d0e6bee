// SPDX-License-Identifier: Apache-2.0
#include "planning/name_parts.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::planning {
namespace {

using knowledge::CatalogModel;

/// Words of training and of widths, of which the rest of the name is read as without them.
constexpr auto kNoShape = std::to_array<std::string_view>(
    {"instruct", "chat", "base", "hf",   "it",   "sft",  "dpo", "awq",     "gptq",     "fp8",
     "int4",     "int8", "bf16", "fp16", "4bit", "8bit", "bnb", "preview", "thinking", "reasoning"});

/// How words begin that stand for other inputs, other heads, drafts, adapters and models that were cut or merged.
constexpr auto kOtherKinds = std::to_array<std::string_view>(
    {"vl",      "vision",  "visual", "llava",     "omni",   "audio",     "speech",   "voice",  "tts",        "ocr",
     "embed",   "gte",     "rerank", "armo",      "reward", "eagle",     "medusa",   "draft",  "lora",       "qlora",
     "adapter", "peft",    "dora",   "specul",    "accel",  "multimod",  "clip",     "bunny",  "ovis",       "ultravox",
     "vila",    "minigpt", "janus",  "prune",     "sheare", "minitron",  "sparse",   "merge",  "franken",    "moe",
     "layer",   "gguf",    "exl",    "mlx",       "mlc",    "onnx",      "openvino", "marlin", "eetq",       "aqlm",
     "quip",    "qtip",    "vptq",   "autoround", "hqq",    "quantized", "nvfp",     "mxfp",   "checkpoint", "bit"});
/// The same as whole words: as beginnings they are parts of others.
constexpr auto kOtherWords =
    std::to_array<std::string_view>({"v", "mm", "rm", "prm", "sae", "emb", "mlp", "ov", "ct2"});

/// Families whose first generation has no number: without one a name may mean any of them.
constexpr auto kOfManyGenerations = std::to_array<std::string_view>({"llama", "qwen", "gemma", "phi", "yi"});

bool is_number(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789.") == std::string_view::npos;
}

bool is_letters(std::string_view word) {
  return !word.empty() && std::ranges::all_of(word, [](char c) { return c >= 'a' && c <= 'z'; });
}

bool is_size(std::string_view word) {
  if (word.size() < 2 || word.back() != 'b') return false;
  word.remove_suffix(1);
  return std::ranges::all_of(word, [](char c) { return (c >= '0' && c <= '9') || c == '.' || c == 'x'; });
}

bool is_release(std::string_view word) { return word.size() >= 2 && word.front() == 'v' && is_number(word.substr(1)); }

/// Words in small letters, "qwen2.5" as "qwen" and "2.5".
std::vector<std::string> words_of(std::string_view name) {
  if (const std::size_t slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  std::vector<std::string> words;
  std::string text = to_lower(name);
  std::ranges::replace(text, '_', '-');
  std::ranges::replace(text, ' ', '-');
  for (const std::string_view word : split(text, '-')) {
    const std::size_t digit = word.find_first_of("0123456789");
    const bool fused = digit != std::string_view::npos && digit >= 2 && is_letters(word.substr(0, digit)) &&
                       is_number(word.substr(digit));
    if (fused) words.emplace_back(word.substr(0, digit));
    if (!word.empty()) words.emplace_back(fused ? word.substr(digit) : word);
  }
  return words;
}

std::vector<std::string> shape_words_of(std::string_view name) {
  std::vector<std::string> words = words_of(name);
  std::erase_if(words, [](const std::string& word) { return std::ranges::find(kNoShape, word) != kNoShape.end(); });
  return words;
}

bool is_of_another_kind(const std::string& word) {
  const auto begins = [&](std::string_view start) { return word.starts_with(start); };
  return std::ranges::any_of(kOtherKinds, begins) || std::ranges::find(kOtherWords, word) != kOtherWords.end();
}

/// Words of a fine-tune's own: letters, its version. All else (4.0bpw, 1M, A14B, 32x) says more than is known here.
bool is_plain(const std::string& word) { return is_letters(word) || is_number(word) || is_release(word); }

/// Where the words of a row's name stand among others; at the end where they do not.
std::size_t find_words(const std::vector<std::string>& words, const std::vector<std::string>& part) {
  const auto found = std::ranges::search(words, part);
  return found.empty() ? words.size() : static_cast<std::size_t>(found.begin() - words.begin());
}

/// The words of a row's name with its size, and without: its publisher's mark, and a release unless it is asked for.
std::vector<std::string> name_in(const CatalogModel& row, bool with_release) {
  std::vector<std::string> words = shape_words_of(row.name);
  if (!words.empty() && words.front() == "meta") words.erase(words.begin());
  if (!with_release) std::erase_if(words, is_release);
  const bool sized = std::ranges::any_of(words, is_size);
  const bool ambiguous =
      words.size() == 2 && std::ranges::find(kOfManyGenerations, words[0]) != kOfManyGenerations.end();
  return sized && !ambiguous ? words : std::vector<std::string>{};
}

}  // namespace

const CatalogModel* find_named_part(std::string_view name) {
  const std::vector<std::string> words = shape_words_of(name);
  if (std::ranges::any_of(words_of(name), is_of_another_kind)) return nullptr;
  const CatalogModel* found = nullptr;
  std::size_t longest = 0;
  for (const CatalogModel& row : knowledge::model_catalog()) {
    for (const bool with_release : {true, false}) {
      const std::vector<std::string> part = name_in(row, with_release);
      const std::size_t at = find_words(words, part);
      if (part.size() <= longest || at == words.size()) continue;
      std::vector<std::string> rest(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(at));
      rest.insert(rest.end(), words.begin() + static_cast<std::ptrdiff_t>(at + part.size()), words.end());
      // A release right behind the name is another one of the model's.
      const std::size_t behind = at + part.size();
      const bool other_release = behind < words.size() && is_release(words[behind]) && at == 0;
      if (rest.empty() || other_release || !std::ranges::all_of(rest, is_plain)) continue;
      found = &row;
      longest = part.size();
    }
  }
  return found;
}

/// Its tags of deepseek-r1 but the largest are the distilled models (ollama.com/library/deepseek-r1).
std::string name_of_tag(std::string_view tag) {
  // What a name alone, or a number that is no size, means in ollama's library (from memory).
  constexpr std::pair<std::string_view, std::string_view> kTags[] = {
      {"deepseek-r1:1.5b", "deepseek-r1-distill-qwen-1.5b"},
      {"deepseek-r1:7b", "deepseek-r1-distill-qwen-7b"},
      {"deepseek-r1:8b", "deepseek-r1-0528-qwen3-8b"},
      {"deepseek-r1:14b", "deepseek-r1-distill-qwen-14b"},
      {"deepseek-r1:32b", "deepseek-r1-distill-qwen-32b"},
      {"deepseek-r1:70b", "deepseek-r1-distill-llama-70b"},
      {"deepseek-r1:671b", "deepseek-r1"},
      {"deepseek-r1:latest", "deepseek-r1-0528-qwen3-8b"},
      {"gpt-oss:latest", "gpt-oss-20b"},
      {"qwen3:latest", "qwen3-8b"},
      {"qwen3-coder:latest", "qwen3-coder-30b-a3b-instruct"},
      {"qwen2.5:latest", "qwen2.5-7b"},
      {"qwen2.5-coder:latest", "qwen2.5-coder-7b"},
      {"gemma3:latest", "gemma-3-4b"},
      {"gemma2:latest", "gemma-2-9b"},
      {"llama3.2:latest", "llama-3.2-3b"},
      {"llama3.1:latest", "llama-3.1-8b"},
      {"llama3:latest", "llama-3-8b"},
      {"llama2:latest", "llama-2-7b"},
      {"llama3.3:latest", "llama-3.3-70b-instruct"},
      {"llama3.3:70b", "llama-3.3-70b-instruct"},
      {"mixtral:latest", "mixtral-8x7b"},
      {"phi4:latest", "phi-4"}};
  constexpr std::size_t kLongestTag = 200;
  const std::string text = to_lower(trim(tag));
  const auto* const known = std::ranges::find(kTags, text, &std::pair<std::string_view, std::string_view>::first);
  if (known != std::end(kTags)) return std::string(known->second);
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || colon == 0 || text.size() > kLongestTag) return "";
  const std::string version = text.substr(colon + 1);
  const std::string name = text.substr(0, colon);
  return version == "latest" ? name : name + "-" + version;
}

}  // namespace gpuwarden::planning
