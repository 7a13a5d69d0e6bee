// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/advice.hpp"
#include "knowledge/known.hpp"

#include <algorithm>

namespace gpuwarden::knowledge {
namespace {

using std::chrono::year;

const TorchBuild& wheel(Version torch, std::string_view build) {
  const TorchBuild* found = known().torch(torch, build);
  EXPECT_NE(found, nullptr) << to_string(torch) << build;
  return *found;
}

TEST(Advice, AWheelNeedsCodeForTheGpuAndADriverOfItsMajor) {
  EXPECT_EQ(wheel_fit(known(), wheel({2, 5, 1}, "cu124"), 90, Version{535, 54, 3}), WheelFit::runs)
      << "minor-version compatibility: 525 is the floor of CUDA 12";
  EXPECT_EQ(wheel_fit(known(), wheel({2, 5, 1}, "cu124"), 120, Version{570, 86, 16}), WheelFit::no_code_for_gpu);
  EXPECT_EQ(wheel_fit(known(), wheel({2, 7, 1}, "cu128"), 120, Version{570, 86, 16}), WheelFit::runs);
  EXPECT_EQ(wheel_fit(known(), wheel({2, 11}, "cu130"), 90, Version{570, 86, 16}), WheelFit::driver_too_old);
  EXPECT_EQ(wheel_fit(known(), wheel({2, 11}, "cu130"), 70, std::nullopt), WheelFit::no_code_for_gpu)
      << "Volta is left by CUDA 13";
  EXPECT_EQ(wheel_fit(known(), wheel({2, 11}, "cu126"), 70, std::nullopt), WheelFit::runs);
}

TEST(Advice, PtxThatIsNewerThanTheDriverIsNotCompiled) {
  const TorchBuild build{.build = "cu128", .architectures = "8.0;9.0+PTX", .min_driver = {525, 60, 13}};
  EXPECT_EQ(wheel_fit(known(), build, 120, Version{570, 124, 6}), WheelFit::runs_by_jit);
  EXPECT_EQ(wheel_fit(known(), build, 120, Version{550, 54, 15}), WheelFit::jit_needs_a_newer_driver);
  EXPECT_EQ(wheel_fit(known(), build, 90, Version{550, 54, 15}), WheelFit::runs) << "own code needs no compiler";
}

TEST(Advice, TheNewestTorchForAMixedMachineServesAllItsGpus) {
  EXPECT_EQ(newest_torch_for(known(), {90}, Version{615})->torch, known().newest_torch());
  EXPECT_TRUE(newest_torch_for(known(), {90}, Version{615})->is_default);
  const TorchBuild* volta = newest_torch_for(known(), {70, 90}, Version{580, 65, 6});
  ASSERT_NE(volta, nullptr);
  EXPECT_EQ(volta->build, "cu126") << "the only wheel for Volta since 2.11";
  EXPECT_EQ(newest_torch_for(known(), {37, 120}, std::nullopt), nullptr) << "Kepler and Blackwell share no wheel";
  const TorchBuild* old = newest_torch_for(known(), {80}, Version{470, 82, 1});
  ASSERT_NE(old, nullptr);
  EXPECT_EQ(old->build, "cu118");
  EXPECT_EQ(newest_torch_for(known(), {80}, Version{390, 77}), nullptr);
}

TEST(Advice, TheNewestVllmHasAWheelForGpuAndDriver) {
  EXPECT_EQ(newest_vllm_for(known(), {90}, Version{580, 65, 6})->first, known().vllm_releases().back().first);
  const VllmRelease* old = newest_vllm_for(known(), {90}, Version{550, 54, 15});
  ASSERT_NE(old, nullptr);
  EXPECT_EQ(vllm_cuda_for(known(), *old, Version{550, 54, 15})->major, 12) << "its index has wheels for CUDA 12.9";
  EXPECT_EQ(vllm_cuda_for(known(), known().vllm_releases().back(), Version{550, 54, 15})->major, 12)
      << "its releases have wheels for CUDA 12.9 beside those for 13";
  EXPECT_FALSE(vllm_cuda_for(known(), known().vllm_releases().back(), Version{470, 82, 1})) << "CUDA 12 and 13 alone";
  const VllmRelease* blackwell = newest_vllm_for(known(), {120}, Version{570, 86, 16});
  ASSERT_NE(blackwell, nullptr);
  EXPECT_GE(blackwell->first, (Version{0, 9, 0}));
  EXPECT_EQ(newest_vllm_for(known(), {61}, std::nullopt), nullptr) << "Pascal is below every release's needs";
}

TEST(Advice, WheelsForAarch64AreATableOfTheirOwn) {
  EXPECT_EQ(newest_torch_for(known(), {70}, Version{580, 65, 6}, "aarch64"), nullptr) << "no Arm machine has a Volta";
  const TorchBuild* thor = newest_torch_for(known(), {110}, std::nullopt, "aarch64");
  ASSERT_NE(thor, nullptr);
  EXPECT_TRUE(thor->architectures.contains("11.0"));
  EXPECT_TRUE(known().torch_builds("ppc64le").empty()) << "of those none are known";
}

TEST(Advice, EveryPackageRowSaysWhenItWasCheckedAndReleasesDoNotOverlap) {
  for (const PackageNeeds& row : known().packages()) {
    EXPECT_EQ(row.as_of.size(), 7U) << row.package;
    EXPECT_EQ(known().package(row.package, row.first), &row) << row.package << " " << to_string(row.first);
  }
  EXPECT_EQ(known().package("jax", Version{0, 2, 0}), nullptr);
  EXPECT_EQ(known().package("ollama", std::nullopt)->min_driver, Version{550});
}

TEST(Advice, PipGetsTheIndexOfTheBuild) {
  EXPECT_EQ(pip_command(wheel({2, 5, 1}, "cu124")),
            "pip install torch==2.5.1 --index-url https://download.pytorch.org/whl/cu124");
  EXPECT_THAT(pip_command(wheel({2, 6}, "cu126")), ::testing::HasSubstr("torch==2.6.0 "));
}

TEST(Advice, DriversOfAGpuAndItsWork) {
  const DriverNeeds needs = driver_needs(known(), *known().model("NVIDIA H100 PCIe"), Version{12, 8}, "", kToday);
  EXPECT_EQ(needs.minimum, (Version{520}));
  EXPECT_EQ(needs.required, (Version{525, 60, 13}));
  EXPECT_EQ(needs.recommended, (Version{580})) << "the long-term branch that is alive in November 2026";
  EXPECT_EQ(needs.optimal.major, 570);
  EXPECT_EQ(standing_of(needs, {515}), DriverStanding::below_minimum);
  EXPECT_EQ(standing_of(needs, {522}), DriverStanding::below_required);
  EXPECT_EQ(standing_of(needs, {550, 54, 15}), DriverStanding::below_recommended);
  EXPECT_EQ(standing_of(needs, {580, 65, 6}), DriverStanding::optimal);
  EXPECT_FALSE(needs.sources.empty());
}

TEST(Advice, TheLastBranchOfAnOldGpuIsAnUpperLimit) {
  const DriverNeeds volta = driver_needs(known(), *known().model("Tesla V100-SXM2-32GB"), {}, "", kToday);
  EXPECT_EQ(volta.recommended, (Version{580}));
  EXPECT_EQ(standing_of(volta, {590, 44, 1}), DriverStanding::too_new);
  const DriverNeeds kepler = driver_needs(known(), *known().model("Tesla K80"), {}, "", kToday);
  EXPECT_EQ(kepler.recommended, Version{}) << "its last branch is past its end";
  EXPECT_EQ(driver_needs(known(), *known().model("Tesla K80"), Version{11, 8}, "", kToday).optimal, (Version{470}))
      << "CUDA 11.8's own driver no longer serves it";
}

TEST(Advice, ASitesRuleComesOverTheTables) {
  const auto site = known().with_overlay(
      "rules: [{id: x, gpu: H100, workload: ours, driver: {required: 550.54.15, optimal: 570.47.03}}]", "site.yaml");
  ASSERT_TRUE(site);
  const GpuModel& h100 = *site->model("NVIDIA H100 PCIe");
  const DriverNeeds needs = driver_needs(*site, h100, Version{12, 4}, "train ours-7b", kToday);
  EXPECT_EQ(needs.required, (Version{550, 54, 15}));
  EXPECT_EQ(needs.optimal, (Version{570, 47, 3}));
  EXPECT_EQ(standing_of(needs, {545}), DriverStanding::below_required);
  EXPECT_EQ(needs.sources.back(), "rule x: site.yaml");
  EXPECT_EQ(driver_needs(*site, h100, Version{12, 4}, "something else", kToday).required, (Version{525, 60, 13}));
}

}  // namespace
}  // namespace gpuwarden::knowledge
