// SPDX-License-Identifier: Apache-2.0
// What a user does: a key, a click, a new size of the terminal.
#pragma once

#include <string>

#include "gpuwarden/view/canvas.hpp"

namespace gpuwarden::view {

/// A character's code point, or one of those that are none.
enum class KeyCode : char32_t {
  none = 0,
  tab = 9,
  enter = 10,
  escape = 27,
  backspace = 127,
  up = 0x110000,
  down,
  left,
  right,
  page_up,
  page_down,
  home,
  end,
  remove,
  back_tab,
  f1,
  f2,
  f3,
  f4,
  f5,
  f6,
  f7,
  f8,
  f9,
  f10,
  f11,
  f12,
  resize,  ///< the terminal has another size
  click,   ///< with Key::at
  wheel_up,
  wheel_down,
};

struct Key {
  KeyCode code = KeyCode::none;
  Point at{};  ///< of the mouse
  bool operator==(const Key&) const = default;
};

constexpr KeyCode character(char32_t c) { return static_cast<KeyCode>(c); }
/// Ctrl and a letter.
constexpr KeyCode control(char letter) { return static_cast<KeyCode>(static_cast<unsigned char>(letter) & 0x1FU); }
/// "F9", "PgUp", "Ctrl-L", "K".
std::string name_of(KeyCode code);

}  // namespace gpuwarden::view
