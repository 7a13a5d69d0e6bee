// SPDX-License-Identifier: Apache-2.0
// Over which lengths of a sequence a trace is run, and how often.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/memtrace/trace.hpp"

namespace gpuwarden::memtrace {

inline constexpr unsigned kLongestSequence = 16'777'216;

struct LengthRange {
  unsigned least = 0;
  unsigned most = 0;
};
/// "128..1024", at most kLongestSequence. Fails with invalid_argument.
Result<LengthRange> parse_lengths(std::string_view text);

struct StepRequest {
  unsigned repeat = 1;                ///< steps of one length
  unsigned tokens = 0;                ///< that length; 0: the trace depends on none
  std::optional<LengthRange> random;  ///< instead: `steps` lengths drawn from it with `seed`
  unsigned steps = 60;
  unsigned seed = 1;
};

/// The length of each step, 0 for traces that have none. Fails with invalid_argument where a trace needs lengths and
/// none are given, where its sizes are fixed and some are, where `random` is no range that parse_lengths() could give,
/// and where so many different ones would be more operations than can be held.
Result<std::vector<unsigned>> steps_of(const Trace& trace, const StepRequest& request);

}  // namespace gpuwarden::memtrace
