// SPDX-License-Identifier: Apache-2.0
// What runs where: which drivers, toolkits, frameworks and GPUs go together. Every question has an answer as a value;
// words for people are made by whoever shows it, JSON by json.hpp. Pure: place and time are handed in.
//
//   const auto place = compat::place_of(snapshot, knowledge);
//   const auto answer = compat::answer_cuda({knowledge, place, now}, {12, 8});
//   if (answer.here && answer.here->runs == knowledge::RunsOn::not_at_all) ...
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gpuwarden/compat/place.hpp"
#include "gpuwarden/doctor/purpose.hpp"
#include "gpuwarden/knowledge/advice.hpp"
#include "gpuwarden/knowledge/gpu_boards.hpp"
#include "gpuwarden/knowledge/gpu_uses.hpp"
#include "gpuwarden/knowledge/torch_companions.hpp"
#include "gpuwarden/planning/workload.hpp"

namespace gpuwarden::compat {

using knowledge::Version;

/// What every answer looks at.
struct Asked {
  const knowledge::Knowledge& knowledge;
  const Place& place;
  std::chrono::system_clock::time_point when;
};

/// What all answers have.
struct Verdict {
  bool positive = true;              ///< false: it does not run, does not fit, or is not known
  std::vector<std::string> sources;  ///< of what was said, in order
};

/// What makes a newer CUDA's programs run on a driver that is too old for them: the package cuda-compat.
struct Forward {
  Version cuda;
  bool certified_only = false;  ///< the GPU is a workstation's: in NGC-Ready servers only
};

/// A wheel of PyTorch, and how it does at the place; empty: no place is known.
struct Wheel {
  knowledge::TorchBuild build;
  std::optional<knowledge::WheelFit> fit;
  std::optional<Forward> forward = {};  ///< with which it runs though the driver is too old
};

/// What to take.
struct Recommendation {
  std::optional<Version> driver;  ///< another one than the place has; empty: that one will do, or none is known
  const knowledge::TorchBuild* torch = nullptr;
  const knowledge::VllmRelease* vllm = nullptr;
  std::string vllm_command;  ///< installs it, with the wheel of a CUDA that the driver runs; empty: there is none
  std::string_view other_builds = {};  ///< where both come from instead, as prose (GpuBoard::builds); empty: as above
};

/// A GPU that the place's driver cannot drive.
struct Obstacle {
  std::string gpu;
  std::string why;
};

struct ToolkitRow {
  Version cuda;
  bool builds = false;                    ///< for all GPUs of the place
  std::optional<knowledge::RunsOn> runs;  ///< empty: the driver is not known
};

/// What a driver and GPUs run.
struct MachineAnswer : Verdict {
  bool nothing_to_judge = false;     ///< neither a GPU nor a driver
  std::vector<Obstacle> obstacles;   ///< kernels that an installed PyTorch lacks first, then the driver's
  std::vector<ToolkitRow> toolkits;  ///< newest first
  std::vector<Wheel> torch;          ///< all that are known; empty where the driver drives none of the GPUs
  std::optional<Recommendation> recommended;
};

/// An architecture that a toolkit builds for.
struct GenerationRow {
  const knowledge::Architecture* architecture = nullptr;
  Version least;        ///< driver, by minor-version compatibility; empty: it comes with the system (Jetson)
  Version all;          ///< driver for all of the toolkit
  int last_branch = 0;  ///< 0: still served
};

/// A GPU of the place, as a toolkit sees it.
struct TargetGpu {
  const PlaceGpu* gpu = nullptr;
  std::string obstacle;        ///< why the driver cannot drive it; empty: it can
  std::optional<bool> builds;  ///< the toolkit builds for it; empty: not known
};

/// What a CUDA toolkit needs: driver, GPUs, host compilers.
struct CudaAnswer : Verdict {
  Version cuda;
  const knowledge::CudaToolkit* toolkit = nullptr;  ///< nullptr: none of this number is known
  bool newer_than_known = false;
  std::optional<Version> native;  ///< the least driver for all of it
  std::optional<Version> minor;   ///< the least driver by minor-version compatibility
  std::vector<std::string> torch;
  std::vector<std::string> vllm;  ///< releases whose default wheel is of this CUDA: "0.7.0 to 0.7.3", oldest first
  std::vector<GenerationRow> architectures;
  struct Here {
    std::optional<knowledge::RunsOn> runs;
    std::vector<TargetGpu> gpus;
    /// For all GPUs; empty where it is known of none.
    std::optional<bool> builds() const;
  };
  std::optional<Here> here;
};

/// A release of PyTorch, or, without a version, PyTorch as it is.
struct TorchAnswer : Verdict {
  std::optional<Version> version;
  bool known = true;
  bool newer_than_known = false;
  bool uses_gpu = true;                 ///< false: the +cpu wheel, which runs anywhere and has no row in `wheels`
  std::vector<Wheel> wheels;            ///< of the release
  std::optional<std::size_t> chosen;    ///< of `wheels`: the one that is meant
  std::optional<std::size_t> as_it_is;  ///< of `wheels`: where the chosen one needs cuda-compat, one that does not
  std::string missing_build;            ///< the question's build, where no such wheel is known
  std::vector<const knowledge::TorchCompanion*> companions;  ///< releases of torchvision ... that go with the version
  std::optional<Version> cuda;            ///< of a release that is not known, by the build that is named
  std::optional<Version> min_driver;      ///< the least driver for that
  std::optional<Obstacle> obstacle;       ///< what keeps the GPUs of the place from working at all
  std::vector<Wheel> all;                 ///< without a version: every wheel that is known
  std::optional<Recommendation> instead;  ///< where it does not run; without a version always
};

struct VllmAnswer : Verdict {
  std::optional<Version> version;
  std::string asked;                            ///< the version as it was typed
  const knowledge::VllmRelease* row = nullptr;  ///< nullptr: not known
  bool estimated = false;                       ///< the needs are those of the nearest release before it
  std::string command;                          ///< installs it, with the wheel of a CUDA that the place's driver runs
  std::optional<Version> min_driver;
  std::optional<std::string> obstacle;  ///< at the place: why it does not run, or ""; empty: no place is known
  std::optional<Forward> forward;       ///< with which it runs in spite of the obstacle
  std::optional<Recommendation> instead;
};

/// Libraries and frameworks but PyTorch and vLLM: what is known of them as prose (cuDNN, NCCL, TensorFlow), and whether
/// the place has what they ask for (knowledge/packages.csv).
struct ComponentAnswer : Verdict {
  std::string name;
  std::string version;
  bool known = true;  ///< false: `rows` are the versions that are
  std::vector<const knowledge::ComponentRelease*> rows;
  const knowledge::PackageNeeds* needs = nullptr;  ///< of the release, else of the newest for the place
  std::optional<Version> min_driver;               ///< by that
  std::optional<std::string> obstacle;             ///< at the place: why it does not run, or ""; empty: not judged
  std::string not_judged;                          ///< why the place is not judged; empty: it is, or none is known
};

/// The frameworks for an architecture.
struct Frameworks {
  std::optional<Version> driver;                        ///< the one that is judged for; empty: any
  std::string_view machine = knowledge::kUsualMachine;  ///< the processors' architecture that the wheels are for
  const knowledge::GpuBoard* board = nullptr;           ///< the GPU is built together with a processor
  /// The place's driver, where it is of a branch that does not serve such a GPU: the others are for one that does.
  std::optional<Version> not_served_by;
  bool too_old = false;  ///< that one
  const knowledge::TorchBuild* first_torch = nullptr;
  const knowledge::TorchBuild* newest_torch = nullptr;
  const knowledge::VllmRelease* newest_vllm = nullptr;
};

struct ArchitectureAnswer : Verdict {
  int architecture = 0;
  std::string asked_as;  ///< the GPU that was named and is not known, though its generation is
  const knowledge::Architecture* row = nullptr;
  std::vector<std::string> gpus;
  int first_branch = 0;  ///< of drivers; 0: not known
  int last_branch = 0;   ///< 0: still served
  std::optional<Frameworks> frameworks;
};

struct GpuAnswer : Verdict {
  const knowledge::GpuModel* model = nullptr;
  const knowledge::GpuUse* use = nullptr;  ///< what it is good for; nullptr: nothing is published here
  knowledge::DriverNeeds needs;
  Frameworks frameworks;
  std::vector<std::string> also;  ///< other models with these words in their names
};

struct XidAnswer : Verdict {
  int code = 0;
  const knowledge::XidCode* row = nullptr;            ///< nullptr: not known
  const knowledge::XidCode* before_ampere = nullptr;  ///< on older GPUs; nullptr: the same
};

/// How many GPUs for a job people are shown, with their sources; values and JSON have all.
inline constexpr std::size_t kSuggestionsShown = 15;

/// A GPU for a job.
struct Suggestion {
  const knowledge::GpuModel* model = nullptr;
  std::uint32_t gpus = 0;  ///< how many are enough, as planning::count_gpus_for() has it
  double rate = 0;         ///< of all of them: dense BF16 TFLOPS (training), GB/s (serving)
  bool half = false;       ///< the rate is FP16's: no BF16 in hardware
  std::string remark;      ///< what speaks against it
};
/// More GPUs than these are not looked at.
inline constexpr std::uint32_t kMostForJob = 64;

/// Which GPU for a job.
struct JobAnswer : Verdict {
  planning::Workload job;
  double parameters = 0;
  double bytes_needed = 0;  ///< of one GPU that held it alone
  std::string rule;         ///< what was counted, and how it is ranked, in words
  /// Best first: fewest GPUs, then the highest rate. Without those of which no rate is known; of the whole catalogue
  /// also without those that the newest toolkit or PyTorch has left.
  std::vector<Suggestion> ranking;
  struct Here {
    const knowledge::GpuModel* model = nullptr;
    std::uint32_t needed = 0;
    std::uint32_t present = 0;
  };
  std::optional<Here> here;   ///< the place's GPUs that hold it
  bool does_not_fit = false;  ///< the place has GPUs, and they do not hold it
};

struct MatrixRow {
  const knowledge::GpuModel* model = nullptr;
  std::optional<Version> cuda;  ///< of the work
  knowledge::DriverNeeds needs;
  std::optional<knowledge::DriverStanding> standing;  ///< of the place's driver
  bool dropped = false;  ///< that CUDA has left the GPU's generation: no driver runs it there
};

/// Which driver for which GPU.
struct MatrixAnswer : Verdict {
  std::vector<MatrixRow> rows;
};

MachineAnswer answer_machine(const Asked& asked);
CudaAnswer answer_cuda(const Asked& asked, const Version& cuda);
TorchAnswer answer_torch(const Asked& asked, const doctor::Purpose::Package& package);
VllmAnswer answer_vllm(const Asked& asked, const std::optional<std::string>& version);
/// Fails with not_found where nothing is known about the library.
Result<ComponentAnswer> answer_component(const Asked& asked, const std::string& name, const std::string& version);
/// `asked_as`: the GPU that was named and is not known, though its generation is.
ArchitectureAnswer answer_architecture(const Asked& asked, int architecture, const std::string& asked_as = "");
/// A GPU by words of its name, or, where only its generation is known, that. Fails with not_found.
Result<std::variant<GpuAnswer, ArchitectureAnswer>> answer_gpu(const Asked& asked, const std::string& words);
XidAnswer answer_xid(const knowledge::Knowledge& knowledge, int code);
JobAnswer answer_job(const Asked& asked, const planning::Workload& job);
/// `work`: the CUDA version of the work; empty: of the newest PyTorch that runs on the GPU.
MatrixAnswer answer_matrix(const Asked& asked, std::optional<Version> work, const std::string& workload);

// What several answers, and those who show them, ask.
/// Why an installed PyTorch has no kernels for the GPU: no driver helps; empty: it has, or it is not known.
std::string missing_kernels(const InstalledTorch& torch, const PlaceGpu& gpu);
/// Why the place's driver cannot drive the GPU at all; empty: it can, or it is not known.
std::string obstacle_of(const Asked& asked, const PlaceGpu& gpu);
/// The driver can drive none of the place's GPUs.
bool is_useless(const Asked& asked);
/// How programs of this CUDA run on the place's driver, which is known. Forward compatibility counts as not at all
/// where one of the GPUs is of a kind that cuda-compat does not serve (source: CUDA compatibility guide).
knowledge::RunsOn runs_here(const Asked& asked, const Version& cuda);
/// What makes programs of this CUDA run on the place's driver, which is known and too old for them (source: CUDA
/// compatibility guide); empty: nothing does.
std::optional<Forward> forward_here(const Asked& asked, const Version& cuda);
/// The worst fit of a wheel over the place's GPUs.
knowledge::WheelFit fit_here(const Asked& asked, const knowledge::TorchBuild& build);

/// A release of PyTorch, and its wheels that run on all GPUs of the place.
struct TorchRelease {
  Version torch;
  std::vector<const knowledge::TorchBuild*> builds;
};
/// Of releases that have a fitting one among `wheels`, the newest first.
std::vector<TorchRelease> releases_that_run(const Asked& asked, const std::vector<Wheel>& wheels);
/// The toolkits that build for all GPUs and run in this way, oldest first: "11.8 to 12.4"; "13.0 to 13.1" and "13.3"
/// where one between them does not.
std::vector<std::string> spans_of(const std::vector<ToolkitRow>& newest_first, std::optional<knowledge::RunsOn> how);

// Names, as documents have them.
/// Which compiled code runs on an architecture: "sm_80 to sm_86, and PTX up to compute_86" (source: CUDA programming
/// guide, binary compatibility).
std::string code_for(int architecture);
/// Installs PyTorch's wheel that has no code for GPUs (source: pytorch.org/get-started/locally, compute platform CPU).
std::string cpu_command(const Version& torch);
std::string_view words_for(knowledge::WheelFit fit);
std::string_view words_for(knowledge::RunsOn how);
/// "9.0" of 90.
std::string capability_text(int architecture);
/// "2.5.1+cu124".
std::string wheel_name(const knowledge::TorchBuild& build);
/// "pip install vllm==0.28.0"; where only the wheel of the row's other CUDA runs on the driver (empty: any), with the
/// index that has it.
std::string vllm_command(const Asked& asked, const knowledge::VllmRelease& row, std::string_view version,
                         std::optional<Version> driver);
/// "2.5.1", with all three numbers.
std::string three_numbers(const Version& version);

/// A GPU's tera-operations per second in one format, dense.
struct Rate {
  const char* key;
  const char* label;
  double knowledge::GpuModel::* value;
};
std::span<const Rate> rates();

}  // namespace gpuwarden::compat
