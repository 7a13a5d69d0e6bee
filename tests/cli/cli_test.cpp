// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <set>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/corpus.hpp"

namespace gpuwarden {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::Program;

class Cli : public Program {};

TEST_F(Cli, ListShowsAFleetWithin80ColumnsAndSaysThatItIsSimulated) {
  const auto done = run({"list", "--simulate", "h100x8"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_TRUE(done.standard_output.starts_with("SIMULATED h100x8  driver 550.54.15  CUDA 12.4"));
  for (const auto line : split(done.standard_output, '\n')) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_EQ(std::ranges::count(done.standard_output, '\n'), 10);
  EXPECT_THAT(done.standard_output, Not(HasSubstr("\x1b"))) << "no colour but on a terminal";
  environment_["COLUMNS"] = "120";
  EXPECT_THAT(run({"list", "--simulate", "h100x8", "--color", "always"}).standard_output, HasSubstr("\x1b[32m"));
}

TEST_F(Cli, ListJsonIsTheContract) {
  const auto list = json({"list", "--simulate", "rtx4090x2"});
  EXPECT_EQ(list["schema"], 1);
  EXPECT_EQ(list["simulated"], true);
  EXPECT_EQ(list["source"], "nvml");
  EXPECT_EQ(list["driver"], "550.54.15");
  const auto& gpu = list["gpus"][1];
  EXPECT_EQ(gpu["name"], "NVIDIA GeForce RTX 4090");
  EXPECT_EQ(gpu["memory"]["total_bytes"], 24564ULL << 20U);
  EXPECT_EQ(gpu["state"], "available");
  EXPECT_EQ(gpu["utilization"]["gpu_percent"], 0);
  EXPECT_TRUE(gpu["ecc"]["volatile"]["corrected"].is_null()) << "a GeForce has no ECC counts";
  EXPECT_TRUE(gpu["power_limit_watts"].is_number());
  EXPECT_EQ(gpu["processes"], nlohmann::json::array());
  EXPECT_TRUE(gpu["lease"].is_null());
}

TEST_F(Cli, ListShowsTroubleWithCauseAndNextStepAndSaysSoInItsExitCode) {
  const auto done = run({"list", "--simulate", "h100x8-sick", "--timeout", "5s"});
  EXPECT_EQ(done.exit_code, 1);
  for (const char* part : {"lost", "needs_reset", "not_answering", "-> look for its Xid", "nvidia-smi --gpu-reset -i 2",
                           "python train.py --model llama"}) {
    EXPECT_THAT(done.standard_output, HasSubstr(part));
  }
  EXPECT_EQ(run({"list", "--simulate", "h100x8-sick", "-i", "0,7"}).exit_code, 0);
  expect_error({"list", "--simulate", "t4x1", "-i", "3"}, 2, "there is no GPU '3'");
}

TEST_F(Cli, ADriverThatDoesNotAnswerIsExitCodeThreeAndTheGpusAreStillListed) {
  const auto fleet =
      file("mismatch.yaml",
           "driver: 550.54.15\nkernel_module: 535.161.07\nfaults: [mismatch]\ngpus: [{model: Tesla T4, count: 2}]\n");
  const auto done = run({"list", "--simulate", fleet});
  EXPECT_EQ(done.exit_code, 3);
  EXPECT_THAT(done.standard_error, HasSubstr("the library is 550.54.15, the loaded kernel module is 535.161.07"));
  EXPECT_THAT(done.standard_error, HasSubstr("hint:"));
  EXPECT_THAT(done.standard_output, HasSubstr("Tesla T4"));
  const auto hung = file("hung.yaml", "faults: [hang_init]\ngpus: [{model: Tesla T4}]\n");
  EXPECT_THAT(run({"list", "--simulate", hung, "--timeout", "300ms"}).standard_error,
              HasSubstr("did not answer within 300 ms"));
  EXPECT_EQ(run({"list", "--simulate", "none"}).exit_code, 0);
}

TEST_F(Cli, SelectPrintsAValueForEveryShell) {
  const auto list = json({"list", "--simulate", "a100x4"});
  const std::string first = list["gpus"][0]["uuid"];
  EXPECT_EQ(run({"select", "--simulate", "a100x4"}).standard_output, first + "\n");
  EXPECT_EQ(run({"select", "--simulate", "a100x4", "--gpu-ids", "2", "0", "--index"}).standard_output, "2,0\n");
  EXPECT_THAT(run({"select", "--simulate", "a100x4", "--export"}).standard_output,
              HasSubstr("export CUDA_VISIBLE_DEVICES='" + first + "'"));
  EXPECT_THAT(run({"select", "--simulate", "a100x4", "--export=fish"}).standard_output,
              HasSubstr("set -gx CUDA_DEVICE_ORDER"));
  EXPECT_THAT(run({"select", "--simulate", "a100x4", "--export=powershell"}).standard_output,
              HasSubstr("$env:CUDA_VISIBLE_DEVICES"));
  EXPECT_THAT(run({"select", "--simulate", "a100x4", "--export=cmd"}).standard_output,
              HasSubstr("set CUDA_VISIBLE_DEVICES=GPU-"));
  EXPECT_EQ(run({"select", "--simulate", "a100x4", "--interactive"}, "3\n").standard_output,
            list["gpus"][3]["uuid"].get<std::string>() + "\n");
  const auto chosen = json({"select", "--simulate", "a100x4", "--model-size", "140GB"});
  EXPECT_EQ(chosen["selected"].size(), 2U);
  EXPECT_EQ(chosen["strategy"], "fsdp");
  EXPECT_EQ(run({"select", "--simulate", "a100x4", "--device", "cpu"}).standard_output, "\n");
}

TEST_F(Cli, SelectRefusesWithReasonsAndPrintsNothing) {
  expect_error({"select", "--simulate", "a100x4", "-n", "5"}, 1, "only 4 of the 5 requested GPUs are available");
  expect_error({"select", "--simulate", "none"}, 1, "this machine has no GPU");
  expect_error({"select", "--simulate", "a100x4", "--gpu-ids", "9"}, 2, "there is no GPU '9'");
  expect_error({"select", "--simulate", "a100x4", "--min-memory", "32GiBB"}, 2, "'32GiBB' is not a size");
  expect_error({"select", "--simulate", "a100x4", "--min-memory", "-1GiB"}, 2, "");
  expect_error({"select", "--simulate", "a100x4", "--wait=1parsec"}, 2, "not a duration");
  expect_error({"select", "--simulate", "a100x4", "-n", "x"}, 2, "not a whole number");
  environment_["CUDA_VISIBLE_DEVICES"] = "nonsense";
  expect_error({"select", "--simulate", "a100x4"}, 2, "names no GPU");
  environment_["CUDA_VISIBLE_DEVICES"] = "";
  expect_error({"select", "--simulate", "a100x4"}, 1, "restricted to the CPU");
}

TEST_F(Cli, ARefusalHasALineForEachGpu) {
  const auto done = run({"select", "--simulate", "a100x4", "-n", "2", "--min-memory", "90GiB"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.standard_error, HasSubstr("only 0 of the 2 requested GPUs are available\n  GPU 0: "));
  EXPECT_THAT(done.standard_error, HasSubstr("\n  GPU 3: "));
}

TEST_F(Cli, GpusAreCalledAsTheyWereTyped) {
  expect_error({"select", "--simulate", "a100x4", "--gpu-ids", "0,0"}, 2, "GPU 0 is listed twice\n");
  expect_error({"select", "--simulate", "a100x4", "--gpu-ids", "1", "--exclude", "1"}, 2, "GPU 1 is both named and");
  environment_["CUDA_VISIBLE_DEVICES"] = "3, 1";
  expect_error({"select", "--simulate", "a100x4", "--gpu-ids", "2"}, 2,
               "GPU 2 is hidden by CUDA_VISIBLE_DEVICES=3, 1\n");
  environment_["CUDA_VISIBLE_DEVICES"] = "-1";
  expect_error({"select", "--simulate", "a100x4"}, 1, "CUDA_VISIBLE_DEVICES=-1 shows no GPU");
}

TEST_F(Cli, WhatPeopleTypeIsUnderstood) {
  const auto indices = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"select", "--simulate", "h100x8", "--index"});
    return run(std::move(words)).standard_output;
  };
  EXPECT_EQ(indices({"--gpu-ids", "0-3"}), "0,1,2,3\n");
  EXPECT_EQ(indices({"--gpu-ids", "0-1,6"}), "0,1,6\n");
  EXPECT_EQ(indices({"--all", "--exclude", "2-7"}), "0,1\n");
  EXPECT_EQ(indices({"--device", "cuda:5"}), "5\n");
  EXPECT_EQ(indices({"--wait", "5s", "-n", "1"}), "0\n");
  EXPECT_EQ(indices({"-n2"}), "0,1\n");
  EXPECT_EQ(indices({"--config", file("one.yaml", "device: cuda:4\n")}), "4\n");
  EXPECT_EQ(indices({"--config", file("two.yaml", "device: cuda:4\ndistributed: {gpu_ids: [1, 2]}\n")}), "1,2\n");
  EXPECT_THAT(run({"select", "--simulate", "t4x1", "--export=csh"}).standard_output,
              HasSubstr("setenv CUDA_VISIBLE_DEVICES 'GPU-"));
  const auto ranks = run({"run", "--simulate", "h100x8", "-n", "2", "--nproc-per-node", "auto", "-q", "--wait", "5s",
                          "--", "sh", "-c", "echo $WORLD_SIZE"});
  EXPECT_THAT(ranks.standard_output, HasSubstr("[rank 1] 2\n"));
  EXPECT_EQ(run({"list", "--simulate", "h100x8", "-i", "2-3", "--json"}).standard_output.find("\"index\": 4"),
            std::string::npos);
}

TEST_F(Cli, WhatCannotBeMeantIsRefused) {
  const auto refused = [&](std::vector<std::string> words, const std::string& what) {
    words.insert(words.begin(), {"select", "--simulate", "h100x8"});
    expect_error(std::move(words), 2, what);
  };
  refused({"--min-free-memory", "40"}, "--min-free-memory: 40 has no unit, and would be bytes\nhint: write 40GiB");
  refused({"--all", "-n", "2"}, "--all and --num-gpus cannot be used together");
  refused({"--gpu-ids", "3-1"}, "there is no GPU '3-1'");
  refused({"--device", "cuda:x"}, "is not cpu, cuda or cuda:N");
  refused({"--num-gpus"}, "--num-gpus needs a value");
  refused({"--num-gpus", "1", "-n", "2"}, "--num-gpus is given more than once");
  refused({"--all=yes"}, "--all takes no value");
  refused({"--config", file("utf16.yaml", std::string("\xff\xfe") + std::string("d\0e\0", 4))}, "is UTF-16 text");
  EXPECT_EQ(run({"select", "--simulate", "h100x8", "--min-free-memory", "0"}).exit_code, 0);
}

TEST_F(Cli, WrongUsageSaysWhatWasMeant) {
  expect_error({"lst"}, 2, "unknown command 'lst'");
  EXPECT_THAT(run({"lst"}).standard_error, HasSubstr("did you mean 'list'?"));
  expect_error({"list", "--jsn"}, 2, "unknown option '--jsn'");
  EXPECT_THAT(run({"list", "--jsn"}).standard_error, HasSubstr("did you mean '--json'?"));
  expect_error({"list", "extra"}, 2, "unexpected argument 'extra'");
  expect_error({"list", "--simulate", "no-such-fleet"}, 2, "there is no simulated fleet");
  expect_error({"list", "--color", "pink"}, 2, "--color");
  expect_error({"run", "--simulate", "t4x1"}, 2, "no command to run");
  expect_error({"sim", "dance"}, 2, "unknown action 'dance'");
  EXPECT_EQ(run({"--help"}).exit_code, 0);
  EXPECT_THAT(run({"help", "run"}).standard_output, HasSubstr("--nproc-per-node"));
}

TEST_F(Cli, FleetFilesWithImpossibleValuesAreRefusedWithTheirPlace) {
  expect_error({"list", "--simulate", file("a.yaml", "gpus:\n  - {model: Tesla T4, memory: 0}\n")}, 2, "a.yaml:2:");
  expect_error({"list", "--simulate", file("b.yaml", "gpus:\n  - {model: Tesla T4, readings: {temperature: 900}}\n")},
               2, "impossible value for temperature");
  expect_error({"list", "--simulate", file("c.yaml", "gpus:\n\t- x\n")}, 2, "a tab");
  expect_error({"list", "--simulate", file("d.yaml", "gpus: &a\n  - *a\n")}, 2, "anchors and aliases");
  expect_error({"list", "--simulate", file("e.yaml", "gpus:\n  - {model: Tesla T4, count: 65}\n")}, 2, "e.yaml:2:");
  expect_error({"list", "--simulate", file("f.xml", "<html></html>")}, 2,
               "it is XML or HTML, but not of nvidia-smi -q -x");
}

TEST_F(Cli, ConfigurationStandsBehindFlagsAndEnvironment) {
  const auto config = file("job.yaml", "distributed: {enabled: true, num_gpus: 3}\nselection: {min_memory: 70GiB}\n");
  EXPECT_EQ(json({"select", "--simulate", "h100x8", "--config", config})["selected"].size(), 3U);
  EXPECT_EQ(json({"select", "--simulate", "h100x8", "--config", config, "-n", "2"})["selected"].size(), 2U);
  environment_["GPUWARDEN_NUM_GPUS"] = "4";
  EXPECT_EQ(json({"select", "--simulate", "h100x8", "--config", config})["selected"].size(), 4U);
  EXPECT_EQ(json({"select", "--simulate", "h100x8", "--config", config, "-n", "2"})["selected"].size(), 2U);
  environment_.erase("GPUWARDEN_NUM_GPUS");
  expect_error({"select", "--simulate", "t4x1", "--config", config, "-n", "1"}, 1, "70 GiB are wanted");
  expect_error({"select", "--simulate", "t4x1", "--config", file("bad.yaml", "distributed:\n  gpu_num: 2\n")}, 2,
               "bad.yaml:2:3");
  expect_error({"select", "--simulate", "t4x1", "--config", "/no/such/file"}, 2, "/no/such/file");
}

TEST_F(Cli, RunLeasesStartsReportsAndGivesBack) {
  const auto report = (dir_ / "report.json").string();
  const auto done = run({"run", "--simulate", "h100x8", "-n", "2", "--nproc-per-node", "gpu", "--report", report,
                         "--sim-load", "memory=20GiB,util=80", "--", "sh", "-c",
                         std::string("echo $LOCAL_RANK of $WORLD_SIZE; [ $RANK = 1 ] || sleep 0.5; ") +
                             GPUWARDEN_PROGRAM + " list --json > " + (dir_ / "seen-$RANK.json").string()});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr("[rank 1] 1 of 2\n"));
  EXPECT_THAT(done.standard_error, HasSubstr("[simulated figures] finished"));
  const auto written = nlohmann::json::parse(read_file(report).value_or(""));
  EXPECT_EQ(written["exit_code"], 0);
  EXPECT_EQ(written["simulated"], true);
  ASSERT_EQ(written["gpus"].size(), 2U);
  EXPECT_EQ(written["gpus"][0]["peak_memory_bytes"], 20ULL << 30U);
  const auto seen = nlohmann::json::parse(read_file(dir_ / "seen-0.json").value_or(""));
  EXPECT_EQ(seen["gpus"][0]["state"], "busy");
  EXPECT_EQ(seen["gpus"][0]["lease"]["holders"].size(), 1U);
  EXPECT_EQ(seen["gpus"][2]["state"], "available");
  EXPECT_THAT(run({"lease", "--list", "--simulate", "h100x8"}).standard_output, HasSubstr("nothing is leased"));
}

TEST_F(Cli, AReportThatCannotBeWrittenFailsARunThatWentWell) {
  for (const auto& [command, code] : {std::pair("true", 1), std::pair("exit 5", 5)}) {
    const auto done = run({"run", "--simulate", "t4x1", "--report", "/dev/full", "--", "sh", "-c", command});
    EXPECT_EQ(done.exit_code, code) << done.standard_error;
    EXPECT_THAT(done.standard_error, HasSubstr("/dev/full"));
  }
}

TEST_F(Cli, RunPassesTheExitCodeOnAndChecksTheProgramFirst) {
  expect_error({"run", "--simulate", "t4x1", "--", "no-such-program-here"}, 127, "was not found");
  expect_error({"run", "--simulate", "t4x1", "--", "/etc/passwd"}, 126, "is not executable");
  expect_error({"run", "--simulate", "t4x1", "--report", "/no/such/folder/r.json", "--", "true"}, 2, "cannot write");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "leases")) << "nothing was begun";
  EXPECT_EQ(run({"run", "--simulate", "t4x1", "-q", "--", "sh", "-c", "exit 7"}).exit_code, 7);
  EXPECT_EQ(run({"run", "--simulate", "t4x1", "-q", "--", "sh", "-c", "kill -9 $$"}).exit_code, 137);
}

TEST_F(Cli, RunWithoutAGpuRefusesOrFallsBack) {
  expect_error({"run", "--simulate", "none", "--", "true"}, 1, "no GPU");
  const auto done =
      run({"run", "--simulate", "none", "--cpu-fallback", "--", "sh", "-c", "echo \"<$CUDA_VISIBLE_DEVICES>\""});
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_EQ(done.standard_output, "<>\n");
  EXPECT_THAT(done.standard_error, HasSubstr("running on the CPU"));
  EXPECT_EQ(
      run({"run", "--simulate", "t4x1", "--device", "cpu", "-q", "--", "sh", "-c", "echo \"<$CUDA_VISIBLE_DEVICES>\""})
          .standard_output,
      "<>\n");
}

TEST_F(Cli, ASecondRunWaitsForTheFirstOrIsRefused) {
  // Python's subprocess passes no locks on: the second run is none within the first.
  const std::string second = "import subprocess, sys; print('code', subprocess.call(sys.argv[1:]))";
  const auto done = run({"run", "--simulate", "t4x1", "-q", "--", "python3", "-c", second, GPUWARDEN_PROGRAM, "run",
                         "-n", "1", "--", "true"});
  EXPECT_THAT(done.standard_output, HasSubstr("code 1"));
  EXPECT_THAT(done.standard_error, HasSubstr("leased by"));
  expect_error({"select", "--simulate", "h100x8-sick", "--gpu-ids", "3", "--wait=200ms", "--timeout", "5s"}, 1,
               "timed out after");
}

TEST_F(Cli, AnUnusableLeaseDirectorySaysWhatToDo) {
  environment_["GPUWARDEN_LEASE_DIR"] = file("not-a-folder", "");
  const auto done = run({"run", "--simulate", "t4x1", "--", "true"});
  EXPECT_EQ(done.exit_code, 3);
  EXPECT_THAT(done.standard_error, HasSubstr("GPUWARDEN_LEASE_DIR"));
}

TEST_F(Cli, MigInstancesGoOneToARank) {
  const auto done = run({"run", "--simulate", "a100-40x8-mig", "-q", "--mig-profile", "1g.5gb", "-n", "2",
                         "--nproc-per-node", "gpu", "--", "sh", "-c", "echo $LOCAL_RANK $CUDA_VISIBLE_DEVICES"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr("[rank 0] 0 MIG-"));
  EXPECT_THAT(done.standard_output, HasSubstr("[rank 1] 0 MIG-"));
  expect_error({"select", "--simulate", "a100-40x8-mig", "--mig", "-n", "2"}, 2, "only one MIG instance");
}

TEST_F(Cli, ANamedFleetLivesOnItsOwnAndTakesFaults) {
  ASSERT_EQ(run({"sim", "start", "lab", "--fleet", "a100x4"}).exit_code, 0);
  EXPECT_THAT(run({"sim", "list"}).standard_output, HasSubstr("running: lab"));
  EXPECT_EQ(run({"sim", "fault", "lab", "--gpu", "3", "xid=79"}).exit_code, 0);
  EXPECT_EQ(json({"list", "--simulate", "lab"})["gpus"][3]["state"], "lost");
  expect_error({"sim", "reset", "lab", "--gpu", "3"}, 1, "GPU 3 is lost: a GPU that fell off the bus cannot be reset");
  EXPECT_EQ(run({"sim", "clear", "lab"}).exit_code, 0);
  EXPECT_EQ(run({"sim", "set", "lab", "--gpu", "1", "temperature=88"}).exit_code, 0);
  EXPECT_EQ(run({"sim", "clock", "lab", "--freeze"}).exit_code, 0);
  const auto list = json({"list", "--simulate", "lab"});
  EXPECT_EQ(list["gpus"][3]["state"], "available");
  EXPECT_EQ(list["gpus"][1]["temperature_celsius"], 88);
  expect_error({"sim", "fault", "lab", "--gpu", "3", "gremlins"}, 2, "is no fault");
  expect_error({"sim", "fault", "lab", "--gpu", "9", "lost"}, 2, "no GPU 9");
  expect_error({"sim", "fault", "lab", "--gpu", "3", "xid=99999"}, 2, "an Xid is a number from 1 to 999");
  expect_error({"sim", "fault", "lab", "--gpu", "3", "nvlink_down=99"}, 2, "GPU 3 has no NVLink 99");
  expect_error({"sim", "set", "lab", "--gpu", "0", "temperature=900"}, 2, "impossible");
  for (const char* action : {"fault", "set"}) {
    const auto refused = run({"sim", action, "lab", action == std::string("set") ? "temperature=80" : "xid=79"});
    EXPECT_EQ(refused.exit_code, 2) << action;
    EXPECT_EQ(refused.standard_error,
              "gpuwarden: no GPU is named\nhint: --gpu is required: the fleet has GPUs 0 to 3\n");
  }
  EXPECT_EQ(run({"sim", "fault", "lab", "driver_not_loaded"}).exit_code, 0) << "strikes the whole fleet";
  EXPECT_EQ(run({"sim", "clear", "lab"}).exit_code, 0);
  EXPECT_EQ(run({"sim", "stop", "lab"}).exit_code, 0);
  expect_error({"list", "--simulate", "lab"}, 2, "there is no simulated fleet");
}

TEST_F(Cli, JsonIsPrintedOrRefusedNeverLeftOut) {
  const auto started = json({"sim", "start", "lab", "--fleet", "t4x1"});
  EXPECT_EQ(started["name"], "lab");
  EXPECT_EQ(started["simulated"], true);
  EXPECT_GT(started["pid"].get<int>(), 1);
  for (const char* action : {"stop", "fault", "clear", "reset", "set", "clock", "exec"})
    expect_error({"sim", action, "lab", "--json"}, 2, std::string("sim ") + action + " prints no JSON");
  EXPECT_EQ(run({"sim", "stop", "lab"}).exit_code, 0);
  expect_error({"man", "list", "--json"}, 2, "man prints no JSON");
  expect_error({"completion", "bash", "--json"}, 2, "completion prints no JSON");
  EXPECT_EQ(json({"snapshot", "--simulate", "t4x1"})["gpus"].size(), 1U) << "all that it prints is JSON";
}

TEST_F(Cli, AnyProgramRunsInFrontOfTheSimulator) {
  const auto done = run({"sim", "exec", "--fleet", "t4x1", "--", "sh", "-c", "echo $LD_LIBRARY_PATH; exit 4"});
  EXPECT_EQ(done.exit_code, 4);
  EXPECT_THAT(done.standard_output, HasSubstr("/sim/470"));
}

TEST_F(Cli, TheMainJobRunsOnEveryCapturedMachineWithSeveralGpus) {
  int machines = 0;
  for (const auto& path : list_directory(testing::corpus() / "captures/smi_xml")) {
    const auto list = json({"list", "--simulate", path.string()});
    ASSERT_TRUE(list.is_object()) << path;
    EXPECT_EQ(list["simulated"], true) << path;
    if (list["gpus"].size() < 2) continue;
    ++machines;
    const bool mig = list["gpus"][0]["mig"]["enabled"] == true;
    const auto done = run({"run", "--simulate", path.string(), "-n", "2", "--share", "--nproc-per-node", "gpu", "--",
                           "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"});
    EXPECT_EQ(done.exit_code, mig ? 1 : 0) << path << done.standard_error;
    EXPECT_EQ(done.standard_output.contains("[rank 1] GPU-"), !mig) << path;
  }
  EXPECT_GT(machines, 0);
}

constexpr std::string_view kTable =
    "| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4     |\n"
    "|   0  NVIDIA L4                      On  | 00000000:00:03.0 Off |                    0 |\n"
    "| N/A   45C    P0              28W /  72W |   1200MiB / 23034MiB |     12%      Default |\n"
    "|   1  NVIDIA L4                      On  | 00000000:00:04.0 Off |                    0 |\n"
    "| N/A   35C    P8              12W /  72W |      1MiB / 23034MiB |      0%      Default |\n"
    "| Processes:                                                                            |\n"
    "|    0   N/A  N/A      4242      C   python                                    1190MiB |\n";

TEST_F(Cli, ACaptureStandsForTheMachine) {
  const std::string table = file("table.txt", std::string(kTable));
  const auto list = run({"list", "--from", table});
  EXPECT_EQ(list.exit_code, 0) << list.standard_error;
  EXPECT_TRUE(list.standard_output.starts_with("FROM " + table + ": nvidia-smi\ndriver 550.54.15  CUDA 12.4"));
  const auto select = run({"select", "--from", table});
  EXPECT_EQ(select.standard_output, "1\n") << "GPU 0 is in use; without a UUID the index names the other";
  EXPECT_THAT(select.standard_error, HasSubstr("judged from " + table));
  expect_error({"select", "--from", table, "-n", "2"}, 1, "in use by ? (pid 4242: python)");
  expect_error({"list", "--from", table, "--simulate", "t4x1"}, 2, "--from and --simulate");
  expect_error({"list", "--from", file("prose.txt", "hello\n")}, 2,
               "a line of text, nothing in it is output of nvidia-smi");
  expect_error({"list", "--from", "/nowhere.txt"}, 2, "/nowhere.txt");
  const auto names = file("names.txt", "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1)\n");
  expect_error({"select", "--from", names, "--min-free-memory", "10GiB"}, 1, "its memory is unknown");
  const auto csv = file("busy.csv", "index, name, utilization.gpu [%], memory.used [MiB]\n0, NVIDIA L4, 97 %, 5 MiB\n");
  EXPECT_THAT(run({"list", "--from", csv}).standard_output, HasSubstr("in use")) << "by whom the file does not say";
}

TEST_F(Cli, ACaptureWithoutAnyGpuIsToldAndIsNoSuccess) {
  const auto log = file("dmesg.txt", "[ 12.5] NVRM: Xid (PCI:0000:17:00): 79, pid=77, GPU has fallen off the bus.\n");
  const auto done = run({"list", "--from", log});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.standard_output, ::testing::HasSubstr("Xid 79 at 0000:17:00"));
  EXPECT_THAT(done.standard_error, ::testing::HasSubstr("there is no GPU in " + log + ": kernel log"));
}

TEST_F(Cli, SelectingFromACaptureLeavesThisMachinesLeasesAlone) {
  const std::string table = file("table.txt", std::string(kTable));
  const auto leases = dir_ / "no-leases-yet";
  environment_["GPUWARDEN_LEASE_DIR"] = leases.string();
  EXPECT_EQ(run({"select", "--from", table}).standard_output, "1\n");
  EXPECT_FALSE(std::filesystem::exists(leases));
  expect_error({"select", "--interactive", "--from", "-"}, 2, "--interactive and --from -");
}

TEST_F(Cli, ASnapshotReadsBackWithoutLoss) {
  const std::string first = (dir_ / "first.json").string();
  ASSERT_EQ(run({"snapshot", "--simulate", "a100-40x8-mig", "-o", first}).exit_code, 0);
  const std::string text = read_file(first).value_or("");
  EXPECT_EQ(run({"snapshot", "--from", first}).standard_output, text);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["gpus"].size(), 8U);
  EXPECT_FALSE(json["links"].empty());
}

TEST_F(Cli, AnyCaptureThatNamesItsGpusBecomesASimulatedFleet) {
  const auto list = json({"list", "--simulate", file("table.txt", std::string(kTable))});
  ASSERT_EQ(list["gpus"].size(), 2U);
  EXPECT_EQ(list["simulated"], true);
  EXPECT_EQ(list["gpus"][0]["temperature_celsius"], 45);
  EXPECT_EQ(list["gpus"][0]["processes"][0]["pid"], 4242);
  EXPECT_FALSE(list["gpus"][0]["clocks"]["sm_megahertz"].is_null()) << "what the table does not show the model has";
  expect_error({"list", "--simulate", file("topo.txt", "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n")}, 2,
               "does not say what its GPUs are");
}

TEST_F(Cli, NoCommandHasAnOptionTwice) {
  std::size_t commands = 0;
  const std::string overview = run({"help"}).standard_output;
  for (const auto row : split(overview, '\n')) {
    // "  list       show the GPUs: ..."
    if (!row.starts_with("  ") || row.starts_with("   ")) continue;
    const std::string command(split_words(row).at(0));
    ++commands;
    std::set<std::string> seen;
    const std::string help = run({command, "--help"}).standard_output;
    for (const auto line : split(help, '\n')) {
      if (!line.starts_with("  -")) continue;
      // "  -n --num-gpus N|MIN:MAX        how many GPUs", "  --wait[=DURATION] ..."
      for (const auto word : split_words(line)) {
        if (!word.starts_with('-')) break;
        const std::string name(word.substr(0, word.find_first_of("[=")));
        EXPECT_TRUE(seen.insert(name).second) << command << ' ' << name;
      }
    }
  }
  EXPECT_GE(commands, 15U);
}

TEST_F(Cli, ActionsTakeTheirOwnOperandsAlone) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"memory", "status", "x"},
                                                {"sim", "list", "x"},
                                                {"driver", "history", "x"},
                                                {"slurm", "nodes", "x"},
                                                {"env", "check", "x"}})
    expect_error(words, 2, words[0] + " " + words[1] + ": unexpected argument 'x'");
  EXPECT_THAT(run({"sim", "stop", "lab", "--json"}).standard_error,
              AllOf(HasSubstr("sim stop prints no JSON"), HasSubstr("sim list, show, start do")));
  expect_error({"slurm", "follow", "1", "--json"}, 2, "slurm follow prints no JSON");
}

TEST_F(Cli, WhatMeansNothingWithSlurmIsToldBeforeItIsAsked) {
  const auto refused = [&](std::vector<std::string> words, const std::string& what) {
    words.insert(words.begin(), {"run", "--slurm"});
    words.insert(words.end(), {"--", "true"});
    expect_error(words, 2, what);
  };
  refused({"--checkpoint", "x"}, "--slurm and --checkpoint mean nothing together");
  refused({"--probation", "1m"}, "--slurm and --probation mean nothing together");
  refused({"--priority", "1"}, "--slurm and --priority mean nothing together");
  refused({"-n", "2:4"}, "--slurm and a range of --num-gpus mean nothing together");
  refused({"--nproc-per-node", "2:4"}, "--slurm and a range of --nproc-per-node mean nothing together");
  refused({"--signal", "USR1@60", "--time-limit", "1h"}, "--slurm, --signal and --time-limit mean nothing together");
}

}  // namespace
}  // namespace gpuwarden
