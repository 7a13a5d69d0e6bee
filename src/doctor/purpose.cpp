// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/purpose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/catalog.hpp"
#include "gpuwarden/planning/config.hpp"
#include "gpuwarden/planning/words.hpp"

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
                                                 {"flash_attn", "flash-attn"},
                                                 {"flash-attn-3", "flash-attn-3"},
                                                 {"flash_attn_3", "flash-attn-3"},
                                                 {"flash-attention-3", "flash-attn-3"},
                                                 {"flash-attn-4", "flash-attn-4"},
                                                 {"flash_attn_4", "flash-attn-4"},
                                                 {"flash-attention-4", "flash-attn-4"},
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
                                                 {"bnb", "bitsandbytes"},
                                                 {"transformers", "transformers"},
                                                 {"accelerate", "accelerate"},
                                                 {"peft", "peft"},
                                                 {"trl", "trl"},
                                                 {"diffusers", "diffusers"},
                                                 {"sentence-transformers", "sentence-transformers"},
                                                 {"torchvision", "torchvision"},
                                                 {"torchaudio", "torchaudio"},
                                                 {"onnxruntime-gpu", "onnxruntime-gpu"},
                                                 {"onnxruntime", "onnxruntime-gpu"},
                                                 {"onnx-runtime", "onnxruntime-gpu"},
                                                 {"ort", "onnxruntime-gpu"},
                                                 {"tensorrt", "tensorrt"},
                                                 {"trt", "tensorrt"},
                                                 {"cupy", "cupy"},
                                                 {"cupy-cuda12x", "cupy"},
                                                 {"cupy-cuda13x", "cupy"},
                                                 {"numba-cuda", "numba-cuda"},
                                                 {"numba", "numba-cuda"},
                                                 {"cudf", "cudf"},
                                                 {"rapids", "cudf"},
                                                 {"cudf-cu12", "cudf"},
                                                 {"cudf-cu13", "cudf"},
                                                 {"cuml", "cudf"},
                                                 {"cugraph", "cudf"},
                                                 {"ctranslate2", "ctranslate2"},
                                                 {"faster-whisper", "ctranslate2"},
                                                 {"faiss-gpu", "faiss-gpu"},
                                                 {"faiss", "faiss-gpu"},
                                                 {"faiss-gpu-cu12", "faiss-gpu-cu12"},
                                                 {"paddlepaddle-gpu", "paddlepaddle-gpu"},
                                                 {"paddlepaddle", "paddlepaddle-gpu"},
                                                 {"paddle", "paddlepaddle-gpu"},
                                                 {"mxnet", "mxnet"},
                                                 {"mxnet-cu112", "mxnet"},
                                                 {"lightgbm", "lightgbm"},
                                                 {"xgboost", "xgboost"}});

/// What is done with a model, in planning's words.
struct Verb {
  std::string_view word;
  std::string_view task;
};
constexpr auto kVerbs = std::to_array<Verb>({{"train", "train"},
                                             {"pretrain", "pretrain"},
                                             {"pre-train", "pretrain"},
                                             {"finetune", "finetune"},
                                             {"fine-tune", "finetune"},
                                             {"lora", "lora"},
                                             {"qlora", "qlora"},
                                             {"serve", "serve"},
                                             {"infer", "serve"},
                                             {"inference", "serve"},
                                             {"run", "serve"},
                                             {"deploy", "serve"}});

constexpr std::string_view kExamples =
    "for example: pytorch==2.5.1+cu124, vllm, sm_90, \"train llama-3-8b\"; a `workload` of a site's rules "
    "(--knowledge)";

/// The task that the text begins with, and what stands behind it.
std::optional<std::pair<std::string_view, std::string_view>> task_of(std::string_view text) {
  const std::size_t end = text.find_first_of(" \t");
  const std::string word = to_lower(text.substr(0, end));
  const auto* const verb = std::ranges::find(kVerbs, word, &Verb::word);
  if (verb == kVerbs.end() || end == std::string_view::npos) return std::nullopt;
  return std::pair(verb->task, trim(text.substr(end)));
}

/// 8e9 of the last "8b" in a model's name, "llama-3-8b", "Qwen2.5-0.5B", "8x7b". "30B-A3B" has 30, of which 3 are
/// active.
std::optional<double> parameters_of(std::string_view model) {
  const std::string text = to_lower(model);
  const auto alone = [&](std::size_t i) {
    return i >= text.size() || std::isalnum(static_cast<unsigned char>(text[i])) == 0;
  };
  for (std::size_t end = text.size(); end > 0; --end) {
    const char unit = text[end - 1];
    if ((unit != 'b' && unit != 'm') || !alone(end)) continue;
    std::size_t begin = end - 1;
    while (begin > 0 && (std::isdigit(static_cast<unsigned char>(text[begin - 1])) != 0 || text[begin - 1] == '.'))
      --begin;
    const auto number = parse_number(text.substr(begin, end - 1 - begin));
    if (!number || *number <= 0) continue;
    if (begin > 1 && text[begin - 1] == 'a' && alone(begin - 2)) continue;
    double experts = 1;
    if (begin >= 2 && text[begin - 1] == 'x') experts = parse_number(text.substr(begin - 2, 1)).value_or(1);
    return *number * experts * (unit == 'b' ? 1e9 : 1e6);
  }
  return std::nullopt;
}

Result<planning::ModelShape> model_of(std::string_view text, std::string_view name) {
  if (auto known = planning::find_model(name)) return known;
  const auto parameters = parameters_of(name);
  if (!parameters)
    return fail(ErrorCode::invalid_argument,
                fmt::format("--for '{}': the size of the model is not in its name", printable(text)),
                "write it with its number of parameters, for example: train llama-3-8b");
  auto shape = planning::shape_of_size(*parameters);
  if (!shape)
    return fail(ErrorCode::invalid_argument, fmt::format("--for '{}': {}", printable(text), shape.error().message),
                shape.error().hint);
  shape->name = name;
  return shape;
}

Result<Purpose> work_of(std::string_view text, std::string_view task, std::string_view name) {
  GPUWARDEN_TRY(planning::ModelShape model, model_of(text, name));
  // What generates no tokens is not served, but run.
  const bool serves = task == "serve" && planning::settings_for(model, task).has_value();
  planning::Words words;
  words.set("task", {std::string(task == "serve" && !serves ? "inference" : task)});
  Purpose purpose{.text = std::string(trim(text))};
  GPUWARDEN_TRY(purpose.work, planning::workload_from(std::move(model), words, ""));
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
  // People write flash-attn==3 for what is a package of its own.
  if (package.name == "flash-attn" && (version.starts_with('3') || version.starts_with('4')))
    package.name += fmt::format("-{}", version[0]);
  return package;
}

}  // namespace

Result<Purpose> parse_purpose(std::string_view text) {
  const std::string lower = to_lower(trim(text));
  const auto words = split_words(lower);
  if (words.empty()) return fail(ErrorCode::invalid_argument, "--for: no purpose is given", std::string(kExamples));
  if (const auto task = task_of(trim(text))) return work_of(text, task->first, task->second);
  Purpose purpose{.text = std::string(trim(text))};
  if (words.size() == 1) {
    purpose.architecture = architecture_of(words[0]);
    if (!purpose.architecture) {
      GPUWARDEN_TRY(purpose.package, package_of(words[0]));
    }
    if (purpose.architecture || purpose.package) return purpose;
    if (parameters_of(words[0])) return work_of(text, "serve", trim(text));  // a model's name: to serve it
  }
  const std::string close = words.size() == 1 ? nearest_package(words[0]) : "";
  return fail(ErrorCode::invalid_argument, fmt::format("no known requirements for '{}' (--for)", printable(text)),
              close.empty() ? std::string(kExamples) : fmt::format("did you mean '{}'?", close));
}

bool begins_with_task(std::string_view text) { return task_of(trim(text)).has_value(); }

std::string nearest_package(std::string_view text) {
  constexpr std::size_t kLongest = 100;
  constexpr std::size_t kShortest = 3;  // "tf" is near to any two letters
  const std::string word = to_lower(trim(text.substr(0, kLongest)));
  const std::size_t end = std::min(word.find_first_of("[<>=!~"), word.size());
  const std::string name(trim(std::string_view(word).substr(0, end)));
  std::vector<std::string> names;
  for (const Alias& one : kPackages) {
    if (one.word.size() >= kShortest || one.word == name) names.emplace_back(one.word);
  }
  const bool is_known = std::ranges::find(names, name) != names.end();
  if (name.size() < kShortest && !is_known) return "";
  std::string close = is_known ? name : closest_match(name, names);
  for (std::size_t i = 1; i < name.size() && close.empty(); ++i) {
    std::string swapped = name;
    std::swap(swapped[i - 1], swapped[i]);
    if (std::ranges::find(names, swapped) != names.end()) close = swapped;
  }
  const std::size_t digit = word.find_first_of("0123456789", end);
  const bool has_version = word.find_first_of("<>=~", end) < digit && word.find('[') == std::string::npos;
  if (close.empty() || !has_version || digit == std::string::npos) return close;
  const std::string_view version = std::string_view(word).substr(digit);
  return fmt::format("{}=={}", close, version.substr(0, version.find_first_of(",; ")));
}

}  // namespace gpuwarden::doctor
