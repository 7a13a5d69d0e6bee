// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/typed.hpp"

#include <fmt/format.h>

#include <vector>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/view/scene.hpp"

namespace gpuwarden::view {

Result<void> set_sort(ViewState& state, std::string_view text) {
  const bool largest_first = text.starts_with('-');
  const std::string name = to_lower(largest_first ? text.substr(1) : text);
  std::vector<std::string> names;
  for (const SortColumn& column : sort_columns()) {
    names.push_back(to_lower(column.title));
    std::erase(names.back(), '%');
    if (names.back() != name) continue;
    state.sort = column.by;
    state.descending = largest_first || column.descending;
    return {};
  }
  return fail(ErrorCode::invalid_argument, fmt::format("unknown column '{}'", printable(text)),
              "one of " + join(names, ", "));
}

Result<Extent> parse_extent(std::string_view text) {
  constexpr std::int64_t kMost = 1000;
  const std::size_t cross = text.find('x');
  const auto width = parse_integer(text.substr(0, cross));
  const auto height = cross == std::string_view::npos ? std::nullopt : parse_integer(text.substr(cross + 1));
  if (!width || !height || *width < 1 || *height < 1 || *width > kMost || *height > kMost)
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a size", printable(text)), "for example 120x40");
  return Extent{static_cast<int>(*width), static_cast<int>(*height)};
}

}  // namespace gpuwarden::view
