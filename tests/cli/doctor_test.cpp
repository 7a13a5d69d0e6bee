// SPDX-License-Identifier: Apache-2.0
// gpuwarden doctor as a user meets it: exit codes, scripts, JUnit, options that cannot be used together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "support/patience.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kReport =
    "PyTorch version: 2.9.1+cu130\n"
    "Is debug build: False\n"
    "CUDA used to build PyTorch: 13.0\n"
    "\n"
    "OS: Ubuntu 22.04.4 LTS (x86_64)\n"
    "GCC version: (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0\n"
    "Libc version: glibc-2.35\n"
    "\n"
    "Python version: 3.11.9 (main, Apr  6 2024, 17:59:24) [GCC 11.4.0] (64-bit runtime)\n"
    "Is CUDA available: False\n"
    "CUDA runtime version: 12.4.131\n"
    "GPU models and configuration: GPU 0: NVIDIA H100 80GB HBM3\n"
    "Nvidia driver version: 550.54.15\n"
    "\n"
    "Versions of relevant libraries:\n"
    "[pip3] numpy==1.26.4\n"
    "[pip3] torch==2.9.1+cu130\n";

class DoctorCommand : public Program {
 protected:
  std::string report() const { return file("report.txt", kReport); }
};

TEST_F(DoctorCommand, NamesTheOneThingToDoFirstAndFailsOnErrors) {
  const auto done = run({"doctor", "--from", report()});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.standard_output, HasSubstr("incompatible: 1 error"));
  EXPECT_THAT(done.standard_output, HasSubstr("\nFirst: sudo apt update && sudo apt install nvidia-driver-580-open\n"));
  EXPECT_THAT(done.standard_output, HasSubstr("[torch-needs-newer-driver]"));
  EXPECT_EQ(run({"doctor", "--from", report(), "--fail-on", "critical"}).exit_code, 0);
  EXPECT_EQ(run({"doctor", "--from", report(), "--skip", "frameworks"}).exit_code, 0);
}

TEST_F(DoctorCommand, JsonSaysWhatTheTextSays) {
  const auto json = this->json({"doctor", "--from", report()});
  EXPECT_EQ(json["overall"], "incompatible");
  EXPECT_EQ(json["areas"]["frameworks"], "incompatible");
  EXPECT_EQ(json["areas"]["cluster"], "not_judged");
  ASSERT_FALSE(json["findings"].empty());
  EXPECT_EQ(json["findings"][0]["id"], "torch-needs-newer-driver");
  EXPECT_EQ(json["findings"][0]["severity"], "error");
}

TEST_F(DoctorCommand, TheScriptOfFixesIsAScript) {
  const std::string evil = file("evil.txt", std::string(kReport) + "[pip3] vllm==0.11.0\n");
  const auto done = run({"doctor", "--from", evil, "--fix"});
  EXPECT_EQ(done.exit_code, 1);
  const std::string script = file("fix.sh", done.standard_output);
  const auto parsed = run_patiently({.argv = {"sh", "-n", script}});
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->exit_code, 0) << parsed->standard_error << done.standard_output;
  const auto sick = run({"doctor", "--simulate", "h100x8-sick", "--fix"});
  const auto sick_parsed = run_patiently({.argv = {"sh", "-n", file("sick.sh", sick.standard_output)}});
  ASSERT_TRUE(sick_parsed.has_value());
  EXPECT_EQ(sick_parsed->exit_code, 0) << sick_parsed->standard_error << sick.standard_output;
  EXPECT_THAT("\n" + sick.standard_output, Not(HasSubstr("\nsudo reboot")));
}

TEST_F(DoctorCommand, JunitCountsWhatRan) {
  const std::string junit = (dir_ / "junit.xml").string();
  EXPECT_EQ(
      run({"doctor", "--from", report(), "--only", "torch-needs-newer-driver", "gpu-lost", "--junit", junit}).exit_code,
      1);
  const std::string text = read_file(junit).value_or("");
  EXPECT_THAT(text, HasSubstr("<testsuites name=\"gpuwarden doctor\" tests=\"2\" failures=\"1\">"));
  EXPECT_THAT(text, HasSubstr("<testsuite name=\"device\" tests=\"1\" failures=\"0\" skipped=\"0\">"));
  EXPECT_THAT(text, HasSubstr("name=\"torch-needs-newer-driver\"><failure type=\"error\""));
}

TEST_F(DoctorCommand, WhatIsNotKnownIsNotJudged) {
  const auto json = this->json({"doctor", "--from", report(), "--only", "cluster"});
  EXPECT_EQ(json["overall"], "not_judged");
}

TEST_F(DoctorCommand, WithoutGpuAndDriverThereIsNoVerdictAndNoFailure) {
  const auto report = file("software.txt", "PyTorch version: 2.5.1\nIs CUDA available: False\n");
  const auto done = run({"doctor", "--from", report, "--only", "no-gpu"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr("not judged: 1 note"));
  EXPECT_THAT(done.standard_output, HasSubstr("no GPU and no NVIDIA driver is seen"));
  EXPECT_EQ(run({"doctor", "--from", report, "--only", "no-gpu", "--fail-on", "info"}).exit_code, 1);
}

TEST_F(DoctorCommand, OptionsThatDoNotGoTogetherAreTold) {
  expect_error({"doctor", "--fix", "--json"}, 2, "--fix and --json cannot be used together");
  expect_error({"doctor", "--apply"}, 2, "--apply needs --fix");
  expect_error({"doctor", "--yes"}, 2, "--yes needs --fix --apply");
  expect_error({"doctor", "--simulate", "h100x8", "--root", "/"}, 2, "--simulate and --root cannot be used together");
  expect_error({"doctor", "--root", (dir_ / "absent").string()}, 2, "/absent' is not a directory");
  expect_error({"doctor", "--only", "gpu-lots"}, 2, "unknown check or area 'gpu-lots'");
  expect_error({"doctor", "--fail-on", "sometimes"}, 2, "unknown severity 'sometimes'");
  expect_error({"doctor", "word"}, 2, "doctor: unexpected argument 'word'");
}

TEST_F(DoctorCommand, AMachineIsHeldAgainstAnInventory) {
  const std::string rack = file("rack.yaml", "gpus: {count: 8, model: H100, memory_gb: 80}\n");
  const auto fine = run({"doctor", "--simulate", "h100x8", "--only", "cluster", "--expect", rack});
  EXPECT_EQ(fine.exit_code, 0) << fine.standard_output;
  const auto lacking = run({"doctor", "--simulate", "h100x16", "--only", "cluster", "--expect", rack, "--json"});
  EXPECT_EQ(lacking.exit_code, 1);
  EXPECT_THAT(lacking.standard_output, HasSubstr("8 H100 GPUs are expected, 16 found"));
  EXPECT_THAT(lacking.standard_output, HasSubstr("expected:count"));
  expect_error({"doctor", "--simulate", "h100x8", "--expect", file("bad.yaml", "gpus: {modle: H100}\n")}, 2,
               "bad.yaml:1:");
}

TEST_F(DoctorCommand, ALogWithoutFactsIsHandedOver) {
  const std::string log = file("run.log",
                               "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a "
                               "total capacity of 79.15 GiB of which 5.25 MiB is free.\n");
  expect_error({"list", "--from", log}, 2, "a log of a failure");
}

TEST_F(DoctorCommand, ComparingNamesTheOddOneOut) {
  const auto snapshot = [&](const std::string& name, const std::string& fleet) {
    const std::string path = (dir_ / name).string();
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    EXPECT_EQ(run({"snapshot", "--simulate", fleet, "-o", path}).exit_code, 0);
    return path;
  };
  const std::string one = snapshot("a/node.json", "h100x8");
  const std::string two = snapshot("b/node.json", "h100x8");
  const std::string odd = snapshot("odd.json", "a100x4");
  const auto done = run({"doctor", "--compare", one, two, odd});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.standard_output, HasSubstr("The odd one out is odd.\n"));
  EXPECT_THAT(done.standard_output, HasSubstr(one)) << "machines of one name are told apart";
}

TEST_F(DoctorCommand, ACutReportIsTold) {
  const std::string whole =
      "<?xml version=\"1.0\" ?>\n<nvidia_smi_log>\n<driver_version>550.54.15</driver_version>\n"
      "<cuda_version>12.4</cuda_version>\n<gpu id=\"00000000:17:00.0\">\n"
      "<product_name>NVIDIA H100 80GB HBM3</product_name>\n<uuid>GPU-1</uuid>\n";
  const auto done = run({"doctor", "--from", file("cut.xml", whole)});
  EXPECT_THAT(done.standard_error, HasSubstr("nvidia-smi's XML is cut"));
}

TEST_F(DoctorCommand, APipeIsReadToItsEnd) {
  const std::string command = "\"$0\" doctor --from <(sleep 0.3; cat \"$1\") --json";
  const auto done =
      run_patiently({.argv = {"bash", "-c", command, GPUWARDEN_PROGRAM, report()}, .environment = environment_});
  ASSERT_TRUE(done.has_value());
  EXPECT_THAT(done->standard_output, HasSubstr("torch-needs-newer-driver")) << done->standard_error;
}

}  // namespace
}  // namespace gpuwarden::testing
