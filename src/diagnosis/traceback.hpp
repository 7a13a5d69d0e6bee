// SPDX-License-Identifier: Apache-2.0
// Python's tracebacks: which exception ended them, and where in the program's own code.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gpuwarden::diagnosis {

/// The end of a traceback.
struct TracebackEnd {
  std::size_t line = 0;   ///< so many lines after its header
  std::string exception;  ///< "KeyError: 'loss'", without prefixes of ranks and loggers
  std::string frame;      ///< "train.py:88 in main": the last frame of code that was not installed; may be empty
};

/// Reads the lines after "Traceback (most recent call last)"; nothing where the exception is not among them.
std::optional<TracebackEnd> read_traceback(std::span<const std::string_view> after);

/// Whether a line is one of a change of code ("+    raise ..."), not what a program printed.
bool is_line_of_diff(std::string_view raw);

}  // namespace gpuwarden::diagnosis
