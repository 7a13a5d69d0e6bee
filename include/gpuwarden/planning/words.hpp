// SPDX-License-Identifier: Apache-2.0
// A workload by the words that people write: options of a command line, keys of a file, arguments of a function.
//
//     Words words;
//     words.set("task", {"lora"});
//     words.set("micro_batch", {"4"});
//     const auto work = workload_from(*find_model("llama-3.1-8b"), words, "train");
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/planning/calibrate.hpp"
#include "gpuwarden/planning/config.hpp"
#include "gpuwarden/planning/workload.hpp"

namespace gpuwarden::planning {

/// What was given, by name. '_' stands for '-' in names.
class Words {
 public:
  /// `prefix` stands before names in messages: "--" for a command line.
  explicit Words(std::string prefix = "") : prefix_(std::move(prefix)) {}
  void set(std::string_view name, std::vector<std::string> values);
  bool has(const std::string& name) const { return values_.contains(name); }
  /// The value, or nothing.
  std::optional<std::string> text(const std::string& name) const;
  /// All values.
  std::vector<std::string> list(const std::string& name) const;
  /// The name as messages have it: "--micro-batch".
  std::string shown(std::string_view name) const { return prefix_ + std::string(name); }
  /// All but these, with the same prefix.
  Words without(std::span<const std::string_view> names) const;
  /// All names, sorted.
  std::vector<std::string> names() const;

 private:
  std::string prefix_;
  std::map<std::string, std::vector<std::string>> values_;
};

/// A word as the tables have it: without space around it, lower case, '-' for '_'.
std::string normal_word(std::string_view word);

/// The names that workload_from knows: "task", "sequence", "micro-batch", "strategy" ...
std::span<const std::string_view> workload_names();
/// The names that complete a model of which only the size is known: "hidden", "layers" ...
std::span<const std::string_view> size_names();

/// The names beside these that are a plan's: "model", "params", "family", "gpus", "gpus-per-node", "cpus", "tokens",
/// "mfu", "calibrate", "draft-model".
std::span<const std::string_view> plan_names();

/// A task on this model; `usual_task` stands where no "task" is given. Names that other readers know ("family", sizes)
/// are left alone. Fails with invalid_argument, naming the word, on words and values that are not known and on words
/// that contradict each other, the task or the model.
Result<Workload> workload_from(ModelShape model, const Words& words, const std::string& usual_task);

/// A model of which `name` says the number of parameters ("7B"), with hidden, layers ... where they are given.
Result<ModelShape> sized_model(const Words& words, const std::string& name);
/// The task on a model of which `name` says the size: a number of parameters ("7B": training), or of bytes of weights
/// in 16 bit ("140GB": inference, which holds the weights and little more).
Result<Workload> workload_of_size(const Words& words, const std::string& name);
/// Fails with invalid_argument where sizes are given that complete no guess; `name` is the word that would need them.
Result<void> refuse_sizes(const Words& words, const std::string& name);

/// "45%", "45", "0.45": more than 0, at most 1.
Result<std::optional<double>> read_share(const Words& words, const std::string& name);

/// A number of tokens: "2T", "300B", "50000000".
Result<std::optional<double>> read_tokens(const Words& words, const std::string& name);
/// Micro-batches and the peaks that were measured with them in GiB: "1=23.4".
Result<std::vector<MeasuredPeak>> read_peaks(const Words& words, const std::string& name);

}  // namespace gpuwarden::planning
