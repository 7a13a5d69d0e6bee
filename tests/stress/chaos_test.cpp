// SPDX-License-Identifier: Apache-2.0
// Two hundred short jobs of one rank or two on eight simulated GPUs, with Xids of many kinds, hung drivers, killed
// ranks, killed supervisors and grandchildren that hide and listen: each ends with the right exit code or finishes
// elsewhere, and nothing is left: no process, lease, port or shared memory.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/patience.hpp"
#include "support/repetitions.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr int kChaosJobs = 200;
constexpr std::size_t kAtOnce = 12;
constexpr unsigned kSeed = 20261127;

/// What a job does, how often among a hundred, and how it is to end.
struct Mode {
  const char* name;
  unsigned share;
  int code;
  bool restarts;
  unsigned ranks = 1;
};
constexpr auto kModes = std::to_array<Mode>({
    {"exit0", 26, 0, false},
    {"exit3", 7, 3, false},
    {"exit7", 6, 7, false},
    {"again", 9, 0, true},
    {"killed", 9, 0, true},
    {"xid79", 3, 0, true},
    {"xid62", 2, 0, true},   // the GPU's microcontroller halted
    {"xid119", 2, 0, true},  // the GPU's own processor does not answer
    {"xid31", 3, 0, true},   // the program's own fault: the GPU is well
    {"hang", 3, 0, true},
    {"children", 11, 0, false},
    {"wait", 9, 0, false},
    {"pair", 3, 5, false, 2},
    {"pairkilled", 4, 0, true, 2},
    {"pairxid", 3, 0, true, 2},
});

struct Job {
  int number = 0;
  const Mode* mode = nullptr;
  unsigned victim = 0;  ///< of "wait": 0 the launcher, 1 and 2 a guardian
  bool struck = false;
};

std::vector<pid_t> children_of(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children";
  const std::string text = read_file(path).value_or("");
  std::vector<pid_t> children;
  for (const auto word : split_words(text)) children.push_back(static_cast<pid_t>(parse_integer(word).value_or(0)));
  return children;
}

class Chaos {
 public:
  Chaos() {
    environment_ = current_environment();
    for (const char* name : {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"}) environment_.erase(name);
    environment_["GPUWARDEN_LEASE_DIR"] = (dir_ / "leases").string();
    environment_["GPUWARDEN_SIM_DIR"] = (dir_ / "sim").string();
    environment_["GPUWARDEN_STATE_DIR"] = (dir_ / "state").string();
    environment_["GPUWARDEN_MEMORY_DIR"] = (dir_ / "pools").string();
    environment_["GPUWARDEN"] = GPUWARDEN_PROGRAM;
    environment_["CLAIM"] = GPUWARDEN_STRESS_JOB;
    environment_["CLAIMS"] = (dir_ / "claims").string();
    environment_["INDICES"] = (dir_ / "indices").string();
    environment_["PORTS"] = (dir_ / "ports").string();
    environment_["NAP"] = nap_;
    for (const char* folder : {"claims", "indices", "logs", "ports"}) fs::create_directories(dir_ / folder);
    EXPECT_EQ(gpuwarden({"sim", "start", "chaos", "--fleet", "h100x8"}).exit_code, 0);
    environment_["GPUWARDEN_SIMULATE"] = "chaos";
    const auto list = nlohmann::json::parse(gpuwarden({"list", "--json"}).standard_output, nullptr, false);
    for (const auto& gpu : list["gpus"])
      testing::put(dir_ / "indices" / gpu["uuid"].get<std::string>(), std::to_string(gpu["index"].get<int>()));
  }

  Completed gpuwarden(std::vector<std::string> argv) const {
    argv.insert(argv.begin(), GPUWARDEN_PROGRAM);
    auto done = testing::run_patiently({.argv = argv, .environment = environment_});
    return done.value_or(Completed{});
  }

  void run(const std::vector<Job>& jobs) {
    auto next = jobs.begin();
    while (next != jobs.end() || !running_.empty()) {
      for (; next != jobs.end() && running_.size() < kAtOnce; ++next) start(*next);
      collect();
      kill_supervisors();
      mend_gpus();
      std::this_thread::sleep_for(10ms);
    }
  }

  /// Processes of these jobs: by what their environment or their command says.
  std::vector<std::string> left_over() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos || name == std::to_string(::getpid())) continue;
      const std::string environment = read_file(entry.path() / "environ").value_or("");
      const std::string command = read_file(entry.path() / "cmdline").value_or("");
      if (environment.contains((dir_ / "leases").string()) || command.contains(nap_))
        found.push_back(name + ": " + command);
    }
    return found;
  }

  /// Ports at which jobs listened, and somebody still does, or whose name a launcher still holds.
  std::vector<std::string> ports_left() const {
    std::vector<std::string> found;
    const std::string names = read_file("/proc/net/unix", std::size_t{16} << 20U).value_or("");
    const std::string sockets = read_file("/proc/net/tcp", std::size_t{16} << 20U).value_or("");
    for (const auto& entry : fs::directory_iterator(dir_ / "ports")) {
      const std::string port = entry.path().filename();
      constexpr const char* kListens = " 00000000:0000 0A ";
      const bool listens =
          sockets.contains(fmt::format(":{:04X}{}", static_cast<unsigned>(parse_integer(port).value_or(0)), kListens));
      if (listens || names.contains("@gpuwarden-port-" + port + "\n")) found.push_back(port);
    }
    return found;
  }
  std::size_t ports_seen() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(dir_ / "ports"), fs::directory_iterator()));
  }

  std::map<int, int> codes() const { return codes_; }
  std::string log(int number) const { return read_file(log_of(number)).value_or(""); }
  const fs::path& folder() const { return dir_.path(); }

 private:
  fs::path log_of(int number) const { return dir_ / "logs" / std::to_string(number); }

  void start(const Job& job) {
    std::vector<std::string> words{
        GPUWARDEN_PROGRAM, "run",  "-q", "--wait", "120s", "--timeout", "15s", "--grace", "1s",
        "--sample-period", "200ms"};
    if (job.mode->restarts)
      words.insert(words.end(), {"--max-restarts", "8", "--restart-delay", "10ms", "--probation", "1s"});
    // Each rank sees the GPU that it claims alone.
    if (job.mode->ranks > 1)
      words.insert(words.end(),
                   {"-n", std::to_string(job.mode->ranks), "--nproc-per-node", "gpu", "--one-gpu-per-rank"});
    words.insert(words.end(), {"--", GPUWARDEN_CHAOS_JOB, std::to_string(job.number), job.mode->name});
    std::vector<std::string> assignments;
    for (const auto& [name, value] : environment_) assignments.push_back(name + "=" + value);
    std::vector<char*> args;
    std::vector<char*> env;
    for (std::string& text : words) args.push_back(text.data());
    for (std::string& text : assignments) env.push_back(text.data());
    args.push_back(nullptr);
    env.push_back(nullptr);
    const std::string log = log_of(job.number).string();
    const pid_t pid = ::fork();
    if (pid == 0) {
      const int out = ::open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0644);
      ::dup2(out, 1);
      ::dup2(out, 2);
      ::execve(args[0], args.data(), env.data());
      ::_exit(120);
    }
    running_[pid] = job;
  }

  void collect() {
    for (auto one = running_.begin(); one != running_.end();) {
      int status = 0;
      if (::waitpid(one->first, &status, WNOHANG) != one->first) {
        ++one;
        continue;
      }
      codes_[one->second.number] = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      one = running_.erase(one);
    }
  }

  /// Of jobs that wait for it, one supervisor each.
  void kill_supervisors() {
    for (auto& [launcher, job] : running_) {
      if (job.struck || !fs::exists(dir_ / "claims" / ("up." + std::to_string(job.number)))) continue;
      const auto outer = children_of(launcher);
      const auto inner = outer.empty() ? std::vector<pid_t>{} : children_of(outer[0]);
      if (inner.empty()) continue;
      const pid_t victim = job.victim == 0 ? launcher : job.victim == 1 ? outer[0] : inner[0];
      job.struck = ::kill(victim, SIGKILL) == 0;
      if (job.victim != 0) testing::put(dir_ / "claims" / ("go." + std::to_string(job.number)), "");
    }
  }

  /// GPUs that were struck come back after a while.
  void mend_gpus() {
    const auto now = std::chrono::steady_clock::now();
    if (now - mended_ < 1s) return;
    mended_ = now;
    for (int index = 0; index < 8; ++index) {
      const fs::path sign = dir_ / "indices" / ("struck." + std::to_string(index));
      if (!fs::exists(sign)) continue;
      if (gpuwarden({"sim", "clear", "chaos", "--gpu", std::to_string(index)}).exit_code == 0) fs::remove(sign);
    }
  }

  testing::TempDir dir_;
  Environment environment_;
  const std::string nap_ = "300.0" + std::to_string(::getpid());
  std::map<pid_t, Job> running_;
  std::map<int, int> codes_;
  std::chrono::steady_clock::time_point mended_ = std::chrono::steady_clock::now();
};

std::vector<Job> chaos_jobs() {
  std::mt19937 random(kSeed);  // NOLINT(bugprone-random-generator-seed): the same chaos every time
  std::vector<double> shares;
  for (const Mode& mode : kModes) shares.push_back(mode.share);
  std::discrete_distribution<std::size_t> which(shares.begin(), shares.end());
  std::vector<Job> jobs;
  for (int i = 0; i < static_cast<int>(testing::repetitions(kChaosJobs)); ++i)
    jobs.push_back({.number = i, .mode = &kModes.at(which(random)), .victim = static_cast<unsigned>(random() % 3)});
  return jobs;
}

TEST(Chaos, EveryJobEndsAsItShouldAndNothingIsLeft) {
  Chaos chaos;
  const auto jobs = chaos_jobs();
  chaos.run(jobs);
  const auto codes = chaos.codes();
  for (const Job& job : jobs) {
    const bool killed = std::string_view(job.mode->name) == "wait" && job.victim == 0;
    EXPECT_EQ(codes.at(job.number), killed ? 128 + SIGKILL : job.mode->code)
        << job.mode->name << " " << job.number << ": " << chaos.log(job.number);
  }
  std::string told;  // what was looked at last: by the time it is printed all may be well
  const auto is_empty = [&](const char* list) {
    const auto done = chaos.gpuwarden({"lease", "--list", "--json"});
    told = done.standard_output + done.standard_error;
    const auto json = nlohmann::json::parse(done.standard_output, nullptr, false);
    return json.is_object() && json.contains(list) && json[list].is_array() && json[list].empty();
  };
  // A guardian has some seconds to clear up after its launcher.
  EXPECT_TRUE(testing::eventually(testing::kSoon, [&] { return is_empty("leases"); })) << told;
  EXPECT_TRUE(is_empty("waiting")) << told;
  for (const auto& entry : fs::directory_iterator(chaos.folder() / "leases"))
    EXPECT_FALSE(entry.path().string().ends_with(".job")) << "a run is still noted down: " << entry.path();
  EXPECT_EQ(chaos.gpuwarden({"sim", "stop", "chaos"}).exit_code, 0);
  std::vector<std::string> left;
  EXPECT_TRUE(testing::eventually(testing::kSoon, [&] {
    left = chaos.left_over();
    return left.empty();
  })) << ::testing::PrintToString(left);
  EXPECT_GT(chaos.ports_seen(), 5U) << "no job has listened";
  std::vector<std::string> ports;
  EXPECT_TRUE(testing::eventually(testing::kSoon,
                                  [&] {
                                    ports = chaos.ports_left();
                                    return ports.empty();
                                  }))
      << "still listened at: " << ::testing::PrintToString(ports);
  std::error_code none;  // without a pool the folder is not made
  for (const auto& entry : fs::directory_iterator(chaos.folder() / "pools", none))
    ADD_FAILURE() << "shared memory is left: " << entry.path();
}

}  // namespace
}  // namespace gpuwarden
