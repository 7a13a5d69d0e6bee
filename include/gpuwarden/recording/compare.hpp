// SPDX-License-Identifier: Apache-2.0
// Two recordings side by side. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/recording/summary.hpp"

namespace gpuwarden::recording {

/// One figure of both; unknown is empty.
struct ComparedFigure {
  std::string_view title;  ///< "Mean GPU utilization"
  std::string_view key;    ///< in JSON, with its unit
  std::string_view unit;   ///< as facts::Metric::unit; "s" for a duration, "share" for 0 to 1
  std::optional<double> a;
  std::optional<double> b;

  std::optional<double> difference() const;  ///< b - a
  /// Of a; nothing where a is 0, and for what is no quantity: shares, percentages, temperatures, counts.
  std::optional<double> percent() const;
};
std::vector<ComparedFigure> compare(const Summary& a, const Summary& b);
/// A value of a compared figure as people read it; "-" where it is unknown.
std::string text_of(const ComparedFigure& figure, const std::optional<double>& value);
/// "+12 W (+3 %)", of percentages "+12 points"; "no change", "-".
std::string difference_text(const ComparedFigure& figure);

nlohmann::json to_json(const std::vector<ComparedFigure>& figures, const Summary& a, const Summary& b);

}  // namespace gpuwarden::recording
