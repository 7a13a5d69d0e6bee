// SPDX-License-Identifier: Apache-2.0
// Toolkits on disk: against the driver, the GPUs, the host compiler and each other.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/fitting.hpp"
#include "doctor/groups.hpp"
#include "doctor/queries.hpp"
#include "doctor/remedies.hpp"
#include "doctor/software_plan.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

namespace {

using facts::Toolkit;
using knowledge::RunsOn;
using knowledge::Version;

constexpr std::string_view kCompatibility = "https://docs.nvidia.com/deploy/cuda-compatibility/";
constexpr std::string_view kReleaseNotes = "https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/";

/// The toolkit that a build would take: the active one, else the only one.
const Toolkit* toolkit_in_use(const Subject& subject) {
  const auto& all = subject.environment.toolkits;
  const auto active = std::ranges::find(all, true, &Toolkit::active);
  if (active != all.end()) return &*active;
  return all.size() == 1 ? all.data() : nullptr;
}

std::optional<Version> version_in_use(const Subject& subject) {
  const Toolkit* toolkit = toolkit_in_use(subject);
  return toolkit == nullptr ? std::nullopt : Version::parse(toolkit->version);
}

std::string release_text(const Version& version) { return to_string(knowledge::release_of(version)); }

void newer_than_driver(const Subject& subject, Report& report) {
  const auto cuda = version_in_use(subject);
  const auto driver = driver_of(subject);
  if (!cuda || !driver || nvidia_gpus(subject).empty()) return;
  const RunsOn how = subject.knowledge.runs_on(*cuda, *driver);
  if (how != RunsOn::by_forward_compatibility && how != RunsOn::not_at_all) return;
  if (runs_by_compatibility(subject, *cuda)) return;
  const auto needed = subject.knowledge.min_driver(*cuda, false);
  const auto own = driver_cuda(subject);
  std::vector<std::string> steps = driver_steps_for_cuda(subject, report, knowledge::release_of(*cuda));
  if (own)
    steps.push_back(toolkit_step(
        subject, *own,
        fmt::format("gpuwarden env use {}   # or build with a toolkit that this driver runs", release_text(*own))));
  else
    steps.push_back(here_or_elsewhere(subject, "gpuwarden env list", "or build with an older toolkit"));
  report.say(fmt::format("programs built with CUDA {} need driver {} or newer; {} is installed", release_text(*cuda),
                         needed ? to_string(*needed) : "of a newer branch", to_string(*driver)),
             std::move(steps));
}

void by_minor_version(const Subject& subject, Report& report) {
  const auto cuda = version_in_use(subject);
  const auto driver = driver_of(subject);
  if (!cuda || !driver || nvidia_gpus(subject).empty()) return;
  if (subject.knowledge.runs_on(*cuda, *driver) != RunsOn::by_minor_version) return;
  const auto own = driver_cuda(subject);
  report.say(
      fmt::format("CUDA {} runs on driver {} (CUDA {}) by minor-version compatibility: compiled code runs, its "
                  "PTX does not",
                  release_text(*cuda), to_string(*driver), own ? to_string(*own) : "?"));
}

/// A nvidia-smi that shows a newer CUDA than nvcc puzzles many; that the two differ is right.
void two_cuda_versions(const Subject& subject, Report& report) {
  const auto cuda = version_in_use(subject);
  const auto own = driver_cuda(subject);
  if (!cuda || !own || knowledge::release_of(*cuda) >= knowledge::release_of(*own)) return;
  if (cuda->major == own->major) return;
  if (subject.snapshot.cuda_driver_version)
    report.say(fmt::format("nvidia-smi shows CUDA {}: that is the driver's limit; your toolkit is {} and that is fine",
                           to_string(*own), release_text(*cuda)));
  else
    report.say(fmt::format("the driver runs programs up to CUDA {}; your toolkit is {} and that is fine",
                           to_string(*own), release_text(*cuda)));
}

std::vector<const facts::GpuRecord*> not_targeted(const Subject& subject, const Version& cuda, bool too_new) {
  return gpus_that(subject, [&](const facts::GpuRecord& gpu) {
    const auto architecture = architecture_of(subject, gpu.gpu);
    const auto range = architecture ? subject.knowledge.toolkits_for(*architecture) : std::nullopt;
    if (!range || !range->first) return false;
    const Version release = knowledge::release_of(cuda);
    return too_new ? release < range->first : range->second && release > range->second;
  });
}

void too_old_for_gpu(const Subject& subject, Report& report) {
  const auto cuda = version_in_use(subject);
  const auto gpus = cuda ? not_targeted(subject, *cuda, true) : std::vector<const facts::GpuRecord*>{};
  if (gpus.empty()) return;
  const int architecture = *architecture_of(subject, gpus[0]->gpu);
  const Version first = subject.knowledge.toolkits_for(architecture)->first;
  const Version wanted = std::max(first, cuda_of_torch_to_be(subject).value_or(first));
  report.say(fmt::format("nvcc {} cannot compile for {} ({}, sm_{}); CUDA {} is the first that can",
                         release_text(*cuda), name_gpus(gpus), gpus[0]->gpu.name, architecture, to_string(first)),
             {toolkit_step(subject, wanted, fmt::format("gpuwarden env use --for sm_{}", architecture)),
              fmt::format("or the CUDA toolkit {} or newer: https://developer.nvidia.com/cuda-toolkit-archive",
                          to_string(first))});
}

void dropped_gpu(const Subject& subject, Report& report) {
  const auto cuda = version_in_use(subject);
  const auto gpus = cuda ? not_targeted(subject, *cuda, false) : std::vector<const facts::GpuRecord*>{};
  if (gpus.empty()) return;
  const int architecture = *architecture_of(subject, gpus[0]->gpu);
  const Version last = subject.knowledge.toolkits_for(architecture)->second;
  const Version wanted = std::min(last, cuda_of_torch_to_be(subject).value_or(last));
  report.say(
      fmt::format("nvcc {} no longer compiles for {} ({}, sm_{}); CUDA {} is the last that does", release_text(*cuda),
                  name_gpus(gpus), gpus[0]->gpu.name, architecture, to_string(last)),
      {toolkit_step(subject, wanted, fmt::format("gpuwarden env use --for sm_{}", architecture)),
       fmt::format("or the CUDA toolkit {}: https://developer.nvidia.com/cuda-toolkit-archive", to_string(last))});
}

void host_compiler(const Subject& subject, Report& report) {
  const auto cuda = version_in_use(subject);
  if (!cuda) return;
  for (const auto& compiler : subject.environment.compilers) {
    if (compiler.name != "gcc") continue;  // nvcc's default host compiler on Linux
    const auto version = Version::parse(compiler.version);
    if (!version || subject.knowledge.host_compiler_fits(*cuda, "gcc", version->major) != false) return;
    const int most = subject.knowledge.toolkit(*cuda)->max_gcc.major;
    const std::string package = fmt::format("g++-{}", most);
    report.say(
        fmt::format("nvcc {} takes gcc up to {}; the gcc here is {}", release_text(*cuda), most, compiler.version),
        {install_command(subject.environment, {package, package, "gcc-toolset-" + std::to_string(most),
                                               "gcc" + std::to_string(most), "gcc" + std::to_string(most)}),
         fmt::format("export NVCC_CCBIN=g++-{}", most)});
    return;
  }
}

void libc_too_new(const Subject& subject, Report& report) {
  const auto cuda = version_in_use(subject);
  const auto libc = Version::parse(subject.environment.host.libc.value_or(""));
  constexpr Version kFirstThatBreaks{2, 42};
  constexpr Version kFirstThatIsMended{13, 1};
  if (!cuda || !libc || *libc < kFirstThatBreaks || knowledge::release_of(*cuda) >= kFirstThatIsMended) return;
  report.say(fmt::format("the headers of CUDA {} do not compile with glibc {} (sinpi, cospi, rsqrt)",
                         release_text(*cuda), to_string(*libc)),
             {"install the CUDA toolkit 13.1 or newer, or build in a container with an older glibc"});
}

/// Takes the toolkit of this version: "12.4.131".
std::string use_step(const Subject& subject, const std::string& version) {
  const Version wanted = Version::parse(version).value_or(Version{});
  return toolkit_step(subject, wanted, fmt::format("eval \"$(gpuwarden env use {})\"", release_text(wanted)));
}

bool is_named_by(const Toolkit& toolkit, std::string_view name) {
  return std::ranges::find(toolkit.named_by, name) != toolkit.named_by.end();
}

/// Of a toolkit that CUDA_HOME names and one that PATH finds, the one that the rest goes with: PyTorch's build, else
/// what /usr/local/cuda leads to; else the named one.
const Toolkit* better_of(const Toolkit* named, const Toolkit* found, const Subject& subject) {
  const auto is_for = [](const Toolkit& toolkit, const Version& cuda) {
    const auto own = Version::parse(toolkit.version);
    return own && release_text(*own) == release_text(cuda);
  };
  for (const Torch& torch : torches(subject)) {
    if (!torch.cuda) continue;
    if (is_for(*named, *torch.cuda)) return named;
    if (is_for(*found, *torch.cuda)) return found;
  }
  return is_named_by(*found, "/usr/local/cuda") ? found : named;
}

void home_differs(const Subject& subject, Report& report) {
  const auto* home = facts::find_variable(subject.environment, "CUDA_HOME");
  if (home == nullptr || home->empty()) return;
  const auto& all = subject.environment.toolkits;
  const auto active = std::ranges::find(all, true, &Toolkit::active);
  if (active == all.end() || active->path.empty()) return;
  const auto named = std::ranges::find_if(
      all, [&](const Toolkit& toolkit) { return toolkit.path == *home || is_named_by(toolkit, "CUDA_HOME"); });
  if (named == all.end() || named->version == active->version) return;
  report.say(fmt::format("CUDA_HOME is {} (CUDA {}), but the nvcc on PATH is {}'s (CUDA {})", *home, named->version,
                         active->path, active->version),
             {use_step(subject, better_of(&*named, &*active, subject)->version)});
}

void home_missing(const Subject& subject, Report& report) {
  const auto* home = facts::find_variable(subject.environment, "CUDA_HOME");
  const auto& all = subject.environment.toolkits;
  // Reports name no folders: nothing can be said about theirs.
  const bool folders_known = std::ranges::any_of(all, [](const Toolkit& toolkit) { return !toolkit.path.empty(); });
  if (home == nullptr || home->empty() || !folders_known) return;
  const bool there = std::ranges::any_of(all, [&](const Toolkit& toolkit) {
    return toolkit.path == *home || home->starts_with(toolkit.path + "/") || toolkit.origin == "CUDA_HOME" ||
           *home == "/usr/local/cuda";
  });
  if (there) return;
  report.say(fmt::format("CUDA_HOME is {}, where no toolkit is", *home),
             {"unset CUDA_HOME", here_or_elsewhere(subject, "gpuwarden env list   # shows the toolkits that are there",
                                                   "ls -d /usr/local/cuda*   # the toolkits that are there")});
}

void path_variable_differs(const Subject& subject, Report& report) {
  const auto* home = facts::find_variable(subject.environment, "CUDA_HOME");
  const auto* path = facts::find_variable(subject.environment, "CUDA_PATH");
  if (home == nullptr || path == nullptr || home->empty() || path->empty() || *home == *path) return;
  const bool one = std::ranges::any_of(subject.environment.toolkits, [](const Toolkit& toolkit) {
    return is_named_by(toolkit, "CUDA_HOME") && is_named_by(toolkit, "CUDA_PATH");
  });
  if (one) return;
  report.say(fmt::format("CUDA_HOME is {}, but CUDA_PATH is {}", *home, *path), {"export CUDA_PATH=\"$CUDA_HOME\""});
}

/// The toolkit that an environment module of this name brings: 12.4.1 of "cuda/12.4.1", "cuda12.4/toolkit/12.4.1".
std::optional<Version> cuda_of_module(std::string_view module) {
  const std::string lower = to_lower(module);
  const std::size_t slash = lower.rfind('/');
  if (slash == std::string::npos) return std::nullopt;
  const std::string name = lower.substr(0, lower.find('/'));
  // Not cuda-dcgm, cuda-python, cudaq, cudnn and the like, which have versions of their own.
  const bool cuda = name == "cudatoolkit" || name == "cuda-toolkit" ||
                    (name.starts_with("cuda") && name.find_first_not_of("0123456789.", 4) == std::string::npos);
  return cuda ? Version::parse(lower.substr(slash + 1)) : std::nullopt;
}

void module_differs(const Subject& subject, Report& report) {
  const auto* loaded = facts::find_variable(subject.environment, "LOADEDMODULES");
  const auto own = version_in_use(subject);
  if (loaded == nullptr || !own) return;
  const std::string_view all = *loaded;
  for (const std::string_view module : split(all, ':')) {
    const auto cuda = cuda_of_module(module);
    if (!cuda || knowledge::release_of(*cuda) == knowledge::release_of(*own)) continue;
    report.say(fmt::format("the module {} is loaded, but the nvcc on PATH is CUDA {}'s", module, release_text(*own)),
               {fmt::format("module unload {0} && module load {0}   # puts it first again", shell_word(module)),
                "module list   # two modules of CUDA? unload one"});
    return;
  }
}

void library_path_differs(const Subject& subject, Report& report) {
  const auto& all = subject.environment.toolkits;
  const auto active = std::ranges::find(all, true, &Toolkit::active);
  const auto first =
      std::ranges::find_if(all, [](const Toolkit& toolkit) { return is_named_by(toolkit, "LD_LIBRARY_PATH"); });
  if (active == all.end() || first == all.end() || first->version == active->version) return;
  report.say(fmt::format("LD_LIBRARY_PATH leads to CUDA {} ({}) first, but the nvcc on PATH is {}'s (CUDA {})",
                         first->version, first->path, active->path, active->version),
             {use_step(subject, active->version)});
}

void torch_differs(const Subject& subject, Report& report) {
  const auto cuda = version_in_use(subject);
  if (!cuda) return;
  for (const Torch& torch : torches(subject)) {
    if (!torch.cuda || !torch.python->active) continue;
    if (release_text(*torch.cuda) == release_text(*cuda)) continue;
    const bool major = torch.cuda->major != cuda->major;
    report.say(major ? Severity::warning : Severity::info,
               fmt::format(
                   "the toolkit is CUDA {}, PyTorch{} was built with {}: {}", release_text(*cuda), where(*torch.python),
                   release_text(*torch.cuda),
                   major ? "extensions cannot be compiled for it" : "compiling extensions for it may fail in odd ways"),
               {toolkit_step(subject, *torch.cuda,
                             fmt::format("eval \"$(gpuwarden env use {})\"   # before building extensions",
                                         release_text(*torch.cuda)))});
  }
}

void newer_than_known(const Subject& subject, Report& report) {
  const auto cuda = version_in_use(subject);
  if (!cuda || knowledge::release_of(*cuda) <= subject.knowledge.newest_toolkit()) return;
  report.say(
      fmt::format("CUDA {} is newer than this version's knowledge (newest: {}); it is judged by its major release",
                  release_text(*cuda), to_string(subject.knowledge.newest_toolkit())),
      {"gpuwarden doctor --knowledge FILE"});
}

constexpr auto kToolkitChecks = std::to_array<Check>({
    {"toolkit-newer-than-driver", Area::toolkit, Severity::warning, "the toolkit in use against the driver",
     "Programs that this toolkit builds will not start on this driver (cudaErrorInsufficientDriver).",
     "CUDA compatibility guide, minor-version compatibility", kCompatibility, newer_than_driver},
    {"toolkit-by-minor-version", Area::toolkit, Severity::info, "a toolkit newer than the driver's own CUDA",
     "Code with PTX only fails with error 222; new features of the toolkit need the newer driver.",
     "CUDA compatibility guide; NVIDIA/nvbandwidth#61", kCompatibility, by_minor_version},
    {"toolkit-and-driver-cuda-differ", Area::toolkit, Severity::info, "nvidia-smi's CUDA version against nvcc's",
     "A driver runs programs of every older toolkit.", "CUDA toolkit, driver and architecture matrix", kCompatibility,
     two_cuda_versions, "toolkit-too-old-for-gpu toolkit-dropped-gpu toolkit-differs-from-torch"},
    {"toolkit-too-old-for-gpu", Area::toolkit, Severity::warning, "whether nvcc knows the GPUs",
     "nvcc answers \"Unsupported gpu architecture\"; older code may run by JIT, slowly or not at all.",
     "CUDA release notes; nvcc --list-gpu-arch", kReleaseNotes, too_old_for_gpu},
    {"toolkit-dropped-gpu", Area::toolkit, Severity::warning, "whether nvcc still knows the GPUs",
     "CUDA 13 compiles for Turing and newer only, CUDA 12 for Maxwell and newer.", "CUDA release notes; nvcc 13.0.88",
     kReleaseNotes, dropped_gpu},
    {"host-compiler-too-new", Area::toolkit, Severity::warning, "gcc against nvcc",
     "nvcc refuses it: \"unsupported GNU version\".", "host_config.h of the toolkits; spack build_systems/cuda.py",
     kReleaseNotes, host_compiler},
    {"glibc-too-new-for-toolkit", Area::toolkit, Severity::warning, "glibc against the toolkit's headers",
     "Both declare the same functions with different exception specifications.", "spack cuda package.py", "",
     libc_too_new},
    {"cuda-home-differs-from-nvcc", Area::toolkit, Severity::warning, "CUDA_HOME against PATH",
     "A build takes its compiler from one toolkit and its headers from the other.", "PyTorch cpp_extension: CUDA_HOME",
     "", home_differs},
    {"cuda-home-without-toolkit", Area::toolkit, Severity::warning, "the folder that CUDA_HOME names",
     "Builds look for the toolkit there and fail.", "PyTorch cpp_extension: CUDA_HOME", "", home_missing},
    {"cuda-path-differs-from-cuda-home", Area::toolkit, Severity::warning, "CUDA_HOME against CUDA_PATH",
     "Some builds use the one, some the other: half of a project is built with each.",
     "PyTorch cpp_extension: CUDA_HOME or CUDA_PATH; CMake FindCUDAToolkit: CUDA_PATH", "", path_variable_differs},
    {"loaded-module-differs", Area::toolkit, Severity::warning, "loaded environment modules against PATH",
     "Something behind the module, a profile or conda, has put another toolkit before it.",
     "environment modules: LOADEDMODULES (module(1))", "https://modules.readthedocs.io/en/latest/module.html",
     module_differs, "cuda-home-differs-from-nvcc library-path-of-other-toolkit"},
    {"library-path-of-other-toolkit", Area::toolkit, Severity::warning, "LD_LIBRARY_PATH against PATH",
     "What this nvcc builds is started with the other toolkit's libraries.", "ld.so(8): LD_LIBRARY_PATH", "",
     library_path_differs},
    {"toolkit-differs-from-torch", Area::toolkit, Severity::warning, "nvcc against PyTorch's CUDA",
     "Extensions (flash-attn, apex, vLLM from source) must be built with PyTorch's CUDA version.",
     "PyTorch cpp_extension: \"The detected CUDA version mismatches\"",
     "https://pytorch.org/docs/stable/cpp_extension.html", torch_differs,
     "toolkit-too-old-for-gpu toolkit-dropped-gpu torch-too-old-for-gpu torch-dropped-gpu torch-for-other-maker "
     "vllm-torch-differs vllm-cuda-differs"},
    {"toolkit-newer-than-known", Area::toolkit, Severity::info, "a toolkit that came after this program",
     "What is new is judged by the newest known rules, not refused.", "gpuwarden's knowledge base", "",
     newer_than_known},
});

}  // namespace

std::span<const Check> toolkit_checks() { return kToolkitChecks; }

}  // namespace gpuwarden::doctor
