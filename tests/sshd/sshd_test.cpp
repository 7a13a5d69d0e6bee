// SPDX-License-Identifier: Apache-2.0
// gpuwarden run --hosts over real ssh between hosts in network namespaces, one of which is cut off in mid-run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/ssh_hosts.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Sshd : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string problem = SshHosts::problem(); !problem.empty()) {
      const char* const required = std::getenv("GPUWARDEN_REQUIRE_TOOLS");
      // Whoever is not root cannot have them, whatever is installed.
      if (::geteuid() == 0 && required != nullptr && std::string(required) == "1")
        FAIL() << problem << ", but GPUWARDEN_REQUIRE_TOOLS is 1";
      GTEST_SKIP() << problem;
    }
    auto started = SshHosts::start(3);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    hosts_ = std::move(*started);
    std::filesystem::create_directories(dir_ / "pids");
  }

  std::vector<std::string> command(const std::string& on, const std::string& hosts,
                                   std::vector<std::string> words) const {
    words.insert(words.begin(), {GPUWARDEN_PROGRAM, on, "--simulate", "h100x8", "--ssh", hosts_->ssh(),
                                 "--remote-program", GPUWARDEN_PROGRAM, "--hosts", hosts});
    return words;
  }
  Completed launch(const std::string& hosts, std::vector<std::string> words) const {
    return hosts_->run(command("run", hosts, std::move(words)));
  }
  std::string shown(const std::filesystem::path& path) const { return read_file(path).value_or(""); }
  /// A rank that leaves its process's number, and that of a child in a session of its own, and would go on for long.
  std::vector<std::string> stubborn() const {
    const std::string pids = (dir_ / "pids").string();
    return {"sh", "-c",
            "trap '' TERM HUP INT; setsid sleep 600 & echo $! > " + pids + "/child-$RANK; echo $$ > " + pids +
                "/rank-$RANK; sleep 600"};
  }
  bool runs(const std::string& name) const {
    const auto pid = parse_integer(trim(shown(dir_ / "pids" / name)));
    return pid && ::kill(static_cast<pid_t>(*pid), 0) == 0;
  }
  bool ends(const std::string& name) const {
    return eventually(kSoon, [&] { return !runs(name); });
  }
  /// Neither an agent nor anything that it started.
  bool is_idle(char host) const {
    return eventually(kSoon, [&] {
      return std::ranges::none_of(hosts_->programs(host), [](const std::string& program) {
        return program.contains("host-agent") || program.contains("sleep 600");
      });
    });
  }
  bool all_run(unsigned ranks) const {
    return eventually(kSoon, [&] {
      for (unsigned rank = 0; rank < ranks; ++rank) {
        if (!runs(fmt::format("child-{}", rank)) || !runs(fmt::format("rank-{}", rank))) return false;
      }
      return true;
    });
  }
  /// Starts a job in the background of the test; what it says goes to "said".
  std::unique_ptr<Daemon> begin(const std::string& hosts, std::vector<std::string> words) const {
    words.insert(words.end(), {"--"});
    for (const std::string& word : stubborn()) words.push_back(word);
    auto argv = hosts_->there(command("run", hosts, std::move(words)));
    argv[0] = find_program(argv[0]).string();
    return std::make_unique<Daemon>(argv, current_environment(), dir_ / "said");
  }

  TempDir dir_;
  std::unique_ptr<SshHosts> hosts_;
};

/// Rank 0 listens where all are told to meet; the others come and are counted.
constexpr std::string_view kMeets = R"(
import os, socket, sys, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    server = socket.create_server(("", place[1]))
    guests = sorted(int(server.accept()[0].recv(16)) for _ in range(world - 1))
    print("met", guests, "at", place[0], "on", socket.gethostname())
else:
    for _ in range(600):
        try:
            socket.create_connection(place, 5).sendall(str(rank).encode())
            break
        except OSError:
            time.sleep(0.1)
    else:
        sys.exit(9)
    print("came to", place[0], "with", len(os.environ["CUDA_VISIBLE_DEVICES"].split(",")), "GPUs on", socket.gethostname())
)";

TEST_F(Sshd, RanksOnThreeHostsMeetAtTheFirst) {
  put(dir_ / "meet.py", kMeets);
  const auto done = launch("a:2,b:1,c:3", {"-q", "--nproc-per-node", "gpu", (dir_ / "meet.py").string()});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, AllOf(HasSubstr("[a:0] met [1, 2, 3, 4, 5] at 10.77.0.1 on host-a\n"),
                                          HasSubstr("[b:2] came to 10.77.0.1 with 1 GPUs on host-b\n"),
                                          HasSubstr("[c:5] came to 10.77.0.1 with 3 GPUs on host-c\n")));
}

TEST_F(Sshd, AFailingRankEndsTheJobOnAllHosts) {
  const std::string pids = (dir_ / "pids").string();
  const auto done = launch("a,b", {"--grace", "1s", "--", "sh", "-c",
                                   "if [ $RANK = 1 ]; then until [ -s " + pids +
                                       "/rank-0 ]; do sleep 0.1; done; exit 7; fi; " + stubborn()[2]});
  EXPECT_EQ(done.exit_code, 7) << done.standard_error;
  EXPECT_THAT(done.standard_error, HasSubstr("rank 1 on b failed first"));
  EXPECT_TRUE(ends("rank-0"));
  EXPECT_TRUE(ends("child-0"));
}

TEST_F(Sshd, AHostThatIsCutOffIsNamedAndNothingIsLeftOnEither) {
  const auto launcher = begin("a,b", {"--max-restarts", "2"});
  ASSERT_TRUE(all_run(2)) << shown(dir_ / "said");
  hosts_->set_link('b', false);
  for (const char* name : {"rank-1", "child-1", "rank-0", "child-0"}) EXPECT_TRUE(ends(name)) << name;
  EXPECT_TRUE(eventually(kSoon, [&] { return !launcher->runs(); }));
  EXPECT_THAT(shown(dir_ / "said"),
              AllOf(HasSubstr("lost b:"), HasSubstr("exit code 255"), HasSubstr("it is not started again")));
  for (const char host : {'a', 'b'}) EXPECT_TRUE(is_idle(host)) << ::testing::PrintToString(hosts_->programs(host));
  hosts_->set_link('b', true);
  // What it held is free: all of its GPUs can be had.
  EXPECT_TRUE(eventually(kSoon, [&] { return launch("b:8", {"-q", "--", "true"}).exit_code == 0; }));
}

TEST_F(Sshd, NothingIsLeftWhereTheLauncherIsKilled) {
  const auto launcher = begin("a,c", {"--grace", "60s"});
  ASSERT_TRUE(all_run(2)) << shown(dir_ / "said");
  ::kill(launcher->pid(), SIGKILL);
  for (const char* name : {"rank-0", "child-0", "rank-1", "child-1"}) EXPECT_TRUE(ends(name)) << name;
  for (const char host : {'a', 'c'}) EXPECT_TRUE(is_idle(host)) << ::testing::PrintToString(hosts_->programs(host));
  EXPECT_TRUE(eventually(kSoon, [&] { return launch("a:8,c:8", {"-q", "--", "true"}).exit_code == 0; }));
}

TEST_F(Sshd, AHostThatRefusesKeepsAllFromStarting) {
  const std::string mark = (dir_ / "started").string();
  hosts_->set_link('c', false);
  const auto done = launch("a,c", {"--", "touch", mark});
  EXPECT_EQ(done.exit_code, 3);
  EXPECT_THAT(done.standard_error,
              AllOf(HasSubstr("cannot connect to c: ssh: connect to host 10.77.0.3"), HasSubstr("hint:")));
  EXPECT_FALSE(std::filesystem::exists(mark));
  const auto listed = hosts_->run(command("list", "a,c", {"--json"}));
  EXPECT_EQ(listed.exit_code, 3);
  const auto json = nlohmann::json::parse(listed.standard_output, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << listed.standard_output;
  EXPECT_EQ(json["nodes"][0]["snapshot"]["gpus"].size(), 8U);
  EXPECT_THAT(json["nodes"][1]["problem"]["message"].get<std::string>(), HasSubstr("cannot connect to c"));
}

}  // namespace
}  // namespace gpuwarden::testing
