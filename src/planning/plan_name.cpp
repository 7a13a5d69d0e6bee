// SPDX-License-Identifier: Apache-2.0
#include "planning/plan_name.hpp"

#include <algorithm>
#include <span>

#include "gpuwarden/base/foreign_option.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/foreign_options.hpp"
#include "gpuwarden/planning/words.hpp"

namespace gpuwarden::planning {

std::string plan_name_of(std::string_view typed) {
  const std::string name = hyphenated(typed);
  if (name.starts_with("--")) {
    const std::string own = name.substr(2);
    for (const auto table : {workload_names(), size_names(), plan_names()}) {
      if (std::ranges::find(table, own) != table.end()) return own;
    }
  }
  for (const ForeignNames& row : kForeignNames) {
    const auto names = split_words(row.also);
    if (std::ranges::find(names, name) != names.end()) return std::string(row.name);
  }
  return "";
}

}  // namespace gpuwarden::planning
