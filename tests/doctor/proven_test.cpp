// SPDX-License-Identifier: Apache-2.0
// What a report proves to work is not judged broken; what it leaves open is a warning.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "doctor/machines.hpp"
#include "gpuwarden/capture/capture.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::HasSubstr;

/// A report of collect_env about two GPUs, and what it says of CUDA.
doctor::Examination told(std::string_view first, std::string_view second, std::string_view driver,
                         std::string_view available) {
  std::string text =
      "PyTorch version: 2.8.0+cu126\nIs debug build: False\nCUDA used to build PyTorch: 12.6\n"
      "OS: Ubuntu 22.04.4 LTS (x86_64)\nPython version: 3.12.3 (64-bit runtime)\nIs CUDA available: ";
  text.append(available).append("\nGPU models and configuration:\nGPU 0: ").append(first);
  text.append("\nGPU 1: ").append(second).append("\nNvidia driver version: ").append(driver);
  text.append("\nVersions of relevant libraries:\n[pip3] torch==2.8.0\n");
  const auto capture = capture::read_capture(text, "paste.txt");
  EXPECT_TRUE(capture.has_value()) << text;
  return capture ? examined(capture->snapshot) : doctor::Examination{};
}

const doctor::Finding* finding(const doctor::Examination& examination, std::string_view id) {
  const auto found = std::ranges::find(examination.findings, id, &doctor::Finding::id);
  return found == examination.findings.end() ? nullptr : &*found;
}

struct Mixed {
  std::string_view check;
  std::string_view not_served;
  std::string_view served;
  std::string_view driver;
};
constexpr Mixed kMixed[] = {
    {"driver-too-old-for-gpu", "NVIDIA GeForce RTX 5090", "NVIDIA GeForce RTX 3090", "550.120"},
    {"driver-dropped-gpu", "NVIDIA GeForce GTX 1080", "NVIDIA GeForce RTX 3090", "595.45"},
};

TEST(Proven, OfSeveralGpusOneWorksAndTheOtherIsAWarning) {
  for (const Mixed& mixed : kMixed) {
    const auto sure = told(mixed.not_served, mixed.served, mixed.driver, "False");
    ASSERT_NE(finding(sure, mixed.check), nullptr) << mixed.check;
    EXPECT_EQ(finding(sure, mixed.check)->severity, doctor::Severity::critical) << mixed.check;
    const auto open = told(mixed.not_served, mixed.served, mixed.driver, "True");
    ASSERT_NE(finding(open, mixed.check), nullptr) << mixed.check;
    EXPECT_EQ(finding(open, mixed.check)->severity, doctor::Severity::warning) << mixed.check;
    EXPECT_THAT(finding(open, mixed.check)->title, HasSubstr("maybe on the other GPUs only"));
  }
}

TEST(Proven, OfGpusThatAreAllSaidNotToBeServedTheReportKnowsBetter) {
  for (const Mixed& mixed : kMixed) {
    EXPECT_NE(finding(told(mixed.not_served, mixed.not_served, mixed.driver, "False"), mixed.check), nullptr);
    EXPECT_EQ(finding(told(mixed.not_served, mixed.not_served, mixed.driver, "True"), mixed.check), nullptr);
  }
}

TEST(Proven, SoItIsOfTheKernelModule) {
  facts::Snapshot machine = healthy_machine();
  machine.origin = "paste.txt";
  use_gpus(machine, "NVIDIA B200", {10, 0});
  use_module(machine, facts::ModuleFlavour::proprietary);
  EXPECT_EQ(finding(examined(machine), "module-proprietary-on-blackwell"), nullptr) << "CUDA is available";
  machine.gpus.front().gpu.name = "NVIDIA H100 80GB HBM3";
  machine.gpus.front().gpu.compute_capability = {9, 0};
  const auto open = examined(machine);
  ASSERT_NE(finding(open, "module-proprietary-on-blackwell"), nullptr);
  EXPECT_EQ(finding(open, "module-proprietary-on-blackwell")->severity, doctor::Severity::warning);
}

}  // namespace
}  // namespace gpuwarden::testing
