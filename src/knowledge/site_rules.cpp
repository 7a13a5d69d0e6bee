// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/site_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "knowledge/names.hpp"

namespace gpuwarden::knowledge {
namespace {

constexpr auto kPlaceholders = std::to_array<std::string_view>(
    {"gpu", "driver", "wanted", "requested", "used", "memory", "utilization", "cpu", "workload"});

bool is_architecture(std::string_view wanted, const Situation& situation) {
  if (wanted.empty()) return true;
  if (to_lower(wanted) == to_lower(situation.architecture)) return true;
  if (!situation.capability) return false;
  return wanted == fmt::format("sm_{}", *situation.capability) ||
         wanted == fmt::format("{}.{}", *situation.capability / 10, *situation.capability % 10);
}

std::string percent(const std::optional<double>& value) { return value ? fmt::format("{:.0f}", *value) : "?"; }
std::string number(const std::optional<int>& value) { return value ? std::to_string(*value) : "?"; }

/// The value of a word in braces.
std::string value_of(std::string_view word, const Situation& situation, std::string_view wanted) {
  if (word == "gpu") return situation.gpu;
  if (word == "driver") return situation.driver ? to_string(*situation.driver) : "?";
  if (word == "wanted") return std::string(wanted);
  if (word == "requested") return number(situation.gpus_requested);
  if (word == "used") return number(situation.gpus_used);
  if (word == "memory") return percent(situation.memory_percent);
  if (word == "utilization") return percent(situation.utilization_percent);
  if (word == "cpu") return percent(situation.cpu_percent);
  return situation.workload;
}

std::string filled(std::string_view message, const Situation& situation, std::string_view wanted) {
  std::string result;
  while (!message.empty()) {
    const std::size_t open = message.find('{');
    const std::size_t close = open == std::string_view::npos ? open : message.find('}', open);
    if (close == std::string_view::npos) break;
    result += message.substr(0, open);
    result += value_of(message.substr(open + 1, close - open - 1), situation, wanted);
    message.remove_prefix(close + 1);
  }
  return result + std::string(message);
}

struct DriverLevel {
  const Version SiteRule::* version;
  std::string_view word;
  std::string_view severity;  ///< empty: the rule's
};

/// Gravest first.
constexpr auto kLevels = std::to_array<DriverLevel>({{&SiteRule::driver_minimum, "at least", ""},
                                                     {&SiteRule::driver_required, "for this work at least", ""},
                                                     {&SiteRule::driver_recommended, "recommended is", "warning"},
                                                     {&SiteRule::driver_optimal, "optimal is", "info"}});

std::optional<RuleHit> judge_driver(const SiteRule& rule, const Situation& situation) {
  if (!situation.driver) return std::nullopt;
  for (const DriverLevel& level : kLevels) {
    const Version& wanted = rule.*level.version;
    if (!wanted || *situation.driver >= wanted) continue;
    const std::string version = to_string(wanted);
    const std::string message =
        !rule.message.empty() ? filled(rule.message, situation, version)
                              : fmt::format("driver {} on {}: {} {}", to_string(*situation.driver),
                                            situation.gpu.empty() ? "this GPU" : situation.gpu, level.word, version);
    return RuleHit{&rule, level.severity.empty() ? rule.severity : level.severity, message,
                   filled(rule.fix, situation, version)};
  }
  return std::nullopt;
}

/// All conditions that the rule has; none: it is not a rule about use.
bool use_is_as_in(const SiteRule& rule, const Situation& situation) {
  if (!rule.gpus_unused && !rule.memory_above && !rule.utilization_below && !rule.cpu_above) return false;
  if (rule.gpus_unused &&
      (!situation.gpus_requested || !situation.gpus_used || *situation.gpus_used >= *situation.gpus_requested))
    return false;
  const auto above = [](const std::optional<double>& limit, const std::optional<double>& value) {
    return !limit || (value && *value > *limit);
  };
  if (rule.utilization_below &&
      (!situation.utilization_percent || *situation.utilization_percent >= *rule.utilization_below))
    return false;
  return above(rule.memory_above, situation.memory_percent) && above(rule.cpu_above, situation.cpu_percent);
}

/// What a rule about use says where its author wrote nothing.
std::string use_message(const SiteRule& rule, const Situation& situation) {
  std::vector<std::string> parts;
  if (rule.gpus_unused)
    parts.push_back(
        fmt::format("{} GPUs were asked for, {} used", number(situation.gpus_requested), number(situation.gpus_used)));
  if (rule.memory_above) parts.push_back(fmt::format("memory is {} % full", percent(situation.memory_percent)));
  if (rule.utilization_below)
    parts.push_back(fmt::format("the GPU works {} % of the time", percent(situation.utilization_percent)));
  if (rule.cpu_above) parts.push_back(fmt::format("the CPUs work {} % of theirs", percent(situation.cpu_percent)));
  return (situation.gpu.empty() || rule.gpus_unused ? "" : situation.gpu + ": ") + join(parts, ", ");
}

}  // namespace

std::span<const std::string_view> rule_placeholders() { return kPlaceholders; }

bool has_words(std::string_view name, std::string_view words) {
  const auto have = words_of(name);
  const auto wanted = words_of(words);
  return !wanted.empty() && std::ranges::search(have, wanted).begin() != have.end();
}

bool concerns(const SiteRule& rule, const Situation& situation) {
  if (!rule.gpu.empty() && !has_words(situation.gpu, rule.gpu)) return false;
  if (!is_architecture(rule.architecture, situation)) return false;
  return rule.workload.empty() || contains_ignoring_case(situation.workload, rule.workload);
}

std::vector<RuleHit> judge(std::span<const SiteRule> rules, const Situation& situation) {
  std::vector<RuleHit> hits;
  for (const SiteRule& rule : rules) {
    if (!concerns(rule, situation)) continue;
    if (auto hit = judge_driver(rule, situation)) hits.push_back(std::move(*hit));
    if (!use_is_as_in(rule, situation)) continue;
    const std::string message =
        rule.message.empty() ? use_message(rule, situation) : filled(rule.message, situation, "");
    hits.push_back({&rule, rule.severity, message, filled(rule.fix, situation, "")});
  }
  return hits;
}

}  // namespace gpuwarden::knowledge
