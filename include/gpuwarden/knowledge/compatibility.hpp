// SPDX-License-Identifier: Apache-2.0
// What is published about which driver, toolkit, GPU and framework go together: rows with their sources, and the
// questions they answer. Pure look-ups. What is newer than the tables is judged by the newest rule that is known, and
// said to be so; it is never refused.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/knowledge/gpu_models.hpp"
#include "gpuwarden/knowledge/site_rules.hpp"
#include "gpuwarden/knowledge/version.hpp"

namespace gpuwarden::knowledge {

/// A release of the CUDA toolkit.
struct CudaToolkit {
  std::string_view name;  ///< "12.4.1"
  Version version;
  std::string_view released;         ///< "2024-04"; empty: not known
  Version min_driver;                ///< for all of its features, on Linux
  Version min_driver_minor_version;  ///< by minor-version compatibility (CUDA 11 and newer)
  int branch = 0;                    ///< of the driver in its installer
  Version max_gcc;
  Version max_clang;
  int lowest = 0;  ///< architectures that it can target: 50 is sm_50
  int highest = 0;
  Version ptx;
  std::string_view source;
};

/// An architecture, as nvcc numbers it.
struct Architecture {
  int number = 0;  ///< 90
  std::string_view name;
  Version first_cuda;
  Version last_cuda;  ///< empty: still
  std::string_view source;
};

struct DriverBranch {
  int branch = 0;
  std::string_view type;           ///< "LTSB", "PB" (production), "NFB" (new features), "legacy"; empty: not known
  std::string_view first_release;  ///< "2024-01"
  Version max_cuda;                ///< as nvidia-smi prints it
  std::string_view end_of_life;    ///< "2028-06"; "past": over, month not known; empty: not known
  std::string_view note;
  std::string_view source;
  std::string_view as_of;  ///< "2026-11": when the row was last held against its source
};

/// The processor's architecture that wheels are for where nobody names another.
inline constexpr std::string_view kUsualMachine = "x86_64";

/// One wheel of PyTorch on Linux.
struct TorchBuild {
  Version torch;
  std::string_view released;
  std::string_view build;  ///< "cu124"
  bool is_default = false;
  std::string_view architectures;  ///< "7.5;8.0;9.0;12.0+PTX"
  Version min_driver;
  Version python_lowest;
  Version python_highest;
  std::string_view source;
  std::string_view as_of;  ///< "2026-11"
};

/// vLLM releases with one set of needs.
struct VllmRelease {
  Version first;
  Version last;
  Version torch;
  Version cuda;  ///< of the default wheel
  int min_capability = 0;
  std::string_view source;
  Version other_cuda;      ///< of wheels that its own index has besides; empty: there are none
  std::string_view as_of;  ///< "2026-11"
};

/// What releases of a package need of driver, GPU and PyTorch, in its maintainers' words.
struct PackageNeeds {
  std::string_view package;  ///< by its name on PyPI, or as people call the program
  Version first;
  Version last;              ///< empty: still
  int min_capability = 0;    ///< 80 of 8.0; 0: whatever its PyTorch serves where it has one, else not said
  Version min_driver;        ///< empty: that of its CUDA, or of its PyTorch
  Version cuda;              ///< major release of its wheels; empty: its PyTorch's
  Version torch;             ///< the least PyTorch; empty: not said
  std::string_view install;  ///< the command, or the page that has it
  std::string_view note;
  std::string_view source;
  std::string_view as_of;  ///< "2026-11"
  int max_capability = 0;  ///< 90 of 9.0: the last that it has kernels for; 0: no such bound
};

/// A release of a library or framework, in its maintainers' words.
struct ComponentRelease {
  std::string_view component;
  std::string_view version;
  std::string_view needs;
  std::string_view capability;
  std::string_view driver_or_other;
  std::string_view source;
};

struct XidCode {
  int code = 0;
  std::string_view mnemonic;
  std::string_view description;
  std::string_view severity;      ///< "info", "warning", "error", "critical"
  std::string_view cause;         ///< "HW", "USER_APP" ...; may be empty
  std::string_view action;        ///< NVIDIA's word: "RESET_GPU"
  std::string_view action_plain;  ///< the same in a sentence
  std::string_view investigate;
  std::string_view source;
};

/// How a GPU sets bad memory aside (source: NVIDIA GPU memory error management, supported GPUs; NVIDIA dynamic page
/// retirement; nvml.h, nvmlDeviceGetRemappedRows: "for Ampere or newer").
enum class MemoryRepair {
  unknown,
  pages,  ///< they are retired when the driver is loaded anew: before Ampere
  rows,   ///< spare ones replace them when the GPU is reset: Ampere and newer
};
/// By its architecture (80); empty: not known.
MemoryRepair memory_repair(std::optional<int> architecture);
/// "nvidia-smi -q -d ECC,ROW_REMAPPER": what shows a GPU's bad memory.
std::string_view memory_report_command(MemoryRepair repair);

/// How a toolkit's programs run on a driver (source: CUDA compatibility guide).
enum class RunsOn {
  natively,                  ///< the driver is as new as the toolkit
  by_minor_version,          ///< same major release; no PTX of this toolkit, no new driver features
  by_forward_compatibility,  ///< only with cuda-compat, on data-centre GPUs
  not_at_all,
};

/// Whether the month `end` ("2026-06", "past") is over at `when`. Unknown is not over. At the epoch (time not known)
/// only "past" is.
bool is_over(std::string_view end, std::chrono::system_clock::time_point when);

/// 124 of "cu124", 12.4 as a Version; empty for "cpu" and anything else.
std::optional<Version> cuda_of_build(std::string_view build);
/// "cu124" of 12.4.
std::string build_of_cuda(const Version& cuda);
/// "cpu", and "cpu.cxx11.abi" of before PyTorch 2.7: a wheel that uses no GPU.
bool is_cpu_build(std::string_view build);

/// Whether code compiled for `compiled` runs on `architecture` (90 for 9.0). Entries as torch.cuda.get_arch_list() and
/// wheel tables have them: "sm_80", "sm_90a" (that GPU only), "sm_120f" (that family), "compute_90" and "9.0+PTX"
/// (any newer, by JIT), "8.6". SASS runs on the same major at an equal or higher minor (source: CUDA programming
/// guide, binary compatibility; family-specific targets: NVIDIA blog on CUDA 12.9), but for Jetson's GPUs, whose SASS
/// is their own.
bool code_runs_on(std::string_view compiled, int architecture);
bool any_code_runs_on(const std::vector<std::string>& compiled, int architecture);
/// 87 (Orin), 72 (Xavier) ...: a GPU in one chip with its processor. "Binary compatibility is supported only for the
/// desktop. It is not supported for Tegra" (source: CUDA C programming guide 3.1.2, as jax-ml/jax#40492 quotes it and
/// measures it on Orin: code of sm_80 has no kernel image there; pytorch/pytorch torch/cuda/__init__.py,
/// DEVICE_REQUIREMENT; vllm-project/vllm#19328).
bool is_jetson(int architecture);

/// The tables, and the questions to them. built_in() is what was compiled in; a user's file can lie over it.
class Knowledge {
 public:
  static const Knowledge& built_in();

  /// These tables with a user's YAML over them: a row with a known key (a toolkit's version, a branch's number ...)
  /// changes what it names of that row, any other row is added. `name` (the file's) stands in errors
  /// ("NAME:LINE:COLUMN: what") and as the source of rows that name none. Strict: unknown keys and bad values fail with
  /// invalid_argument.
  Result<Knowledge> with_overlay(std::string_view yaml, std::string_view name) const;
  /// The names of the files that were laid over, in order.
  const std::vector<std::string>& overlays() const { return overlays_; }

  std::span<const CudaToolkit> toolkits() const { return toolkits_; }
  std::span<const Architecture> architectures() const { return architectures_; }
  std::span<const DriverBranch> branches() const { return branches_; }
  std::span<const TorchBuild> torch_builds() const { return torch_; }
  /// Wheels for processors of this architecture ("x86_64", "aarch64"); of others none are known.
  std::span<const TorchBuild> torch_builds(std::string_view machine) const;
  std::span<const VllmRelease> vllm_releases() const { return vllm_; }
  std::span<const PackageNeeds> packages() const { return packages_; }
  std::span<const ComponentRelease> components() const { return components_; }
  std::span<const XidCode> xids() const { return xids_; }
  std::span<const GpuModel> models() const { return models_; }
  /// A site's own; there are none built in.
  std::span<const SiteRule> rules() const { return rules_; }
  /// The latest month in which any of the tables was held against its sources: "2026-11".
  std::string_view as_of() const;

  /// The release that `version` ("12.4.131" of nvcc, "12.4") belongs to: the newest of that MAJOR.MINOR; nullptr where
  /// it is not known. From 13.4 on the third number is a build, not an update.
  const CudaToolkit* toolkit(const Version& version) const;
  /// MAJOR.MINOR of the newest known toolkit.
  Version newest_toolkit() const;

  const DriverBranch* branch(int number) const;
  int newest_branch() const;
  /// The branch to take: long-term support before production before new features, out and alive at `when`, not older
  /// than `at_least` and not newer than `at_most` (0: any). 0 where there is none.
  int recommended_branch(int at_least, int at_most, std::chrono::system_clock::time_point when) const;
  /// The highest CUDA version of a driver, by its branch; for a branch between two known ones, the older's; for one
  /// newer than all, the newest's.
  std::optional<Version> max_cuda(const Version& driver) const;
  /// The oldest driver that runs programs of this CUDA version: `native` with all features, else by minor-version
  /// compatibility. For a version newer than the tables, the major release's rule. Empty where nothing is known.
  std::optional<Version> min_driver(const Version& cuda, bool native) const;
  RunsOn runs_on(const Version& cuda, const Version& driver) const;

  const Architecture* architecture(int number) const;
  /// Whether nvcc of this version compiles for the architecture; empty where one of the two is not known.
  std::optional<bool> can_target(const Version& cuda, int architecture) const;
  /// The first and last toolkit for an architecture: {12.8, {}}.
  std::optional<std::pair<Version, Version>> toolkits_for(int architecture) const;
  /// Whether nvcc takes this compiler ("gcc", "clang") of this major version; empty where it is not known.
  std::optional<bool> host_compiler_fits(const Version& cuda, std::string_view compiler, int major) const;

  /// The wheel's row; of the same MAJOR.MINOR where the exact release has none. nullptr where that is not known.
  const TorchBuild* torch(const Version& torch, std::string_view build, std::string_view machine = kUsualMachine) const;
  /// All wheels of a release.
  std::vector<const TorchBuild*> torch_builds_of(const Version& torch, std::string_view machine = kUsualMachine) const;
  Version newest_torch() const;
  /// The newest wheel that runs on this architecture and driver (empty: any); nullptr where there is none. Of several
  /// builds of a release the default one is taken if it fits.
  const TorchBuild* torch_for(int architecture, std::optional<Version> driver) const;
  const VllmRelease* vllm(const Version& version) const;
  /// The same, else the nearest release before it that is known.
  const VllmRelease* vllm_near(const Version& version) const;
  /// What this release of a package needs (no version: its newest); nullptr where that is not known.
  const PackageNeeds* package(std::string_view name, const std::optional<Version>& version) const;

  /// What it means on a GPU that repairs its memory this way; the catalogue of Ampere and newer where that is not
  /// known.
  const XidCode* xid(int code, MemoryRepair repair = MemoryRepair::unknown) const;

  /// The model by PCI device id, else by name; names may lack "NVIDIA ", be a MIG instance's or be cut ("... 3090 Ti
  /// ..."). nullptr where it is not known.
  const GpuModel* model(std::string_view name, std::optional<std::uint32_t> pci_device_id = std::nullopt) const;
  /// 86 of "NVIDIA GeForce RTX 3070 Laptop GPU": the architecture of the longest model name that this one begins with.
  std::optional<int> architecture_of_name(std::string_view name) const;

 private:
  Knowledge() = default;
  std::optional<Version> minor_version_floor(int cuda_major) const;

  std::vector<CudaToolkit> toolkits_;
  std::vector<Architecture> architectures_;
  std::vector<DriverBranch> branches_;
  std::vector<TorchBuild> torch_;
  std::vector<TorchBuild> torch_aarch64_;
  std::vector<VllmRelease> vllm_;
  std::vector<PackageNeeds> packages_;
  std::vector<ComponentRelease> components_;
  std::vector<XidCode> xids_;
  std::vector<GpuModel> models_;
  std::vector<SiteRule> rules_;
  std::vector<std::string> overlays_;
  /// What the rows of overlays point to. Shared, so that a copy's rows stay good.
  std::vector<std::shared_ptr<const std::deque<std::string>>> texts_;
};

}  // namespace gpuwarden::knowledge
