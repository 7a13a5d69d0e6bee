// SPDX-License-Identifier: Apache-2.0
// What several answers ask of the place, and the names of what they say.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <ranges>

#include "compat/recommend.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/compat/answer.hpp"
#include "gpuwarden/knowledge/forward_compatibility.hpp"

namespace gpuwarden::compat {

using knowledge::RunsOn;
using knowledge::WheelFit;

namespace {

/// How cuda-compat serves the place's GPUs: the worst of them; unknown ones are not judged.
knowledge::CompatServes compat_serves(const Asked& asked) {
  auto worst = knowledge::CompatServes::yes;
  for (const PlaceGpu& gpu : asked.place.gpus) worst = std::min(worst, knowledge::compat_serves(gpu.name));
  return worst;
}

}  // namespace

std::string capability_text(int architecture) { return fmt::format("{}.{}", architecture / 10, architecture % 10); }

std::string wheel_name(const knowledge::TorchBuild& build) {
  return fmt::format("{}+{}", three_numbers(build.torch), build.build);
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
    case WheelFit::driver_not_for_gpu:
      return "no: the driver does not serve the GPU";
    case WheelFit::jit_needs_a_newer_driver:
      return "no: has only PTX for the GPU, newer than the driver";
  }
  return "";
}

RunsOn runs_here(const Asked& asked, const knowledge::Version& cuda) {
  if (is_useless(asked)) return RunsOn::not_at_all;
  const RunsOn how = asked.knowledge.runs_on(cuda, *asked.place.driver);
  const bool refused = how == RunsOn::by_forward_compatibility && compat_serves(asked) == knowledge::CompatServes::no;
  return refused ? RunsOn::not_at_all : how;
}

std::optional<Forward> forward_here(const Asked& asked, const Version& cuda) {
  if (!asked.place.driver || asked.place.gpus.empty()) return std::nullopt;
  if (runs_here(asked, cuda) != RunsOn::by_forward_compatibility) return std::nullopt;
  return Forward{release_of(cuda), compat_serves(asked) == knowledge::CompatServes::certified_servers_only};
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

WheelFit fit_here(const Asked& asked, const knowledge::TorchBuild& build) {
  WheelFit worst = knowledge::wheel_fit(asked.knowledge, build, std::nullopt, asked.place.driver);
  for (const int architecture : asked.place.architectures())
    worst = std::max(worst, knowledge::wheel_fit(asked.knowledge, build, architecture, asked.place.driver));
  return gpu_obstacle(asked) ? std::max(worst, WheelFit::driver_not_for_gpu) : worst;
}

std::string missing_kernels(const InstalledTorch& torch, const PlaceGpu& gpu) {
  if (!gpu.architecture || torch.architectures.empty()) return "";
  if (knowledge::any_code_runs_on(torch.architectures, *gpu.architecture)) return "";
  std::vector<std::string> parts{torch.version};
  if (!torch.cuda.empty()) parts.push_back("CUDA " + torch.cuda);
  return fmt::format("the PyTorch that is installed ({}) has no code for it (sm_{})", join(parts, ", "),
                     *gpu.architecture);
}

std::string obstacle_of(const Asked& asked, const PlaceGpu& gpu) {
  if (gpu.model == nullptr || !asked.place.driver) return "";
  const int branch = asked.place.driver->major;
  const knowledge::FirstDrivers first = knowledge::first_drivers_of(*gpu.model);
  const int last = gpu.model->last_driver_branch;
  if (!first.serve(*asked.place.driver))
    return fmt::format("driver {} does not know it: {} or newer is needed", to_string(*asked.place.driver),
                       text_of(first));
  if (last != 0 && branch > last)
    return fmt::format("driver {} no longer serves it: {} is the last branch", to_string(*asked.place.driver), last);
  return "";
}

bool is_useless(const Asked& asked) {
  return !asked.place.gpus.empty() &&
         std::ranges::all_of(asked.place.gpus, [&](const PlaceGpu& gpu) { return !obstacle_of(asked, gpu).empty(); });
}

std::string vllm_command(const Asked& asked, const knowledge::VllmRelease& row, std::string_view version,
                         std::optional<Version> driver) {
  return knowledge::vllm_command(asked.knowledge, row, version, driver);
}

std::string cpu_command(const Version& torch) {
  return fmt::format("pip install torch=={} --index-url https://download.pytorch.org/whl/cpu", three_numbers(torch));
}

std::string three_numbers(const Version& version) {
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

std::span<const Rate> rates() {
  using knowledge::GpuModel;
  static constexpr auto kRates = std::to_array<Rate>({{"fp32_tflops", "FP32", &GpuModel::fp32_tflops},
                                                      {"tf32_dense_tflops", "TF32", &GpuModel::tf32_dense_tflops},
                                                      {"fp16_dense_tflops", "FP16", &GpuModel::fp16_dense_tflops},
                                                      {"bf16_dense_tflops", "BF16", &GpuModel::bf16_dense_tflops},
                                                      {"fp8_dense_tflops", "FP8", &GpuModel::fp8_dense_tflops},
                                                      {"int8_dense_tops", "INT8", &GpuModel::int8_dense_tops}});
  return kRates;
}

std::string code_for(int architecture) {
  constexpr int kFirstWithOwnCode = 90;
  const std::string own = architecture >= kFirstWithOwnCode
                              ? fmt::format("; of code for one architecture alone only sm_{}a", architecture)
                              : "";
  // A Jetson's GPU takes no code of the cards of its generation.
  const int first = knowledge::is_jetson(architecture) ? architecture : architecture / 10 * 10;
  const std::string range =
      first == architecture ? fmt::format("sm_{}", first) : fmt::format("sm_{} to sm_{}", first, architecture);
  return fmt::format("{}, and PTX up to compute_{}{}", range, architecture, own);
}

std::vector<std::string> spans_of(const std::vector<ToolkitRow>& newest_first, std::optional<knowledge::RunsOn> how) {
  std::vector<std::string> spans;
  bool goes_on = false;
  Version first;
  for (const ToolkitRow& row : std::views::reverse(newest_first)) {
    const bool is_one = row.builds && row.runs == how;
    if (is_one && goes_on) spans.back() = fmt::format("{} to {}", to_string(first), to_string(row.cuda));
    if (is_one && !goes_on) {
      first = row.cuda;
      spans.push_back(to_string(first));
    }
    goes_on = is_one;
  }
  return spans;
}

std::vector<TorchRelease> releases_that_run(const Asked& asked, const std::vector<Wheel>& wheels) {
  std::vector<TorchRelease> releases;
  for (const Wheel& wheel : wheels) {
    const bool runs = wheel.fit && knowledge::is_fit(*wheel.fit);
    const bool seen = std::ranges::find(releases, wheel.build.torch, &TorchRelease::torch) != releases.end();
    if (runs && !seen) releases.push_back({wheel.build.torch, {}});
  }
  std::ranges::sort(releases, std::greater<>(), &TorchRelease::torch);
  for (TorchRelease& release : releases) {
    for (const auto* build : asked.knowledge.torch_builds_of(release.torch, asked.place.wheel_machine())) {
      if (knowledge::is_fit(fit_here(asked, *build))) release.builds.push_back(build);
    }
  }
  return releases;
}

}  // namespace gpuwarden::compat
