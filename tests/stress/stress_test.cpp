// SPDX-License-Identifier: Apache-2.0
// Sixty-four launchers on an eight-GPU fleet, some of them killed: never two holders of one GPU, nothing left behind.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <random>
#include <thread>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden {
namespace {

using testing::TempDir;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr int kJobs = 64;
constexpr int kKilled = 12;

pid_t start(const std::vector<std::string>& argv, const Environment& environment, const fs::path& log) {
  std::vector<std::string> assignments;
  for (const auto& [name, value] : environment) assignments.push_back(name + "=" + value);
  std::vector<const char*> args;
  std::vector<const char*> env;
  for (const auto& text : argv) args.push_back(text.c_str());
  for (const auto& text : assignments) env.push_back(text.c_str());
  args.push_back(nullptr);
  env.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int out = ::open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0644);
    ::dup2(out, 1);
    ::dup2(out, 2);
    ::execve(args[0], const_cast<char* const*>(args.data()), const_cast<char* const*>(env.data()));
    ::_exit(120);
  }
  return pid;
}

/// Processes whose environment holds `tag` (this test's own lease directory).
std::vector<std::string> processes_with(const std::string& tag) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos || name == std::to_string(::getpid())) continue;
    const auto environment = read_file(entry.path() / "environ");
    const auto command = read_file(entry.path() / "cmdline");
    if (environment && environment->find(tag) != std::string::npos)
      found.push_back(name + ": " + command.value_or("?"));
  }
  return found;
}

class Storm {
 public:
  Storm() {
    fs::create_directories(dir_ / "claims");
    environment_ = current_environment();
    environment_["GPUWARDEN_LEASE_DIR"] = (dir_ / "leases").string();
    environment_["GPUWARDEN_SIM_DIR"] = (dir_ / "sim").string();
    environment_["GPUWARDEN_SIMULATE"] = "h100x8";
    environment_.erase("CUDA_VISIBLE_DEVICES");
  }

  void launch_all() {
    for (int i = 0; i < kJobs; ++i) {
      const fs::path log = dir_ / ("log-" + std::to_string(i));
      pids_[start({GPUWARDEN_PROGRAM, "run", "-n", "1", "--wait", "--timeout", "60s", "--", GPUWARDEN_STRESS_JOB,
                   (dir_ / "claims").string(), "150"},
                  environment_, log)] = log;
    }
  }

  /// Kills some launchers at random moments, and waits for all; the exit codes of those that were not killed.
  std::vector<std::pair<int, fs::path>> kill_some_and_wait() {
    std::mt19937 random(20261120);  // NOLINT(bugprone-random-generator-seed): the same storm every time
    std::vector<pid_t> order;
    for (const auto& [pid, log] : pids_) order.push_back(pid);
    std::ranges::shuffle(order, random);
    std::vector<std::pair<int, fs::path>> ended;
    std::map<pid_t, bool> killed;
    for (int i = 0; i < kKilled; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 250));
      killed[order[static_cast<std::size_t>(i)]] = ::kill(order[static_cast<std::size_t>(i)], SIGKILL) == 0;
    }
    for (const auto& [pid, log] : pids_) {
      int status = 0;
      EXPECT_EQ(::waitpid(pid, &status, 0), pid);
      if (WIFSIGNALED(status)) {
        EXPECT_TRUE(killed[pid]) << log << " died of signal " << WTERMSIG(status);
      } else {
        ended.emplace_back(WEXITSTATUS(status), log);
      }
    }
    return ended;
  }

  std::string tag() const { return (dir_ / "leases").string(); }
  Completed gpuwarden(std::vector<std::string> argv) const {
    argv.insert(argv.begin(), GPUWARDEN_PROGRAM);
    auto done = testing::run_patiently({.argv = argv, .environment = environment_});
    return done.value_or(Completed{});
  }

 private:
  TempDir dir_;
  Environment environment_;
  std::map<pid_t, fs::path> pids_;
};

TEST(Storm, SixtyFourLaunchersNeverShareAGpuAndLeaveNothingBehind) {
  Storm storm;
  storm.launch_all();
  const auto ended = storm.kill_some_and_wait();
  EXPECT_GE(ended.size(), static_cast<std::size_t>(kJobs - kKilled));
  for (const auto& [code, log] : ended) EXPECT_EQ(code, 0) << log << ": " << read_file(log).value_or("");

  // A guardian has some seconds to clear up after its launcher.
  const auto end = std::chrono::steady_clock::now() + testing::kSoon;
  std::vector<std::string> left = processes_with(storm.tag());
  while (!left.empty() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(50ms);
    left = processes_with(storm.tag());
  }
  EXPECT_THAT(left, ::testing::IsEmpty());

  const auto all = storm.gpuwarden({"select", "-n", "8"});
  EXPECT_EQ(all.exit_code, 0) << all.standard_error;
  EXPECT_EQ(std::ranges::count(all.standard_output, ','), 7) << all.standard_output;
}

}  // namespace
}  // namespace gpuwarden
