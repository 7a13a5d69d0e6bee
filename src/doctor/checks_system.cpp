// SPDX-License-Identifier: Apache-2.0
// The machine under the GPUs: memory, limits, disks, kernel.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/groups.hpp"
#include "doctor/queries.hpp"
#include "doctor/remedies.hpp"
#include "doctor/software_plan.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

namespace {

using knowledge::Version;

constexpr std::string_view kNccl = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html";
constexpr std::uint64_t kGibibyte = 1ULL << 30U;

Bytes gpu_memory(const Subject& subject) {
  Bytes sum(0);
  for (const auto* gpu : nvidia_gpus(subject))
    sum.value += gpu->sample.memory_total ? gpu->sample.memory_total->value : 0;
  return sum;
}

bool has_rdma(const Subject& subject) { return !subject.snapshot.nics.empty(); }

void memlock(const Subject& subject, Report& report) {
  const auto& limit = subject.environment.host.memlock_limit;
  constexpr Bytes kLeast(64 * kGibibyte);
  if (!limit || *limit >= kLeast || !has_rdma(subject) || nvidia_gpus(subject).empty()) return;
  report.say(fmt::format("only {} may be locked in memory (ulimit -l); InfiniBand registers buffers that way",
                         format_size(*limit)),
             {is_container(subject) ? "docker run --ulimit memlock=-1 ..."
                                    : "printf '* soft memlock unlimited\\n* hard memlock unlimited\\n' | sudo tee "
                                      "/etc/security/limits.d/90-memlock.conf"});
}

void shm(const Subject& subject, Report& report) {
  const auto& systems = subject.environment.host.file_systems;
  const auto found = std::ranges::find(systems, "/dev/shm", &facts::FileSystem::mount);
  constexpr Bytes kLittle(kGibibyte);
  if (found == systems.end() || is_container(subject) || nvidia_gpus(subject).empty() || found->free >= kLittle) return;
  report.say(
      fmt::format("/dev/shm has {} free of {}", format_size(found->free), format_size(found->total)),
      {"ls -la /dev/shm   # leftovers of killed jobs may be removed", "sudo mount -o remount,size=50% /dev/shm"});
}

void open_files(const Subject& subject, Report& report) {
  const auto& limit = subject.environment.host.open_files_limit;
  constexpr std::uint64_t kLeast = 4096;
  if (!limit || *limit >= kLeast || nvidia_gpus(subject).size() < 2) return;
  report.say(
      fmt::format("a process may open {} files; data loaders and NCCL on {} GPUs need more", *limit,
                  nvidia_gpus(subject).size()),
      {"ulimit -n 65536",
       "printf '* soft nofile 65536\\n* hard nofile 1048576\\n' | sudo tee /etc/security/limits.d/90-nofile.conf"});
}

void host_memory(const Subject& subject, Report& report) {
  const auto& total = subject.environment.host.memory_total;
  const Bytes gpus = gpu_memory(subject);
  if (!total || gpus.value == 0 || total->value * 10 >= gpus.value * 9) return;
  report.say(fmt::format("the machine has {} of memory, its GPUs have {}", format_size(*total), format_size(gpus)));
}

void memory_low(const Subject& subject, Report& report) {
  const auto& host = subject.environment.host;
  if (!host.memory_available || !host.memory_total || nvidia_gpus(subject).empty()) return;
  if (host.memory_available->value * 20 >= host.memory_total->value) return;
  report.say(fmt::format("{} of {} memory are available: the kernel will soon kill processes",
                         format_size(*host.memory_available), format_size(*host.memory_total)),
             {"ps aux --sort=-rss | head", "fewer data-loader workers, or a smaller cache"});
}

void cgroup_memory(const Subject& subject, Report& report) {
  const auto& host = subject.environment.host;
  const Bytes gpus = gpu_memory(subject);
  if (!host.memory_limit || gpus.value == 0 || (host.memory_total && *host.memory_limit >= *host.memory_total)) return;
  if (host.memory_limit->value * 4 >= gpus.value) return;
  report.say(fmt::format("this job or container may use {} of memory, for GPUs with {}",
                         format_size(*host.memory_limit), format_size(gpus)),
             {"ask for more: --memory (docker), --mem (Slurm), resources.limits.memory (Kubernetes)"});
}

void disk_full(const Subject& subject, Report& report) {
  constexpr Bytes kLittle(2 * kGibibyte);
  for (const auto& system : subject.environment.host.file_systems) {
    if (system.mount == "/dev/shm" || system.free >= kLittle || system.total.value < 4 * kGibibyte) continue;
    report.say(fmt::format("{} has {} free of {}: checkpoints and caches will not fit", system.mount,
                           format_size(system.free), format_size(system.total)),
               {fmt::format("du -xh {} | sort -h | tail -20", shell_word(system.mount)), "pip cache purge"});
    return;
  }
}

void few_cpus(const Subject& subject, Report& report) {
  const auto& cpus = subject.environment.host.cpus_allowed;
  const auto gpus = nvidia_gpus(subject).size();
  if (!cpus || gpus == 0 || static_cast<std::size_t>(*cpus) >= 2 * gpus) return;
  report.say(fmt::format("{} CPUs for {} GPUs: each GPU needs a process, and that its data loaders", *cpus, gpus),
             {"ask for more CPUs: --cpus-per-gpu (Slurm), --cpus (docker)"});
}

void numa_balancing(const Subject& subject, Report& report) {
  const auto& host = subject.environment.host;
  if (host.numa_balancing != true || host.numa_nodes.value_or(1) < 2 || nvidia_gpus(subject).size() < 2) return;
  report
      .say("automatic NUMA balancing is on: the kernel moves pages under running jobs",
           {"sudo sysctl kernel.numa_balancing=0"})
      .safe = true;
}

void old_kernel(const Subject& subject, Report& report) {
  const auto version = Version::parse(subject.environment.host.kernel.value_or(""));
  constexpr Version kOldest{4, 15};
  if (!version || *version >= kOldest || nvidia_gpus(subject).empty() || driver_branch(subject).value_or(0) < 590)
    return;
  report.say(fmt::format("kernel {} is older than what the driver's modules are made for (4.15)",
                         *subject.environment.host.kernel),
             {"update the distribution's kernel"});
}

void foreign_machine(const Subject& subject, Report& report) {
  const std::string machine = subject.environment.host.machine.value_or("");
  if (machine.empty() || machine == "x86_64" || machine == "aarch64" || machine == "arm64" || machine == "ppc64le")
    return;
  if (!nvidia_gpus(subject).empty()) return;
  if (subject.environment.pythons.empty()) return;
  report.say(fmt::format("there are no NVIDIA drivers and no PyTorch wheels for {}", machine),
             {"build PyTorch from source for the CPU, or use an x86_64 or aarch64 machine"});
}

void libc_for_torch(const Subject& subject, Report& report) {
  for (const Torch& torch : torches(subject)) {
    const auto own = Version::parse(torch.version);
    const auto libc = own ? too_old_libc(subject, *own, torch.build) : std::nullopt;
    if (!libc || torch.version.contains('a') || torch.version.contains("git")) continue;
    report.say(fmt::format("PyTorch {} needs glibc 2.28, this system has {}", torch.version, to_string(*libc)),
               {"use a newer distribution or a container", pip_install(*torch.python, "torch<2.6")});
    return;
  }
}

constexpr auto kSystemChecks = std::to_array<Check>({
    {"memlock-low", Area::system, Severity::warning, "how much memory may be locked",
     "Registering buffers fails: \"ibv_reg_mr failed: Cannot allocate memory\".", "NCCL user guide, troubleshooting",
     kNccl, memlock},
    {"shm-low", Area::system, Severity::warning, "the room in /dev/shm", "Data loaders and NCCL share memory there.",
     "NCCL user guide, troubleshooting", kNccl, shm},
    {"open-files-low", Area::system, Severity::warning, "how many files a process may open",
     "\"Too many open files\" in data loaders.", "getrlimit(2)", "", open_files},
    {"host-memory-small", Area::system, Severity::info, "host memory against GPU memory",
     "Loading a model as large as the GPUs needs that much once more.", "/proc/meminfo", "", host_memory},
    {"memory-nearly-full", Area::system, Severity::warning, "available memory",
     "The out-of-memory killer takes the largest process: the training.", "/proc/meminfo", "", memory_low},
    {"memory-limit-small", Area::system, Severity::warning, "the cgroup's memory limit",
     "Loading a model beyond it kills the process.", "cgroup v2, memory.max", "", cgroup_memory},
    {"disk-nearly-full", Area::system, Severity::warning, "room on disks", "A checkpoint that is cut short is lost.",
     "statvfs(3)", "", disk_full},
    {"few-cpus", Area::system, Severity::warning, "CPUs against GPUs", "GPUs wait for data.",
     "sched_getaffinity(2), cgroup v2 cpu.max", "", few_cpus},
    {"numa-balancing-on", Area::system, Severity::info, "automatic NUMA balancing", "Collectives stall now and then.",
     "kernel documentation, sysctl kernel.numa_balancing (advice from memory)", "", numa_balancing},
    {"kernel-too-old", Area::system, Severity::warning, "the kernel against the driver", "The module may not build.",
     "NVIDIA/open-gpu-kernel-modules README (595)", "", old_kernel},
    {"machine-without-cuda", Area::system, Severity::error, "the processor architecture",
     "NVIDIA publishes drivers for x86_64 and aarch64.", "NVIDIA driver downloads; PyTorch RELEASE.md", "",
     foreign_machine},
    {"glibc-too-old-for-torch", Area::system, Severity::warning, "glibc against PyTorch's wheels",
     "The wheels are built for manylinux_2_28 since 2.6.", "PyTorch 2.6 release notes", "", libc_for_torch},
});

}  // namespace

std::span<const Check> system_checks() { return kSystemChecks; }

}  // namespace gpuwarden::doctor
