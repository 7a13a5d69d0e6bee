// SPDX-License-Identifier: Apache-2.0
// One value as the tools print it: "81559 MiB", "[N/A]", "P0", "16x". What says nothing, or is cut short, is a gap.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/base/quantity.hpp"

namespace gpuwarden::capture {

/// "N/A", "[Not Supported]", "ERR!", "[Unknown Error]", "Insufficient Permissions", "-", empty and the like.
bool is_gap(std::string_view cell);
/// The cell without white space and without driver 610's "[Deprecated; ...]" suffix; nothing for a gap.
std::optional<std::string> text_of(std::string_view cell);
/// "81559 MiB" with unit "MiB": the number, only if the whole cell is a number and that unit. An empty unit wants a
/// bare number.
std::optional<double> number_of(std::string_view cell, std::string_view unit);
/// The number of a cell with any of these units: {"%", ""} reads "5 %" and "5".
std::optional<double> number_of(std::string_view cell, std::initializer_list<std::string_view> units);
/// "Enabled"/"Yes"/"On"/"Active" and their opposites.
std::optional<bool> flag_of(std::string_view cell);
/// Memory in B, KiB, MiB, GiB or TiB, or bare MiB, as bytes.
std::optional<Bytes> memory_of(std::string_view cell);
/// "0000:17:00.0", "00000000:17:00.0" and "17:00.0" with an eight-digit domain, upper case; nothing where it is none.
std::optional<std::string> bus_id_of(std::string_view cell);

/// Fills `target` with number * scale in the quantity's own steps, where there is a number.
template <class Quantity>
void put(std::optional<Quantity>& target, std::optional<double> number, double scale = 1) {
  if (!number || !(std::abs(*number * scale) < 9e17)) return;
  if (std::is_unsigned_v<typename Quantity::rep> && *number < 0) return;
  target = Quantity(static_cast<typename Quantity::rep>(std::llround(*number * scale)));
}

}  // namespace gpuwarden::capture
