// SPDX-License-Identifier: Apache-2.0
// Trees that mean harm, and programs that hang: a survey ends in time, stays below its root, leaves nothing running.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"
#include "probe/machine_tree.hpp"
#include "probe/survey/tree.hpp"
#include "support/patience.hpp"

namespace gpuwarden {
namespace {

using namespace std::chrono_literals;
using facts::NotProbed;
using probe::Tree;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kSoon;
using testing::MachineTree;
using ::testing::Not;
using testing::put;
using testing::TempDir;
using SteadyClock = std::chrono::steady_clock;

/// Files that the survey reads, one for each subject.
constexpr auto kFiles = std::to_array<const char*>({"/etc/os-release",
                                                    "/proc/cpuinfo",
                                                    "/proc/meminfo",
                                                    "/proc/modules",
                                                    "/proc/cmdline",
                                                    "/proc/self/cgroup",
                                                    "/proc/driver/nvidia/version",
                                                    "/sys/module/nvidia/version",
                                                    "/etc/ld.so.cache",
                                                    "/var/lib/dpkg/status",
                                                    "/etc/modprobe.d/a.conf",
                                                    "/usr/local/cuda-12.4/version.json",
                                                    "/usr/local/cuda-12.4/bin/nvcc",
                                                    "/etc/docker/daemon.json",
                                                    "/etc/cdi/nvidia.yaml",
                                                    "/etc/slurm/slurm.conf",
                                                    "/etc/slurm/gres.conf",
                                                    "/etc/slurm/cgroup.conf",
                                                    "/root/venv/pyvenv.cfg",
                                                    "/root/venv/lib/python3.11/site-packages/torch/version.py",
                                                    "/root/.conda/environments.txt",
                                                    "/lib/modules/6.1.0/updates/dkms/nvidia.ko",
                                                    "/proc/sys/kernel/osrelease",
                                                    "/sys/bus/pci/devices/0000:01:00.0/class",
                                                    "/var/log/nvidia-installer.log",
                                                    "/lib/x86_64-linux-gnu/libc.so.6"});

TEST(HostileTree, LinksDoNotLeadOutOfTheRoot) {
  const TempDir outside;
  put(outside / "os-release", "ID=secret\n");
  const MachineTree tree;
  tree.link("/etc/os-release", (outside / "os-release").string());
  tree.link("/usr/lib/os-release", "../../../../../../../../.." + (outside / "os-release").string());
  EXPECT_EQ(tree.survey().host.distribution, std::nullopt);
  tree.file("/etc/real", "ID=debian\n");
  std::filesystem::remove(tree.at("/etc/os-release"));
  tree.link("/etc/os-release", "../../../../etc/real");  // ".." above the root stays at the root
  EXPECT_EQ(tree.survey().host.distribution, "debian");
}

TEST(HostileTree, LinksInCirclesEnd) {
  const MachineTree tree;
  tree.link("/etc/os-release", "os-release");
  tree.link("/usr/local/cuda", "cuda-b");
  tree.link("/usr/local/cuda-b", "cuda");
  tree.link("/root/miniconda3/envs/self", "..");
  tree.link("/root/venv", ".");
  const auto environment = tree.survey();
  EXPECT_EQ(environment.host.distribution, std::nullopt);
  EXPECT_THAT(environment.toolkits, IsEmpty());
  EXPECT_THAT(environment.pythons, IsEmpty());
}

TEST(HostileTree, FifosInThePlaceOfFilesHoldNobodyUp) {
  const MachineTree tree;
  for (const char* path : kFiles) tree.fifo(path);
  const auto begin = SteadyClock::now();
  const auto environment = tree.survey();
  EXPECT_LT(SteadyClock::now() - begin, 60s);
  EXPECT_EQ(environment.host.distribution, std::nullopt);
  for (const NotProbed& entry : environment.not_probed) EXPECT_THAT(entry.reason, Not(HasSubstr("no answer")));
}

TEST(HostileTree, FoldersInThePlaceOfFilesAndFilesInThoseOfFoldersAreNothing) {
  const MachineTree folders;
  for (const char* path : kFiles) folders.folder(path);
  EXPECT_EQ(folders.survey().host.distribution, std::nullopt);
  const MachineTree files;
  for (const char* path : {"/etc", "/proc", "/sys", "/usr", "/lib", "/root", "/var", "/opt", "/dev"}) files.file(path);
  const auto environment = files.survey();
  EXPECT_THAT(environment.toolkits, IsEmpty());
  EXPECT_THAT(environment.device_nodes, IsEmpty());
}

TEST(HostileTree, GarbageGivesFactsThatCanBeWrittenAndReadAgain) {
  std::mt19937 random(4);  // NOLINT(bugprone-random-generator-seed): the same bytes every time
  for (int round = 0; round < 10; ++round) {
    const MachineTree tree;
    for (const char* path : kFiles) {
      std::string bytes(random() % 5000, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      tree.file(path, bytes);
    }
    const auto environment = tree.survey();
    const std::string text = facts::to_json(environment).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    EXPECT_TRUE(facts::environment_from_json(nlohmann::json::parse(text)).has_value());
    for (const NotProbed& entry : environment.not_probed) EXPECT_THAT(entry.reason, Not(HasSubstr("signal")));
  }
}

TEST(HostileTree, HugeFilesAreReadInPart) {
  const MachineTree tree;
  for (const char* path : {"/etc/os-release", "/proc/cpuinfo", "/var/lib/dpkg/status", "/etc/ld.so.cache",
                           "/usr/local/cuda-12.4/version.json", "/lib/modules/6.1.0/updates/dkms/nvidia.ko"}) {
    tree.file(path);
    std::filesystem::resize_file(tree.at(path), 20ULL << 30U);  // a hole: it takes no room
  }
  tree.file("/proc/sys/kernel/osrelease", "6.1.0\n");
  const auto begin = SteadyClock::now();
  const auto environment = tree.survey();
  EXPECT_LT(SteadyClock::now() - begin, 60s);
  EXPECT_EQ(environment.driver.on_disk_version, std::nullopt);
}

TEST(Tree, ScanningALargeFileCutsNothingShorterThanTheOverlap) {
  const MachineTree tree;
  constexpr std::size_t kBlock = std::size_t{1} << 20U;
  std::string bytes(3 * kBlock, '.');
  for (const std::size_t at : {kBlock - 3, 2 * kBlock - 1, 2 * kBlock + 5}) bytes.replace(at, 6, "needle");
  tree.file("/usr/lib/large.so", bytes);
  std::size_t blocks = 0;
  std::size_t needles = 0;
  std::size_t all = 0;
  EXPECT_TRUE(Tree(tree.root()).scan("/usr/lib/large.so", 5, [&](std::string_view block) {
    for (std::size_t at = block.find("needle"); at != std::string_view::npos; at = block.find("needle", at + 1))
      ++needles;
    all += block.size() - (blocks++ == 0 ? 0 : 5);
    return true;
  }));
  EXPECT_EQ(needles, 3U);
  EXPECT_EQ(all, bytes.size());
  const auto never = [](std::string_view) {
    ADD_FAILURE();
    return false;
  };
  EXPECT_FALSE(Tree(tree.root()).scan("/usr/lib", 5, never));
  EXPECT_FALSE(Tree(tree.root()).scan("/usr/lib/none.so", 5, never));
}

TEST(HostileTree, ManyNamesAreReadInPart) {
  const MachineTree tree;
  tree.file("/usr/local/lib/x/0");
  std::error_code ignored;
  for (int i = 1; i < 5000; ++i)
    std::filesystem::create_hard_link(tree.at("/usr/local/lib/x/0"), tree.at("/usr/local/lib/x/" + std::to_string(i)),
                                      ignored);
  EXPECT_EQ(Tree(tree.root()).names("/usr/local/lib/x").size(), 4096U);
}

TEST(HostileTree, UnreadableFilesAreUnknown) {
  const MachineTree tree;
  tree.file("/etc/os-release", "ID=debian\n");
  tree.file("/proc/modules", "nvidia 1 0 - Live 0x0\n");
  std::filesystem::permissions(tree.root(), std::filesystem::perms(0755));
  std::filesystem::permissions(tree.at("/etc/os-release"), std::filesystem::perms::none);
  const pid_t pid = ::fork();
  if (pid == 0) {
    // Root reads all: be somebody else.
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(3);
    const auto environment = tree.survey();
    ::_exit(environment.host.distribution ? 1 : environment.driver.loaded_modules.empty() ? 2 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(HostileTree, AnEmptyOrMissingRootIsAMachineOfWhichNothingIsKnown) {
  const MachineTree tree;
  EXPECT_EQ(tree.survey().driver, facts::KernelDriver{});
  EXPECT_THAT(probe::survey({.root = "/no/such/folder", .deadline = kSoon}).libraries, IsEmpty());
}

/// Programs of this machine that the survey may start, found through PATH and CUDA_HOME.
class SurveyedPrograms : public ::testing::Test {
 protected:
  SurveyedPrograms() {
    request_.variables = {
        {"PATH", path("cuda/bin") + ":/usr/bin:/bin"}, {"HOME", path("home")}, {"CUDA_HOME", path("cuda")}};
    request_.deadline = kSoon;
    put(dir_ / "cuda/version.json", R"({"cuda_nvcc":{"version":"12.4.131"}})");
  }
  std::string path(const std::string& name) const { return (dir_ / name).string(); }
  void program(const std::string& name, const std::string& script) const {
    put(dir_ / name, "#!/bin/sh\n" + script);
    std::filesystem::permissions(dir_ / name, std::filesystem::perms::owner_all);
  }
  void add_python(const std::string& script) const {
    put(dir_ / "home/venv/pyvenv.cfg", "version = 3.11.2\n");
    put(dir_ / "home/venv/lib/python3.11/site-packages/torch-2.5.1.dist-info/METADATA", "");
    program("home/venv/bin/python3", script);
  }
  facts::Toolkit toolkit(const facts::Environment& environment) const {
    const auto found = std::ranges::find(environment.toolkits, path("cuda"), &facts::Toolkit::path);
    return found == environment.toolkits.end() ? facts::Toolkit{} : *found;
  }
  facts::PythonEnvironment python(const facts::Environment& environment) const {
    const auto found = std::ranges::find(environment.pythons, path("home/venv"), &facts::PythonEnvironment::path);
    return found == environment.pythons.end() ? facts::PythonEnvironment{} : *found;
  }
  /// Whether the process whose id a program wrote is gone, or soon is.
  bool is_gone(const std::string& file) const {
    const auto pid = parse_integer(read_line(dir_ / file).value_or(""));
    if (!pid) return false;
    return testing::eventually(kSoon, [&] {
      const auto status = read_file("/proc/" + std::to_string(*pid) + "/stat");
      return !status || status->contains(") Z ");
    });
  }

  TempDir dir_;
  probe::SurveyRequest request_;
};

TEST_F(SurveyedPrograms, NvccTellsItsArchitecturesInOrder) {
  program("cuda/bin/nvcc", "echo sm_90; echo sm_100; echo sm_90a; echo sm_75; echo compute_90; echo noise\n");
  const auto found = toolkit(probe::survey(request_));
  EXPECT_TRUE(found.active);
  EXPECT_EQ(found.version, "12.4.131");
  EXPECT_THAT(found.architectures, ElementsAre("sm_75", "sm_90", "sm_90a", "sm_100"));
}

TEST_F(SurveyedPrograms, NothingIsStartedWhereThatIsNotWanted) {
  program("cuda/bin/nvcc", "touch \"$CUDA_HOME/was-started\"; echo sm_90\n");
  request_.start_programs = false;
  EXPECT_THAT(toolkit(probe::survey(request_)).architectures, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(dir_ / "cuda/was-started"));
}

TEST_F(SurveyedPrograms, OneThatHangsIsKilledWithItsChildrenAndNamed) {
  program("cuda/bin/nvcc", "sleep 60 & echo $! > \"$CUDA_HOME/child\"; echo $$ > \"$CUDA_HOME/self\"; sleep 60\n");
  request_.deadline = 4s;  // time enough to write both files
  const auto begin = SteadyClock::now();
  const auto environment = probe::survey(request_);
  EXPECT_LT(SteadyClock::now() - begin, kSoon);  // it would sleep a minute
  EXPECT_THAT(toolkit(environment).architectures, IsEmpty());
  EXPECT_THAT(environment.not_probed,
              Contains(NotProbed{path("cuda/bin/nvcc") + " --list-gpu-code", "no answer within 4.0 s"}));
  EXPECT_TRUE(is_gone("cuda/self"));
  EXPECT_TRUE(is_gone("cuda/child"));
}

TEST_F(SurveyedPrograms, WhatOneLeavesBehindIsKilledToo) {
  program("cuda/bin/nvcc", "sleep 60 >/dev/null 2>&1 & echo $! > \"$CUDA_HOME/child\"; echo sm_90\n");
  EXPECT_THAT(toolkit(probe::survey(request_)).architectures, ElementsAre("sm_90"));
  EXPECT_TRUE(is_gone("cuda/child"));
}

TEST_F(SurveyedPrograms, EndlessOutputIsCut) {
  program("cuda/bin/nvcc", "yes sm_90 | head -c 100000000\n");
  EXPECT_LT(toolkit(probe::survey(request_)).architectures.size(), 400'000U);
}

TEST_F(SurveyedPrograms, APythonIsAskedOnlyWhereThatIsWanted) {
  add_python(
      "echo 'a warning'; echo 'gpuwarden-answer:{\"flags\":\"sm_80 sm_90\",\"available\":true,\"debug\":false,"
      "\"cudnn\":90100,\"nccl\":\"2.21.5\"}'\n");
  EXPECT_EQ(python(probe::survey(request_)).cuda_available, std::nullopt);
  request_.start_pythons = true;
  const auto found = python(probe::survey(request_));
  EXPECT_EQ(found.cuda_available, true);
  EXPECT_THAT(found.torch_architectures, ElementsAre("sm_80", "sm_90"));
  EXPECT_EQ(found.torch_debug, false);
  EXPECT_EQ(found.cudnn, "90100");
  EXPECT_EQ(found.nccl, "2.21.5");
  EXPECT_EQ(found.problem, std::nullopt);
}

TEST_F(SurveyedPrograms, APythonThatCannotAnswerSaysWhy) {
  request_.start_pythons = true;
  add_python("echo 'ImportError' >&2; exit 1\n");
  EXPECT_EQ(python(probe::survey(request_)).problem, "import torch failed: it ended with code 1");
  for (const char* answer : {"", "nothing", "gpuwarden-answer:{", "gpuwarden-answer:[1]"}) {
    add_python("echo '" + std::string(answer) + "'\n");
    EXPECT_EQ(python(probe::survey(request_)).problem, "its answer could not be read") << answer;
  }
  add_python("echo 'gpuwarden-answer:{\"flags\":7,\"available\":\"yes\",\"cudnn\":null}'\n");
  EXPECT_EQ(python(probe::survey(request_)).cuda_available, std::nullopt);
}

TEST_F(SurveyedPrograms, APythonThatHangsIsKilledAndTheRestIsThere) {
  add_python("echo $$ > \"$CUDA_HOME/self\"; sleep 60\n");
  request_.start_pythons = true;
  request_.python_deadline = 4s;
  const auto found = python(probe::survey(request_));
  EXPECT_THAT(found.problem.value_or(""), HasSubstr("no answer within"));
  EXPECT_NE(facts::find_package(found, "torch"), nullptr);
  EXPECT_TRUE(is_gone("cuda/self"));
}

}  // namespace
}  // namespace gpuwarden
