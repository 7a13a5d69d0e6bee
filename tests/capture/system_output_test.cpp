// SPDX-License-Identifier: Apache-2.0
// What the operating system's tools print, in texts of our own in their shapes.
#include "capture/system_output.hpp"

#include "gpuwarden/capture/capture.hpp"
#include "support/environment_parts.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::capture {
namespace {

using namespace gpuwarden::testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

facts::Environment environment_of(std::string_view text) {
  facts::Environment environment;
  read_system_output(lines_of(text), environment);
  return environment;
}

TEST(SystemOutput, UnameAndOsReleaseTellTheSystem) {
  const auto host = environment_of(
                        "$ uname -a\n"
                        "Linux box 5.15.0-91-generic #101-Ubuntu SMP Tue Nov 14 13:30:08 UTC 2023 x86_64 GNU/Linux\n"
                        "PRETTY_NAME=\"Ubuntu 22.04.4 LTS\"\nVERSION_ID=\"22.04\"\nID=ubuntu\nID_LIKE=debian\n"
                        "ldd (Ubuntu GLIBC 2.35-0ubuntu3.6) 2.35\n"
                        "SecureBoot enabled\n")
                        .host;
  EXPECT_EQ(host.kernel, "5.15.0-91-generic");
  EXPECT_EQ(host.machine, "x86_64");
  EXPECT_EQ(host.wsl, 0);
  EXPECT_EQ(host.distribution, "ubuntu");
  EXPECT_EQ(host.distribution_version, "22.04");
  EXPECT_EQ(host.distribution_name, "Ubuntu 22.04.4 LTS");
  EXPECT_EQ(host.libc, "2.35");
  EXPECT_EQ(host.secure_boot, true);
}

TEST(SystemOutput, WslIsSeenInTheKernelsName) {
  const auto host =
      environment_of(
          "Linux pc 5.15.153.1-microsoft-standard-WSL2 #1 SMP Fri Mar 29 23:14:13 UTC 2024 x86_64 GNU/Linux\n")
          .host;
  EXPECT_EQ(host.wsl, 2);
}

TEST(SystemOutput, ProseAboutLinuxIsNoUname) {
  EXPECT_EQ(environment_of("Linux is what I run, version 5.15 #1 or so\nLinux 22.04 with the newest driver\n").host,
            facts::Host{});
}

TEST(SystemOutput, LscpuTellsProcessors) {
  const auto host = environment_of(
                        "Architecture:            x86_64\n"
                        "CPU(s):                  96\n"
                        "On-line CPU(s) list:     0-95\n"
                        "Model name:              Some Processor 9000\n"
                        "Socket(s):               2\n"
                        "NUMA node(s):            4\n"
                        "NUMA node0 CPU(s):       0-23\n")
                        .host;
  EXPECT_EQ(host.cpus, 96);
  EXPECT_EQ(host.sockets, 2);
  EXPECT_EQ(host.numa_nodes, 4);
  EXPECT_EQ(host.cpu_model, "Some Processor 9000");
}

TEST(SystemOutput, LsmodAndModinfoTellTheModules) {
  const auto driver = environment_of(
                          "Module                  Size  Used by\n"
                          "nvidia_uvm           1527808  2\n"
                          "nvidia              56623104  93 nvidia_uvm,nvidia_modeset\n"
                          "nouveau is not loaded, 100 1\n"
                          "filename:       /lib/modules/5.15.0-91-generic/updates/dkms/nvidia.ko\n"
                          "version:        550.54.15\n"
                          "license:        Dual MIT/GPL\n"
                          "signer:         box Secure Boot Module Signature key\n\n"
                          "filename:       /lib/modules/5.15.0-91-generic/kernel/drivers/other.ko\n"
                          "version:        1.2.3\n")
                          .driver;
  EXPECT_THAT(driver.loaded_modules, ElementsAre("nvidia_uvm", "nvidia"));
  EXPECT_EQ(driver.on_disk_version, "550.54.15");
  EXPECT_EQ(driver.flavour, facts::ModuleFlavour::open);
  EXPECT_EQ(driver.signer, "box Secure Boot Module Signature key");
}

TEST(SystemOutput, DpkgTellsThePackages) {
  const auto environment = environment_of(
      "ii  nvidia-driver-535-libs     1.0   amd64  nothing to go by\n"
      "ii  nvidia-driver-535          535.183.01-0ubuntu1   amd64  NVIDIA driver metapackage\n"
      "rc  nvidia-driver-470          470.256.02-0ubuntu1   amd64  removed\n"
      "ii  nvidia-container-toolkit   1.14.3-1   amd64  NVIDIA Container toolkit\n");
  EXPECT_EQ(environment.driver.package, "nvidia-driver-535 535.183.01-0ubuntu1");
  EXPECT_EQ(environment.containers.toolkit_version, "1.14.3-1");
}

TEST(SystemOutput, CompilersSayTheirVersionLast) {
  const auto environment = environment_of(
      "gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0\nCopyright\n"
      "Ubuntu clang version 14.0.0-1ubuntu1.1\n"
      "gcc (the one from conda) is newer\n");
  ASSERT_EQ(environment.compilers.size(), 2U);
  EXPECT_EQ(environment.compilers[0].version, "11.4.0");
  EXPECT_EQ(environment.compilers[1].name, "clang");
  EXPECT_EQ(environment.compilers[1].version, "14.0.0");
}

TEST(SystemOutput, ContainerEnginesAndTheirRuntimes) {
  const auto containers = environment_of(
                              "Docker version 26.1.0, build 9714adc\n"
                              "NVIDIA Container Toolkit CLI version 1.15.0\n"
                              " Runtimes: io.containerd.runc.v2 nvidia runc\n Default Runtime: runc\n")
                              .containers;
  EXPECT_THAT(containers.engines, ElementsAre("docker 26.1.0"));
  EXPECT_EQ(containers.toolkit_version, "1.15.0");
  EXPECT_THAT(containers.runtimes, ElementsAre("io.containerd.runc.v2", "nvidia", "runc"));
  EXPECT_EQ(containers.default_runtime, "runc");
}

TEST(SystemOutput, ServicesWithTheirStates) {
  const auto environment = environment_of(
      "x nvidia-fabricmanager.service - NVIDIA fabric manager service\n"
      "     Loaded: loaded (/lib/systemd/system/nvidia-fabricmanager.service; enabled)\n"
      "     Active: failed (Result: exit-code) since Mon 2025-03-03\n\n"
      "* nvidia-persistenced.service - NVIDIA Persistence Daemon\n"
      "     Active: active (running) since Mon 2025-03-03\n");
  ASSERT_EQ(environment.services.size(), 2U);
  EXPECT_EQ(facts::find_service(environment, "nvidia-fabricmanager")->state, "failed");
  EXPECT_EQ(facts::find_service(environment, "nvidia-persistenced")->state, "running");
}

TEST(SystemOutput, LimitsInTheUnitsOfTheShell) {
  const auto host = environment_of(
                        "open files                          (-n) 1024\n"
                        "max locked memory           (kbytes, -l) 64\n")
                        .host;
  EXPECT_EQ(host.open_files_limit, 1024U);
  EXPECT_EQ(host.memlock_limit, Bytes{65536});
  EXPECT_EQ(environment_of("max locked memory       (kbytes, -l) unlimited\n").host.memlock_limit,
            Bytes{~std::uint64_t{0}});
}

TEST(SystemOutput, OnlyVariablesOfGpuSoftwareAndNoSecrets) {
  const auto environment = environment_of(
      "export CUDA_VISIBLE_DEVICES=0,1\n"
      "NCCL_DEBUG=\"INFO\"\n"
      "export LD_LIBRARY_PATH=/usr/local/cuda/lib64:$LD_LIBRARY_PATH\n"
      "export CUDA_HOME=$HOME/cuda\n"
      "VLLM_USE_V1=0 vllm serve model\n"
      "VLLM_API_KEY=hidden\nHOME=/home/ada\n");
  ASSERT_EQ(environment.variables.size(), 3U);
  EXPECT_EQ(*facts::find_variable(environment, "CUDA_VISIBLE_DEVICES"), "0,1");
  EXPECT_EQ(*facts::find_variable(environment, "NCCL_DEBUG"), "INFO");
  EXPECT_EQ(*facts::find_variable(environment, "LD_LIBRARY_PATH"), "/usr/local/cuda/lib64")
      << "the shell's part is not known";
}

TEST(SystemOutput, DkmsStatusTellsForWhichKernelsTheDriverIsBuilt) {
  const auto driver = environment_of(
                          "deepin-anything/0.0, 6.18.48-amd64, x86_64: installed\n"
                          "nvidia-current/580.119.02, 6.18.48-amd64, x86_64: installed\n"
                          "nvidia-current/580.119.02, 6.6.155-amd64, x86_64: built\n")
                          .driver;
  EXPECT_EQ(driver.dkms_version, "580.119.02");
  EXPECT_EQ(driver.dkms_built_for, (std::vector<std::string>{"6.18.48-amd64", "6.6.155-amd64"}));
  const auto old = environment_of("nvidia, 535.183.01, 5.15.0-91-generic, x86_64: installed\n").driver;
  EXPECT_EQ(old.dkms_version, "535.183.01");
  EXPECT_EQ(old.dkms_built_for, std::vector<std::string>{"5.15.0-91-generic"});
  const auto added = environment_of("nvidia/580.95.05: added\n").driver;
  EXPECT_EQ(added.dkms_version, "580.95.05");
  EXPECT_TRUE(added.dkms_built_for.empty());
}

TEST(SystemOutput, ACutLosesValuesAndChangesNone) {
  const std::string text =
      "Linux box 5.15.0-91-generic #101-Ubuntu SMP Tue Nov 14 13:30:08 UTC 2023 x86_64 GNU/Linux\n"
      "VERSION_ID=\"22.04\"\nID=ubuntu\n"
      "gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0\n"
      "nvidia              56623104  93 nvidia_uvm\n"
      "ii  nvidia-driver-535          535.183.01-0ubuntu1   amd64  NVIDIA driver metapackage\n"
      "filename:       /lib/modules/x/nvidia.ko\nversion:        550.54.15\n"
      "CUDA_VISIBLE_DEVICES=0,1,2,3\n";
  const auto whole = environment_of(text);
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_EQ(changed_facts(whole, environment_of(text.substr(0, length))), "") << length;
  EXPECT_EQ(environment_of(""), facts::Environment{});
  EXPECT_THAT(changed_facts(whole, whole), IsEmpty());
}

TEST(SystemOutput, AReleaseAloneIsTheKernelsBelowItsCommand) {
  const auto snapshot = snapshot_of(
      "$ dkms status\nnvidia/550.107.02, 6.8.0-40-generic, x86_64: installed\n$ uname -r\n6.11.0-17-generic\n");
  EXPECT_EQ(snapshot.environment->host.kernel, "6.11.0-17-generic");
  EXPECT_FALSE(snapshot_of("$ dkms status\nnvidia/550.107.02, 6.8.0-40-generic, x86_64: installed\n6.11.0-17-generic\n")
                   .environment->host.kernel);
}

}  // namespace
}  // namespace gpuwarden::capture
