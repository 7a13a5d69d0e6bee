// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/subprocess.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "gpuwarden/base/file.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden {
namespace {

using namespace gpuwarden::testing;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Command shell(std::string script) { return {.argv = {"sh", "-c", std::move(script)}, .deadline = kProgramDeadline}; }

TEST(RunCommand, CollectsBothStreamsAndTheExitCode) {
  const auto done = run_command(shell("echo out; echo err >&2; exit 7"));
  ASSERT_THAT(done, IsOk());
  EXPECT_EQ(done->exit_code, 7);
  EXPECT_EQ(done->standard_output, "out\n");
  EXPECT_EQ(done->standard_error, "err\n");
  EXPECT_FALSE(done->timed_out);
}

TEST(RunCommand, FeedsStandardInputLargerThanAPipe) {
  Command command = shell("wc -c");
  command.standard_input = std::string(1'000'000, 'x');
  const auto done = run_command(command);
  ASSERT_THAT(done, IsOk());
  EXPECT_THAT(done->standard_output, HasSubstr("1000000"));
}

TEST(RunCommand, KillsTheWholeGroupAtTheDeadline) {
  Command command = shell("sleep 60 & sleep 60");
  command.deadline = std::chrono::milliseconds(100);
  const auto start = std::chrono::steady_clock::now();
  const auto done = run_command(command);
  ASSERT_THAT(done, IsOk());
  EXPECT_TRUE(done->timed_out);
  EXPECT_FALSE(done->exit_code);
  EXPECT_LT(std::chrono::steady_clock::now() - start, kSoon);
}

TEST(RunCommand, DiesWithItsCallerWhereThatIsWanted) {
  const TempDir dir;
  const pid_t caller = ::fork();
  if (caller == 0) {
    Command command = shell("echo $$ > pid.new; mv pid.new pid; exec sleep 60");
    command.dies_with_caller = true;
    std::error_code ignored;
    std::filesystem::current_path(dir.path(), ignored);
    static_cast<void>(run_command(command));
    ::_exit(0);
  }
  std::optional<std::string> pid;
  eventually(kSoon, [&] { return (pid = read_line(dir / "pid")).has_value(); });
  ::kill(caller, SIGKILL);
  ::waitpid(caller, nullptr, 0);
  ASSERT_TRUE(pid);
  const auto gone = [&] {
    const auto status = read_file("/proc/" + *pid + "/stat");
    return !status || status->contains(") Z ");
  };
  EXPECT_TRUE(eventually(kSoon, gone));
}

TEST(RunCommand, CapsTheOutputButLetsTheProgramFinish) {
  Command command = shell("head -c 300000 /dev/zero; exit 3");
  command.output_cap = 1000;
  const auto done = run_command(command);
  ASSERT_THAT(done, IsOk());
  EXPECT_EQ(done->standard_output.size(), 1000U);
  EXPECT_TRUE(done->truncated);
  EXPECT_EQ(done->exit_code, 3);
}

TEST(RunCommand, TellsASignalFromAnExit) {
  const auto done = run_command(shell("kill -TERM $$"));
  ASSERT_THAT(done, IsOk());
  EXPECT_EQ(done->signal, SIGTERM);
  EXPECT_FALSE(done->exit_code);
}

TEST(RunCommand, GivesExactlyTheEnvironmentItWasHanded) {
  Command command{.argv = {"/usr/bin/env"}, .environment = Environment{{"ONLY", "this"}}};
  const auto done = run_command(command);
  ASSERT_THAT(done, IsOk());
  EXPECT_EQ(done->standard_output, "ONLY=this\n");
}

TEST(RunCommand, NamesAProgramThatCannotBeStarted) {
  EXPECT_THAT(run_command({.argv = {"no-such-program-here"}}),
              FailsWith(ErrorCode::not_found, HasSubstr("no-such-program")));
  EXPECT_THAT(run_command({.argv = {"/etc/passwd"}}), FailsWith(ErrorCode::permission_denied, _));
  EXPECT_THAT(run_command({}), FailsWith(ErrorCode::invalid_argument, _));
}

TEST(ProgramFiles, AreThoseThatAnExecWouldTry) {
  EXPECT_THAT(program_files("ls", {{"PATH", "/a::/b"}}), ElementsAre("/a/ls", "./ls", "/b/ls"));
  EXPECT_THAT(program_files("ls", {{"PATH", ""}}), ElementsAre("./ls"));
  EXPECT_THAT(program_files("./x/ls", {{"PATH", "/a"}}), ElementsAre("./x/ls"));
  EXPECT_THAT(program_files("", {{"PATH", "/a"}}), IsEmpty());
}

TEST(ProgramFiles, WithoutAPathAreInTheSystemsFolders) {
  std::string folders(::confstr(_CS_PATH, nullptr, 0), '\0');
  ::confstr(_CS_PATH, folders.data(), folders.size());
  folders.pop_back();
  EXPECT_EQ(program_files("ls", {}), program_files("ls", {{"PATH", folders}}));
}

}  // namespace
}  // namespace gpuwarden
