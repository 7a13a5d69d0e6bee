// SPDX-License-Identifier: Apache-2.0
// The table of checks as a whole: every row is complete, and every check has a case that makes it speak.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "doctor/groups.hpp"
#include "doctor/machines.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::testing {
namespace {

using doctor::Check;

struct Group {
  std::string_view name;
  std::span<const Check> checks;
  std::span<const Case> cases;
};

std::vector<Group> groups() {
  return {{"driver", doctor::driver_checks(), driver_cases()},
          {"device", doctor::device_checks(), device_cases()},
          {"fault", doctor::fault_checks(), fault_cases()},
          {"health", doctor::health_checks(), health_cases()},
          {"toolkit", doctor::toolkit_checks(), toolkit_cases()},
          {"framework", doctor::framework_checks(), framework_cases()},
          {"serving", doctor::serving_checks(), serving_cases()},
          {"library", doctor::library_checks(), library_cases()},
          {"variable", doctor::variable_checks(), variable_cases()},
          {"container", doctor::container_checks(), container_cases()},
          {"multi_gpu", doctor::multi_gpu_checks(), multi_gpu_cases()},
          {"system", doctor::system_checks(), system_cases()},
          {"cluster", doctor::cluster_checks(), cluster_cases()},
          {"reported", doctor::reported_checks(), reported_cases()},
          {"told", doctor::told_checks(), told_cases()},
          {"purpose", doctor::purpose_checks(), purpose_cases()}};
}

TEST(CheckTable, HoldsAtLeastEightyChecksWithIdsOfTheirOwn) {
  std::set<std::string_view> ids;
  for (const Check& check : doctor::checks()) EXPECT_TRUE(ids.insert(check.id).second) << check.id << " stands twice";
  EXPECT_GE(ids.size(), 80U);
}

TEST(CheckTable, IdsAreKebabCase) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789-";
  for (const Check& check : doctor::checks()) {
    EXPECT_EQ(check.id.find_first_not_of(kAllowed), std::string_view::npos) << check.id;
    EXPECT_FALSE(check.id.starts_with('-') || check.id.ends_with('-') || check.id.contains("--")) << check.id;
    EXPECT_FALSE(doctor::area_from(check.id)) << check.id << " is an area's name too";
  }
}

TEST(CheckTable, EveryRowSaysWhatItLooksAtWhyAndWhoSaysSo) {
  for (const Check& check : doctor::checks()) {
    EXPECT_FALSE(check.looks_at.empty()) << check.id;
    EXPECT_FALSE(check.source.empty()) << check.id;
    EXPECT_NE(check.severity, doctor::Severity::ok) << check.id;
    ASSERT_FALSE(check.why.empty()) << check.id;
    EXPECT_TRUE(check.why.ends_with('.')) << check.id << ": " << check.why;
    EXPECT_TRUE(check.link.empty() || check.link.starts_with("https://")) << check.id << ": " << check.link;
  }
}

TEST(CheckTable, OnlyChecksExplainChecks) {
  for (const Check& check : doctor::checks()) {
    for (const auto cause : split_words(check.explained_by)) {
      EXPECT_NE(doctor::find_check(cause), nullptr) << check.id << " is explained by " << cause;
      EXPECT_NE(cause, check.id) << "a check does not explain itself";
    }
  }
}

TEST(CheckTable, WhatChoosesAToolkitIsAmongTheChecks) {
  const doctor::Choice choice = doctor::toolkit_choice();
  EXPECT_GE(choice.only.size(), 10U);
  EXPECT_TRUE(validate(choice, knowledge::Knowledge::built_in()).has_value());
  for (const std::string& id : choice.only) EXPECT_NE(doctor::find_check(id), nullptr) << id;
}

TEST(CheckTable, EveryCheckHasACaseInItsGroup) {
  for (const Group& group : groups()) {
    for (const Check& check : group.checks)
      EXPECT_NE(std::ranges::find(group.cases, check.id, &Case::id), group.cases.end())
          << check.id << " has no case among those of " << group.name;
    for (const Case& test : group.cases)
      EXPECT_NE(std::ranges::find(group.checks, test.id, &Check::id), group.checks.end())
          << group.name << " has a case for " << test.id << ", which is no check of it";
  }
}

TEST(CheckTable, CommandsOfAFixAreToldFromAdvice) {
  for (const std::string_view step :
       {"sudo reboot", "export A=1", "A=1 make", "/opt/venv/bin/pip install torch", "python3.11 -m venv torch-env",
        "gpuwarden driver plan", "free -g", "id; ls -l /dev/kfd", "ss -ltnp 'sport = :29500'",
        "python -c 'for i in range(3): print(i)'"})
    EXPECT_TRUE(doctor::is_command(step)) << step;
  for (const std::string_view step :
       {"", "ask the vendor for a replacement", "reboot the bare-metal node", "use llama.cpp or Ollama on this GPU",
        "install the CUDA toolkit 12.8", "free some memory", "cat /proc/driver/nvidia/version: must be 550.54.15"})
    EXPECT_FALSE(doctor::is_command(step)) << step;
}

TEST(CheckTable, AnAreaOfWhichNothingIsKnownIsNotJudged) {
  const auto nothing = examined(facts::Snapshot{});
  EXPECT_EQ(nothing.areas.at(doctor::Area::toolkit), doctor::Status::not_judged);
  const auto healthy = examined(healthy_machine());
  EXPECT_EQ(healthy.areas.at(doctor::Area::toolkit), doctor::Status::compatible);
  EXPECT_EQ(healthy.areas.at(doctor::Area::cluster), doctor::Status::not_judged);
}

TEST(CheckTable, AMachineWithoutGpuAndDriverIsNotJudged) {
  facts::Snapshot machine = healthy_machine();
  remove_gpus(machine);
  // A container's: the library is mounted, and nobody answers it.
  machine.environment->driver.library_version = "550.54.15";
  const auto examination = doctor::examine(machine, knowledge::Knowledge::built_in(), {},
                                           {.only = {"no-gpu", "driver-end-of-life", "system"}, .skip = {}});
  EXPECT_EQ(examination.areas.at(doctor::Area::driver), doctor::Status::not_judged);
  EXPECT_EQ(examination.areas.at(doctor::Area::device), doctor::Status::not_judged);
  EXPECT_EQ(examination.areas.at(doctor::Area::system), doctor::Status::compatible);
  EXPECT_EQ(examination.overall, doctor::Status::not_judged);
  ASSERT_EQ(examination.findings.size(), 1U);
  EXPECT_EQ(examination.findings[0].title,
            "no GPU and no NVIDIA driver is seen; what was judged is the software alone");
}

TEST(CheckTable, AHealthyMachineAndAnEmptyOneHaveNoFindings) {
  EXPECT_EQ(found_in(healthy_machine()), "");
  EXPECT_EQ(found_in(facts::Snapshot{}), "no-gpu");
  facts::Snapshot silent = healthy_machine();
  silent.environment.reset();
  EXPECT_EQ(found_in(silent), "") << "what was not looked at is no trouble";
}

}  // namespace
}  // namespace gpuwarden::testing
