// SPDX-License-Identifier: Apache-2.0
// The facts in a report's cells.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "capture/cells.hpp"
#include "capture/env_report.hpp"
#include "capture/identity.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/platform_steps.hpp"
#include "gpuwarden/knowledge/version.hpp"

namespace gpuwarden::capture {
namespace {

using facts::Environment;
using facts::PythonEnvironment;
using facts::Snapshot;

std::optional<std::string> known(std::string_view value) {
  return is_unknown_word(value) ? std::nullopt : std::optional(printable(trim(value)));
}

/// The first number with dots in a text: "12.3.0" of "(Ubuntu 12.3.0-17ubuntu1) 12.3.0".
std::optional<std::string> version_in(std::string_view text) {
  for (const std::string_view word : split_words(text)) {
    const std::size_t digit = word.find_first_of("0123456789");
    if (digit == std::string_view::npos || !word.substr(digit).contains('.')) continue;
    const std::string_view rest = word.substr(digit);
    const std::size_t end = std::min(rest.find_first_not_of("0123456789."), rest.size());
    std::string_view number = rest.substr(0, end);
    while (number.ends_with('.')) number.remove_suffix(1);
    if (number.contains('.')) return std::string(number);
  }
  return std::nullopt;
}

std::optional<int> count_of(std::string_view value) {
  const auto number = parse_integer(trim(value));
  return number && *number > 0 && *number < 100000 ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

/// os-release's ID for the names that reports print.
constexpr auto kDistributions =
    std::to_array<std::pair<std::string_view, std::string_view>>({{"Ubuntu", "ubuntu"},
                                                                  {"Debian", "debian"},
                                                                  {"CentOS", "centos"},
                                                                  {"Centos", "centos"},
                                                                  {"Red Hat", "rhel"},
                                                                  {"Rocky", "rocky"},
                                                                  {"AlmaLinux", "almalinux"},
                                                                  {"Fedora", "fedora"},
                                                                  {"Amazon", "amzn"},
                                                                  {"SUSE", "sles"},
                                                                  {"openSUSE", "opensuse"},
                                                                  {"Arch", "arch"},
                                                                  {"Oracle", "ol"},
                                                                  {"Linux Mint", "linuxmint"},
                                                                  {"Pop!_OS", "pop"},
                                                                  {"Manjaro", "manjaro"},
                                                                  {"Microsoft Windows", knowledge::kWindows},
                                                                  {"macOS", knowledge::kMacos},
                                                                  {"Mac OS", knowledge::kMacos}});

/// "Ubuntu 22.04.4 LTS (x86_64)"; "Microsoft Windows 11 Pro (10.0.22631 64-bit)", which names no machine.
void read_distribution(const std::string& os, facts::Host& host) {
  const std::size_t paren = os.rfind(" (");
  host.distribution_name = os.substr(0, paren);
  const std::string inside =
      paren != std::string::npos && os.ends_with(')') ? os.substr(paren + 2, os.size() - paren - 3) : "";
  if (!inside.empty() && !inside.contains(' ')) host.machine = inside;
  for (const auto& [name, id] : kDistributions) {
    if (os.starts_with(name)) host.distribution = id;
  }
  for (const auto word : split_words(*host.distribution_name)) {
    if (!host.distribution_version && word.find_first_not_of("0123456789.") == std::string_view::npos)
      host.distribution_version = word;
  }
}

/// "Linux-5.15.0-105-generic-x86_64-with-glibc2.35".
void read_platform(const std::string& platform, facts::Host& host) {
  if (platform.starts_with("Windows-") && !host.distribution) host.distribution = knowledge::kWindows;
  const bool mac = platform.starts_with("macOS-") || platform.starts_with("Darwin-");
  if (mac && !host.distribution) host.distribution = knowledge::kMacos;
  if (!platform.starts_with("Linux-")) return;
  const std::size_t end = platform.find("-with-");
  host.kernel = platform.substr(6, end == std::string::npos ? end : end - 6);
  for (const std::string_view machine : {"x86_64", "aarch64", "ppc64le"}) {
    if (!host.kernel->ends_with("-" + std::string(machine))) continue;
    host.kernel->resize(host.kernel->size() - machine.size() - 1);
    if (!host.machine) host.machine = machine;
  }
  host.wsl = host.kernel->contains("microsoft") ? 2 : 0;
}

void read_system(const EnvReport& report, facts::Host& host) {
  if (const auto os = known(report.cell("os"))) read_distribution(*os, host);
  if (const auto machine = known(report.cell("machine"))) host.machine = machine;
  if (const auto libc = known(report.cell("libc"))) host.libc = version_in(*libc);
  if (const auto platform = known(report.cell("platform"))) read_platform(*platform, host);
  host.cpu_model = known(report.cell("cpu_model"));
  host.cpus = count_of(report.cell("cpus"));
  host.sockets = count_of(report.cell("sockets"));
  host.numa_nodes = count_of(report.cell("numa_nodes"));
  if (const auto vendor = known(report.cell("hypervisor"))) host.hypervisor = to_lower(*vendor);
}

/// "2.5.1+cu124"; "2.1.0+cu121 (True)" of transformers.
std::optional<std::string> torch_version(const EnvReport& report) {
  for (const std::string_view slot : {"torch", "torch_gpu"}) {
    const auto value = known(report.cell(slot));
    const auto words = value ? split_words(*value) : std::vector<std::string_view>{};
    if (!words.empty() && knowledge::Version::parse(words[0])) return std::string(words[0]);
  }
  return std::nullopt;
}

void add_package(PythonEnvironment& python, std::string_view name, std::string_view version, std::string_view manager) {
  const std::string normal = facts::normalised_package(name);
  if (version.empty() || facts::find_package(python, normal) != nullptr) return;
  python.packages.push_back({normal, printable(version), std::string(manager)});
}

std::optional<bool> truth_of(std::string_view value) {
  if (value == "True") return true;
  if (value == "False") return false;
  return std::nullopt;
}

/// CUDA and ROCm that PyTorch was built with; "" where it was built without.
void read_torch_build(const EnvReport& report, const std::string& torch, PythonEnvironment& python) {
  const std::string_view cuda = trim(report.cell("cuda_build"));
  const std::string_view rocm = trim(report.cell("rocm_build"));
  if (!is_unknown_word(cuda)) python.torch_cuda = printable(cuda);
  if (!is_unknown_word(rocm)) python.torch_rocm = printable(rocm);
  const bool without = cuda == "None" || torch.contains("+cpu");
  if (without && !python.torch_cuda && !python.torch_rocm) python.torch_cuda = "";
}

/// "7.6.5", or that of "/usr/lib/x86_64-linux-gnu/libcudnn.so.7.6.5". Where several were found, none is known to be it.
std::optional<std::string> cudnn_of(const EnvReport& report) {
  const auto words = split_words(report.cell("cudnn"));
  if (words.size() != 1) return std::nullopt;
  const std::size_t at = words[0].rfind(".so.");
  const std::string_view version = at == std::string_view::npos ? words[0] : words[0].substr(at + 4);
  return knowledge::Version::parse(version) ? std::optional(std::string(version)) : std::nullopt;
}

PythonEnvironment python_of(const EnvReport& report) {
  PythonEnvironment python;
  python.kind = "reported";
  python.active = true;
  if (const auto version = known(report.cell("python"))) {
    const auto words = split_words(*version);
    if (!words.empty() && knowledge::Version::parse(words[0])) python.version = words[0];
  }
  if (const auto torch = torch_version(report)) {
    add_package(python, "torch", *torch, "");
    read_torch_build(report, *torch, python);
  }
  for (const auto& package : report.packages) add_package(python, package.name, package.version, package.manager);
  for (const std::string_view slot : {"vllm", "transformers", "accelerate", "deepspeed", "jax", "jaxlib", "numpy",
                                      "tensorflow", "llamafactory", "trl", "peft", "datasets", "bitsandbytes"}) {
    const auto value = known(report.cell(slot));
    const std::string first = value ? std::string(value->substr(0, value->find_first_of(" @,"))) : "";
    if (knowledge::Version::parse(first)) add_package(python, slot, first, "");
  }
  // vLLM's own report where it runs from a checkout that no build has given a version: "N/A (dev)".
  if (report.cell("vllm").contains("(dev)") && facts::find_package(python, "vllm") == nullptr) {
    add_package(python, "vllm", "dev", "");
  }
  python.torch_debug = truth_of(trim(report.cell("debug")));
  python.cuda_available = truth_of(trim(report.cell("cuda_available")));
  // "2.4.1+cu121 (True)" of transformers, "2.8.0+cu128 (GPU)" of LLaMA-Factory, which says nothing otherwise.
  const std::string_view with_gpu = report.cell("torch_gpu");
  if (with_gpu.ends_with("(True)") || with_gpu.ends_with("(False)") || with_gpu.ends_with("(GPU)"))
    python.cuda_available = !with_gpu.ends_with("(False)");
  python.torch_architectures = report.torch_architectures;
  python.cuda_runtime = known(report.cell("cuda_runtime"));
  python.cudnn = cudnn_of(report);
  return python;
}

/// "Cuda compilation tools, release 12.4, V12.4.131", "12.4.131", " 11.8".
void read_toolkit(const EnvReport& report, Environment& environment) {
  for (const std::string_view slot : {"nvcc", "cuda_runtime"}) {
    const auto value = known(report.cell(slot));
    const std::size_t exact = value ? value->rfind('V') : std::string::npos;
    const auto version = !value ? std::nullopt : version_in(exact == std::string::npos ? *value : value->substr(exact));
    if (!version) continue;
    facts::Toolkit toolkit;
    toolkit.version = *version;
    toolkit.origin = "reported";
    toolkit.active = true;
    if (const auto home = known(report.cell("cuda_home"))) toolkit.path = *home;
    environment.toolkits.push_back(std::move(toolkit));
    return;
  }
}

/// "Probably one of the following: /usr/lib64/libcudnn.so.9.6.0 ...": the libraries themselves, not their parts.
void read_libraries(const EnvReport& report, Environment& environment) {
  for (const auto word : split_words(report.cell("cudnn"))) {
    const std::size_t at = word.rfind("libcudnn.so.");
    if (at == std::string_view::npos) continue;
    environment.libraries.push_back({"libcudnn", printable(word.substr(at + 12)), printable(word), "reported"});
  }
}

void read_compilers(const EnvReport& report, Environment& environment) {
  for (const std::string_view name : {"gcc", "clang"}) {
    if (!trim(report.cell(name)).empty()) environment.compilers_sought = true;
    const auto value = known(report.cell(name));
    if (!value) continue;
    // "(Ubuntu 12.3.0-17ubuntu1) 12.3.0": the last number is the compiler's.
    const std::size_t paren = value->starts_with('(') ? value->find(") ") : std::string::npos;
    const auto version = version_in(paren == std::string::npos ? *value : value->substr(paren + 1));
    if (version) environment.compilers.push_back({std::string(name), *version, ""});
  }
}

facts::GpuRecord gpu_named(std::uint32_t index, std::string_view name) {
  facts::GpuRecord record;
  record.gpu.index = GpuIndex{index};
  constexpr std::string_view kUuid = " (UUID: ";
  const std::size_t uuid = name.find(kUuid);
  if (uuid != std::string_view::npos && name.ends_with(')')) {
    record.gpu.uuid = Uuid(printable(name.substr(uuid + kUuid.size(), name.size() - uuid - kUuid.size() - 1)));
    name = name.substr(0, uuid);
  }
  record.gpu.name = printable(trim(name));
  const bool amd = name.contains("AMD") || name.contains("Radeon") || name.contains("Instinct") || name.contains("gfx");
  if (amd) record.gpu.vendor = "AMD";
  if (amd && name.contains("(gfx")) {
    const std::size_t begin = name.find("(gfx") + 1;
    record.gpu.architecture = std::string(name.substr(begin, name.find_first_of(":)", begin) - begin));
  }
  return record;
}

std::vector<std::uint32_t> indices_in(std::string_view list) {
  std::vector<std::uint32_t> indices;
  for (const auto number : split(list, ',')) {
    const auto index = parse_integer(trim(number));
    if (index && *index >= 0 && *index < 1024) indices.push_back(static_cast<std::uint32_t>(*index));
  }
  return indices;
}

/// "0,1" have "8.6".
void read_capabilities(const EnvReport& report, Snapshot& snapshot) {
  for (const auto& [numbers, value] : report.capabilities) {
    const auto capability = facts::compute_capability_from(value);
    if (!capability) continue;
    const auto indices = indices_in(numbers);
    for (auto& record : snapshot.gpus) {
      if (std::ranges::find(indices, record.gpu.index.value) != indices.end())
        record.gpu.compute_capability = capability;
    }
  }
}

void read_memories(const EnvReport& report, Snapshot& snapshot) {
  for (auto& record : snapshot.gpus) {
    const auto found = report.memories.find(record.gpu.index.value);
    if (found != report.memories.end()) record.sample.memory_total = found->second;
  }
}

/// What TRL names where PyTorch sees no GPU of CUDA ("not available"; "cpu", "MPS"), and others of other accelerators.
bool is_no_gpu(std::string_view name) {
  constexpr auto kNoGpus =
      std::to_array<std::string_view>({"not available", "no gpu", "no", "none", "cpu", "mps", "xpu", "npu", "tpu"});
  return std::ranges::find(kNoGpus, to_lower(trim(name))) != kNoGpus.end();
}

/// Reports in Hugging Face's manner: transformers name the first GPU, diffusers ("NVIDIA A100-SXM4-80GB, 81920 MiB")
/// and TRL ("NVIDIA H100 80GB HBM3, NVIDIA H100 80GB HBM3") all of them, LLaMA-Factory how many there are and what
/// torch.cuda.mem_get_info() says of the memory, divided by 1024 three times ("79.25GB").
void read_listed_names(const EnvReport& report, Snapshot& snapshot) {
  if (!snapshot.gpus.empty()) return;
  constexpr std::size_t kMostGpus = 64;
  std::vector<std::string> names;
  for (std::string_view rest = report.cell("gpu_type"); !rest.empty() && names.size() < kMostGpus;) {
    const std::size_t comma = rest.find(", ");
    if (const std::string_view name = trim(rest.substr(0, comma));
        !name.ends_with("MiB") && !is_unknown_word(name) && !is_no_gpu(name))
      names.emplace_back(name);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 2);
  }
  const auto count = parse_integer(trim(report.cell("gpu_count"))).value_or(1);
  if (names.size() == 1 && count > 1)
    names.resize(std::min(static_cast<std::size_t>(count), kMostGpus), std::string(names.front()));
  std::string memory(trim(report.cell("gpu_memory")));
  if (memory.ends_with("GB")) memory.replace(memory.size() - 2, 2, " GiB");
  const auto each = memory.ends_with(" GiB") ? memory_of(memory) : std::nullopt;
  for (const std::string& name : names) {
    snapshot.gpus.push_back(gpu_named(static_cast<std::uint32_t>(snapshot.gpus.size()), name));
    if (each) snapshot.gpus.back().sample.memory_total = *each;
  }
}

/// JAX's "NVIDIA A100-SXM4-40GB-8, 4 local devices": of all processes 8, of this one 4.
void read_device_names(const EnvReport& report, Snapshot& snapshot) {
  const std::string_view devices = report.cell("jax_devices");
  const std::size_t comma = devices.rfind(", ");
  const std::size_t dash = devices.substr(0, comma).rfind('-');
  if (comma == std::string_view::npos || dash == std::string_view::npos) return;
  const std::string_view name = devices.substr(0, dash);
  const auto words = split_words(devices.substr(comma + 2));
  const auto count = words.size() >= 3 && words[1] == "local" ? parse_integer(words[0]) : std::nullopt;
  if (!count || *count < 1 || *count > 64 || name == "cpu" || name.starts_with("TPU")) return;
  for (std::uint32_t i = 0; i < *count; ++i) snapshot.gpus.push_back(gpu_named(i, name));
}

/// "GPU 0: NVIDIA H200", "GPU 0,1,2: NVIDIA A10G", "MIG 1g.18gb     Device  0:", "AMD Instinct MI100 (gfx908...)".
void read_gpus(const EnvReport& report, Snapshot& snapshot) {
  for (const std::string& text : report.gpus) {
    if (is_unknown_word(text)) continue;
    if (text.starts_with("MIG ")) {
      if (snapshot.gpus.empty()) continue;
      auto& record = snapshot.gpus.back();
      facts::MigDevice& mig = record.mig_devices.emplace_back();
      mig.index = static_cast<std::uint32_t>(record.mig_devices.size() - 1);
      mig.profile = printable(split_words(text)[1]);
      record.gpu.mig_enabled = true;
      continue;
    }
    const std::size_t colon = text.find(':');
    const bool numbered = text.starts_with("GPU ") && colon != std::string::npos;
    if (!numbered) {
      snapshot.gpus.push_back(gpu_named(static_cast<std::uint32_t>(snapshot.gpus.size()), text));
      continue;
    }
    for (const std::uint32_t index : indices_in(std::string_view(text).substr(4, colon - 4)))
      snapshot.gpus.push_back(gpu_named(index, text.substr(colon + 1)));
  }
  read_listed_names(report, snapshot);
  read_device_names(report, snapshot);
  read_capabilities(report, snapshot);
  read_memories(report, snapshot);
}

}  // namespace

Snapshot snapshot_of_env_report(const EnvReport& report) {
  Snapshot snapshot;
  snapshot.source = "report";
  Environment& environment = snapshot.environment.emplace();
  const auto driver = known(report.cell("driver"));
  const auto driver_words = driver ? split_words(*driver) : std::vector<std::string_view>{};
  if (!driver_words.empty() && knowledge::Version::parse(driver_words[0]))
    snapshot.driver_version = driver_of_windows(driver_words[0]).value_or(std::string(driver_words[0]));
  snapshot.cuda_driver_version = known(report.cell("cuda_driver"));
  read_gpus(report, snapshot);
  environment.pythons.push_back(python_of(report));
  read_toolkit(report, environment);
  read_libraries(report, environment);
  read_compilers(report, environment);
  read_system(report, environment.host);
  environment.messages = report.messages;
  if (const auto module = known(report.cell("module"))) environment.driver.loaded_modules.push_back(*module);
  for (const auto& [name, value] : report.variables) {
    if (facts::find_variable(environment, name) == nullptr)
      environment.variables.push_back({printable(name), printable(value)});
  }
  return snapshot;
}

}  // namespace gpuwarden::capture
