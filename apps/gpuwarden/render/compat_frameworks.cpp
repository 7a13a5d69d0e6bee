// SPDX-License-Identifier: Apache-2.0
// What frameworks need and whether they run, in words.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/forward_compatibility.hpp"
#include "render/columns.hpp"
#include "render/compat_parts.hpp"

namespace gpuwarden::cli {
namespace {

using namespace compat;
using compat::capability_text;  // functions of these names are this program's, too
using compat::three_numbers;
using compat::wheel_name;
using knowledge::Version;
using Wording = CompatWording;
using Table = std::vector<std::vector<std::string>>;

std::string where_it_stands(const Wording& to, const TorchAnswer& answer) {
  if (!answer.newer_than_known) return "not in this knowledge base";
  return to.newer(three_numbers(to.asked.knowledge.newest_torch()));
}

std::string unknown_release(const Wording& to, const TorchAnswer& answer) {
  std::string text = fmt::format("PyTorch {} is {}\n", to_string(*answer.version), where_it_stands(to, answer));
  if (answer.min_driver)
    text += to.line("driver", fmt::format("{} or newer, as every program built with CUDA {}",
                                          to_string(*answer.min_driver), to_string(*answer.cuda)));
  return answer.instead ? text + to.recommended(*answer.instead) : text;
}

/// A +cpu wheel: nothing of the place is judged, since it asks nothing of it.
std::string cpu_text(const Wording& to, const TorchAnswer& answer) {
  return to.bold(fmt::format("PyTorch {}+cpu", three_numbers(*answer.version))) + "\n" +
         (answer.known ? "" : to.line("release", where_it_stands(to, answer))) +
         to.line("here", "runs anywhere: it does not use the GPU, and needs no driver") +
         command_line("install", compat::cpu_command(*answer.version));
}

/// "torchvision 0.20, torchaudio 2.5, xformers 0.0.29.post1".
std::string companions(const TorchAnswer& answer) {
  std::vector<std::string> names;
  for (const auto* one : answer.companions) names.push_back(fmt::format("{} {}", one->package, one->version));
  return join(names, ", ");
}

std::string wheels(const Wording& to, const TorchAnswer& answer) {
  Table table{{"wheel", "driver at least", "code for compute capability"}};
  if (!to.asked.place.is_empty()) table[0].emplace_back("here");
  for (const Wheel& wheel : answer.wheels) {
    std::string code(wheel.build.architectures);
    std::ranges::replace(code, ';', ' ');
    table.push_back({wheel_name(wheel.build) + (wheel.build.is_default ? " (default)" : ""),
                     to_string(wheel.build.min_driver), std::move(code)});
    if (wheel.forward)
      table.back().push_back("with " + knowledge::compat_package(wheel.forward->cuda));
    else if (wheel.fit)
      table.back().emplace_back(compat::words_for(*wheel.fit));
  }
  return "\n" + columns(table, to.style) + "\n";
}

/// Whether it runs at the place; nothing where that is not judged.
std::string here_line(const Wording& to, const std::optional<std::string>& obstacle) {
  if (!obstacle) return "";
  return to.line("here", obstacle->empty() ? "runs" : "no: " + *obstacle);
}

/// What makes it run on a driver that is too old for it, and how that is installed.
std::string forward_text(const Wording& to, const compat::Forward& forward) {
  std::vector<std::string> branches;
  for (const int branch : knowledge::compat_branches(forward.cuda)) branches.push_back(std::to_string(branch));
  const std::string which = branches.empty() ? "" : fmt::format(", drivers of the branches {}", join(branches, ", "));
  const std::string package = knowledge::compat_package(forward.cuda);
  const std::string gpus =
      forward.certified_only ? "data-centre GPUs; cards like these only in NGC-Ready servers" : "data-centre GPUs";
  return to.line("cuda-compat", fmt::format("forward compatibility: {}{}", gpus, which)) +
         command_line("", "apt install " + package + "   (dnf, zypper: the same name, from NVIDIA's CUDA repository)") +
         command_line("", "export LD_LIBRARY_PATH=" + knowledge::compat_folder(forward.cuda) + ":$LD_LIBRARY_PATH");
}

std::string forward_verdict(const Wording& to, const TorchAnswer& answer, const Wheel& wheel) {
  const std::string text =
      to.line("here", fmt::format("{}: the driver is too old for it as it is; it runs with {}", wheel_name(wheel.build),
                                  knowledge::compat_package(wheel.forward->cuda))) +
      forward_text(to, *wheel.forward) + command_line("install", knowledge::pip_command(wheel.build));
  if (answer.as_it_is)
    return text + command_line("or, as it is", knowledge::pip_command(answer.wheels[*answer.as_it_is].build));
  return answer.instead ? text + to.recommended(*answer.instead) : text;
}

std::string verdict(const Wording& to, const TorchAnswer& answer) {
  if (!answer.chosen)
    return to.line("note", fmt::format("there is no {} wheel of it that is known", answer.missing_build));
  const Wheel& wheel = answer.wheels[*answer.chosen];
  std::string text;
  if (wheel.forward && !answer.obstacle) return forward_verdict(to, answer, wheel);
  if (wheel.fit) text += to.line("here", fmt::format("{}: {}", wheel_name(wheel.build), compat::words_for(*wheel.fit)));
  if (answer.obstacle)
    text += to.line("", fmt::format("{}: {}", printable(answer.obstacle->gpu), answer.obstacle->why));
  if (answer.instead) return text + to.recommended(*answer.instead);
  return text + command_line("install", knowledge::pip_command(wheel.build));
}

/// "compute capability 8.0 or higher".
std::string capabilities_text(const knowledge::PackageNeeds& row) {
  if (row.min_capability == 0)
    return row.torch ? "whatever GPU its PyTorch serves" : "no compute capability that is known";
  const std::string least = capability_text(row.min_capability);
  if (row.max_capability == 0) return fmt::format("compute capability {} or higher", least);
  if (row.max_capability == row.min_capability) return fmt::format("compute capability {} alone", least);
  return fmt::format("compute capability {} to {}", least, capability_text(row.max_capability));
}

/// "0.47.x" of 0.47.99, which stands for every patch.
std::string last_text(const Version& last) {
  const std::string text = to_string(last);
  const std::size_t open_end = text.find(".99");
  return open_end == std::string::npos ? text : text.substr(0, open_end) + ".x";
}

/// What is judged by: the release's needs that are more than prose.
std::string needs_text(const Wording& to, const compat::ComponentAnswer& answer) {
  const auto& row = *answer.needs;
  std::string releases;
  if (row.last)
    releases = fmt::format(" {} to {}", to_string(row.first), last_text(row.last));
  else if (row.first)
    releases = fmt::format(" from {} on", to_string(row.first));
  std::string asks = capabilities_text(row);
  if (answer.min_driver) asks += fmt::format(", driver {} or newer", to_string(*answer.min_driver));
  if (row.torch) asks += fmt::format(", PyTorch {} or newer", to_string(row.torch));
  return to.bold(fmt::format("{}{}", row.package, releases)) + "\n" + to.line("asks for", asks) +
         to.line("note", row.note) + command_line("install", row.install);
}

}  // namespace

std::string text_of(const CompatWording& to, const compat::TorchAnswer& answer) {
  if (!answer.version)
    return fmt::format("PyTorch: the newest that is known is {}\n", three_numbers(to.asked.knowledge.newest_torch())) +
           (answer.obstacle ? to.line("here", fmt::format("none runs: {}: {}", printable(answer.obstacle->gpu),
                                                          answer.obstacle->why))
                            : to.torch(answer.all)) +
           to.recommended(*answer.instead);
  if (!answer.uses_gpu) return cpu_text(to, answer);
  if (!answer.known) return unknown_release(to, answer);
  const auto& first = answer.wheels[0].build;
  std::string text = to.bold("PyTorch " + three_numbers(*answer.version));
  text += (first.released.empty() ? "" : fmt::format(", released {}", first.released)) + "\n";
  if (first.python_lowest)
    text += to.line("Python", fmt::format("{} to {}", to_string(first.python_lowest), to_string(first.python_highest)));
  return text + to.line("goes with", companions(answer)) + wheels(to, answer) + verdict(to, answer);
}

std::string text_of(const CompatWording& to, const compat::VllmAnswer& answer) {
  if (answer.row == nullptr && answer.instead)
    return "vLLM: its own wheels have no kernels for this GPU\n" + to.recommended(*answer.instead);
  if (answer.row == nullptr)
    return answer.asked.empty() ? "no vLLM that is known runs here\n"
                                : fmt::format("vLLM {} is not in this knowledge base\n", printable(answer.asked));
  const auto& row = *answer.row;
  constexpr int kEndless = 99;
  std::string text = to.bold("vLLM " + three_numbers(*answer.version)) + "\n";
  if (answer.estimated)
    text += to.line("note", fmt::format("not in this knowledge base itself: the needs of {}, the nearest known release "
                                        "before it",
                                        three_numbers(row.last.patch == kEndless ? row.first : row.last)));
  text += to.line("PyTorch", three_numbers(row.torch) + " (pinned)");
  text += to.line("CUDA", to_string(row.cuda) + " in the default wheel");
  if (answer.min_driver) text += to.line("driver", to_string(*answer.min_driver) + " or newer");
  text += to.line("GPU", fmt::format("compute capability {} or higher", capability_text(row.min_capability)));
  text += command_line("install", answer.command);
  if (answer.forward)
    text += to.line("here", fmt::format("the driver is too old for it as it is; it runs with {}",
                                        knowledge::compat_package(answer.forward->cuda))) +
            forward_text(to, *answer.forward);
  else
    text += here_line(to, answer.obstacle);
  return text + (answer.instead ? to.recommended(*answer.instead) : "");
}

std::string text_of(const CompatWording& to, const compat::ComponentAnswer& answer) {
  std::string text;
  if (!answer.known)
    text = fmt::format("{} {} is not in this knowledge base{}\n", printable(answer.name), printable(answer.version),
                       answer.rows.empty() ? "" : "; these are:");
  if (answer.needs != nullptr) text += needs_text(to, answer);
  std::string here =
      answer.not_judged.empty() ? here_line(to, answer.obstacle) : to.line("here", "not judged: " + answer.not_judged);
  if (answer.needs != nullptr && !answer.rows.empty()) text += std::exchange(here, "") + "\nas its maintainers say\n";
  for (const auto* row : answer.rows) {
    text += to.bold(fmt::format("{} {}", row->component, row->version)) + "\n";
    text +=
        to.line("  needs", row->needs) + to.line("  GPU", row->capability) + to.line("  also", row->driver_or_other);
  }
  return text + here;
}

}  // namespace gpuwarden::cli
