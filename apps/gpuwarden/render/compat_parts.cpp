// SPDX-License-Identifier: Apache-2.0
#include "render/compat_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::cli {
namespace {

using compat::Wheel;
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
  const std::size_t column = std::max(kLabel, label.size() + 2);
  return fmt::format("{:<{}}{}\n", label, column, wrapped(text, column, column, style.width));
}

std::string command_line(std::string_view label, std::string_view command) {
  return fmt::format("{:<{}}{}\n", label, kLabel, command);
}

std::string heading(std::string_view text, const Style& style) { return "\n" + style.paint(text, Tone::bold) + "\n"; }

std::string newer_text(const compat::Asked& asked, std::string_view newest) {
  return fmt::format("newer than this knowledge base, which ends with {} (as of {})", newest, asked.knowledge.as_of());
}

std::string branch_text(const compat::Asked& asked, int number) {
  const auto* branch = asked.knowledge.branch(number);
  if (branch == nullptr && number > asked.knowledge.newest_branch())
    return fmt::format("{}: {}", number, newer_text(asked, std::to_string(asked.knowledge.newest_branch())));
  if (branch == nullptr) return fmt::format("{} (not in this knowledge base)", number);
  std::vector<std::string> parts;
  if (!branch->type.empty()) parts.emplace_back(type_text(branch->type));
  const std::string_view end = branch->end_of_life;
  if (knowledge::is_over(end, asked.when))
    parts.push_back(end == "past" ? "no longer supported" : fmt::format("no longer supported since {}", end));
  else if (!end.empty())
    parts.push_back(fmt::format("supported until {}", end));
  return parts.empty() ? std::to_string(number) : fmt::format("{} ({})", number, join(parts, ", "));
}

std::string range_text(const Version& first, const Version& last) {
  if (!first) return "not known";
  return last ? fmt::format("{} to {}", to_string(first), to_string(last)) : to_string(first) + " or newer";
}

std::string torch_text(const compat::Asked& asked, const std::vector<Wheel>& wheels, const Style& style) {
  std::vector<Version> releases;
  for (const Wheel& wheel : wheels) {
    const bool runs = wheel.fit && knowledge::is_fit(*wheel.fit);
    if (runs && std::ranges::find(releases, wheel.build.torch) == releases.end()) releases.push_back(wheel.build.torch);
  }
  std::ranges::sort(releases, std::greater<>());
  std::string text = heading("PyTorch wheels that run here", style);
  if (releases.empty()) return text + "  none that is known\n";
  for (std::size_t i = 0; i < std::min(releases.size(), kReleasesShown); ++i) {
    std::vector<std::string> builds;
    for (const auto* build : asked.knowledge.torch_builds_of(releases[i], asked.place.wheel_machine())) {
      if (knowledge::is_fit(compat::fit_here(asked, *build)))
        builds.push_back(fmt::format("{}{}", build->build, build->is_default ? " (default)" : ""));
    }
    text += labelled_line("  " + compat::three_numbers(releases[i]), join(builds, ", "), style);
  }
  if (releases.size() > kReleasesShown) text += fmt::format("  and older, back to {}\n", to_string(releases.back()));
  return text;
}

std::string recommendation_text(const compat::Asked& asked, const compat::Recommendation& recommended,
                                const Style& style) {
  std::string text = heading("recommended", style);
  if (recommended.driver) text += command_line("  driver", branch_text(asked, recommended.driver->major));
  if (recommended.torch != nullptr) text += command_line("  PyTorch", knowledge::pip_command(*recommended.torch));
  if (recommended.vllm != nullptr)
    text += command_line("  vLLM", fmt::format("{}   (brings PyTorch {})", recommended.vllm_command,
                                               to_string(recommended.vllm->torch)));
  if (!recommended.other_builds.empty())
    return text + labelled_line("  PyTorch, vLLM", recommended.other_builds, style);
  if (recommended.torch == nullptr && recommended.vllm == nullptr) text += "  nothing that is known runs here\n";
  return text;
}

}  // namespace gpuwarden::cli
