// SPDX-License-Identifier: Apache-2.0
// The names that alert rules and filters speak of: every metric of the table by its id, what is derived from metrics,
// what a GPU is, and who uses it.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gpuwarden/facts/gpu_event.hpp"
#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/facts/lease.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::telemetry {

/// What an expression is asked about: a GPU, and where processes are filtered one of its processes. Pointers that are
/// nullptr: nothing is known of it.
struct Subject {
  const facts::GpuRecord* gpu = nullptr;
  const facts::GpuProcess* process = nullptr;
  const facts::Lease* lease = nullptr;
  const facts::Health* health = nullptr;
  /// What happened to this GPU since the reading before.
  std::span<const facts::GpuEvent> events;
  std::string_view host;
  /// The reading before, for increase(): nullptr makes every increase unknown.
  const facts::GpuSample* before = nullptr;
};

/// A metric that is computed from others: a row each, like those of the metric table.
struct DerivedMetric {
  std::string_view id;    ///< "memory_used_percent"
  std::string_view unit;  ///< as facts::Metric::unit
  std::string_view help;  ///< one sentence, with the formula
  std::optional<double> (*value)(const facts::GpuRecord&);
  /// The metrics that it is computed from, beside facts::Gpu and what no history keeps (processes); the rest is empty.
  std::array<std::string_view, 4> inputs{};
};
std::span<const DerivedMetric> derived_metrics();
const DerivedMetric* find_derived_metric(std::string_view id);

/// Where a GPU has several of something (users, commands, Xids): those that are known, and whether these are all.
struct Texts {
  std::vector<std::string> known;
  bool all_known = true;
  bool operator==(const Texts&) const = default;
};
struct Numbers {
  std::vector<double> known;
  bool all_known = true;
  bool operator==(const Numbers&) const = default;
};
/// Nothing: not known. Of several, a comparison holds if it holds for one (but `!=` and `not in` for all).
using Value = std::variant<std::monostate, double, Texts, Numbers>;

/// What a variable's values are.
enum class VariableKind {
  number,   ///< one number
  counter,  ///< one number that only grows: increase() can be asked of it
  texts,    ///< any texts
  numbers,  ///< any numbers
};

/// A name that expressions know.
struct Variable {
  std::string_view name;   ///< "temperature"
  std::string_view alias;  ///< "temp"; may be empty, and there may be more (aliases_of)
  std::string_view unit;   ///< of numbers; empty for a plain number or a text
  VariableKind kind = VariableKind::number;
  std::string help;
  /// For "memory_used > 50%": the id of the metric that is the whole; empty where a percentage makes no sense.
  std::string_view whole;
  /// What a text can be; empty: anything.
  std::vector<std::string_view> values;
  /// Of processes: asked of a GPU, all of its processes are looked at.
  bool of_process = false;
  /// Of what has happened since the reading before, so that it is over with the next.
  bool of_events = false;
  std::function<Value(const Subject&)> read;

  bool is_text() const { return kind == VariableKind::texts; }
  /// Several at once: not for arithmetic.
  bool is_several() const { return kind == VariableKind::texts || kind == VariableKind::numbers; }
};
/// All of them, sorted by name: metrics, derived metrics, thresholds (slowdown, shutdown), identity, users.
const std::vector<Variable>& variables();
/// By name or alias, in small or large letters; nullptr for an unknown one.
const Variable* find_variable(std::string_view name);
/// Other names of a variable, the usual one first.
std::vector<std::string_view> aliases_of(const Variable& variable);
/// The known name or alias most like an unknown one; or empty.
std::string closest_variable(std::string_view name);
Value value_of(const Variable& variable, const Subject& subject);
/// "87 °C", "61 GiB", "ann, bob"; "-" where it is not known.
std::string show(const Value& value, std::string_view unit);

}  // namespace gpuwarden::telemetry
