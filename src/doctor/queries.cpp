// SPDX-License-Identifier: Apache-2.0
#include "doctor/queries.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

namespace {

using knowledge::Version;

constexpr auto kNoServerWords = std::to_array<std::string_view>(
    {"GeForce", "GTX", "RTX", "Quadro", "TITAN", "Orin", "Xavier", "Thor", "MX", "T400", "T1000", "GB10"});

/// First compute capability with a GSP, which the open module needs: Turing.
constexpr int kFirstForOpenModule = 75;
/// From Blackwell on only the open module works.
constexpr int kFirstWithoutProprietaryModule = 100;
/// PCI device ids below this one are of Volta and older (source: pci.ids, vendor 10de).
constexpr std::uint32_t kFirstTuringDevice = 0x1E00;
/// From this one on they are of Maxwell and newer.
constexpr std::uint32_t kFirstMaxwellDevice = 0x1340;

struct LastBranch {
  int below;  ///< architectures below this
  int branch;
};
/// source: NVIDIA CUDA toolkit, driver and architecture matrix
constexpr auto kLastBranches = std::to_array<LastBranch>({{30, 390}, {50, 470}, {75, 580}});

/// 0x2330 of an id as PCI has it, device above vendor; nothing where it is not known.
std::optional<std::uint32_t> device_of(const facts::Gpu& gpu) {
  constexpr unsigned kVendorBits = 16;
  return gpu.pci_device_id ? std::optional(*gpu.pci_device_id >> kVendorBits) : std::nullopt;
}

int last_branch_of(const Subject& subject, const facts::Gpu& gpu) {
  if (const auto* model = model_of(subject, gpu)) return model->last_driver_branch;
  if (const auto architecture = architecture_of(subject, gpu)) {
    const auto* const row =
        std::ranges::find_if(kLastBranches, [&](const LastBranch& one) { return *architecture < one.below; });
    return row == kLastBranches.end() ? 0 : row->branch;
  }
  const auto device = device_of(gpu);
  return device && *device >= kFirstMaxwellDevice && *device < kFirstTuringDevice ? kLastBranches.back().branch : 0;
}

/// A branch that exists: of the tables, or the machine's own.
bool is_there(const Subject& subject, int branch) {
  return branch != 0 && (subject.knowledge.branch(branch) != nullptr || branch == driver_branch(subject));
}

/// "12.4" of "2.5.1+cu124", of the report's own word, or of nothing.
Torch torch_of(const Subject& subject, const facts::PythonEnvironment& python, const facts::PythonPackage& package) {
  Torch torch{.python = &python};
  const std::size_t plus = package.version.find('+');
  torch.version = package.version.substr(0, plus);
  if (plus != std::string::npos) torch.build = package.version.substr(plus + 1);
  if (python.torch_cuda && !python.torch_cuda->empty()) torch.cuda = Version::parse(*python.torch_cuda);
  if (torch.build.empty() && torch.cuda) torch.build = knowledge::build_of_cuda(knowledge::release_of(*torch.cuda));
  if (torch.build.empty() && python.torch_rocm && !python.torch_rocm->empty())
    torch.build = "rocm" + *python.torch_rocm;
  if (torch.build.empty() && python.torch_cuda && python.torch_cuda->empty()) torch.build = "cpu";
  if (!torch.cuda) torch.cuda = knowledge::cuda_of_build(torch.build);
  torch.architectures = python.torch_architectures;
  torch.own_word = !torch.architectures.empty();
  const auto number = Version::parse(torch.version);
  const auto* row =
      !torch.own_word && number
          ? subject.knowledge.torch(*number, torch.build,
                                    subject.environment.host.machine.value_or(std::string(knowledge::kUsualMachine)))
          : nullptr;
  if (row == nullptr) return torch;
  for (const auto entry : split(row->architectures, ';')) torch.architectures.emplace_back(entry);
  return torch;
}

}  // namespace

std::vector<const facts::ReportedMessage*> of_kind(const Subject& subject, std::string_view kind) {
  std::vector<const facts::ReportedMessage*> result;
  for (const auto& message : subject.environment.messages) {
    if (message.kind == kind) result.push_back(&message);
  }
  return result;
}

const facts::ReportedMessage* told_of(const Subject& subject, std::string_view kind) {
  const auto messages = of_kind(subject, kind);
  const auto with_value = std::ranges::find_if(messages, [](const auto* message) { return !message->value.empty(); });
  if (with_value != messages.end()) return *with_value;
  return messages.empty() ? nullptr : messages.front();
}

std::string at_line(const facts::ReportedMessage& message) {
  return message.line == 0 ? "" : fmt::format(" (line {})", message.line);
}

std::vector<const facts::GpuRecord*> nvidia_gpus(const Subject& subject) {
  std::vector<const facts::GpuRecord*> result;
  for (const auto& gpu : subject.snapshot.gpus) {
    if (gpu.gpu.vendor == "NVIDIA") result.push_back(&gpu);
  }
  return result;
}

const knowledge::GpuModel* model_of(const Subject& subject, const facts::Gpu& gpu) {
  return subject.knowledge.model(gpu.name, gpu.pci_device_id);
}

std::optional<int> architecture_of(const Subject& subject, const facts::Gpu& gpu) {
  if (gpu.compute_capability) return gpu.compute_capability->major * 10 + gpu.compute_capability->minor;
  if (const auto* model = model_of(subject, gpu)) return model->capability_major * 10 + model->capability_minor;
  return subject.knowledge.architecture_of_name(gpu.name);
}

bool needs_open_module(const Subject& subject, const facts::Gpu& gpu) {
  const auto* model = model_of(subject, gpu);
  if (model != nullptr && model->open_module != knowledge::OpenModule::unknown)
    return model->open_module == knowledge::OpenModule::required;
  return architecture_of(subject, gpu).value_or(0) >= kFirstWithoutProprietaryModule;
}

bool needs_proprietary_module(const Subject& subject, const facts::Gpu& gpu) {
  if (const auto architecture = architecture_of(subject, gpu)) return *architecture < kFirstForOpenModule;
  const auto device = device_of(gpu);
  return device && *device < kFirstTuringDevice;
}

int last_driver_branch(const Subject& subject) {
  int last = 0;
  for (const auto* gpu : nvidia_gpus(subject)) {
    const int own = last_branch_of(subject, gpu->gpu);
    if (own > 0) last = last == 0 ? own : std::min(last, own);
  }
  return last;
}

std::chrono::system_clock::time_point time_of_advice(const Subject& subject) {
  const auto parts = split(subject.knowledge.as_of(), '-');
  const auto year = parse_integer(parts.front());
  const auto month = parse_integer(parts.back());
  if (parts.size() != 2 || !year || !month) return subject.snapshot.taken_at;
  const std::chrono::sys_days known(std::chrono::year(static_cast<int>(*year)) / static_cast<int>(*month) / 1);
  return std::max<std::chrono::system_clock::time_point>(subject.snapshot.taken_at, known);
}

DriverNeed taken_by_gpus(const Subject& subject) {
  using facts::ModuleFlavour;
  DriverNeed taken{.at_most = last_driver_branch(subject)};
  for (const auto* gpu : nvidia_gpus(subject)) {
    if (needs_proprietary_module(subject, gpu->gpu)) taken = both(taken, {.module = ModuleFlavour::proprietary});
    if (needs_open_module(subject, gpu->gpu)) taken = both(taken, {.module = ModuleFlavour::open});
  }
  return taken;
}

DriverNeed no_older_than(const Subject& subject, Report& report, int branch, DriverNeed need) {
  const int most = both(report.ask_driver(need), taken_by_gpus(subject)).at_most;
  need.at_least = most == 0 ? branch : std::min(branch, most);
  return need;
}

int fitting_branch(const Subject& subject, const DriverNeed& need) {
  const DriverNeed all = both(need, taken_by_gpus(subject));
  const int most = all.at_most;
  if ((all.at_least == 0 && most == 0) || (most != 0 && all.at_least > most)) return 0;
  // None older than the installed one, where that may stay.
  const int installed = driver_branch(subject).value_or(0);
  const int least = most == 0 || installed <= most ? std::max(all.at_least, installed) : all.at_least;
  if (const int best = subject.knowledge.recommended_branch(least, most, time_of_advice(subject)); best != 0)
    return best;
  return is_there(subject, least) ? least : is_there(subject, most) ? most : 0;
}

std::string why_no_driver(const Subject& subject, const DriverNeed& need) {
  const DriverNeed all = both(need, taken_by_gpus(subject));
  if (all.modules_clash && platform_of(subject) == knowledge::Platform::linux_own)
    return "no one driver serves both: a GPU needs the proprietary kernel module, and another the open one";
  const bool above = all.at_most != 0 && all.at_least > all.at_most;
  if (above && is_there(subject, all.at_least))
    return fmt::format("no one driver serves both: branch {} or newer is needed here, and {} is the last for a GPU",
                       all.at_least, all.at_most);
  if (above)
    return fmt::format(
        "no one driver serves both: one newer than branch {} is needed here, and {} is the last for a GPU",
        all.at_least - 1, all.at_most);
  if (all.at_least == 0 || fitting_branch(subject, all) != 0) return {};
  return fmt::format(
      "no driver branch that new is recommended yet, as of {}: https://docs.nvidia.com/datacenter/tesla/drivers/ lists "
      "those that are out",
      subject.knowledge.as_of());
}

knowledge::MemoryRepair repair_of(const Subject& subject, const std::vector<const facts::GpuRecord*>& gpus) {
  using knowledge::MemoryRepair;
  std::optional<MemoryRepair> all;
  for (const auto* gpu : gpus) {
    const auto own = knowledge::memory_repair(architecture_of(subject, gpu->gpu));
    if (all && *all != own) return MemoryRepair::unknown;
    all = own;
  }
  return all.value_or(MemoryRepair::unknown);
}

std::string capability_text(int architecture) { return fmt::format("{}.{}", architecture / 10, architecture % 10); }

bool is_server_gpu(const facts::Gpu& gpu) {
  return !gpu.name.empty() && gpu.vendor == "NVIDIA" &&
         std::ranges::none_of(kNoServerWords, [&](std::string_view word) { return gpu.name.contains(word); });
}

bool is_geforce(const facts::Gpu& gpu) {
  return gpu.name.contains("GeForce") || gpu.name.contains("TITAN") || gpu.name.contains("GTX");
}

std::optional<Version> driver_of(const Subject& subject) {
  for (const auto& text : {subject.snapshot.driver_version, subject.environment.driver.loaded_version,
                           subject.snapshot.kernel_module_version}) {
    const auto version = text ? Version::parse(*text) : std::nullopt;
    if (version && version->major >= 100) return version;
  }
  return std::nullopt;
}

std::optional<int> driver_branch(const Subject& subject) {
  const auto driver = driver_of(subject);
  return driver ? std::optional(driver->major) : std::nullopt;
}

std::optional<Version> driver_cuda(const Subject& subject) {
  if (subject.snapshot.cuda_driver_version) {
    if (const auto version = Version::parse(*subject.snapshot.cuda_driver_version)) return version;
  }
  const auto driver = driver_of(subject);
  return driver ? subject.knowledge.max_cuda(*driver) : std::nullopt;
}

bool uses_forward_compatibility(const Subject& subject) {
  const auto& libraries = subject.environment.libraries;
  const auto first = std::ranges::find(libraries, "libcuda.so.1", &facts::Library::name);
  if (first != libraries.end() && first->origin == "compat") return true;
  const auto* path = facts::find_variable(subject.environment, "LD_LIBRARY_PATH");
  return path != nullptr && path->contains("/compat");
}

std::vector<Torch> torches(const Subject& subject) {
  std::vector<Torch> result;
  for (const auto& python : subject.environment.pythons) {
    if (const auto* package = facts::find_package(python, "torch"))
      result.push_back(torch_of(subject, python, *package));
  }
  return result;
}

bool runs_by_compatibility(const Subject& subject, const Version& cuda) {
  if (uses_forward_compatibility(subject)) return true;
  return std::ranges::any_of(torches(subject), [&](const Torch& torch) {
    return torch.python->cuda_available == true && torch.cuda && torch.cuda->major >= cuda.major;
  });
}

bool hides_all_gpus(std::string_view mask) {
  const std::string_view first = trim(mask.substr(0, mask.find(',')));
  if (first.starts_with("GPU-") || first.starts_with("MIG-")) return false;
  const auto number = parse_integer(first);
  return !number || *number < 0;
}

std::string where(const facts::PythonEnvironment& python) {
  return python.path.empty() ? "" : fmt::format(" in {}", python.path);
}

bool code_runs_on(const std::vector<std::string>& compiled, int architecture) {
  return knowledge::any_code_runs_on(compiled, architecture);
}

bool is_virtual_machine(const Subject& subject) {
  const auto& hypervisor = subject.environment.host.hypervisor;
  return hypervisor && !hypervisor->empty();
}

bool is_wsl(const Subject& subject) {
  const auto& host = subject.environment.host;
  return host.wsl.value_or(0) > 0 || host.kernel.value_or("").contains("microsoft");
}

knowledge::Platform platform_of(const Subject& subject) {
  if (is_wsl(subject)) return knowledge::Platform::wsl;
  const auto& distribution = subject.environment.host.distribution;
  if (distribution == knowledge::kMacos) return knowledge::Platform::macos;
  return distribution == knowledge::kWindows ? knowledge::Platform::windows : knowledge::Platform::linux_own;
}

bool is_container(const Subject& subject) {
  const auto& inside = subject.environment.containers.inside;
  return inside && !inside->empty();
}

std::optional<knowledge::Version> package_version(const facts::PythonEnvironment& python, std::string_view package) {
  const auto* found = facts::find_package(python, package);
  return found == nullptr ? std::nullopt : knowledge::Version::parse(found->version);
}

std::vector<int> all_architectures(const Subject& subject) {
  std::vector<int> all;
  for (const auto* gpu : nvidia_gpus(subject)) {
    if (const auto architecture = architecture_of(subject, gpu->gpu)) all.push_back(*architecture);
  }
  return all;
}

std::vector<const facts::GpuRecord*> gpus_below(const Subject& subject, int architecture) {
  return gpus_that(subject, [&](const facts::GpuRecord& gpu) {
    const auto own = architecture_of(subject, gpu.gpu);
    return own && *own < architecture;
  });
}

std::vector<const facts::GpuRecord*> gpus_of_architecture(const Subject& subject, int first, int last) {
  return gpus_that(subject, [&](const facts::GpuRecord& gpu) {
    const auto own = architecture_of(subject, gpu.gpu);
    return own && *own >= first && *own <= last;
  });
}

}  // namespace gpuwarden::doctor
