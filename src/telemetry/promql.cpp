// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/promql.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "telemetry/expression_node.hpp"

namespace gpuwarden::telemetry {
namespace {

using PromCondition = Expression::Node;

/// Families differ in their other labels.
constexpr std::string_view kSameGpu = "on (job, instance, node, gpu, uuid)";
/// A scrape or two may be missed.
constexpr std::string_view kLately = "2m";
constexpr int kLatelySeconds = 120;

/// Numbers of a GPU that are exported beside the metrics.
struct ExportedNumber {
  std::string_view variable;
  std::string_view metric;
};
constexpr auto kExportedNumbers =
    std::to_array<ExportedNumber>({{"slowdown", "gpuwarden_gpu_temperature_slowdown_celsius"},
                                   {"shutdown", "gpuwarden_gpu_temperature_shutdown_celsius"},
                                   {"power_limit_max", "gpuwarden_gpu_power_limit_max_watts"},
                                   {"memory_temperature_max", "gpuwarden_gpu_memory_temperature_max_celsius"},
                                   {"pcie_width_max", "gpuwarden_gpu_pcie_width_max_lanes"},
                                   {"leased", "gpuwarden_gpu_leased"}});

/// Texts that are a label of a metric whose value is 1 for what holds.
struct ExportedText {
  std::string_view variable;
  std::string_view metric;
  std::string_view label;
  std::string_view dropped;  ///< labels that others of the GPU's series lack
};
constexpr auto kExportedTexts =
    std::to_array<ExportedText>({{"throttle", "gpuwarden_gpu_throttle_reason", "reason", "reason"},
                                 {"health", "gpuwarden_gpu_health", "state", "state"},
                                 {"state", "gpuwarden_gpu_info", "state", "name, pci_bus_id, state"},
                                 {"name", "gpuwarden_gpu_info", "name", "name, pci_bus_id, state"},
                                 {"bus_id", "gpuwarden_gpu_info", "pci_bus_id", "name, pci_bus_id, state"},
                                 {"uuid", "gpuwarden_gpu_info", "uuid", "name, pci_bus_id, state"}});

/// A comparison's sign in PromQL, and that of its opposite.
struct PromSign {
  Comparison comparison;
  std::string_view sign;
  std::string_view opposite;
};
constexpr auto kPromSigns = std::to_array<PromSign>({{Comparison::less, "<", ">="},
                                                     {Comparison::at_most, "<=", ">"},
                                                     {Comparison::greater, ">", "<="},
                                                     {Comparison::at_least, ">=", "<"},
                                                     {Comparison::equal, "==", "!="}});

std::string_view prom_sign(Comparison comparison, bool opposite) {
  const auto* const found = std::ranges::find(kPromSigns, comparison, &PromSign::comparison);
  return opposite ? found->opposite : found->sign;
}

std::unexpected<Error> not_exported(std::string_view what) {
  return fail(ErrorCode::unsatisfied, fmt::format("{} is not exported to Prometheus", what));
}

/// Part of a regular expression (RE2) in a PromQL string that means this text.
std::string prom_escaped(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view(R"(\.+*?()|[]{}^$)").contains(c)) pattern += "\\\\";
    if (c == '"') pattern += '\\';
    pattern += c;
  }
  return pattern;
}

struct PromNumber {
  std::string text;
  bool of_gpu = false;  ///< false: the same for all, a scalar
};

Result<PromNumber> number_in_promql(const NumberNode& node) {
  using Kind = NumberNode::Kind;
  if (node.kind == Kind::literal) return PromNumber{fmt::format("{:.12g}", node.literal), false};
  if (node.kind == Kind::variable || node.kind == Kind::increase) {
    const auto name = prometheus_name(*node.variable);
    if (!name) return not_exported(node.variable->name);
    return PromNumber{node.kind == Kind::variable ? *name : fmt::format("increase({}[{}])", *name, kLately), true};
  }
  GPUWARDEN_TRY(const PromNumber left, number_in_promql(*node.left));
  GPUWARDEN_TRY(const PromNumber right, number_in_promql(*node.right));
  const char sign = node.kind == Kind::add        ? '+'
                    : node.kind == Kind::subtract ? '-'
                    : node.kind == Kind::multiply ? '*'
                                                  : '/';
  const std::string match = left.of_gpu && right.of_gpu ? fmt::format(" {}", kSameGpu) : "";
  return PromNumber{fmt::format("({} {}{} {})", left.text, sign, match, right.text), left.of_gpu || right.of_gpu};
}

Result<std::string> condition_in_promql(const PromCondition& node, bool opposite);

Result<std::string> joined_in_promql(const PromCondition& node, bool opposite) {
  const bool all = (node.kind == PromCondition::Kind::all) != opposite;
  std::string text;
  for (const PromCondition& child : node.children) {
    GPUWARDEN_TRY(const std::string part, condition_in_promql(child, opposite));
    if (!text.empty()) text += fmt::format(" {} {} ", all ? "and" : "or", kSameGpu);
    text += node.children.size() == 1 ? part : fmt::format("({})", part);
  }
  return text;
}

Result<std::string> comparison_in_promql(const PromCondition& node, bool opposite) {
  GPUWARDEN_TRY(const PromNumber left, number_in_promql(*node.left));
  GPUWARDEN_TRY(const PromNumber right, number_in_promql(*node.right));
  if (!left.of_gpu && !right.of_gpu)
    return fail(ErrorCode::unsatisfied, "it compares two constants, which is no matter of a GPU");
  const std::string match = left.of_gpu && right.of_gpu ? fmt::format(" {}", kSameGpu) : "";
  return fmt::format("{} {}{} {}", left.text, prom_sign(node.comparison, opposite), match, right.text);
}

/// An Xid is told by the time at which it was reported last: a counter that begins with it never increases.
std::string xids_in_promql(std::string_view selector, bool opposite) {
  return fmt::format("time() - max without (xid) (gpuwarden_gpu_xid_last_timestamp_seconds{}) {} {}", selector,
                     opposite ? ">=" : "<", kLatelySeconds);
}

Result<std::string> several_in_promql(const PromCondition& node, bool opposite) {
  const bool known = node.variable->name == "xid" && node.comparison == Comparison::equal &&
                     node.right->kind == NumberNode::Kind::literal;
  if (!known) return not_exported(node.variable->name);
  return xids_in_promql(fmt::format("{{xid=\"{:.12g}\"}}", node.right->literal), opposite);
}

Result<std::string> text_in_promql(const PromCondition& node, bool opposite) {
  const auto* const row = std::ranges::find(kExportedTexts, node.variable->name, &ExportedText::variable);
  if (row == kExportedTexts.end()) return not_exported(node.variable->name);
  std::vector<std::string> words;
  for (const std::string& word : node.words)
    words.push_back(node.kind == PromCondition::Kind::contains ? fmt::format(".*(?i:{}).*", prom_escaped(word))
                                                               : prom_escaped(word));
  // Of an identity only the true one is there; of a state all are, each with 1 or 0.
  const bool one_of_all = row->label == row->dropped;
  const bool excluded = opposite && !one_of_all;
  return fmt::format("max without ({}) ({}{{{}{}\"{}\"}}) == {}", row->dropped, row->metric, row->label,
                     excluded ? "!~" : "=~", join(words, "|"), opposite && one_of_all ? 0 : 1);
}

Result<std::string> presence_in_promql(const PromCondition& node, bool opposite) {
  if (node.variable->name == "xid") return xids_in_promql("", opposite);
  const auto name = prometheus_name(*node.variable);
  if (!name || node.variable->is_several()) return not_exported(node.variable->name);
  return fmt::format("{} {} 0", *name, opposite ? "==" : "!=");
}

Result<std::string> condition_in_promql(const PromCondition& node, bool opposite) {
  switch (node.kind) {
    case PromCondition::Kind::all:
    case PromCondition::Kind::any:
      return joined_in_promql(node, opposite);
    case PromCondition::Kind::opposite:
      return condition_in_promql(node.children.front(), !opposite);
    case PromCondition::Kind::compare:
      return comparison_in_promql(node, opposite);
    case PromCondition::Kind::several:
      return several_in_promql(node, opposite);
    case PromCondition::Kind::present:
      return presence_in_promql(node, opposite);
    default:
      return text_in_promql(node, opposite);
  }
}

}  // namespace

std::string prometheus_name(const DerivedMetric& metric) {
  struct Word {
    std::string_view unit;
    std::string_view word;
  };
  static constexpr auto kWords = std::to_array<Word>({{"%", "percent"},
                                                      {"B", "bytes"},
                                                      {"°C", "celsius"},
                                                      {"W", "watts"},
                                                      {"s", "seconds"},
                                                      {"J", "joules"},
                                                      {"MHz", "megahertz"},
                                                      {"B/s", "bytes_per_second"}});
  std::string name = fmt::format("gpuwarden_gpu_{}", metric.id);
  const auto* const word = std::ranges::find(kWords, metric.unit, &Word::unit);
  if (word != kWords.end() && !name.ends_with(word->word)) name += fmt::format("_{}", word->word);
  return name;
}

std::optional<std::string> prometheus_name(const Variable& variable) {
  if (const facts::Metric* metric = facts::find_metric(variable.name)) return std::string(metric->prometheus);
  if (const DerivedMetric* metric = find_derived_metric(variable.name)) return prometheus_name(*metric);
  const auto* const row = std::ranges::find(kExportedNumbers, variable.name, &ExportedNumber::variable);
  return row == kExportedNumbers.end() ? std::nullopt : std::optional(std::string(row->metric));
}

Result<std::string> promql_of(const Expression& condition) {
  if (condition.root() == nullptr) return fail(ErrorCode::unsatisfied, "it is empty");
  return condition_in_promql(*condition.root(), false);
}

}  // namespace gpuwarden::telemetry
