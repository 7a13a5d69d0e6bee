// SPDX-License-Identifier: Apache-2.0
// A recording as one HTML file that stands by itself: charts as SVG, no network, dark and light, everything escaped.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "gpuwarden/recording/recording.hpp"
#include "gpuwarden/recording/summary.hpp"

namespace gpuwarden::recording {

/// A summary, and the readings behind it where they were kept.
struct Told {
  Summary summary;
  std::optional<Recording> readings;
};

/// The page. A chart has at most `most_points` steps of time, fewer for many GPUs: a day of eight GPUs takes less than
/// 2 MB. Its Content-Security-Policy allows its own style and script (by their hashes) and nothing else.
std::string to_html(const Told& told, std::size_t most_points = 600);
/// Two recordings side by side: differences, and charts of both from their beginnings on.
std::string compare_html(const Told& a, const Told& b, std::size_t most_points = 600);

}  // namespace gpuwarden::recording
