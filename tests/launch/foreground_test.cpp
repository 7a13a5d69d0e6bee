// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/foreground.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "gpuwarden/base/file.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::launch {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;

class Foreground : public ::testing::Test {
 protected:
  /// A shell's text; its PATH holds a folder of the test's own before the system's.
  Result<int> run(const std::string& script, const std::string& pid_variable = "") const {
    return run_in_foreground({"sh", "-c", script}, variables_, pid_variable);
  }
  std::string said() const { return read_file(dir_ / "said").value_or(""); }

  testing::TempDir dir_;
  Environment variables_{{"PATH", (dir_ / "bin").string() + ":/usr/bin:/bin"}, {"OUT", (dir_ / "said").string()}};
};

TEST_F(Foreground, GivesTheExitCodeOrTheSignalAsShellsDo) {
  EXPECT_EQ(run("exit 7"), 7);
  EXPECT_EQ(run("kill -TERM $$"), 128 + SIGTERM);
}

TEST_F(Foreground, TheProgramIsLookedForOnThePathOfItsOwnEnvironment) {
  testing::put(dir_ / "bin/of-the-test", "#!/bin/sh\nexit 3\n");
  std::filesystem::permissions(dir_ / "bin/of-the-test", std::filesystem::perms::owner_all);
  EXPECT_EQ(run_in_foreground({"of-the-test"}, variables_), 3);
  EXPECT_THAT(run_in_foreground({"of-the-test"}, {{"PATH", "/usr/bin"}}),
              FailsWith(ErrorCode::not_found, HasSubstr("cannot run of-the-test: No such file")));
}

TEST_F(Foreground, AFileThatCannotRunIsRefused) {
  testing::put(dir_ / "data.txt", "no program");
  EXPECT_THAT(run_in_foreground({(dir_ / "data.txt").string()}, variables_),
              FailsWith(ErrorCode::permission_denied, HasSubstr("data.txt")));
}

TEST_F(Foreground, TheProgramIsToldItsOwnPid) {
  EXPECT_EQ(run("[ \"$OWN\" = $$ ] && echo same > $OUT", "OWN"), 0);
  EXPECT_EQ(said(), "same\n");
}

TEST_F(Foreground, WhatIsSentToThisProcessReachesTheProgramAndItsOwnHandlingComesBack) {
  EXPECT_EQ(run("trap 'echo told > $OUT; exit 5' TERM; kill -TERM $PPID; while :; do sleep 0.01; done"), 5);
  EXPECT_EQ(said(), "told\n");
  struct sigaction now{};
  ::sigaction(SIGTERM, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
}

TEST_F(Foreground, WhatWasIgnoredStaysIgnored) {
  std::signal(SIGHUP, SIG_IGN);
  EXPECT_EQ(run("kill -HUP $PPID; kill -HUP $$; exit 4"), 4);
  std::signal(SIGHUP, SIG_DFL);
}

TEST_F(Foreground, AProcessBecomesTheProgramOrLearnsWhyNot) {
  const pid_t child = ::fork();
  if (child == 0) {
    const Error error = become_program({"no-such-program-anywhere"}, variables_);
    if (error.code != ErrorCode::not_found) ::_exit(1);
    become_program({"sh", "-c", "exit 9"}, variables_);
    ::_exit(2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 9);
}

}  // namespace
}  // namespace gpuwarden::launch
