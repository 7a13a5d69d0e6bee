// SPDX-License-Identifier: Apache-2.0
// The software around the GPUs and the machine they stand in: what the doctor judges besides the GPUs themselves.
// Whatever was not looked at, or could not be read, is empty; `not_probed` says why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/gpu.hpp"

namespace gpuwarden::facts {

/// Which of NVIDIA's kernel modules: the open one (needs Turing or newer) or the proprietary one (ends with Hopper).
enum class ModuleFlavour { open, proprietary };
std::string_view to_string(ModuleFlavour flavour);
std::optional<ModuleFlavour> module_flavour_from(std::string_view name);

/// The NVIDIA kernel driver. Versions are as written: "550.54.15".
struct KernelDriver {
  std::optional<std::string> loaded_version;   ///< /sys/module/nvidia/version or /proc/driver/nvidia/version
  std::optional<std::string> on_disk_version;  ///< of the module that the next load would take
  std::optional<std::string> library_version;  ///< of libnvidia-ml.so.1 / libcuda.so.1 on the library path
  std::optional<ModuleFlavour> flavour;
  std::optional<std::string> signer;            ///< who signed the module on disk; empty string: nobody
  std::vector<std::string> loaded_modules;      ///< of "nvidia", "nvidia_uvm", "nvidia_peermem", "nouveau", ...
  std::vector<std::string> blacklisted;         ///< modules that modprobe.d keeps from loading
  std::vector<std::string> parameters;          ///< "NVreg_EnableGpuFirmware=0", as modprobe.d or the module has them
  std::optional<std::string> dkms_version;      ///< newest version that DKMS knows
  std::vector<std::string> dkms_built_for;      ///< kernel releases for which DKMS has built it
  std::optional<std::string> firmware_version;  ///< GSP firmware on disk for the loaded version, or the newest
  std::optional<std::string> package;           ///< "nvidia-driver 535.183.01-1~deb12u1", "runfile 550.54.15"
  bool operator==(const KernelDriver&) const = default;
};

/// A file in /dev that GPU programs open, tried by opening it.
struct DeviceNode {
  /// Who keeps it closed, where it cannot be opened.
  enum class Refusal {
    file_mode,  ///< its owner and mode (EACCES)
    cgroup,     ///< the device rules of this process's cgroup (EPERM)
    other,      ///< `problem` says what
  };
  std::string path;
  bool exists = false;
  std::optional<bool> openable;  ///< for this user, in this cgroup; empty where it was not tried
  std::string problem;           ///< the system's word: "Permission denied"
  std::string owner;             ///< "root:video", as far as known
  std::optional<std::uint32_t> mode;
  std::optional<Refusal> refusal;
  bool operator==(const DeviceNode&) const = default;
};

std::string_view to_string(DeviceNode::Refusal refusal);
std::optional<DeviceNode::Refusal> node_refusal_from(std::string_view name);

/// A shared library that programs load, in the order in which the loader would find it (first wins for its name).
struct Library {
  std::string name;                    ///< "libcuda.so.1", "libcudnn", "libnccl", "libnvinfer", "libcudart"
  std::optional<std::string> version;  ///< of the library itself, not of the soname
  std::string path;                    ///< with links resolved
  /// How it is found: "LD_LIBRARY_PATH", "ldconfig", "compat", "stubs", "wsl", "toolkit", "pip", "conda", "reported".
  std::string origin;
  bool operator==(const Library&) const = default;
};

/// A CUDA toolkit.
struct Toolkit {
  std::string version;  ///< as exact as known: "12.4.131", "12.4"
  std::string path;     ///< its root; empty in a report that does not tell
  std::string
      origin;  ///< "/usr/local", "CUDA_HOME", "PATH", "conda", "pip", "module", "HPC SDK", "package", "reported"
  std::optional<std::string> nvcc;         ///< the compiler's path
  std::vector<std::string> architectures;  ///< as nvcc lists them: "sm_90", "compute_90"
  bool active = false;                     ///< its nvcc is the one that PATH finds
  std::optional<std::string> libraries;    ///< the folder of its shared libraries
  /// What leads to it: "CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH" (its first folder of a toolkit), "/usr/local/cuda",
  /// "update-alternatives".
  std::vector<std::string> named_by;
  bool operator==(const Toolkit&) const = default;
};

/// A compiler for the host's code.
struct Compiler {
  std::string name;     ///< "gcc", "g++", "clang"
  std::string version;  ///< "12.2.0"
  std::string path;
  bool operator==(const Compiler&) const = default;
};

/// A Python distribution as installed.
struct PythonPackage {
  std::string name;     ///< normalised as PyPI does: lower case, '-' for '_' and '.'
  std::string version;  ///< with its local part: "2.5.1+cu124"
  std::string manager;  ///< "pip", "conda"; empty where a report does not tell
  bool operator==(const PythonPackage&) const = default;
};

/// A Python with the GPU software in it.
struct PythonEnvironment {
  std::string path;                              ///< its prefix; empty in a report
  std::string kind;                              ///< "system", "venv", "conda", "uv", "pyenv", "python", "reported"
  std::optional<std::string> version;            ///< "3.11.2"
  bool active = false;                           ///< the one that PATH, VIRTUAL_ENV or CONDA_PREFIX choose
  std::vector<PythonPackage> packages;           ///< only those that matter to GPU software
  std::optional<std::string> torch_cuda;         ///< "12.4": torch.version.cuda; empty string: built without CUDA
  std::optional<std::string> torch_rocm;         ///< torch.version.hip
  std::vector<std::string> torch_architectures;  ///< torch.cuda.get_arch_list(): "sm_90", "compute_90"
  std::optional<bool> torch_debug;
  std::optional<bool> cuda_available;       ///< torch.cuda.is_available(), as a report says or that Python answered
  std::optional<std::string> cuda_runtime;  ///< "12.4.131", as a report says
  std::optional<std::string> cudnn;         ///< as a report says, or the library's own number
  std::optional<std::string> nccl;
  std::optional<std::string> problem;  ///< why this Python could not be asked
  bool operator==(const PythonEnvironment&) const = default;
};

/// A container engine on this machine, or the container that this is.
struct ContainerFacts {
  std::optional<std::string> inside;  ///< "docker", "podman", "kubernetes", "apptainer", "lxc"; empty string: none
  std::vector<std::string> engines;   ///< "docker 26.1.0", "podman", "apptainer 1.3.0"
  std::optional<std::string> toolkit_version;  ///< NVIDIA Container Toolkit
  std::vector<std::string> runtimes;           ///< configured in the engine: "nvidia"
  std::optional<std::string> default_runtime;
  std::vector<std::string> cdi_specifications;  ///< /etc/cdi/nvidia.yaml ...
  std::optional<bool> kubernetes_device_plugin;
  bool operator==(const ContainerFacts&) const = default;
};

/// A system service: "nvidia-persistenced", "nvidia-fabricmanager", "nvidia-imex", "docker", "slurmd", "gdm" ...
struct Service {
  std::string name;
  std::string state;  ///< "running", "stopped", "failed"
  std::optional<std::string> version;
  bool operator==(const Service&) const = default;
};

/// An environment variable that GPU software heeds. Values that may hold a secret are never gathered.
struct Variable {
  std::string name;
  std::string value;
  bool operator==(const Variable&) const = default;
};

/// A file system with the room left on it.
struct FileSystem {
  std::string mount;  ///< "/", "/tmp", "/dev/shm"
  Bytes total;
  Bytes free;
  bool operator==(const FileSystem&) const = default;
};

/// A network interface of the kernel.
struct NetworkInterface {
  std::string name;             ///< "eth0"
  bool up = false;              ///< it has a link, or does not say ("unknown")
  bool physical = false;        ///< a device stands behind it; bridges, tunnels and containers' have none
  bool default_route = false;   ///< IPv4
  std::optional<int> megabits;  ///< speed of the link
  bool operator==(const NetworkInterface&) const = default;
};

/// An InfiniBand or RoCE adapter; its state is that of its best port.
struct RdmaAdapter {
  std::string name;  ///< "mlx5_0"
  bool active = false;
  std::string link_layer;       ///< "InfiniBand", "Ethernet"; empty: not told
  std::optional<int> gigabits;  ///< speed of the link
  bool operator==(const RdmaAdapter&) const = default;
};

/// The machine and its operating system.
struct Host {
  std::optional<std::string> distribution;          ///< os-release ID: "debian", "ubuntu", "rhel"
  std::optional<std::string> distribution_version;  ///< "12", "22.04"
  std::optional<std::string> distribution_name;     ///< "Ubuntu 22.04.4 LTS"
  std::optional<std::string> kernel;                ///< uname -r
  std::vector<std::string> installed_kernels;       ///< in /lib/modules
  std::optional<bool> kernel_headers;               ///< for the running kernel
  std::optional<std::string> kernel_command_line;
  std::optional<std::string> machine;  ///< "x86_64", "aarch64"
  std::optional<std::string> libc;     ///< "2.36"
  std::optional<std::string> cpu_model;
  std::optional<int> cpus;             ///< logical
  std::optional<double> load_average;  ///< tasks that ran or waited to run, over the last minute
  std::optional<int> cpus_allowed;     ///< to this process, by affinity and cgroup
  std::optional<int> sockets;
  std::optional<int> numa_nodes;
  std::optional<bool> numa_balancing;
  std::optional<Bytes> memory_total;
  std::optional<Bytes> memory_available;
  std::optional<Bytes> memory_limit;  ///< of this cgroup
  std::optional<Bytes> swap_total;
  std::optional<Bytes> memlock_limit;  ///< RLIMIT_MEMLOCK; Bytes of 2^64-1: unlimited
  std::optional<std::uint64_t> open_files_limit;
  std::optional<std::uint64_t> hugepages_total;
  std::optional<std::string> transparent_hugepages;  ///< "always", "madvise", "never"
  std::optional<bool> secure_boot;
  std::optional<bool> iommu;              ///< DMA is translated (not pass-through)
  std::vector<std::string> acs_bridges;   ///< PCIe bridges above GPUs that redirect peer traffic
  std::optional<std::string> hypervisor;  ///< "kvm", "microsoft", "xen", "vmware"; empty string: bare metal
  std::optional<int> wsl;                 ///< 1 or 2; 0: this is not WSL
  std::vector<std::string> groups;        ///< of this user
  std::optional<bool> root;               ///< this user is root
  std::vector<FileSystem> file_systems;
  bool operator==(const Host&) const = default;
};

/// A node of a Slurm cluster, or several alike that sinfo told in one row.
struct SlurmNode {
  std::string name;    ///< "gpu01", or a list as Slurm writes it: "gpu[01-26,28]"; empty where sinfo only counted
  int count = 1;       ///< how many nodes that is
  std::string state;   ///< as printed: "idle", "mixed-", "MAINTENANCE+DRAIN"
  std::string reason;  ///< why it is drained or down
  std::vector<std::string> partitions;
  std::string gres;         ///< as configured: "gpu:a100:4(S:0-1)"
  std::optional<int> cpus;  ///< of each node
  std::optional<int> gpus;  ///< of each node, as Slurm counts: a MIG instance is one too
  std::optional<int> gpus_allocated;
  bool operator==(const SlurmNode&) const = default;
};

struct SlurmJob {
  std::string id;  ///< "30214", "42953390_320"; a step: "3557891.0"
  std::string name;
  std::string state;   ///< in Slurm's long form: "RUNNING"
  std::string reason;  ///< why it waits
  std::string partition;
  std::string nodes;        ///< as Slurm writes them: "node[1281-1288]"
  std::optional<int> gpus;  ///< granted, else asked for; on all nodes
  std::string gpu_places;   ///< which ones, where that is told: "gpu:ampere:8(IDX:0-3)"
  std::string exit_code;    ///< "0:9": status and signal
  bool operator==(const SlurmJob&) const = default;
};

struct SlurmPartition {
  std::string name;
  std::string state;  ///< "up", "down", "drain", "inact"
  std::string time_limit;
  std::optional<int> nodes;
  std::optional<int> gpus;
  bool operator==(const SlurmPartition&) const = default;
};

/// CPUs of a cluster by use, as `sinfo -o %C` counts them.
struct SlurmCpus {
  int allocated = 0;
  int idle = 0;
  int other = 0;
  int total = 0;
  bool operator==(const SlurmCpus&) const = default;
};

/// Slurm as seen from here.
struct SlurmFacts {
  std::optional<std::string> version;
  std::optional<std::string> job_id;      ///< where this is inside one
  std::vector<std::string> granted_gpus;  ///< SLURM_JOB_GPUS / SLURM_STEP_GPUS
  std::optional<int> gpus_requested;
  std::optional<bool> constrain_devices;  ///< cgroup.conf
  std::vector<std::string> gres;          ///< "gpu:a100:4", as this node is configured
  std::optional<std::string> cluster;     ///< its name
  std::vector<SlurmNode> nodes;           ///< of the cluster, as far as a report tells
  std::vector<SlurmJob> jobs;
  std::vector<SlurmPartition> partitions;
  std::optional<SlurmCpus> cpus;
  bool operator==(const SlurmFacts&) const = default;
};

/// A sentence of some GPU software that says what is wrong, found in a report.
struct ReportedMessage {
  std::string kind;   ///< "arch_not_supported", "driver_too_old", "no_kernel_image", "nvml_mismatch", "cuda_803" ...
  std::string text;   ///< the line
  std::string value;  ///< what it names: "sm_120", "11040"
  std::uint32_t line = 0;
  bool operator==(const ReportedMessage&) const = default;
};

/// What could not be looked at.
struct NotProbed {
  std::string what;    ///< "fabric manager", "/dev/nvidia0"
  std::string reason;  ///< "not permitted", "no answer within 2 s"
  bool operator==(const NotProbed&) const = default;
};

struct Environment {
  KernelDriver driver;
  std::vector<DeviceNode> device_nodes;
  std::vector<Library> libraries;
  std::vector<Toolkit> toolkits;
  std::vector<Compiler> compilers;
  /// Compilers were looked for: an empty list means that there is none.
  std::optional<bool> compilers_sought;
  std::vector<PythonEnvironment> pythons;
  ContainerFacts containers;
  std::vector<Service> services;
  std::vector<Variable> variables;
  Host host;
  std::vector<NetworkInterface> interfaces;
  std::vector<RdmaAdapter> rdma_adapters;
  std::optional<SlurmFacts> slurm;
  std::vector<ReportedMessage> messages;
  std::vector<NotProbed> not_probed;
  bool operator==(const Environment&) const = default;
};

/// Whether a variable of this name is one that GPU software heeds; never where its value may be a secret.
bool is_gathered_variable(std::string_view name);
/// A package's name as PyPI has it: lower case, '-' for '_' and '.'.
std::string normalised_package(std::string_view name);
/// Whether a package of this normalised name matters to GPU software.
bool is_gathered_package(std::string_view name);
/// "12.1" of "py3.10_cuda12.1_cudnn8.9.2_0", "12.6" of "cuda126_py312h1234567_0"; "" of "cpu_generic_py312_0".
std::optional<std::string> cuda_of_build(std::string_view build);
/// The value of an environment variable among the gathered ones; nullptr where it is not set.
const std::string* find_variable(const Environment& environment, std::string_view name);
/// The package of this normalised name; nullptr where it is not installed.
const PythonPackage* find_package(const PythonEnvironment& python, std::string_view name);
/// The service of this name; nullptr where it is not installed.
const Service* find_service(const Environment& environment, std::string_view name);

}  // namespace gpuwarden::facts
