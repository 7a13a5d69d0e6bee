// SPDX-License-Identifier: Apache-2.0
// The terminal that a program was started on, through ncurses.
#pragma once

#include <memory>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/view/canvas.hpp"
#include "gpuwarden/view/screen.hpp"

namespace gpuwarden::view {

/// Takes the process's locale for character types, and says what it can show. For programs, at their start.
Glyphs glyphs_of_locale();

/// Takes the terminal of standard input and output until the object ends; a program that crashes meanwhile leaves the
/// terminal as it was. One at a time. Fails with unavailable where they are no terminal or its kind is unknown.
Result<std::unique_ptr<Screen>> open_curses_screen(bool colours);

}  // namespace gpuwarden::view
