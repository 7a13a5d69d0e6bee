// SPDX-License-Identifier: Apache-2.0
// What shells and man(1) get from the command table.
#include <filesystem>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden {
namespace {

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
  EXPECT_THAT(offered("plan x --optimizer ada"), ::testing::UnorderedElementsAre("adamw", "adamw-8bit", "adafactor"));
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
