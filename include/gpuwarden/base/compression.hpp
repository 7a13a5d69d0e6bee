// SPDX-License-Identifier: Apache-2.0
// Knows compressed bytes by how they begin.
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace gpuwarden {

/// "gzip", "xz", "bzip2", "zstd", "lz4" or "compress", by the magic number at the beginning; empty: none of these.
/// Sources: RFC 1952; the .xz file format; bzip2; RFC 8878; the LZ4 frame format; compress(1).
inline std::string_view compression_of(std::string_view bytes) {
  constexpr auto kMagics = std::to_array<std::pair<std::string_view, std::string_view>>({{"\x1f\x8b", "gzip"},
                                                                                         {"\xfd"
                                                                                          "7zXZ",
                                                                                          "xz"},
                                                                                         {"BZh", "bzip2"},
                                                                                         {"\x28\xb5\x2f\xfd", "zstd"},
                                                                                         {"\x04\x22\x4d\x18", "lz4"},
                                                                                         {"\x1f\x9d", "compress"}});
  for (const auto& [magic, name] : kMagics) {
    if (bytes.starts_with(magic)) return name;
  }
  return {};
}

}  // namespace gpuwarden
