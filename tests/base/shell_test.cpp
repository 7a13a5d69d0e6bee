// SPDX-License-Identifier: Apache-2.0
// Words for a shell, as a shell reads them.
#include "gpuwarden/base/shell.hpp"

#include <gtest/gtest.h>

#include "gpuwarden/base/subprocess.hpp"
#include "support/patience.hpp"

namespace gpuwarden {
namespace {

TEST(ShellWord, PlainWordsStayAsTheyAre) {
  EXPECT_EQ(shell_word("torch==2.9.1+cu128"), "torch==2.9.1+cu128");
  EXPECT_EQ(shell_word("/usr/local/cuda-12.4/bin"), "/usr/local/cuda-12.4/bin");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("numpy<2"), "'numpy<2'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
}

TEST(ShellWord, AShellReadsEveryTextBackAsOneWord) {
  for (const std::string text :
       {"a b", "$(touch x)", "`id`", "a;b", "a'b\"c", "*", "~", "#x", "a\nb", "\\", "!", "-n", ""}) {
    const auto done = testing::run_patiently({.argv = {"sh", "-c", "printf %s " + shell_word(text)}});
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->standard_output, text);
  }
}

using ShellLine = std::vector<std::string>;

TEST(SplitShellWords, ALineIsSplitAsAShellSplitsIt) {
  EXPECT_EQ(split_shell_words("vllm serve  a/b \\\n  --x 1\n"), (ShellLine{"vllm", "serve", "a/b", "--x", "1"}));
  EXPECT_EQ(split_shell_words("a 'b c' \"d \\\"e\\z\" f\\ g '' h\"i\"'j'"),
            (ShellLine{"a", "b c", "d \"e\\z", "f g", "", "hij"}));
  EXPECT_EQ(split_shell_words("  "), ShellLine{});
  EXPECT_EQ(split_shell_words("it's"), std::nullopt);
}

TEST(SplitShellWords, QuotedWordsComeBackAsTheyWere) {
  for (const std::string text : {"a b", "$(touch x)", "a;b", "a'b\"c", "a\nb", "\\", "", "{\"a\": [1, 2]}"})
    EXPECT_EQ(split_shell_words("x " + shell_word(text) + " y"), (ShellLine{"x", text, "y"})) << text;
}

TEST(ShellOf, IsTheUsersOwn) {
  EXPECT_EQ(shell_of({{"SHELL", "/usr/bin/fish"}}), "/usr/bin/fish");
  EXPECT_EQ(shell_of({}), "/bin/sh");
}

TEST(WordsAsAShellLine, AreReadBackAsTheSameWords) {
  const std::vector<std::string> words{"echo", "it's", "", "$HOME"};
  EXPECT_EQ(shell_line(words), "echo 'it'\\''s' '' '$HOME'");
  EXPECT_EQ(split_shell_words(shell_line(words)), words);
}

}  // namespace
}  // namespace gpuwarden
