// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/toolkits/toolkits.hpp"

#include "support/matchers.hpp"

namespace gpuwarden::toolkits {
namespace {

using knowledge::Knowledge;
using knowledge::Version;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOkAnd;

facts::Toolkit toolkit(const std::string& version, const std::string& path) {
  facts::Toolkit result;
  result.version = version;
  result.path = path;
  result.nvcc = path + "/bin/nvcc";
  return result;
}

std::vector<facts::Toolkit> installed() {
  return {toolkit("11.8.89", "/usr/local/cuda-11.8"), toolkit("12.1.105", "/usr/local/cuda-12.1"),
          toolkit("12.4.131", "/usr/local/cuda-12.4"), toolkit("12.6.85", "/opt/cuda-12.6"),
          toolkit("13.0.88", "/usr/local/cuda-13.0")};
}

std::string path_of(const std::vector<facts::Toolkit>& toolkits, std::string_view wanted) {
  const auto found = find_toolkit(toolkits, wanted);
  return found ? (*found)->path : found.error().message;
}

TEST(Toolkits, AreNamedByVersionReleaseOrFolder) {
  const auto all = installed();
  EXPECT_EQ(path_of(all, "12.4"), "/usr/local/cuda-12.4");
  EXPECT_EQ(path_of(all, "12.4.131"), "/usr/local/cuda-12.4");
  EXPECT_EQ(path_of(all, "12"), "/opt/cuda-12.6") << "the newest of its major release";
  EXPECT_EQ(path_of(all, "cuda-11.8"), "/usr/local/cuda-11.8");
  EXPECT_EQ(path_of(all, "cu121"), "/usr/local/cuda-12.1");
  EXPECT_EQ(path_of(all, "v12.1"), "/usr/local/cuda-12.1");
  EXPECT_EQ(path_of(all, "/opt/cuda-12.6/"), "/opt/cuda-12.6");
}

TEST(Toolkits, OneThatIsNotThereIsRefusedWithThoseThatAre) {
  const auto all = installed();
  const auto missing = find_toolkit(all, "12.40");
  EXPECT_THAT(missing, FailsWith(ErrorCode::not_found, HasSubstr("no CUDA toolkit 12.40")));
  EXPECT_THAT(missing.error().hint, HasSubstr("13.0.88 (/usr/local/cuda-13.0), 12.6.85"));
  EXPECT_THAT(find_toolkit(all, "/usr/local/cuda"), FailsWith(ErrorCode::not_found, HasSubstr("/usr/local/cuda")));
  EXPECT_THAT(find_toolkit(all, "latest"), FailsWith(ErrorCode::invalid_argument, HasSubstr("not a CUDA version")));
  EXPECT_THAT(find_toolkit(all, ""), FailsWith(ErrorCode::invalid_argument, HasSubstr("not a CUDA version")));
  EXPECT_THAT(find_toolkit({}, "12.4").error().hint, HasSubstr("none was found"));
}

TEST(Toolkits, OfTwoOfOneVersionTheOneInUseIsMeant) {
  auto all = std::vector{toolkit("12.4.131", "/opt/cuda-12.4"), toolkit("12.4.131", "/usr/local/cuda-12.4")};
  EXPECT_EQ(path_of(all, "12.4"), "/opt/cuda-12.4");
  all[1].active = true;
  EXPECT_EQ(path_of(all, "12.4"), "/usr/local/cuda-12.4");
}

TEST(Toolkits, WhyOneIsInUseIsSaid) {
  auto one = toolkit("12.4.131", "/usr/local/cuda-12.4");
  EXPECT_THAT(reasons_in_use(one), IsEmpty());
  one.active = true;
  one.named_by = {"CUDA_HOME", "/usr/local/cuda", "LD_LIBRARY_PATH"};
  EXPECT_THAT(reasons_in_use(one),
              ElementsAre("PATH finds its nvcc", "CUDA_HOME names it", "/usr/local/cuda leads to it",
                          "its libraries are first on LD_LIBRARY_PATH"));
}

TEST(Toolkits, ArchitecturesAreReadAsPeopleWriteThem) {
  const Knowledge& known = Knowledge::built_in();
  for (const char* text : {"sm_89", "compute_89", "8.9", "89", "SM_89", "NVIDIA L4", "NVIDIA GeForce RTX 4090"})
    EXPECT_THAT(parse_architecture(text, known), IsOkAnd(89)) << text;
  EXPECT_THAT(parse_architecture("sm_90a", known), IsOkAnd(90));
  EXPECT_THAT(parse_architecture("12.0", known), IsOkAnd(120));
  for (const char* text : {"sm_88888", "sm_", "8..9", "", "-5", "Radeon", "sm_83"})
    EXPECT_THAT(parse_architecture(text, known), FailsWith(ErrorCode::invalid_argument, HasSubstr("architecture")))
        << text;
}

std::string chosen(const std::vector<facts::Toolkit>& all, std::vector<int> architectures,
                   std::optional<Version> driver) {
  const auto choice = choose_toolkit(all, architectures, driver, Knowledge::built_in());
  return choice ? choice->toolkit->version : "-";
}

TEST(ToolkitChoice, IsTheNewestThatTheDriverRunsAndThatBuildsForTheGpu) {
  const auto all = installed();
  EXPECT_EQ(chosen(all, {89}, Version{550, 54, 15}), "12.4.131");
  EXPECT_EQ(chosen(all, {89}, Version{525, 60, 13}), "11.8.89") << "12.x would run by minor-version compatibility only";
  EXPECT_EQ(chosen(all, {89}, Version{580, 65, 6}), "13.0.88");
  EXPECT_EQ(chosen(all, {89}, std::nullopt), "13.0.88");
  EXPECT_EQ(chosen(all, {70}, Version{580, 65, 6}), "12.6.85") << "13.0 no longer builds for Volta";
  EXPECT_EQ(chosen(all, {70, 90}, Version{580, 65, 6}), "12.6.85");
  EXPECT_EQ(chosen(all, {35}, Version{470, 82, 1}), "11.8.89")
      << "by minor-version compatibility, as nothing else is left";
}

TEST(ToolkitChoice, SaysWhyAndWhyNotTheOthers) {
  const auto all = installed();
  const auto choice = choose_toolkit(all, {89}, Version{550, 54, 15}, Knowledge::built_in());
  ASSERT_TRUE(choice);
  EXPECT_THAT(choice->why,
              HasSubstr("the newest here that builds for sm_89; driver 550.54.15 runs its programs as they are"));
  EXPECT_THAT(choice->passed_over, Contains(HasSubstr("13.0.88 (/usr/local/cuda-13.0): the driver")));
  EXPECT_THAT(choice->passed_over,
              Contains(HasSubstr("12.6.85 (/opt/cuda-12.6): the driver runs its programs only by minor")));
  EXPECT_THAT(choice->passed_over, Contains(HasSubstr("11.8.89 (/usr/local/cuda-11.8): is older")));
}

TEST(ToolkitChoice, WhereNoneFitsEachIsRefusedWithItsReason) {
  auto all = installed();
  const auto none = choose_toolkit(all, {120}, Version{550, 54, 15}, Knowledge::built_in());
  EXPECT_THAT(none,
              FailsWith(ErrorCode::unsatisfied, HasSubstr("no toolkit here can build for sm_120 and run on driver")));
  EXPECT_THAT(none.error().hint, HasSubstr("cannot build for sm_120 (CUDA 12.8 and newer can)"));
  EXPECT_THAT(choose_toolkit(all, {52, 120}, std::nullopt, Knowledge::built_in()).error().hint,
              HasSubstr("cannot build for sm_52"));
  all.resize(1);
  all[0].nvcc.reset();
  EXPECT_THAT(choose_toolkit(all, {80}, std::nullopt, Knowledge::built_in()).error().hint, HasSubstr("has no nvcc"));
}

TEST(ToolkitChoice, WhatNvccItselfListsCountsMoreThanTheTables) {
  auto all = std::vector{toolkit("12.4.131", "/a")};
  all[0].architectures = {"sm_50", "sm_90"};
  EXPECT_EQ(chosen(all, {90}, std::nullopt), "12.4.131");
  EXPECT_EQ(chosen(all, {80}, std::nullopt), "-");
  EXPECT_EQ(targets_of(all[0], Knowledge::built_in()), "sm_50 to sm_90");
}

TEST(ToolkitChoice, AToolkitOfTomorrowIsTakenToBuildForTodaysGpus) {
  const auto all = std::vector{toolkit("14.2.7", "/usr/local/cuda-14.2")};
  EXPECT_EQ(chosen(all, {90}, std::nullopt), "14.2.7");
  EXPECT_EQ(chosen(all, {35}, std::nullopt), "-");
  EXPECT_EQ(targets_of(all[0], Knowledge::built_in()), "");
}

}  // namespace
}  // namespace gpuwarden::toolkits
