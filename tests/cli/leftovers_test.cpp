// SPDX-License-Identifier: Apache-2.0
// What is left of a run whose launcher and guardians were all killed, as users of the command line meet it.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "cli/program.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Each test's own: its processes are looked for among all of the user's.
const std::string kRun = fmt::format("20261123-0800-lost{}", ::getpid());

/// A process of a run, and the run's record, whose lock nobody holds.
class LeftoversCli : public Program {
 protected:
  LeftoversCli() {
    environment_["GPUWARDEN_SIMULATE"] = "t4x1";
    file(fmt::format("leases/run-{}.job", kRun), "\n");
    process_ = ::fork();
    if (process_ == 0) {
      const std::string variable = "GPUWARDEN_RUN_ID=" + kRun;
      const char* const variables[] = {variable.c_str(), nullptr};
      ::execle("/bin/sleep", "sleep", "600", nullptr, variables);
      ::_exit(120);
    }
  }
  ~LeftoversCli() override {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  std::string told() const { return fmt::format("1 process of the run {} still runs (pid {})", kRun, process_); }
  /// It is no leftover before it is the program.
  void wait_for_it() const {
    EXPECT_TRUE(eventually(kSoon, [&] { return run({"list"}).standard_error.contains(told()); }));
  }

  pid_t process_ = 0;
};

TEST_F(LeftoversCli, AreToldByListAndRunWithTheCommandThatEndsThem) {
  wait_for_it();
  const std::string warning =
      fmt::format("gpuwarden: warning: {}, though its launcher was killed; to end: gpuwarden run --end-leftovers {}\n",
                  told(), kRun);
  const auto listed = run({"list"});
  EXPECT_EQ(listed.exit_code, 0);
  EXPECT_EQ(listed.standard_error, warning);
  const auto ran = run({"run", "-q", "--", "true"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_THAT(ran.standard_error, HasSubstr(warning));
  EXPECT_EQ(::kill(process_, 0), 0) << "nothing is ended unasked";
}

/// What is left holds the fleet's only GPU, by the lock that it inherited.
class LeftoversWithALease : public LeftoversCli {
 protected:
  LeftoversWithALease() {
    const std::string uuid = json({"list"})["gpus"][0]["uuid"];
    file(fmt::format("leases/sim-{}@1.json", uuid),
         fmt::format(R"({{"pid":1,"user":"","run_id":"{}","command":"","since_unix_ms":0}})", kRun));
    const std::string lock = file(fmt::format("leases/sim-{}.lock", uuid), "");
    holder_ = ::fork();
    if (holder_ == 0) {
      const int descriptor = ::open(lock.c_str(), O_RDONLY);
      if (::flock(descriptor, LOCK_EX) != 0) ::_exit(120);
      ::execl("/bin/sleep", "sleep", "601", nullptr);
      ::_exit(120);
    }
    EXPECT_TRUE(eventually(kSoon, [&] { return holder()["orphaned"] == true; })) << holder();
  }
  ~LeftoversWithALease() override {
    ::kill(holder_, SIGKILL);
    ::waitpid(holder_, nullptr, 0);
  }
  nlohmann::json holder() const {
    const auto leases = json({"lease", "--list"})["leases"];
    return leases.empty() || leases[0]["holders"].empty() ? nlohmann::json::object() : leases[0]["holders"][0];
  }

  const std::string end_ = "gpuwarden run --end-leftovers " + kRun;
  pid_t holder_ = 0;
};

TEST_F(LeftoversWithALease, AreNamedByWhoeverMeetsThemWithTheCommandThatEndsThem) {
  EXPECT_EQ(holder()["pid"], holder_);
  const auto selected = run({"select"});
  EXPECT_EQ(selected.exit_code, 1);
  EXPECT_THAT(selected.standard_error, AllOf(HasSubstr("left over of the run " + kRun), HasSubstr("to end it: " + end_),
                                             Not(HasSubstr("--wait waits for them"))));
  EXPECT_EQ(json({"select"})["leftover_runs"], nlohmann::json::array({kRun}));
  EXPECT_THAT(run({"lease", "--", "true"}).standard_error, HasSubstr("to end it: " + end_));
  EXPECT_THAT(run({"lease", "--list"}).standard_output, HasSubstr("to end: " + end_));
  const auto judged = run({"doctor"});
  EXPECT_THAT(judged.standard_output, AllOf(HasSubstr(fmt::format("(pid {}) holds GPU 0", holder_)), HasSubstr(end_)));
}

TEST_F(LeftoversWithALease, NobodyCallsAHolderLeftOverWhoseRunIsSupervised) {
  const int record = ::open((dir_ / fmt::format("leases/run-{}.job", kRun)).c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(record, LOCK_EX), 0);
  EXPECT_EQ(holder()["orphaned"], false);
  EXPECT_THAT(run({"select"}).standard_error, HasSubstr("--wait waits for them"));
  ::close(record);
}

TEST_F(LeftoversCli, AreEndedOnRequest) {
  wait_for_it();
  const auto ended = run({"run", "--end-leftovers", kRun});
  EXPECT_EQ(ended.exit_code, 0) << ended.standard_error;
  EXPECT_EQ(ended.standard_output, fmt::format("ended 1 process of the run {} (pid {})\n", kRun, process_));
  int status = 0;
  EXPECT_EQ(::waitpid(process_, &status, 0), process_);
  EXPECT_TRUE(WIFSIGNALED(status));
  process_ = 0;
  EXPECT_THAT(run({"list"}).standard_error, Not(HasSubstr("still runs")));
  expect_error({"run", "--end-leftovers", kRun}, 2, fmt::format("nothing is left of a run '{}'", kRun));
}

TEST_F(LeftoversCli, OfARunThatLivesThereAreNoneAndItsLauncherIsNamed) {
  const std::string command =
      fmt::format("{} run --end-leftovers $GPUWARDEN_RUN_ID 2>&1; echo rc $?", GPUWARDEN_PROGRAM);
  const auto ran = run({"run", "-q", "--", "sh", "-c", command});
  EXPECT_THAT(ran.standard_output, AllOf(HasSubstr("still runs, and its launcher (pid "), HasSubstr("rc 2")))
      << ran.standard_error;
}

TEST_F(LeftoversCli, OfAnUnknownRunThereAreNone) {
  expect_error({"run", "--end-leftovers", "no-such-run"}, 2, "nothing is left of a run 'no-such-run'");
  expect_error({"run", "--end-leftovers", "../leases"}, 2, "nothing is left of a run");
}

}  // namespace
}  // namespace gpuwarden::testing
