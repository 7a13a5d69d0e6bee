// SPDX-License-Identifier: Apache-2.0
// gpuwarden driver, on captures, simulated fleets and test roots; nothing is applied here (scripts/driver_test.sh).
#include "cli/program.hpp"
#include "support/http_server.hpp"
#include "support/patience.hpp"

namespace gpuwarden {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kPascal = "GPU 0: Tesla P100-PCIE-16GB (UUID: GPU-aaaaaaaa-1111-2222-3333-444444444440)\n";

class DriverCommand : public testing::Program {
 protected:
  /// A Debian 12 with Debian's R535 for an H100.
  std::string debian_root() const {
    const auto root = dir_ / "root";
    testing::put(root / "etc/os-release", "ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n");
    testing::put(root / "var/lib/dpkg/status",
                 "Package: nvidia-driver\nStatus: install ok installed\nMaintainer: Debian <x@example.org>\n"
                 "Version: 535.183.01-1~deb12u1\n\n");
    for (const auto& [file, text] :
         {std::pair("vendor", "0x10de\n"), std::pair("device", "0x2330\n"), std::pair("class", "0x030200\n")})
      testing::put(root / "sys/bus/pci/devices/0000:18:00.0" / file, text);
    return root.string();
  }
};

TEST_F(DriverCommand, RecommendsForACapture) {
  const std::string capture = file("p100.txt", kPascal);
  const auto done = run({"driver", "recommend", "--from", capture});
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_THAT(done.standard_output, AllOf(HasSubstr("R580, proprietary kernel module"),
                                          HasSubstr("R580 is the last branch for Tesla P100-PCIE-16GB")));
  const auto answer = json({"driver", "recommend", "--from", capture, "--cuda", "12.8"});
  EXPECT_EQ(answer["branch"], 580);
  EXPECT_TRUE(answer["at_least"].get<std::string>().starts_with("570."));
  EXPECT_EQ(answer["flavour"], "proprietary");
  EXPECT_EQ(answer["schema"], 1);
  EXPECT_EQ(answer["simulated"], false);
}

TEST_F(DriverCommand, RecommendsForAPurposeOnASimulatedFleet) {
  const auto answer = json({"driver", "recommend", "--simulate", "h100x8", "--for", "pytorch==2.7.0+cu128"});
  EXPECT_GE(answer["lowest"], 570);
  EXPECT_EQ(answer["flavour"], "open");
  EXPECT_EQ(answer["simulated"], true);
}

TEST_F(DriverCommand, ShowsTheStateOfARoot) {
  const auto done = run({"driver", "status", "--root", debian_root(), "--timeout", "60s"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.standard_output, AllOf(HasSubstr("535.183.01"), HasSubstr("the distribution's packages"),
                                          HasSubstr("installed, but not loaded")));
  const auto status = json({"driver", "status", "--root", debian_root(), "--timeout", "60s"});
  EXPECT_EQ(status["branch"], 535);
  EXPECT_EQ(status["packaging"], "distribution");
}

TEST_F(DriverCommand, PlansWithoutAnyWord) {
  const auto done = run({"driver", "--root", debian_root(), "--timeout", "60s"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output,
              AllOf(HasSubstr("535.183.01 (the distribution's packages) -> R580, open module"), HasSubstr("1 record"),
                    HasSubstr("NVIDIA H100 80GB HBM3"), HasSubstr("gpuwarden driver apply")));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "root/var/lib/gpuwarden"));
}

TEST_F(DriverCommand, PrintsAScriptToReview) {
  const auto done = run({"driver", "plan", "--script", "--root", debian_root(), "--timeout", "60s"});
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_TRUE(done.standard_output.starts_with("#!/bin/sh\n"));
  const std::string script = file("plan.sh", done.standard_output);
  EXPECT_EQ(testing::run_patiently({.argv = {"sh", "-n", script}})->exit_code, 0);
}

TEST_F(DriverCommand, GivesThePlanAsJson) {
  const auto plan = json({"driver", "plan", "--root", debian_root(), "--timeout", "60s", "--branch", "535"});
  EXPECT_EQ(plan["target"]["branch"], 535);
  EXPECT_EQ(plan["steps"][0]["id"], "record");
  EXPECT_TRUE(plan["steps"][0]["commands"].is_string());
  EXPECT_FALSE(plan["checks"].empty());
}

TEST_F(DriverCommand, TakesTheVersionFromTheNameOfARunFile) {
  const auto plan = json({"driver", "plan", "--root", debian_root(), "--timeout", "60s", "--runfile",
                          "/root/NVIDIA-Linux-x86_64-570.133.20.run"});
  EXPECT_EQ(plan["target"]["branch"], 570);
  EXPECT_EQ(plan["target"]["packaging"], "runfile");
  EXPECT_THAT(plan["to"].get<std::string>(), HasSubstr("570.133.20"));
}

TEST_F(DriverCommand, HasNoHistoryAtFirst) {
  EXPECT_THAT(run({"driver", "history", "--root", debian_root()}).standard_output, HasSubstr("no driver was changed"));
  EXPECT_TRUE(json({"driver", "history", "--root", debian_root()})["runs"].empty());
}

TEST_F(DriverCommand, RefusesADamagedHistory) {
  const std::string root = debian_root();
  testing::put(dir_ / "root/var/lib/gpuwarden/driver/journal.jsonl", "x\ny\n");
  expect_error({"driver", "history", "--root", root}, 2, "journal of driver runs is damaged");
}

TEST_F(DriverCommand, AppliesNothingToACapture) {
  expect_error({"driver", "apply", "--yes", "--from", file("p100.txt", kPascal)}, 1,
               "neither dpkg nor rpm was found in the capture");
  expect_error({"driver", "plan", "--simulate", "h100x8"}, 1,
               "neither dpkg nor rpm was found on the simulated machine, whose software is not known");
  expect_error({"driver", "apply", "--yes", "--packaging", "runfile", "--runfile", "/x.run", "--from",
                file("p100.txt", kPascal)},
               2, "cannot be applied");
}

TEST_F(DriverCommand, PreparesAScriptForAMachineElsewhere) {
  const auto done =
      run({"driver", "plan", "--script", "--simulate", "h100x8", "--distribution", "ubuntu:22.04", "--branch", "580"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, AllOf(HasSubstr("apt"), HasSubstr("580")));
  const auto other =
      run({"driver", "plan", "--script", "--from", file("p100.txt", kPascal), "--distribution", "rhel:9"});
  EXPECT_EQ(other.exit_code, 0) << other.standard_error;
  EXPECT_THAT(other.standard_output, HasSubstr("dnf"));
}

TEST_F(DriverCommand, AsksTheRepositoryWhetherItHasTheVersion) {
  testing::HttpServer server([](const testing::HttpServer::Request& request) {
    return request.path() == "/repos/ubuntu2204/x86_64/Packages"
               ? testing::http_answer(200,
                                      "Package: nvidia-open\nVersion: 580.95.05-0ubuntu1\n\n"
                                      "Package: nvidia-fabricmanager\nVersion: 580.95.05-1\n")
               : testing::http_answer(404, "");
  });
  const std::string mirror = fmt::format("http://127.0.0.1:{}/repos/", server.port());
  const auto state = [&](const std::string& version) {
    const auto plan = json({"driver", "plan", "--simulate", "h100x8", "--distribution", "ubuntu:22.04", "--mirror",
                            mirror, "--packaging", "cuda-repository", "--driver-version", version});
    for (const auto& check : plan["checks"]) {
      if (check["id"] == "repository")
        return check["state"].get<std::string>() + ": " + check["found"].get<std::string>();
    }
    return std::string("no check");
  };
  EXPECT_THAT(state("580.95.05"), HasSubstr("ok: ubuntu2204/x86_64 has nvidia-open 580.95.05"));
  EXPECT_THAT(state("580.999.99"), HasSubstr("failed: ubuntu2204/x86_64 does not have nvidia-open"));
  const auto script = run({"driver", "plan", "--script", "--simulate", "h100x8", "--distribution", "ubuntu:24.04",
                           "--mirror", mirror, "--packaging", "cuda-repository"});
  EXPECT_EQ(script.exit_code, 0) << script.standard_error;
  EXPECT_THAT(script.standard_error, HasSubstr("there is no repository ubuntu2404/x86_64"));
}

TEST_F(DriverCommand, SaysThatTheRepositoryWasNotAsked) {
  const std::vector<std::string> words = {"driver", "plan", "--simulate", "h100x8", "--distribution", "ubuntu:22.04"};
  EXPECT_THAT(run(words).standard_output, HasSubstr("not checked: offline (--offline, GPUWARDEN_OFFLINE)"));
  auto silent = words;
  silent.insert(silent.end(), {"--mirror", "http://127.0.0.1:1/", "--packaging", "cuda-repository"});
  EXPECT_THAT(run(silent).standard_output, HasSubstr("not checked: "));
  auto wrong = words;
  wrong.insert(wrong.end(), {"--mirror", "ftp://x"});
  expect_error(wrong, 2, "--mirror: 'ftp://x' is not a URL");
}

TEST_F(DriverCommand, NamesADistributionOnlyForAMachineElsewhere) {
  expect_error({"driver", "plan", "--distribution", "ubuntu:22.04"}, 2, "--distribution requires --from or --simulate");
  expect_error({"driver", "plan", "--simulate", "h100x8", "--distribution", "beos:5"}, 2,
               "'beos:5' is not a known distribution");
  expect_error({"driver", "plan", "--simulate", "h100x8", "--distribution", "ubuntu:24.4"}, 2,
               "ubuntu 24.4 was never released");
}

TEST_F(DriverCommand, DoubtsABranchThatNoRepositoryConfirmed) {
  for (const char* branch : {"999", "581"}) {
    const auto planned = run(
        {"driver", "plan", "--simulate", "h100x8", "--distribution", "ubuntu:24.04", "--offline", "--branch", branch});
    EXPECT_EQ(planned.exit_code, 1) << branch;
    EXPECT_THAT(planned.standard_error, HasSubstr("is not in the tables")) << branch;
    const auto recommended = run({"driver", "recommend", "--simulate", "h100x8", "--branch", branch});
    EXPECT_EQ(recommended.exit_code, 1) << branch;
    EXPECT_THAT(recommended.standard_output, HasSubstr("is not in the tables")) << branch;
  }
  EXPECT_EQ(run({"driver", "recommend", "--simulate", "h100x8", "--branch", "580"}).exit_code, 0);
}

TEST_F(DriverCommand, RefusesWrongWords) {
  const std::string root = debian_root();
  expect_error({"driver", "upgrade"}, 2, "unknown action 'upgrade'");
  expect_error({"driver", "plan", "now"}, 2, "driver plan: unexpected argument 'now'");
  expect_error({"driver", "plan", "--root", root, "--branch", "new"}, 2, "'new' is not a driver branch");
  expect_error({"driver", "plan", "--root", root, "--driver-version", "580"}, 2, "'580' is not a driver version");
  expect_error({"driver", "plan", "--root", root, "--driver-version", "580.1;reboot"}, 2, "is not a driver version");
  expect_error({"driver", "plan", "--root", root, "--branch", "570", "--driver-version", "580.65.06"}, 2,
               "is not of the branch 570");
  expect_error({"driver", "plan", "--root", root, "--packaging", "snap"}, 2, "unknown value 'snap'");
  expect_error({"driver", "plan", "--root", root, "--module", "free"}, 2, "unknown value 'free'");
  expect_error({"driver", "plan", "--root", root, "--cuda", "new"}, 2, "'new' is not a version");
  expect_error({"driver", "recommend", "--root", root, "--cuda", "12.8beta"}, 2, "'12.8beta' is not a version");
  expect_error({"driver", "recommend", "--root", root, "--cuda", "99"}, 1, "which driver CUDA 99.0 needs");
  expect_error({"driver", "plan", "--root", root, "--force", "processes"}, 2, "--force: 'processes' cannot be forced");
  expect_error({"driver", "plan", "--root", (dir_ / "nowhere").string()}, 2, "is not a directory");
  expect_error({"driver", "recommend", "--root", root, "--branch", "390"}, 2, "too old");
}

}  // namespace
}  // namespace gpuwarden
