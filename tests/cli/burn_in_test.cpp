// SPDX-License-Identifier: Apache-2.0
// gpuwarden doctor --deep, end to end: a simulated fleet for the facts, a stand-in for CUDA's library.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kBurnInFleet = R"(name: lab
driver: 550.54.15
cuda: "12.4"
clock: {frozen: true}
gpus:
  - model: NVIDIA H100 80GB HBM3
    uuid: GPU-00000000-0000-0000-0000-000000000000
  - model: NVIDIA H100 80GB HBM3
    uuid: GPU-00000000-0000-0000-0000-000000000001
    processes: [{pid: 4194001, user: ada, command: python train.py, memory: 60GiB, utilization: 97}]
)";

class BurnInProgram : public Program {
 protected:
  BurnInProgram() {
    environment_["GPUWARDEN_SIMULATE"] = file("fleet.yaml", kBurnInFleet);
    environment_["COLUMNS"] = "400";
  }
  void stand_in(const std::string& settings) {
    environment_["GPUWARDEN_CUDA_LIBRARY"] = GPUWARDEN_STAND_IN_CUDA_LIBRARY;
    environment_["GPUWARDEN_STAND_IN_CUDA"] = settings;
  }
  static std::vector<std::string> burn_in(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"doctor", "--deep", "--only", "device"});
    return more;
  }
};

TEST_F(BurnInProgram, ASimulatedFleetComputesNothingAndThatIsSaid) {
  const auto done = run(burn_in());
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr("deep-not-possible"));
  EXPECT_THAT(done.standard_output, HasSubstr("the fleet is simulated"));
}

TEST_F(BurnInProgram, ACaptureCannotBePutToWork) {
  const std::string capture = (dir_ / "box.json").string();
  ASSERT_EQ(run({"snapshot", "-o", capture}).exit_code, 0);
  environment_.erase("GPUWARDEN_SIMULATE");
  EXPECT_THAT(run(burn_in({"--from", capture})).standard_output, HasSubstr("a capture is looked at"));
}

TEST_F(BurnInProgram, TestsIdleGpusAndLeavesThoseOfOthersAlone) {
  stand_in("memory=8;devices=2");
  const auto json = this->json(burn_in());
  ASSERT_TRUE(json.contains("deep")) << json.dump();
  EXPECT_EQ(json["deep"]["stand_in"], true);
  ASSERT_EQ(json["deep"]["gpus"].size(), 2U);
  const auto& idle = json["deep"]["gpus"][0];
  EXPECT_EQ(idle["failed"], nullptr) << idle.dump(2);
  EXPECT_EQ(idle["memory"]["mismatches"], 0);
  EXPECT_EQ(idle["memory"]["complete"], true);
  EXPECT_GE(idle["figures"].size(), 5U);
  EXPECT_THAT(json["deep"]["gpus"][1]["not_possible"].get<std::string>(), HasSubstr("4194001 python train.py"));
}

TEST_F(BurnInProgram, BrokenMemoryIsCriticalInTextJsonAndJunit) {
  stand_in("memory=8;flip=4096:3;d2d=1000");
  const std::string junit = (dir_ / "deep.xml").string();
  const auto done = run(burn_in({"--gpus", "0", "--junit", junit}));
  EXPECT_EQ(done.exit_code, 1);
  for (const char* words : {"critical", "[deep-memory-error]", "1 bit, pattern address", "[deep-bandwidth-low]",
                            "STAND-IN", "8 words did not come back as written"})
    EXPECT_THAT(done.standard_output, HasSubstr(words));
  EXPECT_THAT(done.standard_output, Not(HasSubstr("measured")));
  EXPECT_THAT(read_file(junit).value_or(""), HasSubstr("name=\"deep-memory-error\"><failure"));
}

TEST_F(BurnInProgram, GpusThatOthersReservedAreLeftAloneButNotThoseOfTheOwnRun) {
  stand_in("memory=8");
  const std::string own = GPUWARDEN_PROGRAM + std::string(" doctor --deep --only device");
  const auto mine = run({"run", "--gpu-ids", "0", "--", "sh", "-c", own});
  EXPECT_THAT(mine.standard_output, Not(HasSubstr("it is reserved"))) << mine.standard_error;
  // The simulator shows the run's own shell as a process on the GPU: it has started this command.
  EXPECT_THAT(mine.standard_output, Not(HasSubstr("process runs on it"))) << mine.standard_error;
  // subprocess closes the locks, whatever the environment says.
  const std::string apart = "import shlex, subprocess, sys; subprocess.run(shlex.split(sys.argv[1]))";
  const auto others = run({"run", "--gpu-ids", "0", "--", "python3", "-c", apart, own});
  EXPECT_THAT(others.standard_output, HasSubstr("it is reserved by")) << others.standard_error;
}

TEST_F(BurnInProgram, WrongOptionsAreNamed) {
  expect_error({"doctor", "--gpus", "0"}, 2, "--gpus requires --deep");
  stand_in("memory=8");
  expect_error(burn_in({"--deep-seconds", "soon"}), 2, "--deep-seconds");
  expect_error(burn_in({"--deep-memory", "100"}), 2, "--deep-memory");
  expect_error(burn_in({"--gpus", "7"}), 2, "7");
}

/// The processes whose environment names this test's folder, and that are children of CUDA's tests.
int processes_of(const std::string& mark) {
  int count = 0;
  for (const auto& folder : list_directory("/proc")) {
    if (!parse_integer(folder.filename().string())) continue;
    const auto environment = read_file(folder / "environ");
    if (environment && environment->contains(mark)) ++count;
  }
  return count;
}

TEST_F(BurnInProgram, AnInterruptEndsItAtOnceAndLeavesNothing) {
  stand_in("memory=8;hang=cuLaunchKernel");
  const std::string mark = (dir_ / "leases").string();
  const std::string junit = (dir_ / "never.xml").string();
  const pid_t child = ::fork();
  if (child == 0) {
    for (const auto& [name, value] : environment_) ::setenv(name.c_str(), value.c_str(), 1);
    ::signal(SIGINT, SIG_DFL);
    const int null = ::open("/dev/null", O_RDWR);
    ::dup2(null, 1);
    ::dup2(null, 2);
    ::execl(GPUWARDEN_PROGRAM, "gpuwarden", "doctor", "--deep", "--gpus", "0", "--no-environment", "--deep-seconds",
            "600", "--junit", junit.c_str(), nullptr);
    ::_exit(127);
  }
  // The program, its reader and the tester.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (processes_of(mark) < 2 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  ::kill(child, SIGINT);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
  while (processes_of(mark) > 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(processes_of(mark), 0);
  EXPECT_FALSE(std::filesystem::exists(junit));
}

TEST_F(BurnInProgram, BenchShowsWhatTheGpusReachAndFromGpuToGpu) {
  stand_in("memory=64;devices=2;p2p=380;d2d=2900");
  const auto done = run({"bench", "gpu", "--force"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_output << done.standard_error;
  for (const char* words : {"What the GPUs reach, CUDA 12.4", "STAND-IN", "memory bandwidth", "GPU to GPU, GB/s"})
    EXPECT_THAT(done.standard_output, HasSubstr(words));
  EXPECT_THAT(done.standard_output, ::testing::ContainsRegex("\n +0 +- +380\n +1 +380 +-\n"));
  EXPECT_THAT(done.standard_output, Not(HasSubstr("patterns"))) << "the memory is not tested";
  const auto json = this->json({"bench", "gpu", "--force", "--no-pairs"});
  EXPECT_EQ(json["bench"]["pairs"].size(), 0U);
  EXPECT_EQ(json["bench"]["gpus"].size(), 2U);
}

TEST_F(BurnInProgram, BenchFailsWhereAGpuFallsShortAndWhereNothingCanBeMeasured) {
  stand_in("memory=64;d2d=1000");
  EXPECT_EQ(run({"bench", "gpu", "--gpus", "0"}).exit_code, 1);
  environment_.erase("GPUWARDEN_CUDA_LIBRARY");
  const auto simulated = run({"bench", "gpu"});
  EXPECT_EQ(simulated.exit_code, 3);
  EXPECT_THAT(simulated.standard_output, HasSubstr("the fleet is simulated: it computes nothing"));
  expect_error({"bench"}, 2, "gpuwarden bench: of what?");
  expect_error({"bench", "disk"}, 2, "there is no bench 'disk'");
}

}  // namespace
}  // namespace gpuwarden::testing
