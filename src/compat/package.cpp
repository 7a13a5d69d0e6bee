// SPDX-License-Identifier: Apache-2.0
// What PyTorch and vLLM need, by their tables.
#include <fmt/format.h>

#include <algorithm>

#include "compat/recommend.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::compat {
namespace {

using knowledge::RunsOn;
using knowledge::TorchBuild;
using knowledge::VllmRelease;

/// Nothing but the driver is against the wheel.
bool has_code_for_all(const Asked& asked, const TorchBuild& build) {
  return std::ranges::all_of(asked.place.architectures(), [&](int one) {
    return knowledge::is_fit(knowledge::wheel_fit(asked.knowledge, build, one, std::nullopt));
  });
}

/// The rows of a release, under the number that was asked for: releases of one MAJOR.MINOR have the same builds.
std::vector<Wheel> wheels_of(const Asked& asked, const std::string& text, const Version& version) {
  std::vector<Wheel> wheels;
  for (const TorchBuild* row : asked.knowledge.torch_builds_of(version, asked.place.wheel_machine())) {
    Wheel wheel{*row, std::nullopt};
    if (std::ranges::count(text, '.') >= 2 && wheel.build.torch != version) {
      wheel.build.torch = version;
      wheel.build.released = "";  // the day is the other one's
    }
    if (!asked.place.is_empty()) wheel.fit = fit_here(asked, wheel.build);
    const auto cuda = knowledge::cuda_of_build(wheel.build.build);
    if (cuda && wheel.fit == knowledge::WheelFit::driver_too_old && has_code_for_all(asked, wheel.build))
      wheel.forward = forward_here(asked, *cuda);
    wheels.push_back(wheel);
  }
  return wheels;
}

/// The wheel that the question means: its build, else the default one, else one that runs here.
std::optional<std::size_t> chosen(const Asked& asked, const std::vector<Wheel>& wheels,
                                  const std::optional<std::string>& build) {
  const auto key = [&](const Wheel& wheel) {
    return std::pair(knowledge::is_fit(fit_here(asked, wheel.build)), wheel.build.is_default);
  };
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < wheels.size(); ++i) {
    if (build ? wheels[i].build.build == *build : !best || key(wheels[*best]) <= key(wheels[i])) best = i;
  }
  return best;
}

void say_unknown(const Asked& asked, const std::optional<std::string>& build, TorchAnswer& answer) {
  answer.known = false;
  answer.newer_than_known = *answer.version > asked.knowledge.newest_torch();
  answer.positive = false;
  answer.companions.clear();  // of another release
  answer.cuda = build ? knowledge::cuda_of_build(*build) : std::nullopt;
  if (answer.cuda) answer.min_driver = asked.knowledge.min_driver(*answer.cuda, false);
  if (asked.place.board_of_other_builds() != nullptr) answer.instead = recommend(asked, answer);
}

void judge(const Asked& asked, const std::optional<std::string>& build, TorchAnswer& answer) {
  answer.chosen = chosen(asked, answer.wheels, build);
  if (!answer.chosen) {
    answer.missing_build = build.value_or("");
    answer.positive = false;
    return;
  }
  if (asked.place.is_empty()) return;
  answer.obstacle = gpu_obstacle(asked);
  const Wheel& wheel = answer.wheels[*answer.chosen];
  if (!answer.obstacle && knowledge::is_fit(*wheel.fit)) return;
  answer.positive = !answer.obstacle && wheel.forward && !wheel.forward->certified_only;
  const auto other = chosen(asked, answer.wheels, std::nullopt);
  if (!answer.obstacle && other && knowledge::is_fit(*answer.wheels[*other].fit)) answer.as_it_is = other;
  answer.instead = recommend(asked, answer);
}

/// The PyTorch that the release's wheel for this driver brings; nullptr: not known.
const TorchBuild* torch_of(const Asked& asked, const VllmRelease& row) {
  const Version cuda = knowledge::vllm_cuda_for(asked.knowledge, row, asked.place.driver).value_or(row.cuda);
  return asked.knowledge.torch(row.torch, knowledge::build_of_cuda(cuda), asked.place.wheel_machine());
}

/// The GPU of the place for which the release has no kernels, whatever the driver; empty: none.
std::string missing_kernels(const Asked& asked, const VllmRelease& row) {
  for (const PlaceGpu& gpu : asked.place.gpus) {
    if (gpu.architecture && *gpu.architecture < row.min_capability)
      return fmt::format("{} has compute capability {}", printable(gpu.name), capability_text(*gpu.architecture));
  }
  if (const auto* board = asked.place.board_of_other_builds())
    return fmt::format("its own wheels have no kernels for {}", board->word);
  const TorchBuild* wheel = torch_of(asked, row);
  if (wheel == nullptr || has_code_for_all(asked, *wheel)) return "";
  return fmt::format("its PyTorch {}: {}", wheel_name(*wheel), words_for(knowledge::WheelFit::no_code_for_gpu));
}

/// Why the release's wheel does not run on the place; empty: it does.
std::string obstacle_to(const Asked& asked, const VllmRelease& row) {
  if (std::string missing = missing_kernels(asked, row); !missing.empty()) return missing;
  if (const auto gpu = gpu_obstacle(asked)) return fmt::format("{}: {}", printable(gpu->gpu), gpu->why);
  if (asked.place.driver && !knowledge::vllm_cuda_for(asked.knowledge, row, asked.place.driver)) {
    const RunsOn how = runs_here(asked, row.cuda);
    if (how != RunsOn::natively && how != RunsOn::by_minor_version)
      return fmt::format("driver {} runs CUDA {} {}", to_string(*asked.place.driver), to_string(row.cuda),
                         words_for(how));
  }
  const TorchBuild* wheel = torch_of(asked, row);
  if (wheel != nullptr && !knowledge::is_fit(fit_here(asked, *wheel)))
    return fmt::format("its PyTorch {}: {}", wheel_name(*wheel), words_for(fit_here(asked, *wheel)));
  return "";
}

/// What is known of the release, or of the nearest before it: of another major release nothing can be guessed.
const VllmRelease* near_row(const Asked& asked, const Version& version) {
  const VllmRelease* row = asked.knowledge.vllm_near(version);
  return row != nullptr && version.major == row->last.major ? row : nullptr;
}

/// "0.8.5.post1" as it is asked for: without its end it would be the release before. "0.9" is 0.9.0.
std::string named_release(const std::optional<std::string>& text, const Version& version) {
  constexpr std::string_view kPost = ".post";
  std::string number = knowledge::release_number(version);
  const std::size_t post = text ? text->find(kPost) : std::string::npos;
  if (post == std::string::npos) return number;
  const std::size_t end = text->find_first_not_of("0123456789", post + kPost.size());
  return number + text->substr(post, end == std::string::npos ? end : end - post);
}

/// Nothing but the driver's age is against the release.
bool can_be_helped(const Asked& asked, const VllmRelease& row) {
  Place place = asked.place;
  place.driver = std::nullopt;
  return obstacle_to({asked.knowledge, place, asked.when}, row).empty() && !gpu_obstacle(asked);
}

}  // namespace

TorchAnswer answer_torch(const Asked& asked, const doctor::Purpose::Package& package) {
  TorchAnswer answer;
  if (!package.version) {
    answer.all = all_wheels(asked);
    answer.obstacle = gpu_obstacle(asked);
    answer.instead = recommend(asked, answer);
    answer.positive = any_runs(answer.all) || !answer.instead->other_builds.empty();
    return answer;
  }
  answer.version = Version::parse(*package.version).value_or(Version{});
  answer.wheels = wheels_of(asked, *package.version, *answer.version);
  answer.companions = knowledge::companions_of(*answer.version);
  if (package.build && knowledge::is_cpu_build(*package.build)) {
    answer.uses_gpu = false;
    answer.known = !answer.wheels.empty();
    if (!answer.known) answer.companions.clear();
    answer.wheels.clear();
    answer.newer_than_known = *answer.version > asked.knowledge.newest_torch();
    answer.sources.emplace_back("PyTorch +cpu: pytorch.org/get-started/locally, compute platform CPU");
    return answer;
  }
  if (answer.wheels.empty()) {
    say_unknown(asked, package.build, answer);
    return answer;
  }
  answer.version = answer.wheels[0].build.torch;
  for (const Wheel& wheel : answer.wheels)
    answer.sources.push_back(fmt::format("PyTorch {}: {}", wheel_name(wheel.build), wheel.build.source));
  judge(asked, package.build, answer);
  return answer;
}

VllmAnswer answer_vllm(const Asked& asked, const std::optional<std::string>& text) {
  VllmAnswer answer;
  answer.asked = text.value_or("");
  if (!text && asked.place.board_of_other_builds() != nullptr) {
    answer.instead = recommend(asked, answer);
    return answer;
  }
  const auto* newest = knowledge::newest_vllm_for(asked.knowledge, asked.place.architectures(), asked.place.driver,
                                                  asked.place.wheel_machine());
  answer.version = text ? Version::parse(*text) : newest != nullptr ? std::optional(newest->first) : std::nullopt;
  answer.row = answer.version ? near_row(asked, *answer.version) : nullptr;
  answer.positive = answer.row != nullptr;
  if (answer.row == nullptr) return answer;
  answer.estimated = *answer.version > answer.row->last;
  answer.min_driver = asked.knowledge.min_driver(answer.row->cuda, false);
  answer.command = vllm_command(asked, *answer.row, named_release(text, *answer.version), asked.place.driver);
  answer.sources.push_back(fmt::format("vLLM {}: {}", three_numbers(answer.row->first), answer.row->source));
  if (asked.place.is_empty()) return answer;
  answer.obstacle = obstacle_to(asked, *answer.row);
  if (answer.obstacle->empty()) return answer;
  if (can_be_helped(asked, *answer.row)) answer.forward = forward_here(asked, answer.row->cuda);
  answer.positive = answer.forward && !answer.forward->certified_only;
  answer.instead = recommend(asked, answer);
  return answer;
}

}  // namespace gpuwarden::compat
