// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/toolkits/start_file.hpp"

#include <sys/stat.h>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::toolkits {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::put;
using testing::TempDir;

facts::Toolkit toolkit_at(const std::string& path) {
  facts::Toolkit result;
  result.version = "12.4.131";
  result.path = path;
  result.nvcc = path + "/bin/nvcc";
  result.libraries = path + "/lib64";
  return result;
}

/// What stays without the block; "(nothing)" where the file goes with it, "(error)" where its marks are broken.
std::string rest_of(std::string_view text) {
  const auto rest = without_block(text);
  return rest ? rest->value_or("(nothing)") : "(error)";
}

TEST(StartFileText, TheBlockGoesToTheEndAndOutAgainByteForByte) {
  const std::vector<std::string> texts{"",
                                       "alias ll='ls -l'\n",
                                       "no newline",
                                       "\n\n",
                                       "crlf\r\n",
                                       "a\n  \n\tb\n\n",
                                       std::string("binary \0 \xff\n", 11)};
  for (const std::string& text : texts) {
    const auto with = with_block(text, "export A=1\n");
    ASSERT_TRUE(with) << text;
    EXPECT_TRUE(with->starts_with(text));
    EXPECT_THAT(*with, HasSubstr("\nexport A=1\n"));
    EXPECT_EQ(rest_of(*with), text);
  }
}

TEST(StartFileText, ASecondTimeItIsRenewedInItsPlace) {
  const std::string once = *with_block("before", "export A=1\n") + "after\n";
  const std::string twice = *with_block(once, "export A=2\n");
  EXPECT_THAT(twice, HasSubstr("export A=2\n"));
  EXPECT_THAT(twice, Not(HasSubstr("A=1")));
  EXPECT_EQ(rest_of(twice), "before\nafter\n");
  EXPECT_EQ(with_block(twice, "export A=2\n"), twice);
}

TEST(StartFileText, AFileThatCameWithTheBlockGoesWithIt) {
  const std::string made = *with_block(std::nullopt, "export A=1\n");
  EXPECT_EQ(rest_of(made), "(nothing)");
  EXPECT_EQ(rest_of(made + "mine\n"), "mine\n") << "something was added since";
}

TEST(StartFileText, ATextWithoutABlockStaysAsItIs) {
  EXPECT_EQ(rest_of("echo '>>> gpuwarden env >>>'\n"), "echo '>>> gpuwarden env >>>'\n");
}

TEST(StartFileText, BrokenMarksAreRefusedWithTheirLine) {
  const std::string begin = "# >>> gpuwarden env >>>\n";
  const std::string end = "# <<< gpuwarden env <<<\n";
  EXPECT_THAT(without_block("a\n" + begin + "b\n"),
              FailsWith(ErrorCode::corrupt, HasSubstr("line 3: the block does not")));
  EXPECT_THAT(without_block("a\n" + end), FailsWith(ErrorCode::corrupt, HasSubstr("line 2: the block ends")));
  EXPECT_THAT(with_block(begin + begin + end, ""),
              FailsWith(ErrorCode::corrupt, HasSubstr("line 2: the block begins a sec")));
  EXPECT_THAT(with_block(begin + end + begin + end, ""), FailsWith(ErrorCode::corrupt, HasSubstr("line 3")));
}

TEST(StartFileName, IsTheOneOfTheShell) {
  const Environment home{{"HOME", "/home/ada"}};
  EXPECT_EQ(start_file_of(Shell::bash, home), "/home/ada/.bashrc");
  EXPECT_EQ(start_file_of(Shell::zsh, home), "/home/ada/.zshrc");
  EXPECT_EQ(start_file_of(Shell::fish, home), "/home/ada/.config/fish/config.fish");
  EXPECT_EQ(start_file_of(Shell::zsh, {{"HOME", "/h"}, {"ZDOTDIR", "/z"}}), "/z/.zshrc");
  EXPECT_EQ(start_file_of(Shell::fish, {{"HOME", "/h"}, {"XDG_CONFIG_HOME", "/x"}}), "/x/fish/config.fish");
  EXPECT_THAT(start_file_of(Shell::bash, {}), FailsWith(ErrorCode::invalid_argument, HasSubstr("HOME")));
  EXPECT_THAT(start_file_of(Shell::bash, {{"HOME", "relative"}}),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("HOME")));
}

class StartFile : public ::testing::Test {
 protected:
  std::string text(const std::filesystem::path& path) const { return read_file(path).value_or("(none)"); }
  static unsigned permissions(const std::filesystem::path& path) {
    struct stat status{};
    return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 0U;
  }
  TempDir dir_;
  std::filesystem::path file_ = dir_ / ".bashrc";
};

TEST_F(StartFile, KeepsABackupItsPermissionsAndTheRestOfTheFile) {
  put(file_, "alias x=y");
  ::chmod(file_.c_str(), 0640);
  const auto done = persist(file_, "export A=1\n");
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(done->changed);
  ASSERT_TRUE(done->backup);
  EXPECT_EQ(text(*done->backup), "alias x=y");
  EXPECT_EQ(permissions(file_), 0640U);
  EXPECT_FALSE(persist(file_, "export A=1\n")->changed) << "idempotent";
  ASSERT_TRUE(unpersist(file_));
  EXPECT_EQ(text(file_), "alias x=y");
  EXPECT_EQ(list_directory(dir_.path()).size(), 2U) << "the file and its backup, nothing else";
  EXPECT_THAT(unpersist(file_), FailsWith(ErrorCode::not_found, HasSubstr("no gpuwarden block")));
}

TEST_F(StartFile, TheFirstBackupIsKept) {
  put(file_, "mine\n");
  ASSERT_TRUE(persist(file_, "export A=1\n"));
  const auto again = persist(file_, "export A=2\n");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(text(*again->backup), "mine\n");
  ASSERT_TRUE(unpersist(file_));
  EXPECT_EQ(text(*again->backup), "mine\n");
  put(*again->backup, text(file_) + *with_block("", "export OLD=1\n"));
  put(file_, "yours\n");
  ASSERT_TRUE(persist(file_, "export A=1\n"));
  EXPECT_EQ(text(*again->backup), "yours\n") << "one with the block is no state from before it";
}

TEST_F(StartFile, APlantedLinkIsNeitherFollowedNorChanged) {
  put(file_, "mine\n");
  put(dir_ / "victim", "untouched");
  ::chmod((dir_ / "victim").c_str(), 0640);
  ::chmod(file_.c_str(), 0604);
  for (const char* suffix : {".gpuwarden-backup", ".gpuwarden-new"})
    std::filesystem::create_symlink("victim", file_.string() + suffix);
  const auto done = persist(file_, "export A=1\n");
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(text(dir_ / "victim"), "untouched");
  EXPECT_EQ(permissions(dir_ / "victim"), 0640U);
  EXPECT_FALSE(std::filesystem::is_symlink(*done->backup));
  EXPECT_EQ(text(*done->backup), "mine\n");
}

TEST_F(StartFile, APrivateFileHasAPrivateBackup) {
  put(file_, "export TOKEN=x\n");
  ::chmod(file_.c_str(), 0600);
  const auto done = persist(file_, "export A=1\n");
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(permissions(*done->backup), 0600U);
  EXPECT_EQ(permissions(file_), 0600U);
  EXPECT_EQ(list_directory(dir_.path()).size(), 2U) << "nothing temporary is left";
}

TEST_F(StartFile, WhatIsNoFileIsRefusedWithoutWaiting) {
  ASSERT_EQ(::mkfifo((dir_ / "pipe").c_str(), 0600), 0);
  for (const auto& path : {dir_ / "pipe", dir_.path()}) {
    EXPECT_THAT(persist(path, "export A=1\n"), FailsWith(ErrorCode::invalid_argument, HasSubstr("not a regular file")));
    EXPECT_THAT(unpersist(path), FailsWith(ErrorCode::invalid_argument, HasSubstr("not a regular file")));
  }
}

TEST_F(StartFile, LinksStayLinks) {
  put(dir_ / "dotfiles/bashrc", "one\n");
  std::filesystem::create_symlink("dotfiles/bashrc", file_);
  const auto done = persist(file_, "export A=1\n");
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(std::filesystem::is_symlink(file_));
  EXPECT_EQ(done->file, dir_ / "dotfiles/bashrc");
  EXPECT_THAT(text(dir_ / "dotfiles/bashrc"), HasSubstr("A=1"));
  ASSERT_TRUE(unpersist(file_));
  EXPECT_EQ(text(file_), "one\n");
  EXPECT_TRUE(std::filesystem::is_symlink(file_));
}

TEST_F(StartFile, AFileThatWasNotThereIsMadeAndRemovedAgain) {
  const auto file = dir_ / "config/fish/config.fish";
  const auto done = persist(file, "set -gx A 1\n");
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_FALSE(done->backup);
  EXPECT_THAT(text(file), HasSubstr("set -gx A 1"));
  ASSERT_TRUE(unpersist(file));
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_THAT(unpersist(file), FailsWith(ErrorCode::not_found, HasSubstr("config.fish")));
}

TEST_F(StartFile, WhatCannotBeWrittenIsLeftAlone) {
  std::filesystem::create_directory(file_);
  EXPECT_FALSE(persist(file_, "export A=1\n"));
  std::filesystem::create_symlink("loop", dir_ / "loop");
  EXPECT_THAT(persist(dir_ / "loop", ""), FailsWith(ErrorCode::invalid_argument, HasSubstr("form a loop")));
  put(dir_ / "broken", "# <<< gpuwarden env <<<\n");
  const auto refused = persist(dir_ / "broken", "export A=1\n");
  EXPECT_THAT(refused, FailsWith(ErrorCode::corrupt, HasSubstr("broken: line 1")));
  EXPECT_EQ(text(dir_ / "broken"), "# <<< gpuwarden env <<<\n");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "broken.gpuwarden-backup"));
}

/// Runs the commands twice in one shell and shows what became of the lists.
std::optional<std::string> after_two_starts(const std::string& shell, const std::string& commands) {
  const testing::TempDir home;  // a shell may write there
  const std::string script = commands + commands + "printenv CUDA_HOME; printenv PATH; printenv LD_LIBRARY_PATH";
  const auto done = testing::run_patiently(
      {.argv = {shell, "-c", script},
       .environment = Environment{{"PATH", "/usr/bin:/bin"}, {"LD_LIBRARY_PATH", "/x"}, {"HOME", home.path()}}});
  if (!done) return std::nullopt;
  EXPECT_EQ(done->standard_error, "") << shell;
  return done->standard_output;
}

TEST(LastingCommands, AddWhatIsMissingOnceInEveryShell) {
  for (const std::string& path : {std::string("/usr/local/cuda-12.4"), std::string("/opt/my cuda's $HOME \"x\" *")}) {
    for (const auto& [program, shell] :
         {std::pair{"bash", Shell::bash}, {"sh", Shell::bash}, {"zsh", Shell::zsh}, {"fish", Shell::fish}}) {
      const auto told = after_two_starts(program, lasting_commands(shell, toolkit_at(path)));
      if (!told) continue;
      EXPECT_EQ(*told, path + "\n" + path + "/bin:/usr/bin:/bin\n" + path + "/lib64:/x\n") << program;
    }
  }
}

TEST(LastingCommands, AnEmptyListGetsNoEmptyFolder) {
  const auto done = testing::run_patiently(
      {.argv = {"/bin/bash", "-uc", lasting_commands(Shell::bash, toolkit_at("/t")) + "echo \"$LD_LIBRARY_PATH\""},
       .environment = Environment{{"PATH", "/bin"}}});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->standard_output, "/t/lib64\n");
}

}  // namespace
}  // namespace gpuwarden::toolkits
