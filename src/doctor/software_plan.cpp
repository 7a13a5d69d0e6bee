// SPDX-License-Identifier: Apache-2.0
#include "doctor/software_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <tuple>
#include <utility>

#include "doctor/fitting.hpp"
#include "doctor/queries.hpp"
#include "doctor/remedies.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/advice.hpp"
#include "gpuwarden/knowledge/torch_companions.hpp"

namespace gpuwarden::doctor {

namespace {

using facts::PythonEnvironment;
using facts::PythonPackage;
using knowledge::TorchBuild;
using knowledge::Version;
using knowledge::VllmRelease;

constexpr std::string_view kGetStartedPage = "https://pytorch.org/get-started/locally/";

using Steps = std::vector<std::string>;

void append(Steps& steps, Steps more) { std::ranges::move(more, std::back_inserter(steps)); }

/// A PyTorch as commands bring it.
struct TorchToBe {
  Version torch;
  Version cuda;
  std::string build;  ///< "cu128"
};

std::string no_wheel(const Subject& subject, const std::vector<int>& architectures) {
  if (std::ranges::any_of(architectures, knowledge::is_jetson))
    return "[@nvidia] install NVIDIA's own PyTorch for Jetson, of the JetPack that is installed: "
           "https://pypi.jetson-ai-lab.io";
  std::vector<std::string> texts;
  for (const int one : architectures) texts.push_back("sm_" + std::to_string(one));
  const auto driver = driver_of(subject);
  return fmt::format("no PyTorch wheel for {} that is known here has code for {}{}", wheel_machine(subject),
                     join(texts, ", "), driver ? " and runs on driver " + to_string(*driver) : "");
}

/// bitsandbytes whose release has no library for the CUDA that is to come.
Steps bitsandbytes_steps(const PythonEnvironment& python, const TorchToBe& torch) {
  const auto own = package_version(python, "bitsandbytes");
  const auto* const build = own ? knowledge::bitsandbytes_build(*own) : nullptr;
  if (build == nullptr || (knowledge::has_code_for(*build, torch.cuda) && torch.torch >= build->torch)) return {};
  const auto* const better = knowledge::bitsandbytes_for(torch.torch, torch.cuda);
  if (better == nullptr) return {};
  return {pip_install(python, better->last == Version{} ? "bitsandbytes>=" + to_string(better->first)
                                                        : "bitsandbytes==" + to_string(better->last))};
}

/// What is compiled for one PyTorch and is not of an index that pip would look it up in.
Steps steps_for_what_is_built_on(const PythonEnvironment& python, const TorchToBe& torch) {
  Steps steps = bitsandbytes_steps(python, torch);
  for (const PythonPackage& package : python.packages) {
    const knowledge::BuiltFor made = knowledge::built_for(package.version);
    if (!made.torch || package.name == "torch" || knowledge::is_torch_companion(package.name)) continue;
    const bool same_release = knowledge::release_of(*made.torch) == knowledge::release_of(torch.torch);
    if (same_release && (made.cuda.empty() || knowledge::is_same_cuda(made.cuda, torch.build))) continue;
    steps.push_back(pip_install(python, package.name, "--force-reinstall --no-deps --no-build-isolation"));
  }
  return steps;
}

/// The newest wheel for that Python, else the newest of all.
const TorchBuild* wheel_for(const Subject& subject, const PythonEnvironment& python,
                            const std::vector<int>& architectures, const std::optional<Version>& driver) {
  const std::string machine = wheel_machine(subject);
  const auto own = Version::parse(python.version.value_or(""));
  const auto* wheel =
      own ? knowledge::newest_torch_for(subject.knowledge, architectures, driver, machine, own) : nullptr;
  return wheel != nullptr ? wheel : knowledge::newest_torch_for(subject.knowledge, architectures, driver, machine);
}

std::string needs_python(const TorchBuild& wheel, const PythonEnvironment& python) {
  const auto own = Version::parse(python.version.value_or(""));
  if (!own || knowledge::is_for_python(wheel, *own)) return {};
  return fmt::format("   # made for Python {} to {}", to_string(wheel.python_lowest), to_string(wheel.python_highest));
}

std::string needs_libc(const Subject& subject, const TorchBuild& wheel) {
  const auto libc = too_old_libc(subject, wheel.torch, wheel.build);
  return libc ? fmt::format("   # in a container or on a newer distribution: it needs glibc 2.28, here is {}",
                            to_string(*libc))
              : "";
}

/// Whether pip takes what is installed for this release: the label of its build does not count (source: PEP 440,
/// "Version matching": the local label of a candidate is ignored where the specifier has none).
bool is_kept_by_pip(const PythonEnvironment& python, const Version& release) {
  const auto* const installed = facts::find_package(python, "torch");
  return installed != nullptr && !installed->version.contains("dev") && Version::parse(installed->version) == release;
}

/// "pip install torch==2.9.1 --index-url .../cu128 torchvision": made for one PyTorch, and named beside it, companions
/// come in the releases that go with it. What pip would keep is asked for by its label.
std::string torch_command(const PythonEnvironment& python, const Version& torch, std::string_view build) {
  const std::string release =
      is_kept_by_pip(python, torch) ? fmt::format("{}+{}", knowledge::release_number(torch), build) : to_string(torch);
  std::string command = pip_install_torch(python, release, build);
  for (const char* companion : {"torchvision", "torchaudio"}) {
    if (const auto* const installed = facts::find_package(python, companion))
      command += " " + companion_requirement(*installed, torch, build);
  }
  return command;
}

/// That PyTorch, and what is made for it.
Steps wheel_steps(const Subject& subject, const PythonEnvironment& python, const TorchBuild& wheel,
                  std::string_view remark) {
  Steps steps{torch_command(python, wheel.torch, wheel.build) + std::string(remark) + needs_python(wheel, python) +
              needs_libc(subject, wheel)};
  if (facts::find_package(python, "xformers") != nullptr)
    append(steps, xformers_for(python, fmt::format("{}+{}", to_string(wheel.torch), wheel.build)));
  append(steps,
         steps_for_what_is_built_on(python, {wheel.torch, knowledge::cuda_of_build(wheel.build).value_or(Version{}),
                                             std::string(wheel.build)}));
  return steps;
}

/// A vLLM of vLLM's own wheels, and what it needs.
struct Vllm {
  Version version;
  const VllmRelease* row;  ///< its own, or the nearest one before it
  std::string name;        ///< "0.8.5.post1"

  /// Whether the PyTorch that it brings is known.
  bool has_own_row() const { return version >= row->first && version <= row->last; }
};

/// The one that is installed, by the needs of its release or the nearest one; what its owner built ("0.6.3.dev20",
/// "0.6.3+cpu") is made for what is there.
std::optional<Vllm> released_vllm(const Subject& subject, const PythonEnvironment& python) {
  const auto* const package = facts::find_package(python, "vllm");
  const auto version = package == nullptr ? std::nullopt : Version::parse(package->version);
  if (!version || package->version.contains("dev")) return std::nullopt;
  const std::size_t plus = package->version.find('+');
  if (plus != std::string::npos && !package->version.substr(plus).starts_with("+cu")) return std::nullopt;
  const auto releases = subject.knowledge.vllm_releases();
  const auto* row = subject.knowledge.vllm_near(*version);
  if (row == nullptr && !releases.empty()) row = &releases.front();
  return row == nullptr ? std::nullopt : std::optional(Vllm{*version, row, package->version.substr(0, plus)});
}

/// Whether its own code serves the GPUs; what its row says of them is not asked here.
bool serves_gpus(const Subject& subject, const Version& version) {
  const auto architectures = all_architectures(subject);
  const bool mig = std::ranges::any_of(subject.snapshot.gpus, [](const auto& gpu) { return !gpu.mig_devices.empty(); });
  return (!mig || knowledge::vllm_reads_mig_uuids(version)) &&
         std::ranges::all_of(architectures, [&](int one) { return knowledge::vllm_has_kernels(version, one); });
}

/// A vLLM that is to come, and the driver for whose CUDA its wheel is taken; empty: a driver that is newer than the
/// machine's, or any where none is known.
struct VllmToBe {
  Vllm vllm;
  std::optional<Version> driver;
};

/// The installed release, where it runs with this driver (empty: any), else the newest one that does.
std::optional<Vllm> vllm_with(const Subject& subject, const Vllm& own, const std::optional<Version>& driver) {
  const auto architectures = all_architectures(subject);
  const std::string machine = wheel_machine(subject);
  if (serves_gpus(subject, own.version) &&
      knowledge::vllm_runs(subject.knowledge, *own.row, architectures, driver, machine))
    return own;
  const auto* const row = knowledge::newest_vllm_for(subject.knowledge, architectures, driver, machine);
  return row != nullptr && serves_gpus(subject, row->first)
             ? std::optional(Vllm{row->first, row, knowledge::release_number(row->first)})
             : std::nullopt;
}

/// Whether the GPUs have a driver that new.
bool may_have(const Subject& subject, const std::optional<Version>& driver) {
  const int last = last_driver_branch(subject);
  return driver && (last == 0 || driver->major <= last);
}

/// An older release than the installed one is the last resort, behind a newer driver.
std::optional<VllmToBe> vllm_to_be(const Subject& subject, const PythonEnvironment& python,
                                   const std::optional<Version>& driver) {
  const auto own = released_vllm(subject, python);
  if (!own) return std::nullopt;
  const auto here = vllm_with(subject, *own, driver);
  if (here && here->version >= own->version) return VllmToBe{*here, driver};
  const auto newer = driver ? vllm_with(subject, *own, std::nullopt) : std::nullopt;
  const bool better = newer && (!here || newer->version > here->version) &&
                      may_have(subject, subject.knowledge.min_driver(newer->row->cuda, false));
  if (better) return VllmToBe{*newer, std::nullopt};
  return here ? std::optional(VllmToBe{*here, driver}) : std::nullopt;
}

/// Whether a build of the PyTorch that a vLLM pins is of use to it here; of one that is not in the tables, its CUDA
/// alone tells.
bool is_of_use(const Subject& subject, std::string_view build, const TorchBuild* row, const Version& cuda,
               const std::optional<Version>& driver) {
  const auto own = knowledge::cuda_of_build(build);
  if (!own || own->major != cuda.major) return false;
  const auto fits = [&](std::optional<int> one) {
    return knowledge::is_fit(knowledge::wheel_fit(subject.knowledge, *row, one, driver));
  };
  return row == nullptr || (fits(std::nullopt) && std::ranges::all_of(all_architectures(subject), fits));
}

/// The build that does: the vLLM's own CUDA, else the release's default one, else the newest.
const TorchBuild* build_for_vllm(const Subject& subject, const Version& torch, const Version& cuda,
                                 const std::optional<Version>& driver) {
  const auto key = [&](const TorchBuild& one) {
    return std::tuple(one.build == knowledge::build_of_cuda(cuda), one.is_default, one.build);
  };
  const TorchBuild* best = nullptr;
  for (const TorchBuild& one : subject.knowledge.torch_builds(wheel_machine(subject))) {
    if (knowledge::release_of(one.torch) != knowledge::release_of(torch)) continue;
    if (!is_of_use(subject, one.build, &one, cuda, driver)) continue;
    if (best == nullptr || key(*best) < key(one)) best = &one;
  }
  return best;
}

/// What has to be done with a PyTorch of the release that the vLLM pins, but of another build: pip would keep it.
Steps steps_before_vllm(const Subject& subject, const PythonEnvironment& python, const VllmToBe& to_be) {
  const auto all = torches(subject);
  const auto torch = std::ranges::find_if(all, [&](const Torch& one) { return one.python->path == python.path; });
  if (torch == all.end() || torch->build.empty()) return {};
  const auto& [vllm, driver] = to_be;
  const Version& pinned = vllm.row->torch;
  if (vllm.has_own_row() && !is_kept_by_pip(python, pinned)) return {};
  const std::string machine = wheel_machine(subject);
  const Version release = Version::parse(torch->version).value_or(Version{});
  const Version cuda = knowledge::vllm_cuda_for(subject.knowledge, *vllm.row, driver).value_or(vllm.row->cuda);
  const Version wanted = vllm.has_own_row() ? cuda : knowledge::cuda_of_build(torch->build).value_or(vllm.row->cuda);
  if (is_of_use(subject, torch->build, subject.knowledge.torch(release, torch->build, machine), wanted, driver))
    return {};
  const auto* const better = vllm.has_own_row() ? build_for_vllm(subject, pinned, cuda, driver) : nullptr;
  if (better != nullptr) return {torch_command(python, pinned, better->build)};
  std::string command = pip_of(python) + " uninstall -y torch";
  for (const char* companion : {"torchvision", "torchaudio"}) {
    if (facts::find_package(python, companion) != nullptr) command += fmt::format(" {}", companion);
  }
  return {command + "   # pip would keep this build of it"};
}

/// "pip install vllm==0.11.0   # brings PyTorch 2.8", and what is made for that PyTorch; where it is not known which
/// that is, nothing is said of it.
Steps steps_for_vllm(const Subject& subject, const PythonEnvironment& python, const VllmToBe& to_be) {
  const auto& [vllm, driver] = to_be;
  const VllmRelease& row = *vllm.row;
  Steps steps = steps_before_vllm(subject, python, to_be);
  // pip itself may be that of a virtual environment.
  std::string command = pip_of(python) + knowledge::vllm_command(subject.knowledge, row, vllm.name, driver).substr(3);
  if (facts::find_package(python, "xformers") != nullptr) command += " xformers";
  const Version cuda = knowledge::vllm_cuda_for(subject.knowledge, row, driver).value_or(row.cuda);
  std::vector<std::string> remarks;
  if (vllm.has_own_row()) remarks.push_back("brings PyTorch " + to_string(knowledge::release_of(row.torch)));
  if (const auto needed = driver ? std::nullopt : subject.knowledge.min_driver(cuda, false))
    remarks.push_back(fmt::format("needs driver {} or newer", to_string(*needed)));
  steps.push_back(remarks.empty() ? command : fmt::format("{}   # {}", command, join(remarks, "; ")));
  if (vllm.has_own_row())
    append(steps, steps_for_what_is_built_on(python, {row.torch, cuda, knowledge::build_of_cuda(cuda)}));
  return steps;
}

/// The wheel for the driver that the machine has; where none runs with it, one for a newer driver.
struct WheelToBe {
  const TorchBuild* wheel = nullptr;
  bool needs_newer_driver = false;
};

WheelToBe wheel_to_be(const Subject& subject, const PythonEnvironment& python) {
  const auto architectures = all_architectures(subject);
  const auto driver = driver_of(subject);
  const auto* const wheel = wheel_for(subject, python, architectures, driver);
  if (wheel != nullptr || architectures.empty() || !driver) return {wheel};
  const auto* const newer = wheel_for(subject, python, architectures, std::nullopt);
  if (newer == nullptr || !newer->min_driver || !may_have(subject, newer->min_driver)) return {};
  return {newer, true};
}

/// The CUDA of the PyTorch that the commands bring to that Python.
std::optional<Version> planned_cuda(const Subject& subject, const PythonEnvironment& python) {
  if (const auto to_be = vllm_to_be(subject, python, driver_of(subject)))
    return to_be->vllm.has_own_row() ? knowledge::vllm_cuda_for(subject.knowledge, *to_be->vllm.row, to_be->driver)
                                     : std::nullopt;
  const auto to_be = wheel_to_be(subject, python);
  return to_be.wheel == nullptr ? std::nullopt : knowledge::cuda_of_build(to_be.wheel->build);
}

}  // namespace

std::string companion_requirement(const PythonPackage& package, const Version& torch, std::string_view build) {
  const auto* const row = knowledge::torch_companion(package.name, package.version);
  const std::size_t plus = package.version.find('+');
  const bool kept = row != nullptr && !row->or_newer && knowledge::goes_with(*row, torch);
  if (!kept || plus == std::string::npos || package.version.substr(plus + 1) == build) return package.name;
  return fmt::format("{}=={}+{}", package.name, package.version.substr(0, plus), build);
}

std::string wheel_command(const Subject& subject, const TorchBuild& wheel) {
  const auto& pythons = subject.environment.pythons;
  const bool kept = !pythons.empty() && is_kept_by_pip(pythons.front(), wheel.torch);
  return kept ? torch_command(pythons.front(), wheel.torch, wheel.build) : knowledge::pip_command(wheel);
}

std::string needs_driver(const TorchBuild& wheel) {
  return wheel.min_driver ? fmt::format("   # needs driver {} or newer", to_string(wheel.min_driver)) : "";
}

std::string wheel_machine(const Subject& subject) {
  const auto& machine = subject.environment.host.machine;
  return machine && !machine->empty() ? *machine : std::string(knowledge::kUsualMachine);
}

bool is_replaced_by_vllm(const Subject& subject, const PythonEnvironment& python) {
  const auto vllm = released_vllm(subject, python);
  const auto torch = package_version(python, "torch");
  return vllm && torch && subject.knowledge.vllm(vllm->version) != nullptr &&
         knowledge::release_of(*torch) != knowledge::release_of(vllm->row->torch) &&
         vllm_to_be(subject, python, driver_of(subject));
}

std::optional<Version> cuda_of_torch_to_be(const Subject& subject) {
  const auto architectures = all_architectures(subject);
  for (const Torch& torch : torches(subject)) {
    if (!torch.cuda && torch.build.empty()) continue;
    const bool has_code =
        torch.cuda && (torch.architectures.empty() || std::ranges::all_of(architectures, [&](int one) {
                         return code_runs_on(torch.architectures, one);
                       }));
    return has_code && !is_replaced_by_vllm(subject, *torch.python) ? knowledge::release_of(*torch.cuda)
                                                                    : planned_cuda(subject, *torch.python);
  }
  return std::nullopt;
}

std::vector<std::string> vllm_steps(const Subject& subject, Report& report, const PythonEnvironment& python) {
  const auto driver = driver_of(subject);
  const auto to_be = vllm_to_be(subject, python, driver);
  if (!to_be) return {};
  const auto needed = subject.knowledge.min_driver(to_be->vllm.row->cuda, false);
  Steps steps;
  if (driver && !to_be->driver && needed) steps = plan_driver(subject, report, {.at_least = needed->major});
  append(steps, steps_for_vllm(subject, python, *to_be));
  return steps;
}

std::vector<std::string> torch_for_driver(const Subject& subject, const PythonEnvironment& python,
                                          const Version& driver) {
  if (const auto to_be = vllm_to_be(subject, python, driver))
    return to_be->driver ? steps_for_vllm(subject, python, *to_be) : Steps{};
  const auto architectures = all_architectures(subject);
  const auto* const wheel = architectures.empty() ? nullptr : wheel_for(subject, python, architectures, driver);
  return wheel == nullptr ? Steps{} : wheel_steps(subject, python, *wheel, "");
}

std::vector<std::string> fitting_torch(const Subject& subject, const PythonEnvironment& python,
                                       std::optional<Version> driver) {
  if (platform_of(subject) == knowledge::Platform::macos) return {knowledge::steps_without_cuda().front()};
  if (const auto to_be = vllm_to_be(subject, python, driver)) return steps_for_vllm(subject, python, *to_be);
  const auto architectures = all_architectures(subject);
  if (architectures.empty() && is_elsewhere(subject) && nvidia_gpus(subject).empty())
    return {"[@nvidia] send also: nvidia-smi, for the wheel that fits GPU and driver"};
  if (architectures.empty())
    return {fmt::format("this GPU's architecture is unknown; choose PyTorch for it at {}", kGetStartedPage)};
  const auto* wheel = wheel_for(subject, python, architectures, driver);
  if (wheel == nullptr) return {no_wheel(subject, architectures)};
  return wheel_steps(subject, python, *wheel, driver ? "" : needs_driver(*wheel));
}

std::vector<std::string> fitting_torch(const Subject& subject) {
  static const PythonEnvironment kNone;
  const auto& pythons = subject.environment.pythons;
  return fitting_torch(subject, pythons.empty() ? kNone : pythons.front(), driver_of(subject));
}

std::vector<std::string> torch_steps(const Subject& subject, Report& report, const PythonEnvironment& python) {
  if (Steps steps = vllm_steps(subject, report, python); !steps.empty()) return steps;
  const auto [wheel, needs_newer_driver] = wheel_to_be(subject, python);
  if (!needs_newer_driver) return fitting_torch(subject, python, driver_of(subject));
  Steps steps = plan_driver(subject, report, {.at_least = wheel->min_driver.major});
  append(steps, wheel_steps(subject, python, *wheel, needs_driver(*wheel)));
  return steps;
}

/// 2.6 was built on the newer base for some platforms only (source: PyTorch 2.6 release notes; RELEASE.md).
std::optional<Version> too_old_libc(const Subject& subject, const Version& torch, std::string_view build) {
  constexpr Version kManylinux{2, 28};
  constexpr Version kFirst{2, 6};
  constexpr Version kFirstForAll{2, 7};
  const auto libc = Version::parse(subject.environment.host.libc.value_or(""));
  if (!libc || *libc >= kManylinux || torch < kFirst) return std::nullopt;
  const bool new_base = torch >= kFirstForAll || build == "cu126" || build.starts_with("rocm") ||
                        build.starts_with("xpu") || subject.environment.host.machine == "aarch64";
  return new_base ? libc : std::nullopt;
}

std::string triton_for(const PythonEnvironment& python, const knowledge::TritonPin& pin) {
  const bool exact = std::ranges::count(pin.triton, '.') == 2;
  return pip_install(python, fmt::format("triton=={}{}", pin.triton, exact ? "" : ".*"));
}

std::vector<std::string> xformers_for(const PythonEnvironment& python, std::string_view torch) {
  const auto own = Version::parse(torch);
  const std::size_t plus = torch.find('+');
  const std::string build(plus == std::string_view::npos ? "" : torch.substr(plus + 1));
  const bool released = own && !torch.contains("dev") && (build.empty() || build.starts_with("cu"));
  const auto fitting = released ? knowledge::companions_of(*own) : std::vector<const knowledge::TorchCompanion*>{};
  const auto row = std::ranges::find(fitting, "xformers", &knowledge::TorchCompanion::package);
  if (row != fitting.end())
    return {fmt::format("{} install --no-deps xformers=={}{}", pip_of(python), (*row)->version,
                        build.empty() ? "" : " --index-url https://download.pytorch.org/whl/" + build)};
  return {
      fmt::format("{} uninstall -y xformers   # no release of it is known for this PyTorch: PyTorch's own attention "
                  "is used then",
                  pip_of(python)),
      fmt::format("or your own build of it, with the toolkit: {} install --no-build-isolation --no-deps "
                  "git+https://github.com/facebookresearch/xformers",
                  pip_of(python))};
}

}  // namespace gpuwarden::doctor
