// SPDX-License-Identifier: Apache-2.0
#include "view/words.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/use.hpp"

namespace gpuwarden::view {
namespace {

constexpr std::array<char, 6> kBinary{'B', 'K', 'M', 'G', 'T', 'P'};

/// Three figures: "1.21", "31.2", "512".
std::string three_figures(double value) {
  const int digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}", value, digits);
}

/// The unit in which a size has at most three figures before the point.
std::size_t unit_of(double value, double step) {
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < kBinary.size(); value /= step) ++unit;
  return unit;
}

double in_unit(double value, std::size_t unit, double step) {
  for (; unit > 0; --unit) value /= step;
  return value;
}

std::string scaled(double value, double step) {
  const std::size_t unit = unit_of(value, step);
  if (unit == 0) return fmt::format("{:.0f}B", value);
  return three_figures(in_unit(value, unit, step)) + kBinary.at(unit);
}

long long watts(Milliwatts power) { return (power.value + 500) / 1000; }

}  // namespace

std::string size_words(Bytes bytes) { return scaled(static_cast<double>(bytes.value), 1024); }

std::string memory_words(const std::optional<Bytes>& used, const std::optional<Bytes>& total) {
  if (!used && !total) return "-";
  if (!total) return size_words(*used);
  const auto whole = static_cast<double>(total->value);
  const std::size_t unit = unit_of(whole, 1024);
  const auto part = [&](double value) {
    const double scaled = in_unit(value, unit, 1024);
    return fmt::format("{:.{}f}", scaled, scaled >= 99.95 ? 0 : unit >= 4 ? 2 : 1);
  };
  return fmt::format("{}/{}{}", used ? part(static_cast<double>(used->value)) : "-", part(whole), kBinary.at(unit));
}

std::string power_words(const std::optional<Milliwatts>& power, const std::optional<Milliwatts>& limit) {
  if (!power) return "-";
  return limit ? fmt::format("{}/{}W", watts(*power), watts(*limit)) : fmt::format("{}W", watts(*power));
}

std::string percent_words(const std::optional<Percent>& percent) {
  return percent ? fmt::format("{}%", percent->value) : "-";
}

std::string heat_words(const std::optional<Celsius>& heat, bool ascii) {
  return heat ? fmt::format("{}{}", heat->value, ascii ? "C" : "°") : "-";
}

std::string rate_words(const std::optional<BytesPerSecond>& rate) {
  return rate ? scaled(static_cast<double>(rate->value), 1000) : "-";
}

std::string age_words(std::chrono::seconds age) {
  const auto s = age.count();
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}:{:02}:{:02}", s / 3600, s % 3600 / 60, s % 60);
  return fmt::format("{}d{:02}h", s / 86400, s % 86400 / 3600);
}

std::string value_words(const facts::Metric& metric, double value) {
  if (metric.unit == "B") return format_size(Bytes(static_cast<std::uint64_t>(value)));
  if (metric.unit == "B/s") return scaled(value, 1000) + "/s";
  if (metric.unit == "s") return format_duration(std::chrono::milliseconds(static_cast<std::int64_t>(value * 1000)));
  const bool whole = value == static_cast<double>(static_cast<std::int64_t>(value));
  return fmt::format("{:.{}f}{}{}", value, whole ? 0 : 1, metric.unit.empty() ? "" : " ", metric.unit);
}

std::string_view model_words(std::string_view name) {
  for (const std::string_view brand : {"NVIDIA ", "Tesla "}) {
    if (name.starts_with(brand)) name.remove_prefix(brand.size());
  }
  return name;
}

std::string clock_words(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  return fmt::format("{:02}:{:02}:{:02}", local.tm_hour, local.tm_min, local.tm_sec);
}

}  // namespace gpuwarden::view
