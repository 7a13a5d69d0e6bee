// SPDX-License-Identifier: Apache-2.0
// Named parts of patterns: "{goes_on}" in a pattern stands for the fragment of that name.
#pragma once

#include <map>
#include <string>

namespace gpuwarden::knowledge {

using Fragments = std::map<std::string, std::string>;

struct Resolved {
  std::string pattern;
  std::string unknown;  ///< the first name that no fragment has
};

/// The end of the name that begins at `from`, which a "}" follows; `from` where there is none, as in "{0,40}".
inline std::size_t end_of_name(const std::string& pattern, std::size_t from) {
  std::size_t end = from;
  while (end < pattern.size() && ((pattern[end] >= 'a' && pattern[end] <= 'z') || pattern[end] == '_')) ++end;
  return end < pattern.size() && pattern[end] == '}' ? end : from;
}

/// Puts fragments where their names stand, each as a group of its own: what "(?i)" in it says ends with it.
inline Resolved resolve(const std::string& pattern, const Fragments& fragments) {
  Resolved result;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] == '\\' && at + 1 < pattern.size()) {
      result.pattern += pattern.substr(at++, 2);
      continue;
    }
    const std::size_t end = pattern[at] == '{' ? end_of_name(pattern, at + 1) : at + 1;
    if (end == at + 1) {
      result.pattern += pattern[at];
      continue;
    }
    const std::string name = pattern.substr(at + 1, end - at - 1);
    const auto found = fragments.find(name);
    if (found == fragments.end()) {
      if (result.unknown.empty()) result.unknown = name;
    } else {
      result.pattern += "(?:" + found->second + ")";
    }
    at = end;
  }
  return result;
}

}  // namespace gpuwarden::knowledge
