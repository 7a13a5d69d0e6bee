// SPDX-License-Identifier: Apache-2.0
// The fields of dcgm-exporter beside our metrics: what the server calls its own in dcgm-exporter's dialects, and what
// is read back from a Prometheus.
#pragma once

#include <span>
#include <string_view>

#include "gpuwarden/facts/metrics.hpp"

namespace gpuwarden::cluster {

/// A field's name in one dialect, and what our value is multiplied by there.
struct DcgmName {
  std::string_view name;  ///< "DCGM_FI_..."; empty: not given in this dialect
  std::string_view unit;
  double factor = 1;
};

struct DcgmRow {
  DcgmName legacy;          ///< dcgm-exporter up to 4.8
  DcgmName now;             ///< 4.9
  std::string_view metric;  ///< the id in the metric table; empty: not measured
  facts::MetricKind kind = facts::MetricKind::gauge;
  std::string_view omitted = {};  ///< why it is not given where it is not
};

std::span<const DcgmRow> dcgm_rows();

}  // namespace gpuwarden::cluster
