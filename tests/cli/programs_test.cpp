// SPDX-License-Identifier: Apache-2.0
// Foreign programs that gpuwarden starts: `sim exec` and `lease`.
#include <csignal>

#include "cli/program.hpp"

namespace gpuwarden {
namespace {

using ::testing::HasSubstr;

class Programs : public testing::Program {};

TEST_F(Programs, OneThatIsNotThereIs127AndOneThatCannotRunIs126) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"sim", "exec", "--fleet", "t4x1", "--"}, {"lease", "--simulate", "t4x1", "--"}}) {
    auto none = words;
    none.emplace_back("no-such-program-anywhere");
    EXPECT_EQ(run(none).exit_code, 127) << words[0];
    auto data = words;
    data.push_back(file("data.txt", "no program"));
    const auto done = run(data);
    EXPECT_EQ(done.exit_code, 126) << words[0];
    EXPECT_THAT(done.standard_error, HasSubstr("data.txt")) << words[0];
  }
}

TEST_F(Programs, ASignalThatEndsTheProgramIsTheExitCode) {
  EXPECT_EQ(run({"sim", "exec", "--fleet", "t4x1", "--", "sh", "-c", "kill -TERM $$"}).exit_code, 128 + SIGTERM);
}

TEST_F(Programs, TerminatingGpuwardenTerminatesTheProgram) {
  // The program tells gpuwarden, its parent, to end, and is told so itself.
  const auto done = run({"sim", "exec", "--fleet", "t4x1", "--", "sh", "-c",
                         "trap 'kill $!; echo told; exit 5' TERM\n"
                         "sleep 60 >/dev/null 2>&1 &\n"
                         "kill -TERM $PPID\n"
                         "wait $!; echo not told"});
  EXPECT_EQ(done.exit_code, 5) << done.standard_error;
  EXPECT_EQ(done.standard_output, "told\n");
}

}  // namespace
}  // namespace gpuwarden
