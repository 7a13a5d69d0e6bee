// SPDX-License-Identifier: Apache-2.0
// Which driver these GPUs should have, and why.
#include <fmt/format.h>

#include "driver/machines.hpp"
#include "support/matchers.hpp"

namespace gpuwarden {
namespace {

using driver::Packaging;
using facts::ModuleFlavour;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::recommendation_for;

driver::DriverFacts machine_with(std::string_view name) {
  return testing::bare_machine("ubuntu", "24.04", driver::PackageManager::apt, name);
}

struct RecommendedRow {
  const char* gpu;
  int branch;
  ModuleFlavour flavour;
};

TEST(DriverRecommendation, FollowsTheLimitsOfTheArchitecture) {
  for (const RecommendedRow& row :
       {RecommendedRow{"NVIDIA H100 80GB HBM3", 580, ModuleFlavour::open},
        RecommendedRow{"NVIDIA GeForce RTX 5090", 580, ModuleFlavour::open},
        RecommendedRow{"NVIDIA B200", 580, ModuleFlavour::open}, RecommendedRow{"Tesla T4", 580, ModuleFlavour::open},
        RecommendedRow{"Tesla V100-SXM2-16GB", 580, ModuleFlavour::proprietary},
        RecommendedRow{"Tesla P100-PCIE-16GB", 580, ModuleFlavour::proprietary},
        RecommendedRow{"Tesla K80", 470, ModuleFlavour::proprietary}}) {
    const auto answer = recommendation_for(machine_with(row.gpu));
    ASSERT_TRUE(answer.has_value()) << row.gpu << ": " << answer.error().message;
    EXPECT_EQ(answer->branch, row.branch) << row.gpu;
    EXPECT_EQ(answer->flavour, row.flavour) << row.gpu;
    EXPECT_FALSE(answer->reasons.empty()) << row.gpu;
  }
}

TEST(DriverRecommendation, NamesTheLastBranchOfAnOldGpu) {
  const auto answer = recommendation_for(machine_with("Tesla P100-PCIE-16GB"));
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->highest, 580);
  EXPECT_THAT(answer->reasons, Contains(HasSubstr("R580 is the last branch for Tesla P100-PCIE-16GB")));
}

TEST(DriverRecommendation, HeedsWhatARuleOfTheSiteWants) {
  const auto site = knowledge::Knowledge::built_in().with_overlay(
      "rules: [{id: ours, gpu: H100, workload: our-model, driver: {minimum: 550.54.15, recommended: 595.45.04}}]",
      "site.yaml");
  ASSERT_TRUE(site.has_value()) << site.error().message;
  const auto ask = [&](std::string_view gpu, const char* purpose) {
    driver::DriverRequest request;
    request.purpose = doctor::Purpose{.text = purpose};
    return driver::recommend_driver(machine_with(gpu), request, *site, testing::autumn_2026());
  };
  const auto ours = ask("NVIDIA H100 80GB HBM3", "our-model");
  ASSERT_TRUE(ours.has_value()) << ours.error().message;
  EXPECT_EQ(ours->branch, 595);
  EXPECT_THAT(ours->reasons, Contains(HasSubstr("rule ours wants driver 595.45.04 for NVIDIA H100 80GB HBM3")));
  EXPECT_EQ(ask("NVIDIA H100 80GB HBM3", "another")->branch, 580);
  EXPECT_EQ(ask("Tesla T4", "our-model")->branch, 580);
}

TEST(DriverRecommendation, SaysThatNoDriverServesBlackwellAndVoltaTogether) {
  auto machine = machine_with("NVIDIA B200");
  machine.snapshot.gpus.push_back(testing::gpu("Tesla V100-SXM2-16GB", 1));
  const auto answer = recommendation_for(machine);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::unsatisfied);
  EXPECT_THAT(answer.error().message, HasSubstr("no driver serves"));
}

TEST(DriverRecommendation, RaisesTheBranchForACudaVersion) {
  driver::DriverRequest request;
  request.cuda = knowledge::Version::parse("12.8");
  const auto answer = recommendation_for(machine_with("NVIDIA H100 80GB HBM3"), request);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->at_least, *knowledge::Knowledge::built_in().min_driver(*request.cuda, true));
  EXPECT_GE(answer->branch, 570);
}

TEST(DriverRecommendation, DoesNotPassOverACudaVersionThatItDoesNotKnow) {
  driver::DriverRequest request;
  request.cuda = knowledge::Version::parse("99");
  const auto unknown = recommendation_for(machine_with("NVIDIA H100 80GB HBM3"), request);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::unsatisfied);
  EXPECT_THAT(unknown.error().message, HasSubstr("CUDA 99.0"));
  // Of a major release that is known, the rule of all its versions.
  request.cuda = knowledge::Version::parse("13.9");
  const auto newer = recommendation_for(machine_with("NVIDIA H100 80GB HBM3"), request);
  ASSERT_TRUE(newer.has_value()) << newer.error().message;
  EXPECT_EQ(newer->lowest, 580);
  EXPECT_THAT(newer->warnings, Contains(HasSubstr("CUDA 13.9 is not in the tables")));
}

TEST(DriverRecommendation, TellsOfABranchThatNobodyReleased) {
  const auto answer = recommendation_for(machine_with("NVIDIA H100 80GB HBM3"), {.branch = 9999});
  ASSERT_TRUE(answer.has_value());
  EXPECT_THAT(answer->warnings, Contains(HasSubstr("R9999 is not in the tables")));
}

TEST(DriverRecommendation, TakesTheOneBranchThatDebianHasWhereDebiansPackagesAreAskedFor) {
  auto debian = testing::bare_machine("debian", "12", driver::PackageManager::apt, "Tesla T4");
  const auto answer = recommendation_for(debian, {.packaging = Packaging::distribution});
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(answer->branch, 535);
  EXPECT_THAT(answer->reasons, Contains(HasSubstr("has R535 only")));
  for (const driver::DriverRequest& other :
       {driver::DriverRequest{.branch = 580, .packaging = Packaging::distribution},
        driver::DriverRequest{.version = "580.126.09", .packaging = Packaging::distribution}}) {
    const auto refused = recommendation_for(debian, other);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::unsatisfied);
    EXPECT_THAT(refused.error().message, HasSubstr("has R535 only, not R580"));
  }
  debian.snapshot.gpus[0] = testing::gpu("NVIDIA GeForce RTX 5090");
  EXPECT_THAT(recommendation_for(debian, {.packaging = Packaging::distribution}).error().hint,
              HasSubstr("cuda-repository"));
  testing::software(debian).host.distribution_version.reset();
  EXPECT_EQ(recommendation_for(debian, {.packaging = Packaging::distribution}).error().code, ErrorCode::unsatisfied);
}

TEST(DriverRecommendation, RefusesACudaVersionBeyondTheGpusLastBranch) {
  driver::DriverRequest request;
  request.cuda = knowledge::Version::parse("12.4");
  const auto answer = recommendation_for(machine_with("Tesla K80"), request);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::unsatisfied);
  EXPECT_THAT(answer.error().message, HasSubstr("R470 is the last branch"));
}

TEST(DriverRecommendation, WarnsThatACudaVersionBuildsNothingForTheGpu) {
  driver::DriverRequest request;
  request.cuda = knowledge::Version::parse("13.0");
  const auto answer = recommendation_for(machine_with("Tesla V100-SXM2-16GB"), request);
  ASSERT_TRUE(answer.has_value());
  EXPECT_THAT(answer->warnings, Contains(HasSubstr("CUDA 13.0 builds no code for")));
}

TEST(DriverRecommendation, HeedsThePurposesOfPackagesAndArchitectures) {
  for (const auto& [purpose, lowest] :
       {std::pair("pytorch==2.5.1+cu124", 550), std::pair("sm_120", 570), std::pair("pytorch==2.7.0+cu128", 570)}) {
    driver::DriverRequest request;
    request.purpose = doctor::parse_purpose(purpose).value();
    const auto answer = recommendation_for(machine_with("NVIDIA H100 80GB HBM3"), request);
    ASSERT_TRUE(answer.has_value()) << purpose;
    EXPECT_GE(answer->lowest, lowest) << purpose;
    EXPECT_GE(answer->branch, answer->lowest) << purpose;
  }
}

TEST(DriverRecommendation, SaysSoWhereNothingIsKnownOfThePurpose) {
  driver::DriverRequest request;
  request.purpose = doctor::parse_purpose("train llama-3-8b").value();
  const auto answer = recommendation_for(machine_with("NVIDIA H100 80GB HBM3"), request);
  ASSERT_TRUE(answer.has_value());
  EXPECT_THAT(answer->warnings, Contains(HasSubstr("nothing is known about the driver that train llama-3-8b needs")));
}

TEST(DriverRecommendation, TakesTheBranchThatWasAskedForAndWarnsOfItsEnd) {
  const auto answer = recommendation_for(machine_with("NVIDIA H100 80GB HBM3"), {.branch = 535});
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->branch, 535);
  EXPECT_EQ(answer->flavour, ModuleFlavour::proprietary);
  EXPECT_THAT(answer->warnings, Contains(HasSubstr("R535 gets no security fixes any more")));
}

TEST(DriverRecommendation, RefusesWhatContradictsTheGpus) {
  struct Refused {
    const char* gpu;
    driver::DriverRequest request;
    const char* why;
  };
  for (const auto& [gpu, request, why] :
       {Refused{"Tesla P100-PCIE-16GB", {.branch = 590}, "R580 is the last branch for it"},
        Refused{"NVIDIA GeForce RTX 5090", {.branch = 535}, "is too old"},
        Refused{"NVIDIA B200", {.flavour = ModuleFlavour::proprietary}, "proprietary module does not serve"},
        Refused{"Tesla V100-SXM2-16GB", {.flavour = ModuleFlavour::open}, "open module does not serve"},
        Refused{"Tesla T4", {.branch = 470, .flavour = ModuleFlavour::open}, "R470 has no open kernel module"}}) {
    const auto answer = recommendation_for(machine_with(gpu), request);
    ASSERT_FALSE(answer.has_value()) << gpu;
    EXPECT_EQ(answer.error().code, ErrorCode::invalid_argument) << gpu;
    EXPECT_THAT(answer.error().message, HasSubstr(why));
  }
}

TEST(DriverRecommendation, RefusesAnExactVersionBelowThePurposesLowest) {
  driver::DriverRequest request{.version = "570.10"};
  request.cuda = knowledge::Version::parse("12.8");
  const auto answer = recommendation_for(machine_with("NVIDIA H100 80GB HBM3"), request);
  ASSERT_FALSE(answer.has_value());
  EXPECT_THAT(answer.error().message, HasSubstr("driver 570.10 is too old: 570."));
}

TEST(DriverRecommendation, ChoosesThePackagingThatHasTheBranch) {
  const auto packaging = [](driver::DriverFacts machine, const driver::DriverRequest& request = {}) {
    return recommendation_for(machine, request).value().packaging;
  };
  EXPECT_EQ(packaging(machine_with("Tesla T4")), Packaging::distribution);
  const auto debian = testing::bare_machine("debian", "12", driver::PackageManager::apt, "Tesla T4");
  EXPECT_EQ(packaging(debian), Packaging::cuda_repository);
  EXPECT_EQ(packaging(debian, {.branch = 535}), Packaging::distribution);
  const auto rocky = testing::bare_machine("rocky", "9.4", driver::PackageManager::dnf, "Tesla T4");
  EXPECT_EQ(packaging(rocky), Packaging::cuda_repository);
  EXPECT_EQ(packaging(rocky, {.runfile = "/tmp/x.run"}), Packaging::runfile);
  auto own = machine_with("Tesla T4");
  own.packaging = Packaging::cuda_repository;
  EXPECT_EQ(packaging(own), Packaging::cuda_repository);
}

TEST(DriverRecommendation, SaysThatItSawNoGpu) {
  auto machine = machine_with("Tesla T4");
  machine.snapshot.gpus.clear();
  const auto answer = recommendation_for(machine);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->branch, 580);
  EXPECT_THAT(answer->warnings, Contains(HasSubstr("no NVIDIA GPU was seen")));
}

TEST(DriverRecommendation, LeavesGpusOfOtherMakersAndUnknownOnesOut) {
  auto machine = machine_with("NVIDIA Z9999");
  machine.snapshot.gpus.push_back(testing::gpu("AMD Instinct MI300X", 1));
  machine.snapshot.gpus.back().gpu.vendor = "AMD";
  const auto answer = recommendation_for(machine);
  ASSERT_TRUE(answer.has_value());
  EXPECT_THAT(answer->warnings, Contains(HasSubstr("nothing is known about NVIDIA Z9999")));
  EXPECT_THAT(answer->warnings, ::testing::Not(Contains(HasSubstr("AMD"))));
}

TEST(DriverRecommendation, LeavesAJetsonItsJetPack) {
  for (const char* name : {"Orin (nvgpu)", "NVIDIA Thor", "Xavier"}) {
    const auto answer = recommendation_for(machine_with(name));
    ASSERT_FALSE(answer) << name;
    EXPECT_THAT(answer.error().message, HasSubstr("comes with JetPack")) << name;
  }
}

TEST(DriverRecommendation, AReleaseFromBeforeTheProductIsRefused) {
  const auto h200 = machine_with("NVIDIA H200");
  EXPECT_THAT(recommendation_for(h200).value().reasons,
              Contains(HasSubstr("is served from 550.90.07 (R555: 555.42.06) on")));
  const auto early = recommendation_for(h200, {.version = "550.54.15"});
  ASSERT_FALSE(early);
  EXPECT_THAT(early.error().message, HasSubstr("driver 550.54.15 does not serve NVIDIA H200: 550.90.07"));
  EXPECT_EQ(early.error().hint, "--driver-version 550.90.07, or --branch 550 alone");
  EXPECT_TRUE(recommendation_for(h200, {.version = "550.90.07"}));
  const auto of_later_branch = recommendation_for(machine_with("NVIDIA GeForce RTX 4060"), {.version = "535.54.03"});
  ASSERT_FALSE(of_later_branch);
  EXPECT_THAT(of_later_branch.error().message, HasSubstr("NVIDIA GeForce RTX 4060: 535.86.05 or newer of R535 does"));
  EXPECT_EQ(of_later_branch.error().hint, "--driver-version 535.86.05, or --branch 535 alone");
  EXPECT_FALSE(recommendation_for(h200, {.branch = 535}));
  EXPECT_TRUE(recommendation_for(machine_with("NVIDIA H100 80GB HBM3"), {.branch = 535})) << "its generation's";
}

TEST(DriverRecommendation, WarnsOfNumbersThatWereNeverGivenOutAndNamesTheNearest) {
  const auto warnings = [](const driver::DriverRequest& request) {
    return recommendation_for(machine_with("NVIDIA H100 80GB HBM3"), request).value().warnings;
  };
  EXPECT_THAT(warnings({.branch = 556}), Contains(HasSubstr("never released; the nearest that is known is R555")));
  EXPECT_THAT(warnings({.version = "550.54"}), Contains(HasSubstr("the nearest that is known is 550.54.1")));
  EXPECT_THAT(warnings({.version = "550.54.15"}), ::testing::Not(Contains(HasSubstr("not a whole version"))));
  auto machine = machine_with("NVIDIA H100 80GB HBM3");
  EXPECT_FALSE(recommendation_for(machine, {.branch = 999}).value().branch_known);
  EXPECT_TRUE(recommendation_for(machine, {.branch = 580}).value().branch_known);
  testing::software(machine).host.distribution = "ubuntu";
  testing::software(machine).host.distribution_version = "99.04";
  EXPECT_THAT(recommendation_for(machine).value().warnings, Contains(HasSubstr("the newest that is known is 26.10")));
}

TEST(DriverRecommendation, TakesADistributionAsPeopleWriteIt) {
  facts::Host host;
  for (const char* text : {"ubuntu:24.04", "Ubuntu 24.04", "UBUNTU: 24.04"}) {
    ASSERT_TRUE(driver::name_distribution(text, host)) << text;
    EXPECT_EQ(host.distribution, "ubuntu");
    EXPECT_EQ(host.distribution_version, "24.04");
  }
  EXPECT_EQ(driver::name_distribution("debian", host).error().hint, "write debian:13");
  EXPECT_THAT(driver::name_distribution("beos:5", host).error().hint, HasSubstr("kylin"));
  for (const auto& [text, nearest] :
       {std::pair("ubuntu:23.77", "ubuntu:24.04"), std::pair("ubuntu:24.4", "ubuntu:24.04"),
        std::pair("ubuntu:99.04", "ubuntu:26.10"), std::pair("rocky:77", "rocky:10"),
        std::pair("fedora:99", "fedora:44"), std::pair("debian:99", "debian:13")}) {
    const auto named = driver::name_distribution(text, host);
    ASSERT_FALSE(named) << text;
    EXPECT_EQ(named.error().hint, fmt::format("did you mean {}?", nearest));
  }
  for (const char* text : {"ubuntu:24.04.4", "ubuntu:23.10", "rhel:9.4", "kylin:V10", "fedora:43"})
    EXPECT_TRUE(driver::name_distribution(text, host)) << text;
  EXPECT_THAT(driver::name_distribution("azurelinux:3", host).error().message, HasSubstr("tdnf"));
}

}  // namespace
}  // namespace gpuwarden
