// SPDX-License-Identifier: Apache-2.0
// Numbers with a unit: a Bytes is not a Milliwatts, and neither is a bare integer.
#pragma once

#include <compare>
#include <cstdint>

namespace gpuwarden {

/// A count of one unit. Explicit to make, explicit to read; adds and compares only with its own kind.
template <class Tag, class Rep>
struct Quantity {
  using rep = Rep;
  Rep value{};

  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep v) : value(v) {}

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity other) { return value += other.value, *this; }
  constexpr Quantity& operator-=(Quantity other) { return value -= other.value, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator*(Quantity a, Rep factor) { return Quantity(a.value * factor); }
  friend constexpr Quantity operator*(Rep factor, Quantity a) { return a * factor; }
  friend constexpr double ratio(Quantity a, Quantity b) {
    return static_cast<double>(a.value) / static_cast<double>(b.value);
  }
};

using Bytes = Quantity<struct BytesTag, std::uint64_t>;
/// Power as NVML speaks it; shown and written in watts.
using Milliwatts = Quantity<struct MilliwattsTag, std::int64_t>;
using Millijoules = Quantity<struct MillijoulesTag, std::int64_t>;
using Celsius = Quantity<struct CelsiusTag, std::int64_t>;
/// 0 to 100.
using Percent = Quantity<struct PercentTag, std::int64_t>;
using Megahertz = Quantity<struct MegahertzTag, std::int64_t>;
/// Hundredths of a percent, for shares that small values matter in; shown and written in percent.
using Share = Quantity<struct ShareTag, std::int64_t>;
using Microseconds = Quantity<struct MicrosecondsTag, std::int64_t>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag, std::uint64_t>;
/// A plain number without unit: errors, lanes, a PCIe generation, a performance state.
using Count = Quantity<struct CountTag, std::int64_t>;

/// How many of a quantity's steps make one of the unit in which it is shown: power is kept in milliwatts and shown in
/// watts.
template <class T>
inline constexpr double kStepsPerShownUnit = 1;
template <>
inline constexpr double kStepsPerShownUnit<Milliwatts> = 1000;
template <>
inline constexpr double kStepsPerShownUnit<Millijoules> = 1000;
template <>
inline constexpr double kStepsPerShownUnit<Share> = 100;
template <>
inline constexpr double kStepsPerShownUnit<Microseconds> = 1e6;

inline namespace literals {
constexpr Bytes operator""_B(unsigned long long v) { return Bytes(v); }
constexpr Bytes operator""_KiB(unsigned long long v) { return Bytes(v << 10U); }
constexpr Bytes operator""_MiB(unsigned long long v) { return Bytes(v << 20U); }
constexpr Bytes operator""_GiB(unsigned long long v) { return Bytes(v << 30U); }
constexpr Milliwatts operator""_W(unsigned long long v) { return Milliwatts(static_cast<std::int64_t>(v) * 1000); }
constexpr Milliwatts operator""_mW(unsigned long long v) { return Milliwatts(static_cast<std::int64_t>(v)); }
constexpr Celsius operator""_degC(unsigned long long v) { return Celsius(static_cast<std::int64_t>(v)); }
constexpr Percent operator""_pct(unsigned long long v) { return Percent(static_cast<std::int64_t>(v)); }
constexpr Megahertz operator""_MHz(unsigned long long v) { return Megahertz(static_cast<std::int64_t>(v)); }
}  // namespace literals

}  // namespace gpuwarden
