// SPDX-License-Identifier: Apache-2.0
// Lists of hosts: "gpu-[17-20,22]" (Slurm's manual, "hostlist expressions").
#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "redact/names.hpp"

namespace gpuwarden::redact {
namespace {

constexpr std::size_t kLongestPrefix = 63;  ///< of a label in a host's name (RFC 1035)
constexpr std::size_t kLongestNumbers = 1024;
constexpr std::size_t kMostHosts = 1024;

std::size_t prefix_begin(std::string_view text, std::size_t bracket) {
  std::size_t begin = bracket;
  while (begin > 0 && bracket - begin < kLongestPrefix && (is_word(text[begin - 1]) || text[begin - 1] == '-')) --begin;
  while (begin < bracket && !is_letter(text[begin])) ++begin;
  return begin;
}

/// Appends the hosts of "17-20" or "22"; false where it is no such range.
bool expand(std::string_view prefix, std::string_view range, std::vector<std::string>& hosts) {
  const std::size_t dash = range.find('-');
  const std::string_view first = range.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : range.substr(dash + 1);
  const auto is_number = [](std::string_view n) {
    return !n.empty() && n.size() < 7 && std::ranges::all_of(n, is_digit);
  };
  if (!is_number(first) || !is_number(last)) return false;
  const auto from = parse_integer(first);
  const auto to = parse_integer(last);
  if (!from || !to || *from > *to) return false;
  for (std::int64_t n = *from; n <= *to && hosts.size() < kMostHosts; ++n)
    hosts.push_back(fmt::format("{}{:0{}}", prefix, n, first.size()));
  return true;
}

/// What stands before a list of hosts of any form: SLURM_JOB_NODELIST=, NodeList=, "Nodes=".
bool is_named_list(std::string_view text, std::size_t begin) {
  const std::string front =
      to_lower(text.substr(begin - std::min<std::size_t>(begin, 10), std::min<std::size_t>(begin, 10)));
  return front.ends_with("nodelist=") || front.ends_with("nodes=") || front.ends_with("nodename=");
}

}  // namespace

std::optional<HostList> host_list_at(std::string_view text, std::size_t bracket) {
  const std::size_t begin = prefix_begin(text, bracket);
  const std::size_t close = text.substr(0, std::min(text.size(), bracket + kLongestNumbers)).find(']', bracket);
  if (begin == bracket || close == std::string_view::npos) return std::nullopt;
  const std::string_view prefix = text.substr(begin, bracket - begin);
  const std::string_view numbers = text.substr(bracket + 1, close - bracket - 1);
  // "values[0-3]" and "epoch[1,2]" are no hosts: those have a hyphen before the number, or zeros that fill it up.
  const bool filled = numbers.starts_with('0') && numbers.size() > 1 && is_digit(numbers[1]);
  const bool several = numbers.contains('-') || numbers.contains(',');
  if (!is_named_list(text, begin) && (!several || (!prefix.ends_with('-') && !filled))) return std::nullopt;
  HostList list{.begin = begin, .end = close + 1, .hosts = {}};
  for (const std::string_view range : split(numbers, ',')) {
    if (!expand(prefix, range, list.hosts)) return std::nullopt;
  }
  return list;
}

}  // namespace gpuwarden::redact
