// SPDX-License-Identifier: Apache-2.0
// What /metrics answers: the metric table in gpuwarden's own names, or in those that dashboards for dcgm-exporter know.
// Pure.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/serve/tally.hpp"
#include "gpuwarden/telemetry/alerts.hpp"
#include "gpuwarden/telemetry/reading.hpp"

namespace gpuwarden::serve {

/// Whose names the metrics have.
enum class Dialect {
  gpuwarden,
  dcgm_legacy,  ///< dcgm-exporter up to 4.8
  dcgm_4_9,     ///< dcgm-exporter 4.9, which renamed fields and changed units
};
std::string_view to_string(Dialect dialect);
/// "gpuwarden", "dcgm-legacy", "dcgm-4.9".
std::optional<Dialect> dialect_from(std::string_view name);

/// Prometheus text 0.0.4, or OpenMetrics 1.0.
enum class Format { text, openmetrics };
std::string_view content_type_of(Format format);
/// By a request's Accept header; a dialect of DCGM is always text, since its counters have no _total.
Format format_for(std::string_view accept, Dialect dialect);

struct MetricsOptions {
  Dialect dialect = Dialect::gpuwarden;
  bool hostname_label = false;    ///< the host's name as a label of every series of a GPU; dialects of DCGM have it
  std::size_t most_series = 500;  ///< of processes and users, each; what is beyond is counted
  std::string version;
};

/// One machine of those that are shown.
struct NodeMetrics {
  std::string name;  ///< empty: the only machine, whose series have no label `node`
  /// Nothing where there is no reading, or none that is fresh enough to be shown.
  std::shared_ptr<const telemetry::Reading> reading;
  std::vector<facts::Health> health;
  bool leases_known = true;  ///< else nobody knows who has reserved what
  std::vector<telemetry::Alert> alerts;
  std::shared_ptr<const Counts> counts;  ///< may be empty
};

/// The whole answer.
std::string render_metrics(std::span<const NodeMetrics> nodes, const MetricsOptions& options, Format format);

/// A name of a dialect, and whether it is given.
struct MetricName {
  std::string name;
  std::string type;
  std::string help;
  std::string from;     ///< the metric's id in the table; empty: none
  std::string omitted;  ///< why it is not given; empty: it is
};
std::vector<MetricName> metric_names(Dialect dialect);
/// The same as a table for people.
std::string list_metrics(Dialect dialect);

}  // namespace gpuwarden::serve
