// SPDX-License-Identifier: Apache-2.0
// The machine: distribution, kernel, processors, memory, firmware; and the variables of the caller.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "gpuwarden/base/text.hpp"
#include "probe/survey/probes.hpp"

namespace gpuwarden::probe {

namespace {

using facts::Environment;
using facts::Host;

/// What GPU software heeds. A name with one of kSecret in it is never gathered.
constexpr auto kVariables = std::to_array<std::string_view>({"CUDA_",
                                                             "NVIDIA_",
                                                             "NCCL_",
                                                             "PYTORCH_",
                                                             "TORCH",
                                                             "VLLM_",
                                                             "SGLANG_",
                                                             "HIP_",
                                                             "ROCR_",
                                                             "HSA_",
                                                             "LD_LIBRARY_PATH",
                                                             "LD_PRELOAD",
                                                             "PATH",
                                                             "CUDNN_",
                                                             "TF_",
                                                             "XLA_",
                                                             "JAX_",
                                                             "SLURM_",
                                                             "OMP_NUM_THREADS",
                                                             "TRITON_",
                                                             "CONDA_PREFIX",
                                                             "CONDA_DEFAULT_ENV",
                                                             "VIRTUAL_ENV",
                                                             "LOADEDMODULES",
                                                             "CUBLAS_",
                                                             "NSIGHT_",
                                                             "COMPUTE_PROFILE",
                                                             "OPENCL_PROFILE",
                                                             "GPUWARDEN_",
                                                             "KUBERNETES_SERVICE_HOST",
                                                             "RANK",
                                                             "WORLD_SIZE",
                                                             "LOCAL_RANK",
                                                             "MASTER_ADDR",
                                                             "MASTER_PORT",
                                                             "NVCC_",
                                                             "CUDAHOSTCXX",
                                                             "DCGM_",
                                                             "UCX_",
                                                             "GLOO_",
                                                             "NVSHMEM_",
                                                             "ENROOT_",
                                                             "FLASHINFER_"});
constexpr auto kSecret = std::to_array<std::string_view>(
    {"TOKEN", "KEY", "SECRET", "PASSW", "PASSPHRASE", "CREDENTIAL", "AUTH", "JWT", "COOKIE"});

/// "https://***@host" of "https://user:password@host".
std::string without_credentials(std::string_view value) {
  const std::size_t scheme = value.find("://");
  const std::size_t at = scheme == std::string_view::npos ? scheme : value.find('@', scheme);
  if (at == std::string_view::npos || value.find_first_of("/ ", scheme + 3) < at) return printable(value);
  return printable(value.substr(0, scheme + 3)) + "***" + printable(value.substr(at));
}

bool is_secret(const std::string& name) {
  return std::ranges::any_of(kSecret, [&](std::string_view part) { return contains_ignoring_case(name, part); });
}

bool begins_with_one(std::string_view name, std::span<const std::string_view> beginnings) {
  return std::ranges::any_of(beginnings, [&](std::string_view beginning) { return name.starts_with(beginning); });
}

/// KEY=value or KEY="value" lines.
std::string field_in(std::string_view text, std::string_view key) {
  for (const auto line : split(text, '\n')) {
    if (!line.starts_with(key) || line.substr(key.size(), 1) != "=") continue;
    std::string_view value = trim(line.substr(key.size() + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
    return printable(value);
  }
  return "";
}

/// "MemTotal:       1056270 kB".
std::optional<Bytes> kilobytes_in(std::string_view text, std::string_view label) {
  const std::size_t at = text.find(label);
  if (at == std::string_view::npos) return std::nullopt;
  const auto words = split_words(text.substr(at + label.size(), 64));
  const auto number = words.empty() ? std::nullopt : parse_integer(words[0]);
  return number && *number >= 0 ? std::optional(Bytes(static_cast<std::uint64_t>(*number) * 1024)) : std::nullopt;
}

void read_distribution(const Tree& tree, Host& host) {
  const std::string text = tree.read("/etc/os-release").value_or(tree.read("/usr/lib/os-release").value_or(""));
  const auto put = [&](std::optional<std::string>& target, std::string_view key) {
    const std::string value = field_in(text, key);
    if (!value.empty()) target = value;
  };
  put(host.distribution, "ID");
  put(host.distribution_version, "VERSION_ID");
  put(host.distribution_name, "PRETTY_NAME");
}

/// "6.1.0-9-amd64" before "6.1.0-28-amd64".
bool is_older_kernel(const std::string& left, const std::string& right) {
  return ::strverscmp(left.c_str(), right.c_str()) < 0;
}

void read_kernel(const Scene& scene, Host& host) {
  const Tree& tree = scene.tree;
  for (const std::string& name : tree.names("/lib/modules")) {
    if (tree.is_folder("/lib/modules/" + name + "/kernel")) host.installed_kernels.push_back(name);
  }
  std::ranges::sort(host.installed_kernels, is_older_kernel);
  if (tree.is_live()) {
    utsname name{};
    if (::uname(&name) == 0) {
      host.kernel = name.release;
      host.machine = name.machine;
    }
  } else if (const auto release = tree.line("/proc/sys/kernel/osrelease")) {
    host.kernel = *release;
  } else if (!host.installed_kernels.empty()) {
    host.kernel = host.installed_kernels.back();
  }
  if (host.kernel && !host.installed_kernels.empty())
    host.kernel_headers = tree.exists("/lib/modules/" + *host.kernel + "/build");
  host.kernel_command_line = tree.line("/proc/cmdline");
  if (host.kernel && host.kernel->contains("microsoft"))
    host.wsl = host.kernel->contains("WSL2") || tree.exists("/dev/dxg") ? 2 : 1;
  if (host.kernel && !host.wsl) host.wsl = 0;
}

/// The C library's version: of the running one, or from the loader's file name in older distributions.
void read_libc(const Scene& scene, Host& host) {
  if (scene.tree.is_live()) {
    std::array<char, 64> text{};
    if (::confstr(_CS_GNU_LIBC_VERSION, text.data(), text.size()) > 0)
      host.libc = std::string(text.data()).substr(std::string_view("glibc ").size());
    return;
  }
  for (const char* folder : {"/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64"}) {
    const auto text = scene.tree.read(std::string(folder) + "/libc.so.6", std::size_t{8} << 20U);
    const std::size_t at = text ? text->find("stable release version ") : std::string::npos;
    if (at == std::string::npos) continue;
    const std::string_view rest = std::string_view(*text).substr(at + 23, 8);
    host.libc = std::string(rest.substr(0, rest.find_first_not_of("0123456789.")));
    while (host.libc->ends_with('.')) host.libc->pop_back();
    return;
  }
}

/// By the words that makers of virtual machines put into their firmware.
std::string hypervisor_of(const Tree& tree) {
  struct Maker {
    std::string_view word;
    std::string_view hypervisor;
  };
  constexpr auto kMakers = std::to_array<Maker>({{"microsoft", "microsoft"},
                                                 {"vmware", "vmware"},
                                                 {"xen", "xen"},
                                                 {"virtualbox", "virtualbox"},
                                                 {"innotek", "virtualbox"},
                                                 {"qemu", "kvm"},
                                                 {"kvm", "kvm"},
                                                 {"red hat", "kvm"},
                                                 {"openstack", "kvm"},
                                                 {"google", "kvm"},
                                                 {"amazon", "kvm"},
                                                 {"alibaba", "kvm"},
                                                 {"oracle", "kvm"},
                                                 {"digitalocean", "kvm"}});
  std::string text = tree.line("/sys/hypervisor/type").value_or("");
  for (const char* file : {"sys_vendor", "product_name", "bios_vendor"})
    text += " " + tree.line(std::string("/sys/class/dmi/id/") + file).value_or("");
  for (const Maker& maker : kMakers) {
    if (contains_ignoring_case(text, maker.word)) return std::string(maker.hypervisor);
  }
  return "unknown";
}

void read_processors(const Scene& scene, Host& host) {
  const std::string text = scene.tree.read("/proc/cpuinfo", std::size_t{4} << 20U).value_or("");
  int cpus = 0;
  std::vector<std::string> sockets;
  for (const auto line : split(text, '\n')) {
    const std::size_t colon = line.find(':');
    const std::string_view label = trim(line.substr(0, colon));
    const std::string value = colon == std::string_view::npos ? "" : std::string(trim(line.substr(colon + 1)));
    cpus += label == "processor" ? 1 : 0;
    if (label == "model name" && !host.cpu_model) host.cpu_model = printable(value);
    if (label == "physical id" && std::ranges::find(sockets, value) == sockets.end()) sockets.push_back(value);
    if (label == "flags" && value.contains(" hypervisor") && !host.hypervisor) host.hypervisor = "unknown";
  }
  if (cpus > 0) host.cpus = cpus;
  if (!sockets.empty()) host.sockets = static_cast<int>(sockets.size());
  if (cpus > 0 && !host.hypervisor) host.hypervisor = "";
  if (host.hypervisor == "unknown") host.hypervisor = hypervisor_of(scene.tree);
  int nodes = 0;
  for (const std::string& name : scene.tree.names("/sys/devices/system/node"))
    nodes += name.starts_with("node") && parse_integer(name.substr(4)) ? 1 : 0;
  if (nodes > 0) host.numa_nodes = nodes;
  if (const auto balancing = scene.tree.line("/proc/sys/kernel/numa_balancing"))
    host.numa_balancing = *balancing != "0";
}

/// efivars: four bytes of attributes, then the value.
void read_secure_boot(const Tree& tree, Host& host) {
  for (const std::string& name : tree.names("/sys/firmware/efi/efivars")) {
    if (!name.starts_with("SecureBoot-")) continue;
    const auto value = tree.read("/sys/firmware/efi/efivars/" + name, 16);
    if (value && value->size() >= 5) host.secure_boot = (*value)[4] == 1;
    return;
  }
  if (tree.exists("/sys/firmware") && !tree.exists("/sys/firmware/efi")) host.secure_boot = false;
}

void read_memory(const Tree& tree, Host& host) {
  const std::string memory = tree.read("/proc/meminfo").value_or("");
  host.memory_total = kilobytes_in(memory, "MemTotal:");
  const std::string load = tree.line("/proc/loadavg").value_or("");
  if (const auto words = split_words(load); !words.empty()) host.load_average = parse_number(words[0]);
  host.memory_available = kilobytes_in(memory, "MemAvailable:");
  host.swap_total = kilobytes_in(memory, "SwapTotal:");
  const std::size_t at = memory.find("HugePages_Total:");
  if (at != std::string::npos) {
    const auto words = split_words(std::string_view(memory).substr(at + 16, 32));
    const auto number = words.empty() ? std::nullopt : parse_integer(words[0]);
    if (number && *number >= 0) host.hugepages_total = static_cast<std::uint64_t>(*number);
  }
  // "always [madvise] never"
  const std::string huge = tree.line("/sys/kernel/mm/transparent_hugepage/enabled").value_or("");
  const std::size_t open = huge.find('[');
  const std::size_t close = huge.find(']');
  if (open != std::string::npos && close != std::string::npos && close > open)
    host.transparent_hugepages = printable(huge.substr(open + 1, close - open - 1));
}

}  // namespace

void survey_variables(const Scene& scene, Environment& environment) {
  for (const auto& [name, value] : scene.request.variables) {
    if (!is_secret(name) && begins_with_one(name, kVariables))
      environment.variables.push_back({printable(name), without_credentials(value)});
  }
}

void survey_host(const Scene& scene, Environment& environment) {
  Host& host = environment.host;
  read_distribution(scene.tree, host);
  read_kernel(scene, host);
  read_libc(scene, host);
  read_processors(scene, host);
  read_secure_boot(scene.tree, host);
  read_memory(scene.tree, host);
}

}  // namespace gpuwarden::probe
