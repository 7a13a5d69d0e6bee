// SPDX-License-Identifier: Apache-2.0
// gpuwarden snapshot and doctor on the software of a tree of files, as a user meets them.
#include <algorithm>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"

namespace gpuwarden {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Program;

class SurveyCli : public Program {
 protected:
  SurveyCli() {
    // A machine whose driver was upgraded without a reboot, with a folder in CUDA_HOME's usual place.
    put("proc/sys/kernel/osrelease", "6.1.0-28-amd64\n");
    put("etc/os-release", "ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
    put("sys/module/nvidia/version", "535.183.01\n");
    put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Thu\n");
    put("proc/modules", "nvidia_uvm 1 0 - Live 0x0\nnvidia 2 1 nvidia_uvm, Live 0x0\n");
    put("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.90.07", "");
    std::filesystem::create_symlink("libnvidia-ml.so.550.90.07", root() / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1");
    put("usr/local/cuda/version.json", R"({"cuda_nvcc":{"version":"12.4.131"}})");
    put("usr/local/cuda/bin/nvcc", "#!/bin/sh\ntouch /tmp/never\n");
    put("root/.venv/pyvenv.cfg", "version = 3.11.2\n");
    put("root/.venv/lib/python3.11/site-packages/torch-2.5.1.dist-info/METADATA", "");
  }
  void put(const std::string& path, std::string_view content) const { testing::put(root() / path, content); }
  std::filesystem::path root() const { return dir_ / "image"; }
  nlohmann::json snapshot(std::vector<std::string> more = {}) const {
    std::vector<std::string> words{"snapshot", "--root", root().string(), "--timeout", "60s"};
    words.insert(words.end(), more.begin(), more.end());
    const auto done = run(words);
    EXPECT_EQ(done.exit_code, 0) << done.standard_error;
    return nlohmann::json::parse(done.standard_output, nullptr, false);
  }
};

TEST_F(SurveyCli, SnapshotHasTheSoftwareBelowARoot) {
  const auto environment = snapshot()["environment"];
  EXPECT_EQ(environment["driver"]["loaded_version"], "535.183.01");
  EXPECT_EQ(environment["driver"]["library_version"], "550.90.07");
  EXPECT_EQ(environment["toolkits"][0]["version"], "12.4.131");
  EXPECT_EQ(environment["toolkits"][0]["active"], true);
  EXPECT_EQ(environment["toolkits"][0]["architectures"], nlohmann::json::array()) << "nothing in it is started";
  EXPECT_EQ(environment["pythons"][0]["path"], "/root/.venv");
  EXPECT_EQ(environment["host"]["distribution"], "debian");
  EXPECT_TRUE(environment["host"]["memlock_limit_bytes"].is_null()) << "that would be this machine's";
}

TEST_F(SurveyCli, TheCallersVariablesAreNotTheImages) {
  environment_["CUDA_VISIBLE_DEVICES"] = "7";
  environment_["VIRTUAL_ENV"] = "/root/other";
  const std::string text = snapshot()["environment"]["variables"].dump();
  EXPECT_THAT(text, Not(HasSubstr("CUDA_VISIBLE_DEVICES")));
  EXPECT_THAT(text, Not(HasSubstr("VIRTUAL_ENV")));
}

TEST_F(SurveyCli, WithoutEnvironmentThereIsNone) {
  EXPECT_TRUE(snapshot({"--no-environment"})["environment"].is_null());
}

TEST_F(SurveyCli, ASnapshotOfARootIsReadBackByDoctor) {
  const std::string saved = file("box.json", snapshot().dump());
  const auto here = json({"doctor", "--root", root().string(), "--timeout", "60s"});
  const auto there = json({"doctor", "--from", saved});
  ASSERT_TRUE(here["findings"].is_array());
  EXPECT_EQ(here["findings"], there["findings"]);
}

TEST_F(SurveyCli, DoctorJudgesTheRoot) {
  const auto findings = json({"doctor", "--root", root().string(), "--timeout", "60s"})["findings"];
  const auto mismatch = std::ranges::find_if(findings, [](const auto& finding) {
    return finding.dump().contains("535.183.01") && finding.dump().contains("550.90.07");
  });
  EXPECT_NE(mismatch, findings.end()) << findings.dump(1);
  const auto done = run({"doctor", "--root", root().string(), "--timeout", "60s"});
  EXPECT_THAT(done.standard_output, HasSubstr("FROM " + std::filesystem::canonical(root()).string()));
}

TEST_F(SurveyCli, ARootThatIsNoFolderIsAMistake) {
  expect_error({"snapshot", "--root", (dir_ / "none").string()}, 2, "is not a directory");
  expect_error({"doctor", "--root", file("a-file", "")}, 2, "is not a directory");
}

TEST_F(SurveyCli, AnEmptyRootIsSurveyedToo) {
  std::filesystem::create_directories(dir_ / "empty");
  const auto done = run({"snapshot", "--root", (dir_ / "empty").string(), "--timeout", "60s"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  const auto environment = nlohmann::json::parse(done.standard_output)["environment"];
  EXPECT_THAT(environment["toolkits"], IsEmpty());
  EXPECT_TRUE(environment["driver"]["loaded_version"].is_null());
}

}  // namespace
}  // namespace gpuwarden
