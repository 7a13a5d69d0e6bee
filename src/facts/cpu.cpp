// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/cpu.hpp"

#include <cstdint>
#include <set>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::facts {
namespace {

/// More than any machine has: a range beyond is nonsense, and would take memory.
constexpr std::int64_t kMostCpus = 65536;

}  // namespace

std::vector<unsigned> cpu_numbers(std::string_view list) {
  std::set<unsigned> numbers;
  for (const std::string_view part : split(trim(list), ',')) {
    const auto ends = split(part, '-');
    const auto first = parse_integer(ends[0]);
    const auto last = ends.size() == 2 ? parse_integer(ends[1]) : first;
    if (ends.size() > 2 || !first || !last || *first < 0 || *last < *first || *last >= kMostCpus) return {};
    for (auto number = *first; number <= *last; ++number) numbers.insert(static_cast<unsigned>(number));
  }
  return {numbers.begin(), numbers.end()};
}

}  // namespace gpuwarden::facts
