// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/markup.hpp"

namespace gpuwarden {

std::string markup_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else
      result += c;
  }
  return result;
}

}  // namespace gpuwarden
