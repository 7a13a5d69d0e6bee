// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/compatibility.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/forward_compatibility.hpp"
#include "gpuwarden/knowledge/site_rules.hpp"
#include "knowledge/names.hpp"
#include "knowledge/other_names.hpp"

namespace gpuwarden::knowledge {
namespace {

constexpr CudaToolkit kToolkits[] = {
#include "knowledge/toolkits.inc"
};
constexpr Architecture kArchitectures[] = {
#include "knowledge/architectures.inc"
};
constexpr DriverBranch kBranches[] = {
#include "knowledge/branches.inc"
};
constexpr TorchBuild kTorch[] = {
#include "knowledge/torch.inc"
};
constexpr TorchBuild kTorchAarch64[] = {
#include "knowledge/torch_aarch64.inc"
};
constexpr PackageNeeds kPackages[] = {
#include "knowledge/packages.inc"
};
constexpr VllmRelease kVllm[] = {
#include "knowledge/vllm.inc"
};
constexpr ComponentRelease kComponents[] = {
#include "knowledge/components.inc"
};
constexpr XidCode kXids[] = {
#include "knowledge/xid.inc"
};
constexpr XidCode kXidsBeforeAmpere[] = {
#include "knowledge/xid_before_ampere.inc"
};

/// Since CUDA 11 one driver of the major release's first branch runs all of its minor releases (source: CUDA
/// compatibility guide, minor-version compatibility).
constexpr std::pair<int, Version> kFloors[] = {{11, {450, 80, 2}}, {12, {525, 60, 13}}, {13, {580}}};

/// long-term support, production, new features, anything else.
int rank_of(std::string_view type) { return type == "LTSB" ? 0 : type == "PB" ? 1 : type == "NFB" ? 2 : 3; }

/// The architecture of "8.0", "8.0+PTX", "sm_90a", "compute_120": its number, and what stands behind it.
struct Target {
  int number = 0;
  bool ptx = false;
  char suffix = ' ';
};

std::optional<Target> target_of(std::string_view text) {
  Target target;
  text = trim(text);
  if (text.ends_with("+PTX")) {
    target.ptx = true;
    text.remove_suffix(4);
  }
  if (text.starts_with("compute_")) {
    target.ptx = true;
    text.remove_prefix(8);
  } else if (text.starts_with("sm_")) {
    text.remove_prefix(3);
  }
  if (!text.empty() && (text.back() == 'a' || text.back() == 'f')) {
    target.suffix = text.back();
    text.remove_suffix(1);
  }
  std::string digits(text);
  std::erase(digits, '.');
  const auto number = parse_integer(digits);
  if (!number || *number < 10 || *number > 999) return std::nullopt;
  target.number = static_cast<int>(*number);
  return target;
}

/// Thor is sm_101 for CUDA 12.8 and 12.9, sm_110 for CUDA 13 (source: spack build_systems/cuda.py; pytorch/pytorch
/// torch/cuda/__init__.py).
constexpr int kThorOfCuda12 = 101;
constexpr int kThor = 110;

bool same_jetson(int one, int other) {
  const auto renamed = [](int number) { return number == kThorOfCuda12 ? kThor : number; };
  return renamed(one) == renamed(other);
}

/// Whether a name that a table cut ("NVIDIA GeForce RTX 2080 ...") or extended stands for the model.
bool is_cut_of(std::string_view name, std::string_view model) {
  if (!name.ends_with("...")) return false;
  return model.starts_with(trim(name.substr(0, name.size() - 3)));
}

}  // namespace

bool is_over(std::string_view end, std::chrono::system_clock::time_point when) {
  if (end == "past") return true;
  const auto year = parse_integer(end.substr(0, 4));
  const auto month = end.size() == 7 ? parse_integer(end.substr(5)) : std::nullopt;
  if (!year || !month || when.time_since_epoch().count() == 0) return false;
  const auto after =
      (std::chrono::year(static_cast<int>(*year)) / static_cast<int>(*month) / 1) + std::chrono::months(1);
  return when >= std::chrono::sys_days(after);
}

std::optional<Version> cuda_of_build(std::string_view build) {
  if (!build.starts_with("cu")) return std::nullopt;
  const auto number = parse_integer(build.substr(2));
  if (!number || *number < 75 || *number > 999) return std::nullopt;
  return Version{static_cast<int>(*number / 10), static_cast<int>(*number % 10)};
}

std::string build_of_cuda(const Version& cuda) { return fmt::format("cu{}{}", cuda.major, cuda.minor); }

bool is_cpu_build(std::string_view build) {
  return build == "cpu" || build.starts_with("cpu.") || build.starts_with("cpu-");
}

bool is_jetson(int architecture) {
  constexpr auto kJetsons = std::to_array({32, 53, 62, 72, 87, kThorOfCuda12, kThor});
  return std::ranges::find(kJetsons, architecture) != kJetsons.end();
}

bool code_runs_on(std::string_view compiled, int architecture) {
  const auto target = target_of(compiled);
  if (!target) return false;
  if (target->suffix == 'a') return target->number == architecture;
  if (target->suffix == 'f') return target->number / 10 == architecture / 10 && architecture >= target->number;
  if (target->ptx && architecture >= target->number) return true;
  if (is_jetson(target->number) || is_jetson(architecture)) return same_jetson(target->number, architecture);
  return target->number / 10 == architecture / 10 && architecture >= target->number;
}

bool any_code_runs_on(const std::vector<std::string>& compiled, int architecture) {
  return std::ranges::any_of(compiled, [&](const std::string& entry) { return code_runs_on(entry, architecture); });
}

const Knowledge& Knowledge::built_in() {
  static const Knowledge kBuiltIn = [] {
    Knowledge knowledge;
    knowledge.toolkits_.assign(std::begin(kToolkits), std::end(kToolkits));
    knowledge.architectures_.assign(std::begin(kArchitectures), std::end(kArchitectures));
    knowledge.branches_.assign(std::begin(kBranches), std::end(kBranches));
    knowledge.torch_.assign(std::begin(kTorch), std::end(kTorch));
    knowledge.torch_aarch64_.assign(std::begin(kTorchAarch64), std::end(kTorchAarch64));
    knowledge.packages_.assign(std::begin(kPackages), std::end(kPackages));
    knowledge.vllm_.assign(std::begin(kVllm), std::end(kVllm));
    knowledge.components_.assign(std::begin(kComponents), std::end(kComponents));
    knowledge.xids_.assign(std::begin(kXids), std::end(kXids));
    const auto models = gpu_models();
    knowledge.models_.assign(models.begin(), models.end());
    return knowledge;
  }();
  return kBuiltIn;
}

const CudaToolkit* Knowledge::toolkit(const Version& version) const {
  const CudaToolkit* newest = nullptr;
  for (const CudaToolkit& row : toolkits_) {
    if (release_of(row.version) != release_of(version)) continue;
    if (newest == nullptr || row.version > newest->version) newest = &row;
  }
  return newest;
}

Version Knowledge::newest_toolkit() const {
  Version newest;
  for (const CudaToolkit& row : toolkits_) newest = std::max(newest, release_of(row.version));
  return newest;
}

const DriverBranch* Knowledge::branch(int number) const {
  const auto found = std::ranges::find(branches_, number, &DriverBranch::branch);
  return found == branches_.end() ? nullptr : &*found;
}

int Knowledge::newest_branch() const {
  int newest = 0;
  for (const DriverBranch& row : branches_) newest = std::max(newest, row.branch);
  return newest;
}

int Knowledge::recommended_branch(int at_least, int at_most, std::chrono::system_clock::time_point when) const {
  const DriverBranch* best = nullptr;
  for (const DriverBranch& row : branches_) {
    if (row.branch < at_least || (at_most != 0 && row.branch > at_most)) continue;
    const bool known_time = when.time_since_epoch().count() != 0;
    if (known_time && !row.first_release.empty() && !is_over(row.first_release, when)) continue;
    // A branch without a life cycle is too new to be recommended, or too old to be known.
    if (row.type.empty() || row.end_of_life.empty() || is_over(row.end_of_life, when)) continue;
    const auto key = [](const DriverBranch& one) { return std::pair(rank_of(one.type), -one.branch); };
    if (best == nullptr || key(row) < key(*best)) best = &row;
  }
  return best == nullptr ? 0 : best->branch;
}

std::optional<Version> Knowledge::max_cuda(const Version& driver) const {
  const DriverBranch* best = nullptr;
  for (const DriverBranch& row : branches_) {
    if (row.branch > driver.major || !row.max_cuda) continue;
    if (best == nullptr || row.branch > best->branch) best = &row;
  }
  return best == nullptr ? std::nullopt : std::optional(best->max_cuda);
}

std::optional<Version> Knowledge::minor_version_floor(int cuda_major) const {
  const auto* const found = std::ranges::find(kFloors, cuda_major, &std::pair<int, Version>::first);
  if (found != std::end(kFloors)) return found->second;
  // A major release that came after this program was built: what its rows in an overlay say.
  for (const CudaToolkit& row : toolkits_) {
    if (row.version.major == cuda_major && row.min_driver_minor_version) return row.min_driver_minor_version;
  }
  return std::nullopt;
}

std::optional<Version> Knowledge::min_driver(const Version& cuda, bool native) const {
  const auto floor = minor_version_floor(cuda.major);
  if (!native && floor) return floor;
  std::optional<Version> lowest;
  for (const CudaToolkit& row : toolkits_) {
    if (release_of(row.version) != release_of(cuda) || !row.min_driver) continue;
    if (!lowest || row.min_driver < *lowest) lowest = row.min_driver;
  }
  if (lowest) return lowest;
  const CudaToolkit* known = toolkit(cuda);
  if (known != nullptr && known->branch > 0) return Version{known->branch};
  // Of a release without a row nobody can say which driver has all of it.
  return native ? std::nullopt : floor;
}

RunsOn Knowledge::runs_on(const Version& cuda, const Version& driver) const {
  const auto native = min_driver(cuda, true);
  const auto highest = max_cuda(driver);
  if ((native && driver >= *native) || (highest && release_of(cuda) <= release_of(*highest))) return RunsOn::natively;
  const auto floor = minor_version_floor(cuda.major);
  if (floor && driver >= *floor) return RunsOn::by_minor_version;
  // cuda-compat exists since CUDA 10 and needs a driver of a branch that it was made for.
  constexpr int kFirstWithForwardCompatibility = 418;
  const bool served = compat_serves_branch(cuda, driver.major).value_or(driver.major >= kFirstWithForwardCompatibility);
  return cuda.major >= 10 && served ? RunsOn::by_forward_compatibility : RunsOn::not_at_all;
}

const Architecture* Knowledge::architecture(int number) const {
  const auto found = std::ranges::find(architectures_, number, &Architecture::number);
  return found == architectures_.end() ? nullptr : &*found;
}

std::optional<bool> Knowledge::can_target(const Version& cuda, int number) const {
  const Architecture* row = architecture(number);
  if (row == nullptr || release_of(cuda) > newest_toolkit()) return std::nullopt;
  const Version release = release_of(cuda);
  return release >= row->first_cuda && (!row->last_cuda || release <= row->last_cuda);
}

std::optional<std::pair<Version, Version>> Knowledge::toolkits_for(int number) const {
  const Architecture* row = architecture(number);
  if (row == nullptr) return std::nullopt;
  return std::pair(row->first_cuda, row->last_cuda);
}

std::optional<bool> Knowledge::host_compiler_fits(const Version& cuda, std::string_view compiler, int major) const {
  const CudaToolkit* row = toolkit(cuda);
  if (row == nullptr) return std::nullopt;
  const Version& most = compiler == "clang" ? row->max_clang : row->max_gcc;
  if (!most) return std::nullopt;
  return major <= most.major;
}

std::span<const TorchBuild> Knowledge::torch_builds(std::string_view machine) const {
  if (machine == kUsualMachine) return torch_;
  return machine == "aarch64" ? std::span<const TorchBuild>(torch_aarch64_) : std::span<const TorchBuild>();
}

std::string_view Knowledge::as_of() const {
  std::string_view latest;
  for (const auto& row : torch_) latest = std::max(latest, row.as_of);
  for (const auto& row : vllm_) latest = std::max(latest, row.as_of);
  for (const auto& row : packages_) latest = std::max(latest, row.as_of);
  for (const auto& row : branches_) latest = std::max(latest, row.as_of);
  return latest;
}

const PackageNeeds* Knowledge::package(std::string_view name, const std::optional<Version>& version) const {
  const PackageNeeds* best = nullptr;
  for (const PackageNeeds& row : packages_) {
    if (row.package != name || (version && *version < row.first)) continue;
    if (version && row.last && *version > row.last) continue;
    if (best == nullptr || best->first < row.first) best = &row;
  }
  return best;
}

std::vector<const TorchBuild*> Knowledge::torch_builds_of(const Version& torch, std::string_view machine) const {
  std::vector<const TorchBuild*> result;
  for (const TorchBuild& row : torch_builds(machine)) {
    if (release_of(row.torch) == release_of(torch)) result.push_back(&row);
  }
  return result;
}

const TorchBuild* Knowledge::torch(const Version& torch, std::string_view build, std::string_view machine) const {
  for (const TorchBuild* row : torch_builds_of(torch, machine)) {
    if (row->build == build) return row;
  }
  return nullptr;
}

Version Knowledge::newest_torch() const {
  Version newest;
  for (const TorchBuild& row : torch_) newest = std::max(newest, row.torch);
  return newest;
}

const TorchBuild* Knowledge::torch_for(int architecture, std::optional<Version> driver) const {
  const TorchBuild* best = nullptr;
  for (const TorchBuild& row : torch_) {
    if (driver && *driver < row.min_driver) continue;
    bool runs = false;
    for (const auto entry : split(row.architectures, ';')) runs = runs || code_runs_on(entry, architecture);
    if (!runs) continue;
    const auto key = [](const TorchBuild& one) { return std::tuple(one.torch, one.is_default, one.build); };
    if (best == nullptr || key(*best) < key(row)) best = &row;
  }
  return best;
}

const VllmRelease* Knowledge::vllm(const Version& version) const {
  for (const VllmRelease& row : vllm_) {
    if (version >= row.first && version <= row.last) return &row;
  }
  return nullptr;
}

const VllmRelease* Knowledge::vllm_near(const Version& version) const {
  if (const auto* row = vllm(version)) return row;
  const VllmRelease* best = nullptr;
  for (const VllmRelease& row : vllm_) {
    if (row.first <= version && (best == nullptr || best->first < row.first)) best = &row;
  }
  return best;
}

MemoryRepair memory_repair(std::optional<int> architecture) {
  constexpr int kAmpere = 80;
  if (!architecture) return MemoryRepair::unknown;
  return *architecture < kAmpere ? MemoryRepair::pages : MemoryRepair::rows;
}

std::string_view memory_report_command(MemoryRepair repair) {
  switch (repair) {
    case MemoryRepair::pages:
      return "nvidia-smi -q -d ECC,PAGE_RETIREMENT";
    case MemoryRepair::rows:
      return "nvidia-smi -q -d ECC,ROW_REMAPPER";
    case MemoryRepair::unknown:
      break;
  }
  return "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT";
}

const XidCode* Knowledge::xid(int code, MemoryRepair repair) const {
  const auto found = std::ranges::find(xids_, code, &XidCode::code);
  if (found == xids_.end()) return nullptr;
  const auto* const older = std::ranges::find(kXidsBeforeAmpere, code, &XidCode::code);
  if (repair != MemoryRepair::pages || older == std::end(kXidsBeforeAmpere)) return &*found;
  // What an overlay says of a code it says of all GPUs.
  const auto* const own = std::ranges::find(kXids, code, &XidCode::code);
  const bool overlaid = own == std::end(kXids) || found->description != own->description ||
                        found->severity != own->severity || found->action_plain != own->action_plain;
  return overlaid ? &*found : older;
}

const GpuModel* Knowledge::model(std::string_view name, std::optional<std::uint32_t> pci_device_id) const {
  constexpr std::uint32_t kNvidia = 0x10DE;
  const std::string_view wanted = without_maker(name.substr(0, name.find(" MIG ")));
  const auto named = std::ranges::find(models_, wanted, [](const GpuModel& row) { return without_maker(row.name); });
  if (named != models_.end()) return &*named;
  if (pci_device_id && (*pci_device_id & 0xFFFFU) == kNvidia) {
    const std::string id = fmt::format("{:04X}", *pci_device_id >> 16U);
    for (const GpuModel& row : models_) {
      if (row.pci_device_ids.contains(id)) return &row;
    }
  }
  for (const GpuModel& row : models_) {
    if (is_cut_of(wanted, without_maker(row.name))) return &row;
  }
  return nullptr;
}

std::optional<int> Knowledge::architecture_of_name(std::string_view name) const {
  const std::string board = board_of_vgpu(name);
  for (const GpuModel& row : models_) {
    if (!board.empty() && has_words(row.name, board)) return row.capability_major * 10 + row.capability_minor;
  }
  if (const auto product = architecture_of_product(name)) return product;
  const GpuModel* longest = model(name);
  const std::string_view wanted = without_maker(name);
  for (const GpuModel& row : models_) {
    const std::string_view known = without_maker(row.name);
    const bool begins = wanted.starts_with(known) && (wanted.size() == known.size() || wanted[known.size()] == ' ');
    if (longest == nullptr || (begins && known.size() > without_maker(longest->name).size() && longest->name != name))
      longest = begins ? &row : longest;
  }
  if (longest == nullptr) return std::nullopt;
  return longest->capability_major * 10 + longest->capability_minor;
}

}  // namespace gpuwarden::knowledge
