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

TEST_F(Foreground, OfSeveralFilesOnThePathTheFirstThatCanRunIsTaken) {
  for (const char* folder : {"data", "first", "second"}) {
    const std::filesystem::path file = dir_ / folder / "of-the-test";
    testing::put(file, std::string("echo ") + folder + " > $OUT\n");
    if (folder != std::string("data")) std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  const auto path = [&](const std::string& last) {
    return (dir_ / "none").string() + ":" + (dir_ / "data").string() + last;
  };
  variables_["PATH"] = path(":" + (dir_ / "first").string() + ":" + (dir_ / "second").string() + ":/usr/bin:/bin");
  EXPECT_EQ(run_in_foreground({"of-the-test"}, variables_), 0) << "a script without #!";
  EXPECT_EQ(said(), "first\n");
  EXPECT_THAT(run_in_foreground({"of-the-test"}, {{"PATH", path("")}}),
              FailsWith(ErrorCode::permission_denied, HasSubstr("cannot run of-the-test")));
}

TEST_F(Foreground, WithoutAPathTheSystemsFoldersAreLookedIn) {
  EXPECT_EQ(run_in_foreground({"sh", "-c", "exit 6"}, {}), 6);
  EXPECT_THAT(run_in_foreground({""}, variables_), FailsWith(ErrorCode::not_found, HasSubstr("cannot run")));
}

TEST_F(Foreground, NoProgramIsRefused) {
  EXPECT_THAT(run_in_foreground({}, variables_), FailsWith(ErrorCode::invalid_argument, HasSubstr("no program")));
  EXPECT_EQ(become_program({}, variables_).code, ErrorCode::invalid_argument);
}

TEST_F(Foreground, AProcessThatBecameNothingHasItsOwnPathStill) {
  const std::string before = current_environment()["PATH"];
  EXPECT_EQ(become_program({"no-such-program-anywhere"}, variables_).code, ErrorCode::not_found);
  EXPECT_EQ(current_environment()["PATH"], before);
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
