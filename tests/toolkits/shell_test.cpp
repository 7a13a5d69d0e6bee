// SPDX-License-Identifier: Apache-2.0
// Quoting is tested by the shells themselves, as far as they are installed.
#include "gpuwarden/toolkits/shell.hpp"

#include "gpuwarden/base/text.hpp"
#include "support/patience.hpp"

namespace gpuwarden::toolkits {
namespace {

const std::vector<std::string> kHard{"plain", "with space",  "it's",        "\"double\"",  "$HOME",    "`id`",
                                     "$(id)", "back\\slash", "tr\\\\",      "new\nline",   "!bang",    "*?[a]",
                                     "~/x",   "semi;colon",  "a&b|c<d>e",   "tab\there",   "#comment", "",
                                     "'",     "''",          "end\\",       "{a,b}",       "%d",       "é ü",
                                     "-n",    "a=b",         "(sub) [arr]", "\\'mixed\\'", "^caret",   "a\\nb"};

/// What the shell itself makes of the commands; empty where it is not installed.
std::optional<std::string> told_by(const std::string& shell, const std::string& commands) {
  const auto done = testing::run_patiently({.argv = {shell, "-c", commands + "printenv GPUWARDEN_TEST_VALUE"}});
  if (!done) return std::nullopt;
  return done->standard_output;
}

void expect_round_trip(Shell shell, const std::string& program) {
  if (!testing::run_patiently({.argv = {program, "-c", "true"}})) GTEST_SKIP() << program << " is not installed";
  for (const std::string& value : kHard) {
    const auto told = told_by(program, commands_for(shell, {{"GPUWARDEN_TEST_VALUE", value}}));
    EXPECT_EQ(told, value + "\n") << program;
  }
}

TEST(Shell, EveryValueComesThroughBashUnchanged) { expect_round_trip(Shell::bash, "bash"); }
TEST(Shell, EveryValueComesThroughPlainShUnchanged) { expect_round_trip(Shell::bash, "sh"); }
TEST(Shell, EveryValueComesThroughZshUnchanged) { expect_round_trip(Shell::zsh, "zsh"); }
TEST(Shell, EveryValueComesThroughFishUnchanged) { expect_round_trip(Shell::fish, "fish"); }

TEST(Shell, UnsettingLeavesNothingBehind) {
  for (const auto& [program, shell] : {std::pair{"bash", Shell::bash}, {"zsh", Shell::zsh}, {"fish", Shell::fish}}) {
    const auto told = told_by(program, commands_for(shell, {{"GPUWARDEN_TEST_VALUE", "x"}}) +
                                           commands_for(shell, {{"GPUWARDEN_TEST_VALUE", std::nullopt}}));
    if (told) {
      EXPECT_EQ(*told, "") << program;
    }
  }
}

TEST(Shell, IsKnownByItsProgramsName) {
  EXPECT_EQ(shell_from("/usr/bin/zsh"), Shell::zsh);
  EXPECT_EQ(shell_from("-bash"), Shell::bash);
  EXPECT_EQ(shell_from("/bin/dash"), Shell::bash);
  EXPECT_EQ(shell_from("fish"), Shell::fish);
  EXPECT_EQ(shell_from("/bin/tcsh"), std::nullopt);
  EXPECT_EQ(shell_from(""), std::nullopt);
  for (const Shell shell : {Shell::bash, Shell::zsh, Shell::fish}) EXPECT_EQ(shell_from(to_string(shell)), shell);
}

TEST(Shell, ChangesSetAndUnset) {
  const Environment before{{"A", "1"}, {"B", "2"}};
  const Environment after = with_changes(before, {{"A", std::nullopt}, {"C", "3"}});
  EXPECT_EQ(after, (Environment{{"B", "2"}, {"C", "3"}}));
}

TEST(LikelyShell, IsTheOneAroundUnlessItIsForTheStartOfNewOnes) {
  const Environment fish{{"SHELL", "/usr/bin/fish"}};
  EXPECT_EQ(likely_shell("zsh", fish, false), Shell::zsh);
  EXPECT_EQ(likely_shell("zsh", fish, true), Shell::fish);
  EXPECT_EQ(likely_shell("make", fish, false), Shell::fish);
  EXPECT_EQ(likely_shell("zsh", {{"SHELL", "/bin/false"}}, true), Shell::zsh);
  EXPECT_EQ(likely_shell("make", {}, false), Shell::bash);
}

}  // namespace
}  // namespace gpuwarden::toolkits
