// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memtrace/steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/memtrace/script.hpp"

namespace gpuwarden::memtrace {
namespace {

template <class Number>
bool is_range(Number least, Number most) {
  return least >= 1 && least <= most && most <= kLongestSequence;
}

}  // namespace

Result<LengthRange> parse_lengths(std::string_view text) {
  const std::size_t dots = text.find("..");
  const auto least = parse_integer(text.substr(0, dots));
  const auto most = dots == std::string_view::npos ? std::nullopt : parse_integer(text.substr(dots + 2));
  if (!least || !most || !is_range(*least, *most))
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a range of lengths", printable(text)),
                "for example 128..1024");
  return LengthRange{static_cast<unsigned>(*least), static_cast<unsigned>(*most)};
}

Result<std::vector<unsigned>> steps_of(const Trace& trace, const StepRequest& request) {
  if ((request.random || request.tokens != 0) && !trace.depends_on_tokens())
    return fail(ErrorCode::invalid_argument, "the sizes in this trace are fixed",
                "leave it out; --repeat runs the trace several times");
  if (!request.random && request.tokens == 0 && trace.depends_on_tokens())
    return fail(ErrorCode::invalid_argument, "the sizes in this trace depend on the length of a sequence",
                "name one with --tokens 512, or draw them with --random-lengths 128..1024");
  if (!request.random) return std::vector<unsigned>(request.repeat, request.tokens);
  const auto& [least, most] = *request.random;
  if (!is_range(least, most))
    return fail(ErrorCode::invalid_argument, fmt::format("{} to {} is not a range of lengths", least, most),
                fmt::format("from 1 to {}, the shortest first", kLongestSequence));
  // Each length has its own list of operations.
  constexpr std::uint64_t kMostOperations = 100'000'000;
  const std::uint64_t different = std::min<std::uint64_t>(request.steps, most - least + 1);
  if (different * (trace.events.size() + trace.before.size()) > kMostOperations)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} different lengths of {} events are too many", different, trace.events.size()),
                "fewer --steps, or a narrower range, show the same");
  return random_lengths(least, most, request.steps, request.seed);
}

}  // namespace gpuwarden::memtrace
