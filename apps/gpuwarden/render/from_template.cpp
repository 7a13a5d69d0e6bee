// SPDX-License-Identifier: Apache-2.0
#include "render/from_template.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace gpuwarden::cli {
namespace {

struct Template {
  std::string_view name;
  std::string_view text;
};
constexpr auto kTemplates = std::to_array<Template>({
#include "templates.inc"
});

}  // namespace

std::string from_template(std::string_view name, const std::vector<std::pair<std::string_view, std::string>>& values) {
  std::string text(std::ranges::find(kTemplates, name, &Template::name)->text);
  for (const auto& [key, value] : values) {
    const std::string mark = fmt::format("@{}@", key);
    const bool lines = value.empty() || value.ends_with('\n');
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + value.size()))
      text.replace(at, mark.size() + (lines ? 1 : 0), value);
  }
  return text;
}

}  // namespace gpuwarden::cli
