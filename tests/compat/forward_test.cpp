// SPDX-License-Identifier: Apache-2.0
// What a newer CUDA's wheels need on a driver that is too old for them, and what runs on boards with an Arm processor.
#include <algorithm>

#include "compat/tables.hpp"
#include "gpuwarden/compat/answer.hpp"
#include "gpuwarden/compat/question.hpp"
#include "gpuwarden/knowledge/forward_compatibility.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::compat {
namespace {

using ::testing::HasSubstr;

Place named(const std::string& gpus, const std::string& driver) {
  Place place{.gpus = gpus_named({gpus}, tables()).value(), .driver = Version::parse(driver), .origin = "named"};
  place.named = true;
  return place;
}

TorchAnswer torch(const Place& place, const std::string& version, const std::string& build) {
  return answer_torch({tables(), place, kToday}, {.name = "torch", .version = version, .build = build});
}

TEST(ForwardCompatibility, ADataCentreGpuRunsANewerMajorReleaseWithItsCudaCompat) {
  const auto answer = torch(named("H100", "575.57.08"), "2.9.1", "cu130");
  EXPECT_TRUE(answer.positive) << "it runs, by the package";
  const Wheel& wheel = answer.wheels[answer.chosen.value()];
  EXPECT_EQ(wheel.fit, knowledge::WheelFit::driver_too_old) << "as it is, it does not";
  ASSERT_TRUE(wheel.forward.has_value());
  EXPECT_EQ(wheel.forward->cuda, (Version{13, 0}));
  EXPECT_FALSE(wheel.forward->certified_only);
  ASSERT_TRUE(answer.as_it_is.has_value()) << "a wheel of the release that needs no package";
  EXPECT_TRUE(knowledge::is_fit(*answer.wheels[*answer.as_it_is].fit));
}

TEST(ForwardCompatibility, AConsumersCardAndABranchThatThePackageWasNotMadeForGetNone) {
  const auto geforce = torch(named("RTX 4090", "575.57.08"), "2.9.1", "cu130");
  EXPECT_FALSE(geforce.positive);
  EXPECT_FALSE(geforce.wheels[geforce.chosen.value()].forward.has_value());
  const auto odd_branch = torch(named("H100", "545.23.08"), "2.9.1", "cu130");
  EXPECT_FALSE(odd_branch.positive) << "545 is in no image of CUDA 13";
  const auto workstation = torch(named("RTX A6000", "570.86.10"), "2.9.1", "cu130");
  EXPECT_FALSE(workstation.positive);
  ASSERT_TRUE(workstation.wheels[workstation.chosen.value()].forward.has_value());
  EXPECT_TRUE(workstation.wheels[workstation.chosen.value()].forward->certified_only);
}

TEST(ForwardCompatibility, WithinAMajorReleaseNoPackageIsNeeded) {
  const auto answer = torch(named("A100", "550.54.15"), "2.9.1", "cu128");
  EXPECT_TRUE(answer.positive);
  EXPECT_EQ(answer.wheels[answer.chosen.value()].fit, knowledge::WheelFit::runs);
  EXPECT_FALSE(answer.wheels[answer.chosen.value()].forward.has_value());
}

TEST(ForwardCompatibility, AWheelWithoutCodeForTheGpuIsNotHelpedByIt) {
  const auto answer = torch(named("V100", "570.86.10"), "2.9.1", "cu130");
  EXPECT_FALSE(answer.positive);
  EXPECT_FALSE(answer.wheels[answer.chosen.value()].forward.has_value());
}

TEST(ForwardCompatibility, AReleaseThatIsNotKnownYetServesNoBranchThatTheOneBeforeLeftOut) {
  EXPECT_EQ(knowledge::compat_serves_branch({13, 3}, 537), std::optional(false));
  EXPECT_EQ(knowledge::compat_serves_branch({13, 9}, 537), std::optional(false));
  EXPECT_EQ(knowledge::compat_serves_branch({13, 9}, 580), std::nullopt) << "it may have been dropped since";
  EXPECT_EQ(knowledge::compat_serves_branch({14, 0}, 537), std::nullopt);
}

TEST(ForwardCompatibility, VllmsWheelOfTheDriversCudaIsPreferred) {
  const Place place = named("H100", "570.86.10");
  // 0.29 has a wheel for CUDA 12.9 besides, which needs nothing.
  EXPECT_TRUE(answer_vllm({tables(), place, kToday}, "0.29.0").positive);
  EXPECT_FALSE(answer_vllm({tables(), place, kToday}, "0.29.0").forward.has_value());
}

GpuAnswer gpu(const std::string& words) {
  const Place nowhere{.gpus = {}, .driver = {}, .origin = "named"};
  const auto answer = answer_gpu({tables(), nowhere, kToday}, words);
  EXPECT_TRUE(answer.has_value() && std::holds_alternative<GpuAnswer>(*answer)) << words;
  return std::get<GpuAnswer>(answer.value());
}

TEST(ArmBoards, ThorHasWheelsOfCuda13ForAarch64) {
  const auto thor = gpu("Thor");
  EXPECT_EQ(thor.frameworks.machine, "aarch64");
  ASSERT_NE(thor.frameworks.newest_torch, nullptr);
  EXPECT_TRUE(thor.frameworks.newest_torch->build.starts_with("cu13"));
  ASSERT_NE(thor.frameworks.newest_vllm, nullptr);
  EXPECT_GE(thor.frameworks.newest_vllm->first, (Version{0, 20, 0}));
}

TEST(ArmBoards, OrinIsSentToNvidiasBuildsForJetPack) {
  const auto orin = gpu("Orin");
  EXPECT_EQ(orin.frameworks.newest_torch, nullptr) << "PyTorch's own are for servers";
  ASSERT_NE(orin.frameworks.board, nullptr);
  EXPECT_THAT(std::string(orin.frameworks.board->builds), HasSubstr("pypi.jetson-ai-lab.io"));
}

TEST(ArmBoards, OrinHasOneAnswerHoweverItIsAsked) {
  const std::string builds(gpu("Orin").frameworks.board->builds);
  EXPECT_THAT(builds, HasSubstr("no kernels for sm_87"));
  for (const std::string name : {"Orin", "Jetson AGX Orin", "Jetson Orin Nano"}) {
    const Place place = named(name, "");
    const Asked asked{tables(), place, kToday};
    const auto newest = answer_torch(asked, {.name = "torch", .version = {}, .build = {}});
    EXPECT_TRUE(newest.positive) << name;
    EXPECT_TRUE(std::ranges::none_of(newest.all, [](const Wheel& one) { return knowledge::is_fit(*one.fit); })) << name;
    EXPECT_EQ(newest.instead.value().other_builds, builds);
    EXPECT_EQ(newest.instead->torch, nullptr);
    const auto old = answer_torch(asked, {.name = "torch", .version = "2.5.1", .build = {}});
    EXPECT_FALSE(old.positive);
    EXPECT_EQ(old.instead.value().other_builds, builds) << "a release of which no wheel for aarch64 is known";
    const auto release = answer_torch(asked, {.name = "torch", .version = "2.9.1", .build = {}});
    EXPECT_FALSE(release.positive);
    EXPECT_EQ(release.wheels[release.chosen.value()].fit, knowledge::WheelFit::no_code_for_gpu);
    EXPECT_EQ(release.instead.value().other_builds, builds);
    const auto vllm = answer_vllm(asked, std::nullopt);
    EXPECT_TRUE(vllm.positive);
    EXPECT_EQ(vllm.row, nullptr);
    EXPECT_EQ(vllm.instead.value().other_builds, builds);
    EXPECT_FALSE(answer_vllm(asked, "0.29.0").positive);
    EXPECT_EQ(answer_machine(asked).recommended.value().other_builds, builds);
  }
  const Place nowhere{.gpus = {}, .driver = {}, .origin = "named"};
  EXPECT_EQ(answer_architecture({tables(), nowhere, kToday}, 87).frameworks.value().board->builds, builds);
}

TEST(ArmBoards, ThorHasOneAnswerHoweverItIsAsked) {
  const auto thor = gpu("Jetson AGX Thor").frameworks;
  const Place place = named("Thor", "");
  const Asked asked{tables(), place, kToday};
  const auto newest = answer_torch(asked, {.name = "torch", .version = {}, .build = {}});
  EXPECT_EQ(newest.instead.value().torch, thor.newest_torch);
  EXPECT_EQ(newest.instead->vllm, thor.newest_vllm);
  EXPECT_TRUE(newest.instead->other_builds.empty());
  EXPECT_EQ(answer_vllm(asked, std::nullopt).row, thor.newest_vllm);
}

TEST(ArmBoards, AJetsonsDriverIsNoneToChoose) {
  EXPECT_FALSE(gpu("Orin").needs.recommended);
  EXPECT_FALSE(gpu("Thor").needs.recommended);
  EXPECT_TRUE(gpu("GH200").needs.recommended);
}

TEST(ArmBoards, GraceServersAreJudgedByTheTableOfTheirProcessor) {
  for (const std::string words : {"GH200", "GB200", "GB300", "GB10"}) {
    const auto answer = gpu(words);
    EXPECT_EQ(answer.frameworks.machine, "aarch64") << words;
    ASSERT_NE(answer.frameworks.first_torch, nullptr) << words;
    const auto builds = tables().torch_builds("aarch64");
    EXPECT_TRUE(answer.frameworks.first_torch >= builds.data() &&
                answer.frameworks.first_torch < builds.data() + builds.size())
        << words;
  }
  EXPECT_EQ(gpu("H100").frameworks.machine, "x86_64");
  EXPECT_EQ(gpu("GeForce RTX 4090").frameworks.board, nullptr);
}

TEST(ArmBoards, AWheelIsJudgedForTheProcessorOfThePlace) {
  // cu126 for aarch64 has no code for Blackwell and none for Volta; for x86_64 2.9.1+cu126 has Volta's.
  const auto grace = torch(named("GB200", "580.95.05"), "2.9.1", "cu126");
  EXPECT_FALSE(grace.positive);
  EXPECT_EQ(grace.wheels[grace.chosen.value()].build.architectures, "8.0;9.0");
  Place told = named("H100", "580.95.05");
  told.machine = "aarch64";
  EXPECT_EQ(torch(told, "2.9.1", "cu130").wheels.front().build.architectures, "8.0;9.0");
}

TEST(VirtualGpus, AGuestsGpuIsToldByItsBoardProfileAndLicence) {
  const auto compute = knowledge::virtual_gpu_named("GRID A100D-80C").value();
  EXPECT_EQ(compute.board, "A100");
  EXPECT_EQ(compute.profile, "80C");
  EXPECT_THAT(std::string(compute.kind), HasSubstr("compute"));
  EXPECT_EQ(knowledge::virtual_gpu_named("GRID A100-4-20CME").value().kind, compute.kind);
  EXPECT_THAT(std::string(knowledge::virtual_gpu_named("NVIDIA L40S-48Q").value().kind), HasSubstr("workstation"));
  EXPECT_FALSE(knowledge::virtual_gpu_named("NVIDIA A100-SXM4-80GB").has_value());
}

TEST(ArmBoards, AGenerationOfArmBoardsAloneIsJudgedAsOne) {
  const Place nowhere{.gpus = {}, .driver = {}, .origin = "named"};
  EXPECT_EQ(answer_architecture({tables(), nowhere, kToday}, 110).frameworks.value().machine, "aarch64");
  EXPECT_EQ(answer_architecture({tables(), nowhere, kToday}, 90).frameworks.value().machine, "x86_64");
}

}  // namespace
}  // namespace gpuwarden::compat
