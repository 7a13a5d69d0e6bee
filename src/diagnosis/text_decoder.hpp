// SPDX-License-Identifier: Apache-2.0
// Makes UTF-8 of what begins with a byte order mark; everything else passes unchanged.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace gpuwarden::diagnosis {

/// PowerShell's `>` writes UTF-16 with a mark. What is no character there becomes U+FFFD.
class TextDecoder {
 public:
  using Sink = std::function<void(std::string_view)>;

  /// Pieces may be cut anywhere. The sink gets each at once, but for a mark or a character that may not be whole yet.
  void feed(std::string_view piece, const Sink& sink);
  void finish(const Sink& sink);

 private:
  enum class Encoding { unknown, bytes, utf16_little, utf16_big };

  void recognise(bool at_end, const Sink& sink);
  void pass(std::string_view piece, const Sink& sink);
  void unit(std::uint32_t value);
  void append(std::uint32_t character);

  Encoding encoding_ = Encoding::unknown;
  std::string beginning_;        ///< while the encoding is unknown
  std::string odd_;              ///< the first byte of a unit that was cut in two
  std::uint32_t surrogate_ = 0;  ///< the first of a pair
  std::string converted_;
};

}  // namespace gpuwarden::diagnosis
