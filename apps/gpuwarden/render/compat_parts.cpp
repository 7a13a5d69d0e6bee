// SPDX-License-Identifier: Apache-2.0
#include "render/compat_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::cli {
namespace {

using knowledge::Version;

constexpr std::size_t kLabel = 15;
constexpr std::size_t kReleasesShown = 6;

std::string_view type_text(std::string_view type) {
  if (type == "LTSB") return "long-term support";
  if (type == "PB") return "production branch";
  if (type == "NFB") return "new features branch";
  return type;
}

}  // namespace

std::string labelled_line(std::string_view label, std::string_view text, const Style& style) {
  if (text.empty()) return "";
  const std::size_t column = std::max(kLabel, label.size() + 2);
  return fmt::format("{:<{}}{}\n", label, column, wrapped(text, column, column, style.width));
}

std::string command_line(std::string_view label, std::string_view command) {
  return fmt::format("{:<{}}{}\n", label, kLabel, command);
}

std::string heading(std::string_view text, const Style& style) { return "\n" + style.paint(text, Tone::bold) + "\n"; }

std::string range_text(const Version& first, const Version& last) {
  if (!first) return "not known";
  return last ? fmt::format("{} to {}", to_string(first), to_string(last)) : to_string(first) + " or newer";
}

std::string CompatWording::newer(std::string_view newest) const {
  return fmt::format("newer than this knowledge base, which ends with {} (as of {})", newest, asked.knowledge.as_of());
}

std::string CompatWording::branch(int number) const {
  const auto* row = asked.knowledge.branch(number);
  if (row == nullptr && number > asked.knowledge.newest_branch())
    return fmt::format("{}: {}", number, newer(std::to_string(asked.knowledge.newest_branch())));
  if (row == nullptr) return fmt::format("{} (not in this knowledge base)", number);
  std::vector<std::string> parts;
  if (!row->type.empty()) parts.emplace_back(type_text(row->type));
  const std::string_view end = row->end_of_life;
  if (knowledge::is_over(end, asked.when))
    parts.push_back(end == "past" ? "no longer supported" : fmt::format("no longer supported since {}", end));
  else if (!end.empty())
    parts.push_back(fmt::format("supported until {}", end));
  return parts.empty() ? std::to_string(number) : fmt::format("{} ({})", number, join(parts, ", "));
}

std::string CompatWording::torch(const std::vector<compat::Wheel>& wheels) const {
  const auto releases = compat::releases_that_run(asked, wheels);
  std::string text = heading("PyTorch wheels that run here", style);
  if (releases.empty()) return text + "  none that is known\n";
  for (const compat::TorchRelease& release : releases | std::views::take(kReleasesShown)) {
    std::vector<std::string> builds;
    for (const auto* build : release.builds)
      builds.push_back(fmt::format("{}{}", build->build, build->is_default ? " (default)" : ""));
    text += line("  " + compat::three_numbers(release.torch), join(builds, ", "));
  }
  if (releases.size() > kReleasesShown)
    text += fmt::format("  and older, back to {}\n", to_string(releases.back().torch));
  return text;
}

std::string CompatWording::recommended(const compat::Recommendation& what) const {
  std::string text = heading("recommended", style);
  if (what.driver) text += command_line("  driver", branch(what.driver->major));
  if (what.torch != nullptr) text += command_line("  PyTorch", knowledge::pip_command(*what.torch));
  if (what.vllm != nullptr)
    text +=
        command_line("  vLLM", fmt::format("{}   (brings PyTorch {})", what.vllm_command, to_string(what.vllm->torch)));
  if (!what.other_builds.empty()) return text + line("  PyTorch, vLLM", what.other_builds);
  if (what.torch == nullptr && what.vllm == nullptr) text += "  nothing that is known runs here\n";
  return text;
}

}  // namespace gpuwarden::cli
