// SPDX-License-Identifier: Apache-2.0
// Conditions in the language of Prometheus, over the metrics that `gpuwarden serve` exports. Pure.
#pragma once

#include <optional>
#include <string>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/telemetry/expression.hpp"
#include "gpuwarden/telemetry/variables.hpp"

namespace gpuwarden::telemetry {

/// "gpuwarden_gpu_memory_used_percent": what a derived metric is exported as.
std::string prometheus_name(const DerivedMetric& metric);
/// The metric that has a variable's number; nothing where none has.
std::optional<std::string> prometheus_name(const Variable& variable);

/// The condition in PromQL: an instant vector with a sample for each GPU for which it holds. What Prometheus was not
/// told makes neither a condition nor its opposite true, as here. What has happened "since the reading before" has
/// happened within the last two minutes. Fails with unsatisfied, saying why, for what no exported metric tells.
Result<std::string> promql_of(const Expression& condition);

}  // namespace gpuwarden::telemetry
