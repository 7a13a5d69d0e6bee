// SPDX-License-Identifier: Apache-2.0
// gpuwarden diagnose as a user meets it: which files it reads, what it answers, and with which exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "support/patience.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
using Json = nlohmann::json;

/// PyTorch 2.5's own words (c10/cuda/CUDACachingAllocator.cpp), with numbers of our own: hardly anything is free, and
/// hardly anything of it is the allocator's reserve.
constexpr std::string_view kOutOfMemory =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.10 GiB "
    "of which 1.25 GiB is free. Including non-PyTorch memory, this process has 77.83 GiB memory in use. Of the "
    "allocated memory 77.02 GiB is allocated by PyTorch, and 101.17 MiB is reserved by PyTorch but unallocated. If "
    "reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
    "fragmentation.\n";

constexpr std::string_view kTraceback =
    "Traceback (most recent call last):\n"
    "  File \"/srv/job/train.py\", line 88, in <module>\n"
    "    main()\n"
    "  File \"/srv/job/train.py\", line 61, in main\n"
    "    loss.backward()\n";

/// PyTorch's NCCL watchdog (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp).
constexpr std::string_view kTimeoutLog =
    "[rank0]:[E1120 14:13:07.204518833 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for "
    "600031 milliseconds before timing out.\n";

constexpr std::string_view kHealthyLog =
    "2026-11-20 14:00:01 INFO starting on 8 x NVIDIA H100 80GB HBM3\n"
    "2026-11-20 14:00:09 INFO epoch 1 step 10 loss 2.31 lr 3.0e-04 memory 61.2 GiB\n"
    "2026-11-20 14:00:17 INFO epoch 1 step 20 loss 2.17 lr 3.0e-04 memory 61.2 GiB\n"
    "2026-11-20 14:00:19 INFO checkpoint saved\n";

/// A failure that has nothing to do with GPUs.
constexpr std::string_view kPlainError = "ValueError: could not convert string to float: 'abc'\n";

class DiagnoseCommand : public Program {
 protected:
  Completed run_piped(const std::string& script) const {
    auto done = run_patiently(
        {.argv = {"bash", "-c", script, GPUWARDEN_PROGRAM, dir_.path().string()}, .environment = environment_});
    EXPECT_TRUE(done.has_value());
    return done.value_or(Completed{});
  }
  std::string folder() const { return dir_.path().string(); }
  /// The ranks by the files' names below the test's folder.
  std::map<std::string, Json> ranks_of(const Json& json) const {
    std::map<std::string, Json> ranks;
    for (const Json& file : json["files"]) {
      const std::string name = file["file"];
      ranks[name.starts_with(folder()) ? name.substr(folder().size() + 1) : name] = file["rank"];
    }
    return ranks;
  }
};

TEST_F(DiagnoseCommand, OptionsThatMeanNothingTogetherAreTold) {
  const std::string log = file("run.log", kHealthyLog);
  expect_error({"diagnose", "--list", "--explain", "xid=79"}, 2, "--list and --explain cannot be used together");
  expect_error({"diagnose", "--list", log}, 2, "--list: unexpected argument");
  expect_error({"diagnose", log, "--top", "2", "--all"}, 2, "--top and --all cannot be used together");
  expect_error({"diagnose", log, "--live", "--from", log}, 2, "--live and --from cannot be used together");
  expect_error({"diagnose", "--explain", "xid=79", "--live"}, 2, "--explain and --live cannot be used together");
  expect_error({"diagnose", "-", "--from", "-"}, 2, "standard input cannot be both the log and the capture");
  expect_error({"diagnose", log, "--top", "0"}, 2, "--top must be at least 1");
  expect_error({"diagnose", log, "--top", "many"}, 2, "--top: 'many' is not a whole number");
  for (const char* nonsense : {"1.5", "-1", "nan", "sure"})
    expect_error({"diagnose", log, "--min-confidence=" + std::string(nonsense)}, 2, "is not a confidence");
  expect_error({"diagnose", log, "--from", (dir_ / "absent").string()}, 2, "absent");
  expect_error({"diagnose", log, "--live", "--simulate", "no-such-fleet"}, 2, "there is no simulated fleet");
}

TEST_F(DiagnoseCommand, AHealthyLogIsNoAlarm) {
  const auto done = run({"diagnose", file("run.log", kHealthyLog)});
  EXPECT_EQ(done.exit_code, 0) << done.standard_output;
  EXPECT_EQ(done.standard_output, "nothing GPU-related found in 4 lines\n");
  EXPECT_EQ(done.standard_error, "");
  EXPECT_EQ(run({"diagnose", file("error.log", std::string(kTraceback) + std::string(kPlainError))}).exit_code, 0);
}

TEST_F(DiagnoseCommand, StandardInputIsReadWhereNothingOrADashIsNamed) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"diagnose"}, {"diagnose", "-"}}) {
    const auto done = run(words, std::string(kHealthyLog));
    EXPECT_EQ(done.exit_code, 0) << done.standard_error;
    EXPECT_EQ(done.standard_output, "nothing GPU-related found in 4 lines\n");
  }
  const auto slow = run_piped("(sleep 0.2; printf 'one\\n'; sleep 0.2; printf 'two\\n') | \"$0\" diagnose");
  EXPECT_EQ(slow.standard_output, "nothing GPU-related found in 2 lines\n") << slow.standard_error;
  const auto process = run_piped("\"$0\" diagnose <(sleep 0.2; printf 'one\\n')");
  EXPECT_EQ(process.standard_output, "nothing GPU-related found in 1 line\n") << process.standard_error;
}

TEST_F(DiagnoseCommand, WhatIsEmptyIsSaidToBeEmpty) {
  const auto nothing = run({"diagnose"});
  EXPECT_EQ(nothing.exit_code, 0);
  EXPECT_THAT(nothing.standard_error, HasSubstr("warning: standard input is empty"));
  EXPECT_THAT(run({"diagnose", file("empty.log", "")}).standard_error, HasSubstr("empty.log is empty"));
}

TEST_F(DiagnoseCommand, AFileThatCannotBeReadIsNamedAndTheOthersAreRead) {
  const std::string log = file("run.log", kHealthyLog);
  const std::string absent = (dir_ / "absent.log").string();
  const auto done = run({"diagnose", absent, log});
  EXPECT_EQ(done.exit_code, 2);
  EXPECT_THAT(done.standard_error, HasSubstr("absent.log: No such file or directory"));
  EXPECT_EQ(done.standard_output, "nothing GPU-related found in 4 lines\n");
  expect_error({"diagnose", absent}, 2, "absent.log: No such file or directory");
  EXPECT_EQ(this->json({"diagnose", absent})["files"], Json::array()) << "an answer in any case";
  expect_error({"diagnose", "/dev/zero"}, 2, "/dev/zero is not a regular file");
  const auto json = this->json({"diagnose", absent, log});
  ASSERT_EQ(json["not_read"].size(), 1U) << json;
  EXPECT_THAT(json["not_read"][0].get<std::string>(), HasSubstr("absent.log"));
  if (::geteuid() == 0) return;  // root may read everything
  std::filesystem::permissions(log, std::filesystem::perms::none);
  expect_error({"diagnose", log}, 2, "run.log: Permission denied");
}

TEST_F(DiagnoseCommand, NamesOfFilesCannotPaintTheTerminal) {
  const auto done = run({"diagnose", (dir_ / "\x1b[31mred.log").string()});
  EXPECT_EQ(done.exit_code, 2);
  EXPECT_THAT(done.standard_error, Not(HasSubstr("\x1b")));
}

TEST_F(DiagnoseCommand, AFolderIsReadWithTheRanksOfItsFiles) {
  const auto logs = std::to_array<std::pair<const char*, Json>>({
      {"launcher.log", Json()},
      {"rank3.log", 3},
      {"node1-rank_12.err", 12},
      {"worker-7/out.log", 7},
      {"stdout_5", 5},
      {"run_abc/attempt_0/4/stderr.log", 4},
      {"attempt_1/6/notes.log", Json()},
      {"rank-0x1f.log", Json()},
      {"franky4.log", Json()},
      {"stdout.1", Json()},
      {"worker-01000000ffff.out", Json()},
  });
  for (const auto& [name, rank] : logs) put(dir_ / name, kHealthyLog);
  for (const char* name : {".hidden.log", ".git/rank1.log", "train.py", "README.md", "a/b/c/d/too_deep.log"})
    put(dir_ / name, kOutOfMemory);
  put(dir_ / "checkpoint.dat", std::string_view("PK\x03\x04\0\0CUDA out of memory", 24));
  std::filesystem::create_directory_symlink(dir_.path(), dir_ / "loop");
  std::filesystem::create_symlink(dir_ / "rank3.log", dir_ / "twice.log");
  const auto json = this->json({"diagnose", folder(), (dir_ / "rank3.log").string()});
  auto ranks = ranks_of(json);
  for (const auto& [name, rank] : logs) {
    ASSERT_TRUE(ranks.contains(name)) << name << json["files"];
    EXPECT_EQ(ranks[name], rank) << name;
  }
  EXPECT_EQ(ranks.size(), logs.size()) << json["files"];
  EXPECT_EQ(json["lines"], 4 * logs.size());
  EXPECT_THAT(run({"diagnose", folder()}).standard_output, HasSubstr("found in 44 lines of 11 files"));
}

TEST_F(DiagnoseCommand, AFileThatIsNamedIsReadWhateverItIs) {
  const auto done = run({"diagnose", file("train.py", kHealthyLog)});
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_THAT(done.standard_output, HasSubstr("in 4 lines"));
  std::filesystem::create_directories(dir_ / "bare/.git");
  expect_error({"diagnose", (dir_ / "bare").string()}, 2, "bare has no logs");
}

TEST_F(DiagnoseCommand, PiecesOfAMebibyteAreOneText) {
  std::string text;
  for (int i = 0; text.size() < (3U << 20U); ++i) text += "step " + std::to_string(i) + " loss 2.31\n";
  const auto lines = static_cast<std::uint64_t>(std::ranges::count(text, '\n'));
  const auto json = this->json({"diagnose", file("long.log", text)});
  EXPECT_EQ(json["lines"], lines);
  EXPECT_EQ(json["bytes"], text.size());
  EXPECT_EQ(json["causes"], Json::array());
}

TEST_F(DiagnoseCommand, ABundleIsItsLogsAndItsMachine) {
  const std::string bundle = (dir_ / "box.tar.gz").string();
  const auto made =
      run({"bundle", "--simulate", "h100x8", "--seconds", "0", "--log", file("rank-2.err", kHealthyLog), "-o", bundle});
  ASSERT_EQ(made.exit_code, 0) << made.standard_error;
  const auto json = this->json({"diagnose", bundle});
  EXPECT_EQ(json["simulated"], true);
  EXPECT_EQ(json["machine"], "SIMULATED h100x8");
  EXPECT_EQ(ranks_of(json)["box.tar.gz:logs/rank-2.err"], 2) << json["files"];
}

TEST_F(DiagnoseCommand, WhatASimulatedFleetTellsIsMarked) {
  const std::string log = file("run.log", kHealthyLog);
  const auto done = run({"diagnose", log, "--live", "--simulate", "h100x8"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_TRUE(done.standard_output.starts_with("SIMULATED h100x8\n")) << done.standard_output;
  const auto live = json({"diagnose", log, "--simulate", "h100x8"});
  EXPECT_EQ(live["simulated"], true);
  EXPECT_EQ(live["machine"], "SIMULATED h100x8");
  const auto text_alone = json({"diagnose", log});
  EXPECT_EQ(text_alone["simulated"], false);
  EXPECT_EQ(text_alone["machine"], Json());
}

TEST_F(DiagnoseCommand, CapturesStandBesideTheLogWithoutSwallowingIt) {
  const std::string capture =
      file("smi.txt", "GPU 0: NVIDIA RTX A4000 (UUID: GPU-aaaaaaaa-1111-2222-3333-444444444440)\n");
  const std::string kernel = file("kern.log",
                                  "[ 12.5] nvidia: loading out-of-tree module taints kernel.\n"
                                  "[ 12.6] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15\n");
  const auto json = this->json({"diagnose", "--from", capture, "--from", kernel, file("run.log", kHealthyLog)});
  EXPECT_EQ(json["files"].size(), 1U) << json;
  EXPECT_THAT(json["machine"].get<std::string>(), HasSubstr("smi.txt"));
}

TEST_F(DiagnoseCommand, TheListHasEveryCauseWithItsArea) {
  const auto list = json({"diagnose", "--list"});
  EXPECT_EQ(list["schema"], 1);
  ASSERT_FALSE(list["causes"].empty());
  const auto text = run({"diagnose", "--list"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_THAT(text.standard_output, HasSubstr("memory:\n  oom_capacity "));
  for (const Json& cause : list["causes"]) {
    for (const char* key : {"id", "area", "title", "link", "source"}) EXPECT_TRUE(cause[key].is_string()) << cause;
    EXPECT_TRUE(cause["rules"].is_number_unsigned()) << cause;
    EXPECT_THAT(text.standard_output, HasSubstr("\n  " + cause["id"].get<std::string>() + " "));
  }
}

TEST_F(DiagnoseCommand, EveryCauseCanBeLookedUpByItsId) {
  const auto list = json({"diagnose", "--list"});
  for (const Json& listed : list["causes"]) {
    const std::string id = listed["id"];
    const auto json = this->json({"diagnose", "--explain", id});
    ASSERT_FALSE(json["causes"].empty()) << id;
    EXPECT_EQ(json["causes"][0]["id"], id);
  }
}

TEST_F(DiagnoseCommand, ExplainsIdsLinesWordsAndXids) {
  const auto by_id = run({"diagnose", "--explain", "OOM-capacity"});
  EXPECT_EQ(by_id.exit_code, 0);
  for (const char* part : {"[oom_capacity, memory]", "lines that show it:", "do:", "source: "})
    EXPECT_THAT(by_id.standard_output, HasSubstr(part));
  EXPECT_THAT(run({"diagnose", "--explain", "nccl_timeout"}).standard_output, HasSubstr("     [rank6]:[E101 10:20:30"))
      << "what stands in brackets is the line's own";
  const auto line = json({"diagnose", "--explain", std::string(kOutOfMemory)});
  EXPECT_EQ(line["found"], true);
  EXPECT_EQ(line["causes"][0]["id"], "oom_capacity");
  EXPECT_FALSE(line["fits"].empty());
  const auto unquoted = run({"diagnose", "--explain", "total", "capacity"});
  EXPECT_EQ(unquoted.exit_code, 0) << unquoted.standard_error;
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"xid", "79"}, {"xid=79"}, {"Xid:79"}, {"79"}}) {
    auto all = words;
    all.insert(all.begin(), {"diagnose", "--explain"});
    EXPECT_THAT(run(all).standard_output, HasSubstr("GPU has fallen off the bus"));
    EXPECT_EQ(json(all)["xid"]["known"], true);
  }
}

TEST_F(DiagnoseCommand, ABareNumberIsAnXidOrAnErrorCodeOfCuda) {
  const auto first_of = [&](const std::string& number) {
    const auto json = this->json({"diagnose", "--explain", number});
    return json["causes"].empty() ? Json() : json["causes"][0]["id"];
  };
  EXPECT_EQ(first_of("700"), "illegal_memory_access");
  EXPECT_EQ(first_of("802"), "fabric_manager_not_running");
  EXPECT_EQ(first_of("35"), "driver_too_old") << "no driver reports Xid 35";
  EXPECT_EQ(json({"diagnose", "--explain", "700"})["xid"], Json());
  const auto both = json({"diagnose", "--explain", "46"});
  EXPECT_EQ(both["xid"]["known"], true);
  EXPECT_EQ(both["cuda_code"], 46);
  EXPECT_EQ(both["causes"][0]["id"], "kernel_timeout") << "the Xid comes first";
  EXPECT_THAT(run({"diagnose", "--explain", "46"}).standard_output, HasSubstr("46 is an error code of CUDA, too."));
  expect_error({"diagnose", "--explain", "777"}, 1, "nothing is known about '777'");
  const auto unknown = json({"diagnose", "--explain", "xid=777"});
  EXPECT_EQ(unknown["xid"]["known"], false);
  EXPECT_EQ(unknown["causes"], Json::array()) << "what nobody knows has no cause";
}

TEST_F(DiagnoseCommand, NamesOutOfCodeLeadToTheMessagesThatHoldTheirLike) {
  const auto causes_of = [&](const std::string& name) {
    std::vector<std::string> ids;
    const auto answer = json({"diagnose", "--explain", name});
    for (const Json& cause : answer["causes"]) ids.push_back(cause["id"]);
    return ids;
  };
  const auto architecture = causes_of("sm_120");
  ASSERT_GE(architecture.size(), 2U);
  EXPECT_THAT((std::vector{architecture[0], architecture[1]}),
              UnorderedElementsAre("no_kernel_image", "arch_unsupported_by_toolkit"));
  EXPECT_THAT(causes_of("GLIBCXX_3.4.32"), ElementsAre("abi_undefined_symbol"));
  EXPECT_THAT(causes_of("compute_89"), Contains("arch_unsupported_by_toolkit"));
}

TEST_F(DiagnoseCommand, WhatIsNotKnownIsToldWithTheNearest) {
  expect_error({"diagnose", "--explain", "oom_capacty"}, 1, "nothing is known about 'oom_capacty'");
  EXPECT_THAT(run({"diagnose", "--explain", "oom_capacty"}).standard_error, HasSubstr("did you mean 'oom_capacity'?"));
  const auto json = this->json({"diagnose", "--explain", "zzyzx"});
  EXPECT_EQ(json["found"], false);
  EXPECT_EQ(json["causes"], Json::array());
  EXPECT_EQ(run({"diagnose", "--explain", "xid=99999"}).exit_code, 1);
  expect_error({"diagnose", "--explain", " "}, 2, "nothing to look up is given");
}

// With the engine: what a log and its neighbours lead to.

TEST_F(DiagnoseCommand, OutOfMemoryIsTheCauseWithItsLine) {
  const std::string text = std::string(kHealthyLog) + std::string(kTraceback) + std::string(kOutOfMemory);
  const std::string log = file("run.log", text);
  const auto done = run({"diagnose", log});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.standard_output, HasSubstr("[oom_capacity]"));
  EXPECT_THAT(done.standard_output, HasSubstr(log + ":10: "));
  EXPECT_THAT(done.standard_output, HasSubstr("   do:\n"));
  EXPECT_THAT(done.standard_output, Not(HasSubstr("\x1b")));
  EXPECT_THAT(run({"diagnose", log, "--color", "always"}).standard_output, HasSubstr("\x1b[1m1. "));
  EXPECT_EQ(run({"diagnose", log, (dir_ / "absent").string()}).exit_code, 2) << "what was not read may matter more";
}

TEST_F(DiagnoseCommand, TheJsonOfACauseHasItsShape) {
  const auto json = this->json({"diagnose", file("run.log", kOutOfMemory)});
  EXPECT_EQ(json["schema"], 1);
  ASSERT_FALSE(json["causes"].empty());
  const Json& cause = json["causes"][0];
  EXPECT_EQ(cause["id"], "oom_capacity");
  EXPECT_GT(cause["confidence"].get<double>(), 0.5);
  for (const char* key : {"summary", "title", "link"}) EXPECT_TRUE(cause[key].is_string()) << key;
  for (const char* key : {"evidence", "fix", "confirm", "consequences", "reasons"})
    EXPECT_TRUE(cause[key].is_array()) << key;
  EXPECT_EQ(cause["evidence"][0]["line"], 1);
  EXPECT_THAT(cause["evidence"][0]["text"].get<std::string>(), HasSubstr("CUDA out of memory"));
  EXPECT_EQ(cause["facts"]["tried_bytes"], 20LL << 30U);
  EXPECT_EQ(json["only_consequences"], false);
}

TEST_F(DiagnoseCommand, CausesThatAreNotSureEnoughAreLeftOut) {
  const std::string log = file("run.log", kOutOfMemory);
  const auto done = run({"diagnose", log, "--min-confidence", "1"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_output;
  EXPECT_THAT(done.standard_output, HasSubstr("below --min-confidence"));
  EXPECT_EQ(json({"diagnose", log, "--min-confidence", "1"})["causes"], Json::array());
}

TEST_F(DiagnoseCommand, AGuessOnTheThresholdIsNoAlarm) {
  const std::string log = file("run.log", "INFO: retrying on CUDA out of memory is enabled\n");
  EXPECT_EQ(run({"diagnose", log}).exit_code, 0);
  EXPECT_EQ(json({"diagnose", log})["causes"], Json::array());
}

TEST_F(DiagnoseCommand, FailuresOfTheirOwnAreSaidToBeIndependent) {
  const std::string other = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n";
  const auto both = run({"diagnose", file("run.log", std::string(kOutOfMemory) + other)});
  EXPECT_THAT(both.standard_output, HasSubstr("2 independent failures"));
  EXPECT_THAT(run({"diagnose", file("one.log", kOutOfMemory)}).standard_output, Not(HasSubstr("independent")));
  const auto followed = run({"diagnose", file("two.log", std::string(kOutOfMemory) + std::string(kTimeoutLog))});
  EXPECT_THAT(followed.standard_output, Not(HasSubstr("independent")));
}

TEST_F(DiagnoseCommand, ManyRanksAreToldAsRanges) {
  for (int rank = 0; rank < 300; ++rank) {
    if (rank != 7) file("rank-" + std::to_string(rank) + ".log", kTimeoutLog.substr(kTimeoutLog.find("[Rank 0] ") + 9));
  }
  const auto alone = run({"diagnose", folder()});
  EXPECT_THAT(alone.standard_output, HasSubstr("the ranks other than 0-6,\n8-299\n"));
  file("rank-7.log", kOutOfMemory);
  const auto json = this->json({"diagnose", folder()});
  ASSERT_FALSE(json["causes"].empty());
  EXPECT_EQ(json["causes"][0]["id"], "oom_capacity");
  EXPECT_THAT(json["causes"][0]["consequences"].dump(), HasSubstr("(ranks 0-6, 8-299)"));
  for (int rank = 0; rank < 300; rank += 2) std::filesystem::remove(dir_ / ("rank-" + std::to_string(rank) + ".log"));
  EXPECT_THAT(this->json({"diagnose", folder()})["causes"][0]["consequences"].dump(),
              HasSubstr("(ranks 1, 3, 5, 9, 11, 13, 15, 17, ... (149 ranks))"));
}

TEST_F(DiagnoseCommand, APlainFailureIsNamedWhereNothingElseIsFound) {
  const std::string log = file("error.log", std::string(kTraceback) + std::string(kPlainError));
  const auto json = this->json({"diagnose", log});
  EXPECT_EQ(json["causes"], Json::array());
  ASSERT_TRUE(json["ordinary"].is_object()) << json;
  EXPECT_EQ(json["ordinary"]["line"], 6);
  EXPECT_THAT(json["ordinary"]["text"].get<std::string>(), HasSubstr("ValueError: could not convert"));
  const auto text = run({"diagnose", log}).standard_output;
  EXPECT_TRUE(text.starts_with("nothing GPU-related found in 6 lines; a plain failure is there:")) << text;
  EXPECT_THAT(text, HasSubstr("error.log:6: ValueError"));
  EXPECT_EQ(this->json({"diagnose", file("run.log", kHealthyLog)})["ordinary"], Json());
}

TEST_F(DiagnoseCommand, ATimeoutOfOneRankIsExplainedByTheMemoryOfAnother) {
  file("rank0.log", std::string(kHealthyLog) + std::string(kTimeoutLog));
  file("rank1.log", std::string(kHealthyLog) + std::string(kTraceback) + std::string(kOutOfMemory));
  const auto json = this->json({"diagnose", folder()});
  ASSERT_FALSE(json["causes"].empty());
  EXPECT_EQ(json["causes"][0]["id"], "oom_capacity") << json["causes"].dump(2);
  EXPECT_THAT(json["causes"][0]["evidence"][0]["file"].get<std::string>(), HasSubstr("rank1.log"));
  ASSERT_FALSE(json["causes"][0]["consequences"].empty()) << json["causes"].dump(2);
  for (std::size_t i = 1; i < json["causes"].size(); ++i) EXPECT_NE(json["causes"][i]["id"], "nccl_timeout");
  const auto text = run({"diagnose", folder()});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.standard_output, HasSubstr("\n   then: "));
}

}  // namespace
}  // namespace gpuwarden::testing
