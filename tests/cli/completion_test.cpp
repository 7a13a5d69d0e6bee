// SPDX-License-Identifier: Apache-2.0
// What shells and man(1) get from the command table.
#include <filesystem>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden {
namespace {

/// Types each line and a tab into an interactive zsh, in which gpuwarden only prints its arguments, and prints them.
constexpr std::string_view kZshTyping = R"(zmodload zsh/zpty
zpty shell "TERM=dumb zsh -f -i"
zpty -w shell "PS1= PS2=; autoload -Uz compinit; compinit -u -D; setopt no_beep; source $1"
zpty -w shell 'gpuwarden() { print -r -- "GOT:$*:END" }; print READ""Y'
zpty -r -m shell said '*READY*'
for line in "${@[2,-1]}"; do
  zpty -w -n shell "$line"$'\t\n'
  zpty -r -m shell said '*:END*'
  print -r -- "${${said#*GOT:}%:END*}"
done
zpty -d shell
)";

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

class Completion : public testing::Program {
 protected:
  std::string script(const std::string& shell) const {
    const auto done = run({"completion", shell});
    EXPECT_EQ(done.exit_code, 0) << done.standard_error;
    return file("completion." + shell, done.standard_output);
  }
  Completed start(std::vector<std::string> argv) const {
    auto done = testing::run_patiently({.argv = std::move(argv), .environment = environment_});
    EXPECT_TRUE(done.has_value());
    return done.value_or(Completed{.exit_code = -1});
  }
  /// What bash offers for the last of these words.
  std::vector<std::string> offered(const std::string& words) const {
    const std::string program =
        "source " + script("bash") + "; COMP_WORDS=(gpuwarden " + words +
        "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _gpuwarden; printf '%s\\n' \"${COMPREPLY[@]}\"";
    const auto done = start({"bash", "--norc", "-c", program});
    EXPECT_EQ(done.standard_error, "");
    std::vector<std::string> lines;
    for (const auto line : split_words(done.standard_output)) lines.emplace_back(line);
    return lines;
  }
  /// What an interactive zsh makes of each of these lines when it completes the last word.
  std::vector<std::string> typed_in_zsh(const std::vector<std::string>& lines) const {
    std::vector<std::string> argv{"zsh", "-f", file("typing.zsh", kZshTyping), script("zsh")};
    for (const std::string& line : lines) argv.push_back("gpuwarden " + line);
    std::vector<std::string> result;
    const auto done = start(argv);
    for (const auto line : split(trim(done.standard_output), '\n')) result.emplace_back(trim(line));
    return result;
  }
};

TEST_F(Completion, EachShellFindsItsScriptWellFormed) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const auto done = start({shell, "-n", script(shell)});
    EXPECT_EQ(done.exit_code, 0) << shell << ": " << done.standard_error;
  }
  expect_error({"completion", "tcsh"}, 2, "unknown shell 'tcsh'");
  expect_error({"completion"}, 2, "name one shell");
}

TEST_F(Completion, BashOffersCommandsAndHidesWhatIsForPackagers) {
  EXPECT_THAT(offered("''"), IsSupersetOf({"list", "run", "doctor", "help"}));
  EXPECT_THAT(offered("''"), Not(Contains("man")));
  EXPECT_THAT(offered("do"), ::testing::ElementsAre("doctor"));
  EXPECT_THAT(offered("help dri"), ::testing::ElementsAre("driver"));
}

TEST_F(Completion, BashOffersTheOptionsOfACommandAndNoOther) {
  EXPECT_THAT(offered("list --"), IsSupersetOf({"--processes", "--json", "--simulate"}));
  EXPECT_THAT(offered("list --"), Not(Contains("--nproc-per-node")));
  EXPECT_THAT(offered("run --nproc"), ::testing::ElementsAre("--nproc-per-node"));
}

TEST_F(Completion, BashOffersActionsAndValuesThatCanBeCounted) {
  EXPECT_THAT(offered("env per"), ::testing::ElementsAre("persist"));
  EXPECT_THAT(offered("list --simulate h100x8"), Contains("h100x8-sick"));
  EXPECT_THAT(offered("list --simulate = rtx"), ::testing::ElementsAre("rtx4090x2"));
  EXPECT_THAT(offered("list --probe nv"), ::testing::UnorderedElementsAre("nvml", "nvidia-smi"));
  EXPECT_THAT(offered("plan x --optimizer ada"),
              ::testing::UnorderedElementsAre("adamw", "adamw-8bit", "adamw-4bit", "adafactor"));
  EXPECT_THAT(offered("run --num-gpus ''"), IsEmpty());
}

TEST_F(Completion, BashOffersFilesWhereAFileStands) {
  const std::string capture = file("node7.xml", "");
  EXPECT_THAT(offered("list --from " + (dir_ / "nod").string()), ::testing::ElementsAre(capture));
  std::filesystem::create_directories(dir_ / "node_images");
  EXPECT_THAT(offered("doctor --root " + (dir_ / "nod").string()),
              ::testing::ElementsAre((dir_ / "node_images").string()));
}

TEST_F(Completion, BashOffersProgramsBehindTheSeparator) {
  EXPECT_THAT(offered("run -n 2 -- pytho"), Not(Contains("--nproc-per-node")));
  EXPECT_THAT(offered("run -n 2 -- bas"), Contains("bash"));
}

TEST_F(Completion, ZshCompletesCommandsOptionsAndActions) {
  EXPECT_THAT(typed_in_zsh({"snap", "help dri", "list --proc", "run --nproc", "env per", "driver roll"}),
              ::testing::ElementsAre("snapshot", "help driver", "list --processes", "run --nproc-per-node",
                                     "env persist", "driver rollback"));
}

TEST_F(Completion, ZshCompletesValuesBehindABlankAndBehindAnEqualsSign) {
  EXPECT_THAT(
      typed_in_zsh({"list --probe nvm", "list --probe=nvm", "list --simulate rtx", "doctor --fail-on crit",
                    "plan x --optimizer adaf", "select --export=pow", "memory replay --strategy gree",
                    "env use --shell fi"}),
      ::testing::ElementsAre("list --probe nvml", "list --probe=nvml", "list --simulate rtx4090x2",
                             "doctor --fail-on critical", "plan x --optimizer adafactor", "select --export=powershell",
                             "memory replay --strategy greedy", "env use --shell fish"));
}

TEST_F(Completion, ZshCompletesListsFilesAndPrograms) {
  const std::string capture = file("node7.xml", "");
  std::filesystem::create_directories(dir_ / "images");
  const std::string begin = dir_.path().string() + "/";
  EXPECT_THAT(
      typed_in_zsh({"list --format nohe", "list --format csv,nou", "list --from " + begin + "nod",
                    "doctor --root " + begin + "ima", "diagnose " + begin + "nod", "run -n 2 -- dpkg-que"}),
      ::testing::ElementsAre("list --format noheader", "list --format csv,nounits", "list --from " + capture,
                             "doctor --root " + begin + "images", "diagnose " + capture, "run -n 2 -- dpkg-query"));
}

TEST_F(Completion, FishCompletesACommandAndItsOptions) {
  const std::string source = "source " + script("fish") + "; complete -C ";
  EXPECT_THAT(start({"fish", "--no-config", "-c", source + "'gpuwarden do'"}).standard_output,
              HasSubstr("doctor\tjudge"));
  const auto options = start({"fish", "--no-config", "-c", source + "'gpuwarden list --pro'"}).standard_output;
  EXPECT_THAT(options, HasSubstr("--processes\t"));
  EXPECT_THAT(options, Not(HasSubstr("--nproc")));
}

TEST_F(Completion, EveryCommandHasAManPageWithItsOptionsThatRoffTakes) {
  const auto folder = dir_ / "man";
  ASSERT_EQ(run({"man", "--output", folder.string()}).exit_code, 0);
  std::size_t pages = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    ++pages;
    const auto done = start({"groff", "-man", "-ww", "-Tascii", "-P-cbu", entry.path().string()});
    EXPECT_EQ(done.exit_code, 0);
    EXPECT_EQ(done.standard_error, "") << entry.path();
    EXPECT_THAT(done.standard_output, HasSubstr("EXIT STATUS"));
  }
  EXPECT_GE(pages, 15U);
  const auto list =
      start({"groff", "-man", "-Tascii", "-P-cbu", (folder / "gpuwarden-list.1").string()}).standard_output;
  EXPECT_THAT(list, HasSubstr("--processes"));
  EXPECT_EQ(run({"man", "list"}).standard_output, read_file(folder / "gpuwarden-list.1").value_or(""));
}

}  // namespace
}  // namespace gpuwarden
