// SPDX-License-Identifier: Apache-2.0
#include "planning/plan_name.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "gpuwarden/base/foreign_option.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/foreign_options.hpp"
#include "gpuwarden/planning/words.hpp"

namespace gpuwarden::planning {
namespace {

constexpr auto kFlagNames = std::to_array<std::string_view>({"compile"});

}  // namespace

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

bool has_value(std::string_view plan_name) { return std::ranges::find(kFlagNames, plan_name) == kFlagNames.end(); }

bool value_follows(std::string_view typed) {
  if (!looks_like_option(typed) || typed.contains('=')) return false;
  const std::string name = plan_name_of(typed);
  if (!name.empty()) return has_value(name);
  const ForeignOption* const other = find_foreign_option(kForeignOptions, typed);
  return other != nullptr &&
         (other->kind == ForeignOption::Kind::needless_value || other->kind == ForeignOption::Kind::left_out_value);
}

}  // namespace gpuwarden::planning
