// SPDX-License-Identifier: Apache-2.0
// A loader's cache as ldconfig writes it: header, entries, strings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpuwarden::testing {

inline std::string little_endian(std::uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xffU);
  return bytes;
}

inline std::string loader_cache(const std::vector<std::string>& paths) {
  std::string entries;
  std::string strings;
  const std::size_t begin = 48 + 24 * paths.size();
  for (const std::string& path : paths) {
    const auto value = static_cast<std::uint32_t>(begin + strings.size());
    const auto key = static_cast<std::uint32_t>(value + path.rfind('/') + 1);
    strings += path + '\0';
    entries += little_endian(3) + little_endian(key) + little_endian(value) + std::string(12, '\0');
  }
  const auto count = static_cast<std::uint32_t>(paths.size());
  const auto size = static_cast<std::uint32_t>(strings.size());
  return "glibc-ld.so.cache1.1" + little_endian(count) + little_endian(size) + std::string(20, '\0') + entries +
         strings;
}

}  // namespace gpuwarden::testing
