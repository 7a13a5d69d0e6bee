// SPDX-License-Identifier: Apache-2.0
// A site's own rules: which driver its work needs on which GPU, and what it takes for waste. They come from overlay
// files (Knowledge::with_overlay); judging them is pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/knowledge/version.hpp"

namespace gpuwarden::knowledge {

/// One rule. It concerns the GPUs, and the work, that it names; what it leaves empty is any.
struct SiteRule {
  std::string_view id;
  std::string_view severity;                ///< "info", "warning", "error", "critical"
  std::string_view gpu;                     ///< words of the GPU's name: "H100", "RTX 4090"
  std::string_view architecture;            ///< "Hopper", "9.0" or "sm_90"
  std::string_view workload;                ///< a word of the purpose: "llama", "vllm"
  Version driver_minimum;                   ///< below: the GPU does not work
  Version driver_recommended;               ///< below: a warning
  Version driver_required;                  ///< for the workload; below: the workload does not work
  Version driver_optimal;                   ///< below: worth knowing, no more
  bool gpus_unused = false;                 ///< more GPUs were asked for than are used
  std::optional<double> memory_above;       ///< percent of a GPU's memory
  std::optional<double> utilization_below;  ///< percent of a GPU's time
  std::optional<double> cpu_above;          ///< percent of the CPUs' time
  std::string_view message;                 ///< may name {gpu}, {driver}, {wanted}, {requested}, {used} ...
  std::string_view fix;
  std::string_view source;
};

/// The words that a message may have in braces.
std::span<const std::string_view> rule_placeholders();

/// What is known about one GPU and the work on it. Empty: not known, and no condition on it holds.
struct Situation {
  std::string gpu;                ///< its name
  std::string_view architecture;  ///< "Hopper"
  std::optional<int> capability;  ///< 90
  std::string workload;           ///< the purpose, as the user wrote it
  std::optional<Version> driver;
  std::optional<int> gpus_requested;
  std::optional<int> gpus_used;
  std::optional<double> memory_percent;
  std::optional<double> utilization_percent;
  std::optional<double> cpu_percent;
};

/// A rule that has something to say.
struct RuleHit {
  const SiteRule* rule = nullptr;
  std::string_view severity;
  std::string message;
  std::string fix;
};

/// Whether a GPU's name has these words, letter case ignored: "a100" is in "NVIDIA A100-SXM4-80GB", "L4" not in
/// "NVIDIA L40".
bool has_words(std::string_view name, std::string_view words);
/// Whether the rule speaks of this GPU and this work.
bool concerns(const SiteRule& rule, const Situation& situation);
/// What the rules say, in their order. All conditions of `when:` must hold; of the driver's, the gravest counts: below
/// minimum or required has the rule's severity, below recommended is a warning, below optimal an info.
std::vector<RuleHit> judge(std::span<const SiteRule> rules, const Situation& situation);

}  // namespace gpuwarden::knowledge
