// SPDX-License-Identifier: Apache-2.0
// NVML calls as optional values: whatever the reason, what is not told is empty.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/text.hpp"
#include "probe/nvml_library.hpp"

namespace gpuwarden::probe {

/// One unsigned value from `function(device, &value)`, times `scale`.
template <class Quantity>
std::optional<Quantity> read_number(nvml::Return (*function)(nvml::Device, unsigned*), nvml::Device device,
                                    std::int64_t scale = 1) {
  unsigned value = 0;
  if (call(function, device, &value) != nvml::kSuccess) return std::nullopt;
  return Quantity(static_cast<typename Quantity::rep>(value) * static_cast<typename Quantity::rep>(scale));
}

inline std::optional<std::string> read_text(nvml::Return (*function)(nvml::Device, char*, unsigned),
                                            nvml::Device device) {
  std::array<char, 128> buffer{};
  if (call(function, device, buffer.data(), static_cast<unsigned>(buffer.size() - 1)) != nvml::kSuccess)
    return std::nullopt;
  return printable(buffer.data());
}

inline std::optional<bool> read_flag(nvml::Return (*function)(nvml::Device, int*), nvml::Device device) {
  int value = 0;
  if (call(function, device, &value) != nvml::kSuccess) return std::nullopt;
  return value != 0;
}

inline std::optional<Megahertz> read_clock(nvml::Return (*function)(nvml::Device, int, unsigned*), nvml::Device device,
                                           int type) {
  unsigned value = 0;
  if (call(function, device, type, &value) != nvml::kSuccess) return std::nullopt;
  return Megahertz(value);
}

}  // namespace gpuwarden::probe
