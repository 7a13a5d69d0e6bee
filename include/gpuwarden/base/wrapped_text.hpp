// SPDX-License-Identifier: Apache-2.0
// Text that a narrow terminal or a form broke into lines of one width, put together again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuwarden {

struct UnwrappedText {
  std::string text;
  bool sure = false;                   ///< else a row or two look broken, which may be chance
  std::vector<std::uint32_t> numbers;  ///< for each of its lines the number, from 1, of the first that it was made of
};

/// The lines as they were before a terminal cut them at its last column, or a form at the last blank before it. Nothing
/// where the text does not look so, or is longer than what people paste (256 KiB): then it stands as it was printed.
std::optional<UnwrappedText> unwrap(std::string_view text);

}  // namespace gpuwarden
