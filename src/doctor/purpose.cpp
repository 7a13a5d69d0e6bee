// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/purpose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <span>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

namespace {

struct Alias {
  std::string_view word;
  std::string_view package;
};

/// What people call the packages that the knowledge base knows.
constexpr auto kPackages = std::to_array<Alias>({{"torch", "torch"},
                                                 {"pytorch", "torch"},
                                                 {"vllm", "vllm"},
                                                 {"tensorflow", "tensorflow"},
                                                 {"tf", "tensorflow"},
                                                 {"jax", "jax"},
                                                 {"flash-attn", "flash-attn"},
                                                 {"flash-attention", "flash-attn"},
                                                 {"triton", "triton"},
                                                 {"sglang", "sglang"},
                                                 {"deepspeed", "deepspeed"},
                                                 {"tensorrt-llm", "tensorrt-llm"},
                                                 {"tensorrt_llm", "tensorrt-llm"},
                                                 {"trtllm", "tensorrt-llm"},
                                                 {"llama.cpp", "llama.cpp"},
                                                 {"llama-cpp", "llama.cpp"},
                                                 {"llama-cpp-python", "llama.cpp"},
                                                 {"ollama", "ollama"},
                                                 {"xformers", "xformers"},
                                                 {"bitsandbytes", "bitsandbytes"},
                                                 {"bnb", "bitsandbytes"}});

constexpr auto kTraining = std::to_array<std::string_view>({"train", "pretrain", "pre-train", "finetune", "fine-tune"});
constexpr auto kServing = std::to_array<std::string_view>({"serve", "infer", "inference", "run", "deploy"});

constexpr std::string_view kExamples =
    "for example: pytorch==2.5.1+cu124, vllm, sm_90, \"train llama-3-8b\"; a `workload` of a site's rules "
    "(--knowledge)";

bool is_one_of(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

/// 8e9 of the last "8b" in a model's name, "llama-3-8b", "Qwen2.5-0.5B", "8x7b".
std::optional<double> parameters_of(std::string_view model) {
  const std::string text = to_lower(model);
  for (std::size_t end = text.size(); end > 0; --end) {
    const char unit = text[end - 1];
    const bool ends_here = end == text.size() || std::isalnum(static_cast<unsigned char>(text[end])) == 0;
    if ((unit != 'b' && unit != 'm') || !ends_here) continue;
    std::size_t begin = end - 1;
    while (begin > 0 && (std::isdigit(static_cast<unsigned char>(text[begin - 1])) != 0 || text[begin - 1] == '.'))
      --begin;
    const auto number = parse_number(text.substr(begin, end - 1 - begin));
    if (!number || *number <= 0) continue;
    double experts = 1;
    if (begin >= 2 && text[begin - 1] == 'x') experts = parse_number(text.substr(begin - 2, 1)).value_or(1);
    return *number * experts * (unit == 'b' ? 1e9 : 1e6);
  }
  return std::nullopt;
}

Result<Purpose> work_of(std::string_view text, bool training, std::string_view model) {
  const auto parameters = parameters_of(model);
  if (!parameters)
    return fail(ErrorCode::invalid_argument,
                fmt::format("--for '{}': the size of the model is not in its name", printable(text)),
                "write it with its number of parameters, for example: train llama-3-8b");
  Purpose purpose{.text = std::string(text)};
  purpose.work = Purpose::Work{training, *parameters};
  return purpose;
}

std::optional<int> architecture_of(std::string_view word) {
  if (!word.starts_with("sm_") && !word.starts_with("compute_")) return std::nullopt;
  word.remove_prefix(word.find('_') + 1);
  while (!word.empty() && (word.back() == 'a' || word.back() == 'f')) word.remove_suffix(1);
  const auto number = parse_integer(word);
  if (!number || *number < 10 || *number > 999) return std::nullopt;
  return static_cast<int>(*number);
}

/// "pytorch==2.5.1+cu124"; empty where the name is no package's. A version that is none fails.
Result<std::optional<Purpose::Package>> package_of(std::string_view word) {
  const std::size_t equals = word.find("==");
  const auto* const known = std::ranges::find(kPackages, word.substr(0, equals), &Alias::word);
  if (known == kPackages.end()) return std::nullopt;
  Purpose::Package package{.name = std::string(known->package)};
  if (equals == std::string_view::npos) return package;
  const std::string_view version = word.substr(equals + 2);
  const std::size_t plus = version.find('+');
  package.version = version.substr(0, plus);
  if (plus != std::string_view::npos) package.build = version.substr(plus + 1);
  if (package.version->empty() || std::isdigit(static_cast<unsigned char>(package.version->front())) == 0)
    return fail(ErrorCode::invalid_argument, fmt::format("--for '{}': that is not a version", printable(word)),
                std::string(kExamples));
  return package;
}

}  // namespace

Result<Purpose> parse_purpose(std::string_view text) {
  const std::string lower = to_lower(trim(text));
  const auto words = split_words(lower);
  if (words.empty()) return fail(ErrorCode::invalid_argument, "--for: no purpose is given", std::string(kExamples));
  if (words.size() >= 2 && (is_one_of(kTraining, words[0]) || is_one_of(kServing, words[0])))
    return work_of(text, is_one_of(kTraining, words[0]), words.back());
  Purpose purpose{.text = std::string(trim(text))};
  if (words.size() == 1) {
    purpose.architecture = architecture_of(words[0]);
    if (!purpose.architecture) {
      GPUWARDEN_TRY(purpose.package, package_of(words[0]));
    }
    if (purpose.architecture || purpose.package) return purpose;
    if (parameters_of(words[0])) return work_of(text, false, words[0]);  // a model's name: to serve it
  }
  return fail(ErrorCode::invalid_argument, fmt::format("no known requirements for '{}' (--for)", printable(text)),
              std::string(kExamples));
}

}  // namespace gpuwarden::doctor
