// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/gpu_boards.hpp"

namespace gpuwarden::knowledge {
namespace {

/// SASS that the GPU can run, or PTX from which the driver can make it.
bool has_code(const TorchBuild& build, int architecture, bool with_ptx) {
  for (std::string_view entry : split(build.architectures, ';')) {
    if (!with_ptx && entry.ends_with("+PTX")) entry.remove_suffix(4);
    if (!with_ptx && entry.starts_with("compute_")) continue;
    if (code_runs_on(entry, architecture)) return true;
  }
  return false;
}

/// The first release with a wheel for Arm servers; with code for Thor, where that is among the GPUs (sources:
/// LMCache/LMCache#1507, verl-project/verl#3468: 0.10.2 ships aarch64; vllm-project/vllm#39233, merged in April 2026:
/// sm_110).
Version first_vllm_on_arm(const std::vector<int>& architectures) {
  constexpr int kThor = 110;
  const bool thor = std::ranges::find(architectures, kThor) != architectures.end();
  return thor ? Version{0, 20, 0} : Version{0, 10, 2};
}

}  // namespace

int architecture_of(const GpuModel& model) { return model.capability_major * 10 + model.capability_minor; }

WheelFit wheel_fit(const Knowledge& knowledge, const TorchBuild& build, std::optional<int> architecture,
                   std::optional<Version> driver) {
  if (architecture && !has_code(build, *architecture, true)) return WheelFit::no_code_for_gpu;
  if (driver && *driver < build.min_driver) return WheelFit::driver_too_old;
  if (!architecture || has_code(build, *architecture, false)) return WheelFit::runs;
  // PTX of a toolkit that is newer than the driver cannot be compiled by it (source: CUDA compatibility guide, limits
  // of minor-version compatibility).
  const auto cuda = cuda_of_build(build.build);
  const bool native = !driver || !cuda || knowledge.runs_on(*cuda, *driver) == RunsOn::natively;
  return native ? WheelFit::runs_by_jit : WheelFit::jit_needs_a_newer_driver;
}

bool is_for_python(const TorchBuild& build, const Version& python) {
  const Version release = release_of(python);
  return release >= build.python_lowest &&
         release <= Version{build.python_highest.major, build.python_highest.minor + 1};
}

const TorchBuild* newest_torch_for(const Knowledge& knowledge, const std::vector<int>& architectures,
                                   std::optional<Version> driver, std::string_view machine,
                                   std::optional<Version> python) {
  const auto fits = [&](const TorchBuild& build) {
    if (python && !is_for_python(build, *python)) return false;
    if (!is_fit(wheel_fit(knowledge, build, std::nullopt, driver))) return false;
    return std::ranges::all_of(architectures,
                               [&](int one) { return is_fit(wheel_fit(knowledge, build, one, driver)); });
  };
  const auto key = [](const TorchBuild& build) {
    return std::tuple(build.torch, build.is_default, cuda_of_build(build.build).value_or(Version{}));
  };
  const TorchBuild* best = nullptr;
  for (const TorchBuild& build : knowledge.torch_builds(machine)) {
    if (fits(build) && (best == nullptr || key(*best) < key(build))) best = &build;
  }
  return best;
}

std::optional<Version> vllm_cuda_for(const Knowledge& knowledge, const VllmRelease& row,
                                     std::optional<Version> driver) {
  for (const Version& cuda : {row.cuda, row.other_cuda}) {
    if (!cuda) continue;
    const RunsOn how = driver ? knowledge.runs_on(cuda, *driver) : RunsOn::natively;
    if (how == RunsOn::natively || how == RunsOn::by_minor_version) return cuda;
  }
  return std::nullopt;
}

std::string release_number(const Version& version) {
  const std::string three = fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
  return version.build == 0 ? three : fmt::format("{}.{}", three, version.build);
}

std::string vllm_command(const Knowledge& knowledge, const VllmRelease& row, std::string_view version,
                         std::optional<Version> driver) {
  const auto cuda = vllm_cuda_for(knowledge, row, driver);
  if (!cuda || !row.other_cuda || *cuda != row.other_cuda) return fmt::format("pip install vllm=={}", version);
  // source: vllm-project/vllm#43847, #44335: a plain install takes PyPI's wheel, which is of the default CUDA
  const std::string build = build_of_cuda(*cuda);
  return fmt::format(
      "pip install vllm=={0}+{1} --extra-index-url https://wheels.vllm.ai/{0}/{1} --extra-index-url "
      "https://download.pytorch.org/whl/{1}",
      version, build);
}

bool vllm_has_kernels(const Version& version, int architecture) {
  constexpr Version kLastWithoutSm120{0, 9, 0};
  return architecture < 120 || Version{version.major, version.minor, version.patch} > kLastWithoutSm120;
}

bool vllm_reads_mig_uuids(const Version& version) { return version >= Version{0, 10}; }

bool vllm_runs(const Knowledge& knowledge, const VllmRelease& row, const std::vector<int>& architectures,
               std::optional<Version> driver, std::string_view machine) {
  if (machine != kUsualMachine && row.first < first_vllm_on_arm(architectures)) return false;
  if (std::ranges::any_of(architectures, [&](int one) { return one < row.min_capability; })) return false;
  const auto cuda = vllm_cuda_for(knowledge, row, driver);
  if (!cuda) return false;
  // Its wheel brings the PyTorch that it was built with, and that one must have code for the GPU.
  const TorchBuild* wheel = knowledge.torch(row.torch, build_of_cuda(*cuda), machine);
  return wheel == nullptr ||
         std::ranges::all_of(architectures, [&](int one) { return is_fit(wheel_fit(knowledge, *wheel, one, driver)); });
}

bool is_served_by_newest(const Knowledge& knowledge, const GpuModel& model) {
  if (model.last_cuda && release_of(model.last_cuda) < knowledge.newest_toolkit()) return false;
  const auto* const wheel = knowledge.torch_for(architecture_of(model), std::nullopt);
  return wheel == nullptr || release_of(wheel->torch) >= release_of(knowledge.newest_torch());
}

const VllmRelease* newest_vllm_for(const Knowledge& knowledge, const std::vector<int>& architectures,
                                   std::optional<Version> driver, std::string_view machine) {
  const VllmRelease* best = nullptr;
  for (const VllmRelease& row : knowledge.vllm_releases()) {
    if ((best == nullptr || best->first < row.first) && vllm_runs(knowledge, row, architectures, driver, machine))
      best = &row;
  }
  return best;
}

std::string pip_command(const TorchBuild& build) {
  const std::string package =
      fmt::format("pip install torch=={}.{}.{}", build.torch.major, build.torch.minor, build.torch.patch);
  // The index of a build has it whether it is PyPI's default or not.
  return fmt::format("{} --index-url https://download.pytorch.org/whl/{}", package, build.build);
}

DriverNeeds driver_needs(const Knowledge& knowledge, const GpuModel& model, std::optional<Version> cuda,
                         std::string_view workload, std::chrono::system_clock::time_point when) {
  const FirstDrivers first = first_drivers_of(model);
  DriverNeeds needs{.minimum = first.lowest(), .first = first, .last_branch = model.last_driver_branch};
  if (needs.minimum)
    needs.sources.push_back(fmt::format("minimum: {}", first.source.empty() ? model.source : first.source));
  const auto* const board = find_gpu_board(model.name);
  // JetPack brings the driver: there is none to choose.
  const bool has_choice = board == nullptr || !board->is_jetson;
  if (has_choice)
    needs.recommended = {knowledge.recommended_branch(first.lowest().major, model.last_driver_branch, when)};
  if (const auto* branch = knowledge.branch(needs.recommended.major))
    needs.sources.push_back(fmt::format("recommended: {} {}: {}", branch->branch, branch->type, branch->source));
  if (cuda && has_choice) {
    const auto required = knowledge.min_driver(*cuda, false);
    const auto optimal = knowledge.min_driver(*cuda, true);
    needs.required = std::max(needs.minimum, required.value_or(Version{}));
    needs.optimal = std::max(needs.required, optimal.value_or(Version{}));
    // No driver that serves the GPU has all of that CUDA: its last one has most.
    if (needs.last_branch != 0 && needs.optimal.major > needs.last_branch) needs.optimal = {needs.last_branch};
    if (const auto* toolkit = knowledge.toolkit(*cuda))
      needs.sources.push_back(fmt::format("required, optimal: CUDA {}: {}", to_string(*cuda), toolkit->source));
  }
  const Situation situation{.gpu = std::string(model.name),
                            .architecture = model.architecture,
                            .capability = architecture_of(model),
                            .workload = std::string(workload)};
  for (const SiteRule& rule : knowledge.rules()) {
    if (!concerns(rule, situation)) continue;
    const auto over = [&](Version& figure, const Version& own) { figure = own ? own : figure; };
    over(needs.minimum, rule.driver_minimum);
    if (rule.driver_minimum) needs.first = {.releases = {rule.driver_minimum}, .source = rule.source};
    over(needs.recommended, rule.driver_recommended);
    over(needs.required, rule.driver_required);
    over(needs.optimal, rule.driver_optimal);
    needs.sources.push_back(fmt::format("rule {}: {}", rule.id, rule.source));
  }
  return needs;
}

std::string_view to_string(DriverStanding standing) {
  constexpr auto kWords =
      std::to_array<std::string_view>({"unknown", "below minimum", "GPU no longer served", "below required",
                                       "below recommended", "sufficient", "optimal"});
  return kWords[static_cast<std::size_t>(std::to_underlying(standing))];
}

DriverStanding standing_of(const DriverNeeds& needs, const Version& driver) {
  const auto below = [&](const Version& wanted) { return wanted && driver < wanted; };
  if (below(needs.minimum) || !needs.first.serve(driver)) return DriverStanding::below_minimum;
  if (needs.last_branch != 0 && driver.major > needs.last_branch) return DriverStanding::too_new;
  if (below(needs.required)) return DriverStanding::below_required;
  if (below(needs.recommended)) return DriverStanding::below_recommended;
  if (!needs.minimum && !needs.recommended && !needs.required && !needs.optimal) return DriverStanding::unknown;
  return below(needs.optimal) ? DriverStanding::sufficient : DriverStanding::optimal;
}

}  // namespace gpuwarden::knowledge
