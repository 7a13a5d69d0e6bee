// SPDX-License-Identifier: Apache-2.0
// Values as short texts of bounded width.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/view/scene.hpp"

namespace gpuwarden::view {

/// "31.2/80.0G": both in the unit of the whole; at most 12 columns.
std::string memory_words(const std::optional<Bytes>& used, const std::optional<Bytes>& total);
/// "512M", "31.2G", "1.21T": at most 5 columns.
std::string size_words(Bytes bytes);
/// "312/700W": at most 11 columns.
std::string power_words(const std::optional<Milliwatts>& power, const std::optional<Milliwatts>& limit);
/// "43%"; "-" where it is not known.
std::string percent_words(const std::optional<Percent>& percent);
/// "61C", or "61°".
std::string heat_words(const std::optional<Celsius>& heat, bool ascii);
/// "1.2G" a second; at most 5 columns.
std::string rate_words(const std::optional<BytesPerSecond>& rate);
/// "12:05", "3:12:05", "4d03h".
std::string age_words(std::chrono::seconds age);
/// A metric's value with its unit: "312 W", "31.2 GiB", "1.2 GB/s".
std::string value_words(const facts::Metric& metric, double value);
/// "H100 80GB HBM3" of "NVIDIA H100 80GB HBM3".
std::string_view model_words(std::string_view name);
/// A time of day, in the process's time zone: "14:03:07".
std::string clock_words(std::chrono::system_clock::time_point time);

/// What is to be said of a GPU, worst first: trouble, health, alerts, what holds its clocks back, who holds it.
struct Remark {
  std::string text;
  Tone tone = Tone::plain;
};
std::vector<Remark> remarks_on(const GpuRow& row, const Scene& scene);
/// Why its clocks are held back, in words: "power cap"; empty where they are not.
std::string throttle_words(const facts::GpuSample& sample);
/// Who has leased it, else whose processes are on it; empty for nobody.
std::string holder_words(const GpuRow& row);

}  // namespace gpuwarden::view
