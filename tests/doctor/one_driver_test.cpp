// SPDX-License-Identifier: Apache-2.0
// However many findings ask for another driver, a report recommends one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <re2/re2.h>

#include <array>
#include <chrono>
#include <set>

#include "doctor/machines.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::testing {
namespace {

using facts::Snapshot;

/// The healthy machine as a report tells of it.
Snapshot machine_of_report() {
  Snapshot machine = healthy_machine();
  machine.origin = "report.txt";
  return machine;
}

/// What makes findings ask for a driver; each leaves the others possible.
constexpr auto kTroubles = std::to_array<void (*)(Snapshot&)>({
    [](Snapshot& machine) { machine.taken_at = std::chrono::sys_days{std::chrono::year(2026) / 11 / 1}; },
    [](Snapshot& machine) { use_torch(machine, "2.9.1+cu130", "13.0", "0.24.1"); },
    [](Snapshot& machine) { add_package(machine, "vllm", "0.20.0"); },
    [](Snapshot& machine) { software(machine).toolkits.front().version = "13.1.80"; },
    [](Snapshot& machine) { software(machine).messages.push_back({"container_needs_cuda", "", "13.2", 3}); },
    [](Snapshot& machine) { software(machine).messages.push_back({"cuda_error", "", "35", 4}); },
    [](Snapshot& machine) { software(machine).messages.push_back({"ptx_unsupported", "", "", 5}); },
    [](Snapshot& machine) { software(machine).messages.push_back({"driver_too_old", "", "12020", 6}); },
    [](Snapshot& machine) { software(machine).messages.push_back({"nvrm_legacy_branch", "", "470.256.02", 7}); },
    [](Snapshot& machine) { software(machine).messages.push_back({"nvrm_open_needed", "", "", 8}); },
    [](Snapshot& machine) { machine.gpus[0].gpu.name = "NVIDIA B200"; },
    [](Snapshot& machine) { machine.gpus[0].gpu.name = "Tesla P100-PCIE-16GB"; },
    [](Snapshot& machine) { use_driver(machine, "595.45.04"); },
    [](Snapshot& machine) { use_driver(machine, "620.10.01"); },
});

/// "580" of each place that names a branch, "own" where the distribution's own is taken.
std::set<std::string> drivers_named(const Snapshot& machine) {
  std::set<std::string> named;
  for (const auto& finding : examined(machine, "torch==2.9.1").findings) {
    for (const std::string& step : finding.fix) {
      if (step == "gpuwarden driver plan" || step.contains("ubuntu-drivers")) named.insert("own");
      for (const std::string_view before : {"--branch ", "nvidia-driver-", "nvidia-driver:", "of branch "}) {
        const std::size_t at = step.find(before);
        if (at == std::string::npos) continue;
        const std::string_view rest = std::string_view(step).substr(at + before.size());
        named.emplace(rest.substr(0, rest.find_first_not_of("0123456789")));
      }
    }
  }
  return named;
}

/// The branches that steps name and driver_branches.csv has not.
std::string unknown_branches(const Snapshot& machine) {
  static const re2::RE2 kBranch("(?:branch |nvidia-driver[-:]|pinning-|default>=)([0-9]+)");
  std::string unknown;
  const std::string steps = fixes_of(machine, "torch==2.9.1");
  re2::StringPiece rest(steps);
  int branch = 0;
  while (re2::RE2::FindAndConsume(&rest, kBranch, &branch)) {
    if (knowledge::Knowledge::built_in().branch(branch) == nullptr) unknown += std::to_string(branch) + " of " + steps;
  }
  return unknown;
}

TEST(OneDriver, IsRecommendedByAllFindingsOfAReport) {
  std::size_t with_a_driver = 0;
  for (const std::string_view origin : {"", "report.txt"}) {
    for (std::size_t pair = 0; pair < kTroubles.size() * kTroubles.size(); ++pair) {
      const std::size_t first = pair / kTroubles.size();
      const std::size_t second = pair % kTroubles.size();
      Snapshot machine = healthy_machine();
      machine.origin = origin;
      use_driver(machine, "535.183.01");
      kTroubles.at(first)(machine);
      kTroubles.at(second)(machine);
      const auto named = drivers_named(machine);
      EXPECT_LE(named.size(), 1U) << origin << ' ' << first << ' ' << second << '\n' << fixes_of(machine);
      EXPECT_EQ(unknown_branches(machine), "") << origin << ' ' << first << ' ' << second;
      with_a_driver += named.size();
    }
  }
  EXPECT_GT(with_a_driver, 200U);
}

TEST(OneDriver, IsTheOneThatTheMostDemandingFindingNeeds) {
  Snapshot machine = healthy_machine();
  remove_cuda_software(machine);
  use_driver(machine, "535.183.01");
  machine.taken_at = std::chrono::sys_days{std::chrono::year(2026) / 11 / 1};
  software(machine).messages.push_back({"container_needs_cuda", "", "13.2", 3});
  EXPECT_THAT(drivers_named(machine), ::testing::ElementsAre("595")) << fixes_of(machine);
  EXPECT_THAT(titles_of(machine), ::testing::HasSubstr("branch 595 does")) << "the title names it, too";
}

TEST(OneDriver, IsNoneThatTheGpusCannotUse) {
  Snapshot machine = machine_of_report();
  software(machine).messages.push_back({"nvrm_legacy_branch", "", "470.256.02", 7});
  software(machine).messages.push_back({"container_needs_cuda", "", "13.2", 3});
  EXPECT_THAT(fixes_of(machine), ::testing::HasSubstr("no driver for these GPUs runs CUDA 13.2"));
  EXPECT_THAT(drivers_named(machine), ::testing::ElementsAre("470")) << fixes_of(machine);
}

TEST(OneDriver, IsNoBranchThatDoesNotExist) {
  for (const std::string_view origin : {"", "report.txt"}) {
    for (const std::string_view driver : {"595.45.04", "610.43.02", "620.10.01", "640.10.01"}) {
      Snapshot machine = healthy_machine();
      machine.origin = origin;
      use_driver(machine, std::string(driver));
      software(machine).messages.push_back({"ptx_unsupported", "", "", 5});
      EXPECT_THAT(fixes_of(machine), ::testing::HasSubstr("no driver branch that new is recommended yet")) << driver;
      EXPECT_THAT(drivers_named(machine), ::testing::IsEmpty()) << fixes_of(machine);
    }
  }
}

TEST(OneDriver, IsNotSoughtByOthersWhereOneFindingsIsNotKnown) {
  Snapshot machine = machine_of_report();
  use_driver(machine, "595.45.04");
  software(machine).messages.push_back({"ptx_unsupported", "", "", 5});
  software(machine).messages.push_back({"nvrm_open_needed", "", "", 8});
  EXPECT_THAT(fixes_of(machine), ::testing::HasSubstr("no driver branch that new is recommended yet"));
  EXPECT_THAT(drivers_named(machine), ::testing::ElementsAre("595")) << "the module alone is another";
}

TEST(OneDriver, IsNoneWhereTheNewestThatIsNeededServesNotEveryGpu) {
  Snapshot machine = machine_of_report();
  use_driver(machine, "535.183.01");
  machine.taken_at = std::chrono::sys_days{std::chrono::year(2026) / 11 / 1};
  software(machine).messages.push_back({"nvrm_legacy_branch", "", "470.256.02", 7});
  EXPECT_THAT(fixes_of(machine),
              ::testing::HasSubstr("no one driver serves both: one newer than branch 535 is needed here, "
                                   "and 470 is the last for a GPU"));
  EXPECT_THAT(titles_of(machine), ::testing::HasSubstr("driver branch 535 gets no more fixes since 2026-06\n"))
      << "470 gets none either";
  EXPECT_THAT(drivers_named(machine), ::testing::ElementsAre("470")) << fixes_of(machine);
}

TEST(OneDriver, IsNoneBehindTheLastOfTheGpus) {
  Snapshot machine = healthy_machine();
  machine.gpus[0].gpu.name = "Tesla V100-SXM2-16GB";
  machine.gpus[0].gpu.compute_capability = facts::ComputeCapability{7, 0};
  machine.gpus[0].gpu.pci_device_id.reset();
  use_driver(machine, "580.105.08");
  software(machine).messages.push_back({"ptx_unsupported", "", "", 5});
  EXPECT_THAT(fixes_of(machine), ::testing::HasSubstr("no one driver serves both: one newer than branch 580 is needed "
                                                      "here, and 580 is the last for a GPU"));
}

TEST(OneDriver, IsOlderThanTheInstalledOneWhereNothingNeedsThat) {
  Snapshot machine = machine_of_report();
  use_driver(machine, "580.105.08");
  software(machine).messages.push_back({"dkms_build_failed", "", "6.8.0-45-generic", 3});
  software(machine).messages.push_back({"nvrm_legacy_branch", "", "470.256.02", 7});
  EXPECT_THAT(drivers_named(machine), ::testing::ElementsAre("470")) << fixes_of(machine);
  EXPECT_THAT(fixes_of(machine), ::testing::Not(::testing::HasSubstr("no one driver")))
      << "the build asks for no branch";
}

TEST(OneDriver, IsNoneWhereGpusNeedDifferentModules) {
  Snapshot machine = machine_of_report();
  use_driver(machine, "535.183.01");
  software(machine).messages.push_back({"nvrm_legacy_branch", "", "470.256.02", 7});
  software(machine).messages.push_back({"nvrm_open_needed", "", "", 8});
  EXPECT_THAT(fixes_of(machine), ::testing::HasSubstr("no one driver serves both: a GPU needs the proprietary kernel "
                                                      "module, and another the open one"));
  EXPECT_THAT(drivers_named(machine), ::testing::IsEmpty()) << fixes_of(machine);
}

}  // namespace
}  // namespace gpuwarden::testing
