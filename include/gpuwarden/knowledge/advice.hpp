// SPDX-License-Identifier: Apache-2.0
// Questions that join several tables: does this wheel run here, which driver does this GPU want, which GPU for this
// job. Pure: the time is handed in.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/knowledge/first_drivers.hpp"

namespace gpuwarden::knowledge {

/// 90 of 9.0.
int architecture_of(const GpuModel& model);

/// Whether a PyTorch wheel runs on a GPU with a driver, and if not, why; the later, the graver.
enum class WheelFit {
  runs,
  runs_by_jit,               ///< no code for this GPU, but PTX, and the driver can compile it
  driver_too_old,            ///< below the wheel's floor
  jit_needs_a_newer_driver,  ///< only PTX for this GPU, and it is newer than the driver's compiler (CUDA error 222)
  driver_not_for_gpu,        ///< it is older than the GPU, or has left it: what runs on other GPUs does not on this
  no_code_for_gpu,           ///< "no kernel image is available for execution on the device": no driver helps
};
/// Unknown GPU or driver: that half is not judged.
WheelFit wheel_fit(const Knowledge& knowledge, const TorchBuild& build, std::optional<int> architecture,
                   std::optional<Version> driver);
constexpr bool is_fit(WheelFit fit) { return fit == WheelFit::runs || fit == WheelFit::runs_by_jit; }

/// Whether a wheel is made for a Python, or the next one after those that it was made for.
bool is_for_python(const TorchBuild& build, const Version& python);
/// The newest wheel that runs on all of these GPUs, of one release the default build first; nullptr: there is none.
/// `python`: of those that are made for it; empty: any.
const TorchBuild* newest_torch_for(const Knowledge& knowledge, const std::vector<int>& architectures,
                                   std::optional<Version> driver, std::string_view machine = kUsualMachine,
                                   std::optional<Version> python = std::nullopt);
/// Which of the release's wheels runs on a driver, by the CUDA that it is built for: the default one, else the other
/// one; empty: none does, of those that are known.
std::optional<Version> vllm_cuda_for(const Knowledge& knowledge, const VllmRelease& row, std::optional<Version> driver);
/// Whether its released wheels have kernels for this architecture: up to 0.9.0 they have none for 12.x (source:
/// vllm-project/vllm#18835). What its row says of older GPUs is not asked here.
bool vllm_has_kernels(const Version& version, int architecture);
/// Whether it takes the UUIDs of MIG instances, from 0.10 on (source: vllm-project/vllm#17047).
bool vllm_reads_mig_uuids(const Version& version);
/// Whether a wheel of the release runs on all of these GPUs with a driver, and the PyTorch that it brings, too.
bool vllm_runs(const Knowledge& knowledge, const VllmRelease& row, const std::vector<int>& architectures,
               std::optional<Version> driver, std::string_view machine = kUsualMachine);
/// The newest vLLM of which a wheel runs there, of those for processors of this architecture.
const VllmRelease* newest_vllm_for(const Knowledge& knowledge, const std::vector<int>& architectures,
                                   std::optional<Version> driver, std::string_view machine = kUsualMachine);
/// "0.11.0", "0.10.1.1": a release as its maker writes it, with three numbers at least.
std::string release_number(const Version& version);
/// Installs that version ("0.8.5.post1"), with the wheel of a CUDA that the driver (empty: any) runs.
std::string vllm_command(const Knowledge& knowledge, const VllmRelease& row, std::string_view version,
                         std::optional<Version> driver);
/// The index that pip needs for a wheel; empty for the default build, which PyPI has.
std::string pip_command(const TorchBuild& build);

/// The drivers for a GPU. Empty: not known, or none.
struct DriverNeeds {
  Version minimum;      ///< first driver that knows the GPU
  FirstDrivers first;   ///< the same, with what later branches say; a rule of the site stands in its place
  Version required;     ///< for the work; at least the minimum
  Version recommended;  ///< the branch to take today
  Version optimal;      ///< with which nothing of the work's toolkit is missing; else the GPU's last branch
  int last_branch = 0;  ///< 0: still served
  std::vector<std::string> sources;  ///< "minimum: ..."
};
/// `cuda`: what the work's binaries were built with (empty: no work in mind). Site rules on this GPU and `workload`
/// come over the tables' figures.
DriverNeeds driver_needs(const Knowledge& knowledge, const GpuModel& model, std::optional<Version> cuda,
                         std::string_view workload, std::chrono::system_clock::time_point when);

enum class DriverStanding { unknown, below_minimum, too_new, below_required, below_recommended, sufficient, optimal };
/// "required: too old" and so on, for people.
std::string_view to_string(DriverStanding standing);
DriverStanding standing_of(const DriverNeeds& needs, const Version& driver);

/// False for a model that the newest toolkit or PyTorch has left.
bool is_served_by_newest(const Knowledge& knowledge, const GpuModel& model);

}  // namespace gpuwarden::knowledge
