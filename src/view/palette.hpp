// SPDX-License-Identifier: Apache-2.0
// The colours of tones.
#pragma once

#include <array>
#include <cstddef>

#include "gpuwarden/view/canvas.hpp"

namespace gpuwarden::view {

/// How a tone looks. -1: the terminal's own foreground.
struct Look {
  short many = -1;   ///< of 256 colours
  short eight = -1;  ///< of 8 colours
  bool bold = false;
  bool dim = false;
};

/// Load goes up in lightness, from blue to yellow, so that it can be read without telling colours apart, too. Red and
/// orange are left for what is wrong.
inline constexpr std::array<Look, static_cast<std::size_t>(Tone::count_)> kLooks{{
    {},                                       // plain
    {.many = 245, .dim = true},               // dim
    {.bold = true},                           // bold
    {.many = 117, .eight = 6, .bold = true},  // title
    {.many = 117, .eight = 6},                // key
    {.many = 78, .eight = 2},                 // good
    {.many = 215, .eight = 3, .bold = true},  // warning
    {.many = 203, .eight = 1, .bold = true},  // fault
    {.many = 68, .eight = 4},                 // load0
    {.many = 38, .eight = 4, .bold = true},   // load1
    {.many = 43, .eight = 6},                 // load2
    {.many = 113, .eight = 6, .bold = true},  // load3
    {.many = 227, .eight = 2, .bold = true},  // load4
}};

constexpr const Look& look_of(Tone tone) { return kLooks.at(static_cast<std::size_t>(tone)); }

}  // namespace gpuwarden::view
