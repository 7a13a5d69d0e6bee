// SPDX-License-Identifier: Apache-2.0
// The machine around the GPUs: system, limits, variables, containers, services, Slurm.
#include <gmock/gmock.h>

#include <algorithm>

#include "probe/machine_tree.hpp"

namespace gpuwarden {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::MachineTree;
using Texts = std::vector<std::string>;

TEST(SurveyHost, ReadsDistributionKernelAndProcessors) {
  const MachineTree tree;
  tree.file("/etc/os-release",
            "NAME=\"Ubuntu\"\nID=ubuntu\nVERSION_ID=\"22.04\"\nPRETTY_NAME=\"Ubuntu 22.04.4 LTS\"\n");
  tree.folder("/lib/modules/6.1.0-9-amd64/kernel");
  tree.folder("/lib/modules/6.1.0-28-amd64/kernel");
  tree.file("/proc/sys/kernel/osrelease", "6.1.0-9-amd64\n");
  tree.file("/proc/cpuinfo",
            "processor\t: 0\nmodel name\t: AMD EPYC 9654\nphysical id\t: 0\nflags\t\t: fpu sse\n\n"
            "processor\t: 1\nmodel name\t: AMD EPYC 9654\nphysical id\t: 1\nflags\t\t: fpu sse\n");
  tree.folder("/sys/devices/system/node/node0");
  tree.folder("/sys/devices/system/node/node1");
  tree.file("/proc/sys/kernel/numa_balancing", "1\n");
  const auto host = tree.survey().host;
  EXPECT_EQ(host.distribution, "ubuntu");
  EXPECT_EQ(host.distribution_version, "22.04");
  EXPECT_EQ(host.distribution_name, "Ubuntu 22.04.4 LTS");
  EXPECT_EQ(host.kernel, "6.1.0-9-amd64");
  EXPECT_THAT(host.installed_kernels, ElementsAre("6.1.0-9-amd64", "6.1.0-28-amd64"));
  EXPECT_EQ(host.kernel_headers, false);
  EXPECT_EQ(host.cpu_model, "AMD EPYC 9654");
  EXPECT_EQ(host.cpus, 2);
  EXPECT_EQ(host.sockets, 2);
  EXPECT_EQ(host.numa_nodes, 2);
  EXPECT_EQ(host.numa_balancing, true);
  EXPECT_EQ(host.hypervisor, "");
  EXPECT_EQ(host.wsl, 0);
}

TEST(SurveyHost, ReadsMemoryAndHugePages) {
  const MachineTree tree;
  tree.file(
      "/proc/meminfo",
      "MemTotal:       1056270 kB\nMemAvailable:    500000 kB\nSwapTotal:       0 kB\nHugePages_Total:     512\n");
  tree.file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  const auto host = tree.survey().host;
  EXPECT_EQ(host.memory_total, Bytes(1056270ULL * 1024));
  EXPECT_EQ(host.memory_available, Bytes(500000ULL * 1024));
  EXPECT_EQ(host.swap_total, Bytes(0));
  EXPECT_EQ(host.hugepages_total, 512U);
  EXPECT_EQ(host.transparent_hugepages, "madvise");
}

TEST(SurveyHost, NamesTheHypervisor) {
  const MachineTree tree;
  tree.file("/proc/cpuinfo", "processor : 0\nflags : fpu hypervisor\n");
  EXPECT_EQ(tree.survey().host.hypervisor, "unknown");
  tree.file("/sys/class/dmi/id/sys_vendor", "Microsoft Corporation\n");
  EXPECT_EQ(tree.survey().host.hypervisor, "microsoft");
  tree.file("/sys/class/dmi/id/sys_vendor", "Amazon EC2\n");
  EXPECT_EQ(tree.survey().host.hypervisor, "kvm");
}

TEST(SurveyHost, KnowsWslAndSecureBoot) {
  const MachineTree tree;
  tree.file("/proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n");
  EXPECT_EQ(tree.survey().host.wsl, 2);
  EXPECT_EQ(tree.survey().host.secure_boot, std::nullopt);
  const std::string variable = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
  tree.file(variable, "\x06\0\0\0\x01"s);
  EXPECT_EQ(tree.survey().host.secure_boot, true);
  tree.file(variable, "\x06\0\0\0\0"s);
  EXPECT_EQ(tree.survey().host.secure_boot, false);
  tree.file(variable, "\x06"s);
  EXPECT_EQ(tree.survey().host.secure_boot, std::nullopt);
}

TEST(SurveyLimits, AreTheSmallestOnTheWayUp) {
  const MachineTree tree;
  tree.file("/proc/self/cgroup", "0::/system.slice/job.scope\n");
  tree.file("/sys/fs/cgroup/system.slice/job.scope/memory.max", "max\n");
  tree.file("/sys/fs/cgroup/system.slice/memory.max", "8589934592\n");
  tree.file("/sys/fs/cgroup/system.slice/job.scope/cpu.max", "250000 100000\n");
  tree.file("/sys/fs/cgroup/system.slice/cpu.max", "max 100000\n");
  const auto host = tree.survey().host;
  EXPECT_EQ(host.memory_limit, Bytes(8589934592ULL));
  EXPECT_EQ(host.cpus_allowed, 3);
}

TEST(SurveyLimits, OfVersionOneAreReadToo) {
  const MachineTree tree;
  tree.file("/proc/self/cgroup", "7:memory:/a\n3:cpu,cpuacct:/a\n");
  tree.file("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824\n");
  tree.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  tree.file("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
  tree.file("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  const auto host = tree.survey().host;
  EXPECT_EQ(host.memory_limit, Bytes(1073741824ULL));
  EXPECT_EQ(host.cpus_allowed, std::nullopt);
}

TEST(SurveyVariables, AreThoseOfGpuSoftwareAndNeverASecret) {
  const MachineTree tree;
  const auto environment = tree.survey({{"CUDA_VISIBLE_DEVICES", "0,1"},
                                        {"NCCL_DEBUG", "INFO\x1b[31m"},
                                        {"VLLM_API_KEY", "s3cret"},
                                        {"SLURM_JWT", "s3cret"},
                                        {"VLLM_auth_header", "s3cret"},
                                        {"TORCH_HUB_MIRROR", "https://user:s3cret@mirror/x@y"},
                                        {"EDITOR", "vi"}});
  Texts texts;
  for (const auto& one : environment.variables) texts.push_back(one.name + "=" + one.value);
  EXPECT_THAT(texts, ElementsAre("CUDA_VISIBLE_DEVICES=0,1", "NCCL_DEBUG=INFO?[31m",
                                 "TORCH_HUB_MIRROR=https://***@mirror/x@y"));
}

TEST(SurveyContainers, KnowTheOneTheyAreIn) {
  const auto inside = [](const std::string& mark, const std::string& text = "") {
    const MachineTree tree;
    if (!mark.empty()) tree.file(mark, text);
    return tree.survey().containers.inside;
  };
  EXPECT_EQ(inside(""), "");
  EXPECT_EQ(inside("/.dockerenv"), "docker");
  EXPECT_EQ(inside("/run/.containerenv"), "podman");
  EXPECT_EQ(inside("/.singularity.d/env"), "apptainer");
  EXPECT_EQ(inside("/run/secrets/kubernetes.io/serviceaccount/namespace"), "kubernetes");
  EXPECT_EQ(inside("/proc/1/cgroup", "12:pids:/kubepods/besteffort/pod1/2\n"), "kubernetes");
  EXPECT_EQ(inside("/proc/1/cgroup", "0::/lxc/web\n"), "lxc");
  EXPECT_EQ(MachineTree().survey({{"APPTAINER_CONTAINER", "/x.sif"}}).containers.inside, "apptainer");
}

TEST(SurveyContainers, TellEnginesRuntimesAndSpecifications) {
  const MachineTree tree;
  tree.program("/usr/bin/docker");
  tree.program("/usr/bin/podman");
  tree.file("/var/lib/dpkg/status",
            "Package: docker-ce\nStatus: install ok installed\nVersion: 5:26.1.0-1~debian.12\n\n"
            "Package: nvidia-container-toolkit\nStatus: install ok installed\nVersion: 1.15.0-1\n");
  tree.file("/etc/docker/daemon.json",
            R"({"default-runtime":"nvidia","runtimes":{"nvidia":{"path":"nvidia-container-runtime"}}})");
  tree.file("/etc/cdi/nvidia.yaml", "kind: nvidia.com/gpu\n");
  tree.file("/etc/cdi/other.yaml", "kind: intel.com/net\n");
  tree.folder("/run/cdi");
  tree.link("/var/run", "../run");
  tree.file("/run/cdi/gpus.json", R"({"kind":"nvidia.com/gpu"})");
  const auto containers = tree.survey().containers;
  EXPECT_THAT(containers.engines, ElementsAre("docker 26.1.0", "podman"));
  EXPECT_EQ(containers.toolkit_version, "1.15.0");
  EXPECT_THAT(containers.runtimes, ElementsAre("nvidia"));
  EXPECT_EQ(containers.default_runtime, "nvidia");
  EXPECT_THAT(containers.cdi_specifications, ElementsAre("/etc/cdi/nvidia.yaml", "/var/run/cdi/gpus.json"));
}

TEST(SurveyContainers, ADamagedSettingsFileIsNoRuntime) {
  const MachineTree tree;
  for (const char* poor : {"{", "[]", R"({"runtimes":[1],"default-runtime":7})", "\xff\xfe"}) {
    tree.file("/etc/docker/daemon.json", poor);
    EXPECT_THAT(tree.survey().containers.runtimes, IsEmpty()) << poor;
    EXPECT_EQ(tree.survey().containers.default_runtime, std::nullopt) << poor;
  }
}

TEST(SurveyServices, RunOrAreInstalledAndStopped) {
  const MachineTree tree;
  tree.file("/proc/101/comm", "nvidia-persiste\n");
  tree.file("/proc/102/comm", "bash\n");
  tree.file("/proc/103/comm", "kubelet\n");
  tree.file("/proc/self/comm", "nv-hostengine\n");
  tree.file("/lib/systemd/system/nvidia-fabricmanager.service");
  tree.file("/lib/systemd/system/nvidia-persistenced.service");
  tree.file("/var/lib/kubelet/device-plugins/nvidia-gpu.sock");
  tree.file("/var/lib/dpkg/status",
            "Package: nvidia-fabricmanager-550\nStatus: install ok installed\nVersion: 550.90.07-1\n");
  const auto environment = tree.survey();
  Texts texts;
  for (const auto& one : environment.services)
    texts.push_back(one.name + " " + one.state + " " + one.version.value_or("?"));
  EXPECT_THAT(texts, ElementsAre("nvidia-persistenced running ?", "kubelet running ?",
                                 "nvidia-fabricmanager stopped 550.90.07"));
  EXPECT_EQ(environment.containers.kubernetes_device_plugin, true);
}

TEST(SurveySlurm, TellsTheJobAndTheNode) {
  const MachineTree tree;
  EXPECT_FALSE(tree.survey().slurm.has_value());
  tree.file("/etc/slurm/slurm.conf", "NodeName=gpu[01-04] Gres=gpu:a100:4 CPUs=64\nNodeName=gpu10 Gres=gpu:h100:8\n");
  tree.file("/etc/slurm/cgroup.conf", "ConstrainDevices=Yes\n");
  tree.file("/etc/hostname", "gpu02.cluster.local\n");
  tree.file("/var/lib/dpkg/status", "Package: slurmd\nStatus: install ok installed\nVersion: 23.11.4-1\n");
  const auto slurm =
      tree.survey({{"SLURM_JOB_ID", "77"}, {"SLURM_JOB_GPUS", "0,2"}, {"SLURM_GPUS_ON_NODE", "2"}}).slurm;
  ASSERT_TRUE(slurm);
  EXPECT_EQ(slurm->job_id, "77");
  EXPECT_THAT(slurm->granted_gpus, ElementsAre("0", "2"));
  EXPECT_EQ(slurm->gpus_requested, 2);
  EXPECT_EQ(slurm->constrain_devices, true);
  EXPECT_THAT(slurm->gres, ElementsAre("gpu:a100:4"));
  EXPECT_EQ(slurm->version, "23.11.4");
}

TEST(SurveySlurm, GresConfSpeaksWhereTheNodesLineIsElsewhere) {
  const MachineTree tree;
  tree.file("/etc/slurm-llnl/slurm.conf", "Include nodes.conf\n");
  tree.file("/etc/slurm-llnl/gres.conf", "Name=gpu Type=h100 File=/dev/nvidia[0-7]\n");
  const auto slurm = tree.survey().slurm;
  ASSERT_TRUE(slurm);
  EXPECT_THAT(slurm->gres, ElementsAre("gpu:h100:8"));
  EXPECT_EQ(slurm->constrain_devices, std::nullopt);
}

}  // namespace
}  // namespace gpuwarden
