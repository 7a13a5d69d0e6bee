// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "compat/answer.hpp"

namespace gpuwarden::cli::compat {

using knowledge::RunsOn;
using knowledge::WheelFit;

namespace {

constexpr std::size_t kIndent = 15;

bool is_consumer(const PlaceGpu& gpu) {
  return std::ranges::any_of(std::to_array<std::string_view>({"GeForce", "TITAN", "GTX"}),
                             [&](std::string_view word) { return gpu.name.contains(word); });
}

std::string_view type_text(std::string_view type) {
  if (type == "LTSB") return "long-term support";
  if (type == "PB") return "production branch";
  if (type == "NFB") return "new features branch";
  return type;
}

}  // namespace

std::string capability_text(int architecture) { return fmt::format("{}.{}", architecture / 10, architecture % 10); }

std::string wheel_name(const knowledge::TorchBuild& build) {
  return fmt::format("{}.{}.{}+{}", build.torch.major, build.torch.minor, build.torch.patch, build.build);
}

std::string_view words_for(WheelFit fit) {
  switch (fit) {
    case WheelFit::runs:
      return "runs";
    case WheelFit::runs_by_jit:
      return "runs, compiled at the first start (PTX)";
    case WheelFit::no_code_for_gpu:
      return "no: has no code for the GPU";
    case WheelFit::driver_too_old:
      return "no: the driver is too old";
    case WheelFit::jit_needs_a_newer_driver:
      return "no: has only PTX for the GPU, newer than the driver";
  }
  return "";
}

RunsOn runs_here(const Asked& asked, const knowledge::Version& cuda) {
  if (is_useless(asked)) return RunsOn::not_at_all;
  const RunsOn how = asked.knowledge.runs_on(cuda, *asked.place.driver);
  const bool only_consumers = !asked.place.gpus.empty() && std::ranges::all_of(asked.place.gpus, is_consumer);
  return how == RunsOn::by_forward_compatibility && only_consumers ? RunsOn::not_at_all : how;
}

std::string_view words_for(RunsOn how) {
  switch (how) {
    case RunsOn::natively:
      return "natively";
    case RunsOn::by_minor_version:
      return "by minor-version compatibility";
    case RunsOn::by_forward_compatibility:
      return "with the cuda-compat package";
    case RunsOn::not_at_all:
      return "not at all";
  }
  return "";
}

std::string branch_text(const Asked& asked, int number) {
  const auto* branch = asked.knowledge.branch(number);
  if (branch == nullptr && number > asked.knowledge.newest_branch())
    return fmt::format("{} (newer than this knowledge base, which ends with {})", number,
                       asked.knowledge.newest_branch());
  if (branch == nullptr) return fmt::format("{} (not in this knowledge base)", number);
  std::vector<std::string> parts;
  if (!branch->type.empty()) parts.emplace_back(type_text(branch->type));
  const std::string_view end = branch->end_of_life;
  if (knowledge::is_over(end, asked.when))
    parts.push_back(end == "past" ? "no longer supported" : fmt::format("no longer supported since {}", end));
  else if (!end.empty())
    parts.push_back(fmt::format("supported until {}", end));
  return parts.empty() ? std::to_string(number) : fmt::format("{} ({})", number, fmt::join(parts, ", "));
}

WheelFit fit_here(const Asked& asked, const knowledge::TorchBuild& build) {
  WheelFit worst = knowledge::wheel_fit(asked.knowledge, build, std::nullopt, asked.place.driver);
  for (const int architecture : asked.place.architectures())
    worst = std::max(worst, knowledge::wheel_fit(asked.knowledge, build, architecture, asked.place.driver));
  return worst;
}

std::string line(const Asked& asked, std::string_view label, std::string_view text) {
  const std::size_t column = std::max(kIndent, label.size() + 2);
  return fmt::format("{:<{}}{}\n", label, column, wrapped(text, column, column, asked.style.width));
}

std::string command_line(std::string_view label, std::string_view command) {
  return fmt::format("{:<{}}{}\n", label, kIndent, command);
}

std::string obstacle_of(const Asked& asked, const PlaceGpu& gpu) {
  if (gpu.model == nullptr || !asked.place.driver) return "";
  const int branch = asked.place.driver->major;
  const int first = gpu.model->first_driver_branch;
  const int last = gpu.model->last_driver_branch;
  if (first != 0 && branch < first)
    return fmt::format("driver {} does not know it: branch {} or newer is needed", to_string(*asked.place.driver),
                       first);
  if (last != 0 && branch > last)
    return fmt::format("driver {} no longer serves it: {} is the last branch", to_string(*asked.place.driver), last);
  return "";
}

bool is_useless(const Asked& asked) {
  return !asked.place.gpus.empty() &&
         std::ranges::all_of(asked.place.gpus, [&](const PlaceGpu& gpu) { return !obstacle_of(asked, gpu).empty(); });
}

std::string heading(const Asked& asked, std::string_view text) {
  return "\n" + asked.style.paint(text, Tone::bold) + "\n";
}

std::string architectures_text(std::string_view architectures) {
  std::string text(architectures);
  std::ranges::replace(text, ';', ' ');
  return text;
}

nlohmann::json version_json(const knowledge::Version& version) {
  return version ? nlohmann::json(knowledge::to_string(version)) : nlohmann::json();
}

}  // namespace gpuwarden::cli::compat
