// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/key.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace gpuwarden::view {
namespace {

struct KeyName {
  KeyCode code;
  std::string_view name;
};
constexpr auto kKeyNames = std::to_array<KeyName>({{KeyCode::tab, "Tab"},
                                                   {KeyCode::enter, "Enter"},
                                                   {KeyCode::escape, "Esc"},
                                                   {KeyCode::backspace, "Backspace"},
                                                   {character(U' '), "Space"},
                                                   {KeyCode::up, "Up"},
                                                   {KeyCode::down, "Down"},
                                                   {KeyCode::left, "Left"},
                                                   {KeyCode::right, "Right"},
                                                   {KeyCode::page_up, "PgUp"},
                                                   {KeyCode::page_down, "PgDn"},
                                                   {KeyCode::home, "Home"},
                                                   {KeyCode::end, "End"},
                                                   {KeyCode::remove, "Del"},
                                                   {KeyCode::back_tab, "Shift-Tab"},
                                                   {KeyCode::resize, "resize"},
                                                   {KeyCode::click, "click"},
                                                   {KeyCode::wheel_up, "wheel up"},
                                                   {KeyCode::wheel_down, "wheel down"}});

}  // namespace

std::string name_of(KeyCode code) {
  const auto* const named = std::ranges::find(kKeyNames, code, &KeyName::code);
  if (named != kKeyNames.end()) return std::string(named->name);
  const auto value = static_cast<char32_t>(code);
  if (code >= KeyCode::f1 && code <= KeyCode::f12)
    return fmt::format("F{}", value - static_cast<char32_t>(KeyCode::f1) + 1);
  if (value < 0x20) return fmt::format("Ctrl-{}", static_cast<char>(value + 0x40));
  std::string text;
  append_utf8(text, value);
  return text;
}

}  // namespace gpuwarden::view
