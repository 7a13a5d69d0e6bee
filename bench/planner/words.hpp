// SPDX-License-Identifier: Apache-2.0
// The words in which published tables say how a run was set up. Spellings differ between sources: case, hyphens and
// blanks do not matter, and a word that means nothing known leaves what that kind of run does by default.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gpuwarden/planning/settings.hpp"
#include "planner/table.hpp"

namespace gpuwarden::bench {

/// A row's columns in lower case.
struct Words {
  std::string task, precision, optimizer, recompute, parallelism, offload, quant, peft, attention, loss, framework,
      metric, source, model;
  /// Whether the framework's column has the word.
  bool is(std::string_view name) const { return framework.contains(name); }
};
Words words_of(const Row& row);

planning::Task task_of(const Words& words);
planning::Precision precision_of(const Words& words);
planning::Fp8 fp8_of(const Words& words);
planning::Optimizer optimizer_of(const Words& words);
planning::OptimizerStep step_of(const Words& words);
/// From its column, else from the model's name where nothing is trained but adapters ("...-GPTQ", "...-FP8").
planning::Quantization quantization_of(const Words& words);
planning::Recompute recompute_of(const Words& words);
planning::Attention attention_of(const Words& words);
planning::LossKernel loss_of(const Words& words);
planning::Adapters adapters_of(const Words& words);

/// The number behind a word: "TP8", "tp 8", "tp=8" give 8; 1 where it is not there.
std::uint32_t degree(std::string_view text, std::string_view word);
/// `gpus` in all, spread as the words say; 0: as many as the words' degrees need.
planning::Parallelism parallelism_of(const Words& words, std::uint32_t gpus);

/// A count of at least 1 that fits, else `otherwise`.
std::uint32_t count_of(double value, std::uint32_t otherwise = 1);

}  // namespace gpuwarden::bench
