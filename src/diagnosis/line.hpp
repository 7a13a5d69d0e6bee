// SPDX-License-Identifier: Apache-2.0
// A line of a log as its program wrote it: without colours, quotation marks and what launchers, loggers and collectors
// put before it - and what those told: how loud it is, who said it, and when.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/diagnosis/event.hpp"

namespace gpuwarden::diagnosis {

struct Line {
  std::string text;   ///< printable, runs of blanks are one blank
  std::string whole;  ///< the same with the prefixes
  Level level = Level::unknown;
  bool build = false;   ///< from the steps of a container build
  bool bare = false;    ///< no prefix tells that a program wrote it
  bool quoted = false;  ///< a sentence about an error, not the error itself
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> gpu;  ///< NCCL names the device of the process that speaks
  std::optional<double> time;       ///< seconds, comparable among lines of the same `clock`
  int clock = 0;                    ///< 0: no time; else which kind of time stamp
};

Line normalise(std::string_view raw);

/// The text alone, for the lines around one.
std::string cleaned(std::string_view raw);

}  // namespace gpuwarden::diagnosis
