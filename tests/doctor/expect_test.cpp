// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/expect.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "doctor/machines.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::testing {
namespace {

using doctor::Examination;
using doctor::Expected;
using doctor::Severity;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Expected expected_of(std::string_view yaml) {
  auto expected = doctor::parse_expected(yaml, "rack.yaml");
  EXPECT_THAT(expected, IsOk());
  return expected ? *expected : Expected{};
}

Examination compared(const facts::Snapshot& machine, std::string_view yaml) {
  Examination examination;
  doctor::add_expected(examination, machine, expected_of(yaml));
  return examination;
}

std::vector<std::string> ids_expected(const Examination& examination) {
  std::vector<std::string> result;
  for (const auto& finding : examination.findings) result.push_back(finding.id);
  return result;
}

/// The figures that healthy_machine() leaves to the checks.
facts::Snapshot machine_with_figures() {
  facts::Snapshot machine = healthy_machine();
  for (auto& gpu : machine.gpus) {
    gpu.sample.memory_total = Bytes(85520809984);
    gpu.sample.pcie_width = Count(16);
    gpu.gpu.pcie_generation_max = Count(5);
  }
  return machine;
}

constexpr std::string_view kRack =
    "source: rack plan 12\n"
    "gpus: {count: 4, model: H100, memory_gb: 80, pcie_width: 16, pcie_generation: 5}\n"
    "driver: {minimum: 535.129.03}\n";

TEST(Expect, AMachineAsExpectedHasNoFindings) {
  const auto examination = compared(machine_with_figures(), kRack);
  EXPECT_THAT(ids_expected(examination), IsEmpty());
  EXPECT_EQ(examination.worst, Severity::ok);
  EXPECT_EQ(examination.ran.size(), 6U) << "count, memory, width, generation, model, driver";
}

TEST(Expect, AGpuTooFewIsAnErrorThatNamesBothNumbers) {
  auto machine = machine_with_figures();
  machine.gpus.pop_back();
  const auto examination = compared(machine, kRack);
  ASSERT_THAT(ids_expected(examination), ElementsAre("expected:count"));
  EXPECT_EQ(examination.findings[0].title, "4 H100 GPUs are expected, 3 found");
  EXPECT_EQ(examination.findings[0].severity, Severity::error);
  EXPECT_EQ(examination.findings[0].source, "rack plan 12");
  EXPECT_EQ(examination.overall, doctor::Status::incompatible);
}

TEST(Expect, NoGpuAtAllIsAnErrorHereAndUnknownInAText) {
  auto machine = healthy_machine();
  remove_gpus(machine);
  EXPECT_EQ(compared(machine, "gpus: {count: 8}").findings.at(0).severity, Severity::error);
  machine.origin = "paste.txt: toolkit";
  const auto told = compared(machine, "gpus: {count: 8}");
  EXPECT_EQ(told.findings.at(0).severity, Severity::info);
  EXPECT_THAT(told.findings.at(0).title, HasSubstr("tells of no GPU"));
}

TEST(Expect, AnotherModelIsNamed) {
  auto machine = machine_with_figures();
  machine.gpus[2].gpu.name = "NVIDIA A100-SXM4-80GB";
  const auto examination = compared(machine, "gpus: [{count: 3, model: H100}]");
  ASSERT_THAT(ids_expected(examination), ElementsAre("expected:model"));
  EXPECT_THAT(examination.findings[0].title, HasSubstr("GPU 2 (NVIDIA A100-SXM4-80GB) is not of an expected model"));
}

TEST(Expect, SeveralModelsInOneMachineAreGroups) {
  auto machine = machine_with_figures();
  machine.gpus[3].gpu.name = "NVIDIA L4";
  EXPECT_THAT(ids_expected(compared(machine, "gpus: [{count: 3, model: H100}, {count: 1, model: L4}]")), IsEmpty());
}

TEST(Expect, MemoryWidthAndGenerationOfEachGpuCount) {
  auto machine = machine_with_figures();
  machine.gpus[1].sample.memory_total = Bytes(42949672960);
  machine.gpus[2].sample.pcie_width = Count(8);
  machine.gpus[3].gpu.pcie_generation_max = Count(4);
  const auto examination = compared(machine, kRack);
  EXPECT_THAT(ids_expected(examination),
              ElementsAre("expected:memory", "expected:pcie-width", "expected:pcie-generation"));
  EXPECT_EQ(examination.findings[1].title, "pcie-width of GPU 2: 8 lanes, expected are 16 lanes");
}

TEST(Expect, WhatIsNotToldIsNeitherRightNorWrong) {
  auto machine = machine_with_figures();
  machine.gpus[0].sample.pcie_width.reset();
  const auto examination = compared(machine, kRack);
  ASSERT_THAT(ids_expected(examination), ElementsAre("expected:pcie-width"));
  EXPECT_EQ(examination.findings[0].severity, Severity::info);
}

TEST(Expect, TheDriverIsExactOrAtLeast) {
  auto machine = healthy_machine();
  use_driver(machine, "550.54.15");
  EXPECT_THAT(ids_expected(compared(machine, "driver: 550.54.15")), IsEmpty());
  EXPECT_THAT(ids_expected(compared(machine, "driver: {minimum: 535.129.03}")), IsEmpty());
  const auto older = compared(machine, "driver: {minimum: 570.86.10}");
  ASSERT_THAT(ids_expected(older), ElementsAre("expected:driver"));
  EXPECT_EQ(older.findings[0].title, "driver 570.86.10 or newer is expected, 550.54.15 is loaded");
  EXPECT_THAT(ids_expected(compared(machine, "driver: 550.54.14")), ElementsAre("expected:driver"));
  forget_driver(machine);
  EXPECT_EQ(compared(machine, "driver: 550.54.15").findings.at(0).severity, Severity::error);
}

TEST(Expect, MistakesInTheFileHaveTheirPlace) {
  struct Mistake {
    std::string_view yaml;
    std::string_view says;
  };
  for (const auto& [yaml, says] :
       {Mistake{"gpus: {count: many}", "rack.yaml:1:15: gpus.count should be a whole number"},
        Mistake{"gpus: [{modle: H100}]", "rack.yaml:1:"},
        Mistake{"driver: newest", "driver should be a version such as"},
        Mistake{"driver: {least: 550}", "rack.yaml:1:"},
        Mistake{"gpus: {memory_gb: -1}", "gpus.memory_gb should be a number above 0"},
        Mistake{"", "expects nothing"}}) {
    const auto expected = doctor::parse_expected(yaml, "rack.yaml");
    ASSERT_FALSE(expected.has_value()) << yaml;
    EXPECT_THAT(expected.error().message, HasSubstr(says)) << yaml;
  }
}

}  // namespace
}  // namespace gpuwarden::testing
