// SPDX-License-Identifier: Apache-2.0
// What is left of a run whose launcher and guardians were all killed, as users of the command line meet it.
#include <fmt/format.h>
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
