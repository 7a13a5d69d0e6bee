// SPDX-License-Identifier: Apache-2.0
// Every look-up of the knowledge base, every row of it, and the facts that judges get wrong most easily.
#include "gpuwarden/knowledge/compatibility.hpp"

#include <map>
#include <set>

#include "gpuwarden/base/text.hpp"
#include "knowledge/known.hpp"

namespace gpuwarden::knowledge {
namespace {

using std::chrono::year;

// ---- versions

TEST(Version, ReadsTheNumbersAtTheBeginning) {
  EXPECT_EQ(Version::parse("550.54.15"), (Version{550, 54, 15}));
  EXPECT_EQ(Version::parse("535.183.01-1~deb12u1"), (Version{535, 183, 1}));
  EXPECT_EQ(Version::parse("2.5.1+cu124"), (Version{2, 5, 1}));
  EXPECT_EQ(Version::parse("v12.4"), (Version{12, 4}));
  EXPECT_EQ(Version::parse("0.6.3.post1"), (Version{0, 6, 3}));
  EXPECT_EQ(Version::parse("none"), std::nullopt);
  EXPECT_EQ(Version::parse("99999999999.1"), std::nullopt);
}

TEST(Version, IsComparedNumberByNumberAndWrittenAsItsMakerDoes) {
  EXPECT_LT((Version{12, 9}), (Version{12, 10})) << "not as text";
  EXPECT_LT((Version{580, 65, 6}), (Version{580, 105, 8}));
  EXPECT_EQ(to_string(Version{580, 65, 6}), "580.65.06");
  EXPECT_EQ(to_string(Version{580}), "580");
  EXPECT_EQ(to_string(Version{12, 4}), "12.4");
  EXPECT_EQ(to_string(release_of({12, 4, 131})), "12.4");
}

// ---- rows

TEST(Compatibility, EveryToolkitsRowIsInRange) {
  ASSERT_GT(known().toolkits().size(), 50U);
  std::set<std::string_view> names;
  for (const CudaToolkit& row : known().toolkits()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(row.version.major >= 8 && row.version.major < 20) << row.name;
    EXPECT_FALSE(row.source.empty()) << row.name;
    EXPECT_TRUE(known().min_driver(row.version, true)) << row.name;
    EXPECT_LE(row.lowest, row.highest) << row.name;
    EXPECT_TRUE(row.ptx) << row.name;
    // CUDA 11.0 came before the driver with which minor-version compatibility began.
    const bool has_both = row.min_driver_minor_version && row.min_driver && release_of(row.version) != Version{11, 0};
    EXPECT_TRUE(!has_both || row.min_driver_minor_version <= row.min_driver) << row.name;
    EXPECT_NE(known().toolkit(row.version), nullptr);
  }
}

TEST(Compatibility, EveryOtherRowHasASourceAndAKeyOfItsOwn) {
  std::set<int> branches;
  for (const DriverBranch& row : known().branches()) {
    EXPECT_TRUE(branches.insert(row.branch).second) << row.branch;
    EXPECT_FALSE(row.source.empty()) << row.branch;
    EXPECT_EQ(known().branch(row.branch), &row);
  }
  std::set<int> architectures;
  for (const Architecture& row : known().architectures()) {
    EXPECT_TRUE(architectures.insert(row.number).second) << row.number;
    EXPECT_TRUE(row.first_cuda) << row.number;
    EXPECT_TRUE(!row.last_cuda || row.first_cuda <= row.last_cuda) << row.number;
    EXPECT_FALSE(row.source.empty()) << row.number;
  }
  for (const VllmRelease& row : known().vllm_releases()) {
    EXPECT_LE(row.first, row.last);
    EXPECT_TRUE(row.torch && row.cuda && row.min_capability >= 70) << to_string(row.first);
    EXPECT_FALSE(row.source.empty()) << to_string(row.first);
  }
  for (const ComponentRelease& row : known().components()) {
    EXPECT_FALSE(row.component.empty() || row.version.empty() || row.source.empty()) << row.component;
  }
  const std::set<std::string_view> severities{"info", "warning", "error", "critical"};
  for (const XidCode& row : known().xids()) {
    EXPECT_TRUE(severities.contains(row.severity)) << row.code;
    EXPECT_FALSE(row.source.empty() || (row.description.empty() && row.mnemonic.empty())) << row.code;
    EXPECT_EQ(known().xid(row.code), &row);
  }
}

TEST(Compatibility, GpusBeforeAmpereRetirePagesWhereNewerOnesReplaceRows) {
  EXPECT_EQ(memory_repair(70), MemoryRepair::pages);
  EXPECT_EQ(memory_repair(75), MemoryRepair::pages);
  EXPECT_EQ(memory_repair(80), MemoryRepair::rows);
  EXPECT_EQ(memory_repair(std::nullopt), MemoryRepair::unknown);
  for (const int code : {48, 63, 64}) {
    const XidCode* older = known().xid(code, MemoryRepair::pages);
    const XidCode* newer = known().xid(code);
    ASSERT_NE(older, nullptr);
    EXPECT_NE(older, newer) << code;
    EXPECT_EQ(older->severity, newer->severity) << code;
    EXPECT_EQ(older->action, newer->action) << code;
    EXPECT_FALSE(older->description.contains("remap") || older->action_plain.contains("row")) << code;
    EXPECT_EQ(known().xid(code, MemoryRepair::rows), newer) << code;
  }
  EXPECT_EQ(known().xid(79, MemoryRepair::pages), known().xid(79));
}

TEST(Compatibility, EveryWheelRunsSomewhereAndEachReleaseHasOneDefault) {
  std::map<Version, int> defaults;
  for (const TorchBuild& row : known().torch_builds()) {
    const std::string name = to_string(row.torch) + std::string(row.build);
    EXPECT_TRUE(cuda_of_build(row.build)) << name;
    EXPECT_FALSE(row.source.empty()) << name;
    EXPECT_TRUE(row.min_driver) << name;
    EXPECT_LE(row.python_lowest, row.python_highest) << name;
    for (const auto entry : split(row.architectures, ';')) {
      const auto number = Version::parse(entry);
      ASSERT_TRUE(number) << name << entry;
      EXPECT_TRUE(code_runs_on(entry, number->major * 10 + number->minor)) << name << entry;
    }
    const auto floor = known().min_driver(*cuda_of_build(row.build), false);
    ASSERT_TRUE(floor) << name;
    EXPECT_EQ(row.min_driver, *floor) << name << ": its CUDA's floor";
    defaults[row.torch] += row.is_default ? 1 : 0;
  }
  for (const auto& [torch, count] : defaults) EXPECT_EQ(count, 1) << to_string(torch);
}

/// Corrected in 2026-11, each with its source in the row.
TEST(Compatibility, TheNewestReleasesAreAsTheirSourcesSay) {
  const TorchBuild* torch = known().torch({2, 14, 0}, "cu130");
  ASSERT_NE(torch, nullptr);
  EXPECT_TRUE(torch->is_default) << "googlecolab/colabtools#6093";
  EXPECT_EQ(known().torch({2, 14, 0}, "cu134"), nullptr) << "comes with 2.15";
  const VllmRelease* vllm = known().vllm({0, 29, 0});
  ASSERT_NE(vllm, nullptr);
  EXPECT_EQ(vllm->torch, (Version{2, 13, 0})) << "NVIDIA-NeMo/RL#4080";
  ASSERT_NE(known().toolkit({12, 8, 2}), nullptr);
  EXPECT_EQ(known().toolkit({12, 8, 2})->min_driver, (Version{570, 211, 1}));
  EXPECT_EQ(known().toolkit({13, 2, 2})->min_driver, (Version{595, 71, 5})) << "its installer's name";
}

// ---- drivers and toolkits

TEST(Compatibility, AToolkitIsFoundByAnyOfItsNumbers) {
  EXPECT_EQ(known().toolkit({12, 4, 131})->version.minor, 4) << "nvcc's own build number";
  EXPECT_EQ(release_of(known().toolkit({11, 8})->version), (Version{11, 8}));
  EXPECT_EQ(known().toolkit({12, 7}), nullptr) << "never released";
  EXPECT_EQ(known().toolkit({99, 0}), nullptr);
}

TEST(Compatibility, ADriverOffersTheCudaOfItsBranch) {
  EXPECT_EQ(known().max_cuda({550, 54, 15}), (Version{12, 4}));
  EXPECT_EQ(known().max_cuda({565, 57, 1}), (Version{12, 7})) << "a CUDA that no toolkit has";
  EXPECT_EQ(known().max_cuda({552}), (Version{12, 4})) << "Windows' numbers lie between";
  EXPECT_EQ(known().max_cuda({9999}), known().max_cuda({known().newest_branch()}));
  EXPECT_EQ(known().max_cuda({300}), std::nullopt);
}

TEST(Compatibility, AMajorReleaseHasOneFloor) {
  EXPECT_EQ(known().min_driver({12, 8}, false), (Version{525, 60, 13}));
  EXPECT_EQ(known().min_driver({11, 8}, false), (Version{450, 80, 2}));
  EXPECT_EQ(known().min_driver({13, 9}, false), (Version{580})) << "newer than the tables: the major's rule";
  EXPECT_EQ(known().min_driver({10, 2}, false), known().min_driver({10, 2}, true)) << "before CUDA 11 there is none";
  EXPECT_EQ(known().min_driver({99, 0}, true), std::nullopt);
}

TEST(Compatibility, ProgramsRunInFourWays) {
  EXPECT_EQ(known().runs_on({12, 4}, {550, 54, 15}), RunsOn::natively);
  EXPECT_EQ(known().runs_on({11, 8}, {550, 54, 15}), RunsOn::natively) << "old programs on new drivers";
  EXPECT_EQ(known().runs_on({12, 9}, {550, 54, 15}), RunsOn::by_minor_version);
  EXPECT_EQ(known().runs_on({13, 0}, {550, 54, 15}), RunsOn::by_forward_compatibility);
  EXPECT_EQ(known().runs_on({12, 0}, {390, 157}), RunsOn::not_at_all);
  EXPECT_EQ(known().runs_on({12, 0}, {525, 60, 13}), RunsOn::natively);
  EXPECT_EQ(known().runs_on({12, 1}, {525, 60, 12}), RunsOn::by_forward_compatibility) << "just below the floor";
}

TEST(Compatibility, TheRecommendedBranchIsAliveAndServesTheGpu) {
  EXPECT_EQ(known().recommended_branch(0, 0, kToday), 580) << "long-term support before production";
  EXPECT_EQ(known().recommended_branch(590, 0, kToday), 595);
  EXPECT_EQ(known().recommended_branch(0, 470, kToday), 0) << "Kepler's last is over";
  EXPECT_EQ(known().recommended_branch(0, 0, std::chrono::sys_days(year(2025) / 1 / 15)), 535);
  EXPECT_EQ(known().recommended_branch(0, 0, std::chrono::sys_days(year(2099) / 1 / 1)), 0);
}

TEST(Compatibility, AMonthIsOverWhenItsLastDayIs) {
  EXPECT_FALSE(is_over("2026-06", std::chrono::sys_days(year(2026) / 6 / 30)));
  EXPECT_TRUE(is_over("2026-06", std::chrono::sys_days(year(2026) / 7 / 1)));
  EXPECT_TRUE(is_over("past", {}));
  EXPECT_FALSE(is_over("2020-01", {})) << "the time is not known";
  EXPECT_FALSE(is_over("", kToday));
}

// ---- architectures and code

TEST(Compatibility, ToolkitsBuildForTheArchitecturesOfTheirTime) {
  EXPECT_EQ(known().can_target({11, 7}, 89), false);
  EXPECT_EQ(known().can_target({11, 8}, 89), true);
  EXPECT_EQ(known().can_target({12, 6}, 120), false);
  EXPECT_EQ(known().can_target({12, 9}, 70), true);
  EXPECT_EQ(known().can_target({13, 0}, 70), false);
  EXPECT_EQ(known().can_target({12, 4}, 777), std::nullopt);
  EXPECT_EQ(known().can_target({99, 0}, 90), std::nullopt) << "newer than the tables";
  EXPECT_EQ(known().toolkits_for(120)->first, (Version{12, 8}));
  EXPECT_FALSE(known().toolkits_for(120)->second);
}

TEST(Compatibility, SassRunsWithinItsMajorAndPtxAnywhereLater) {
  EXPECT_TRUE(code_runs_on("sm_80", 86));
  EXPECT_FALSE(code_runs_on("sm_86", 80));
  EXPECT_FALSE(code_runs_on("sm_90", 100));
  EXPECT_TRUE(code_runs_on("compute_90", 120));
  EXPECT_TRUE(code_runs_on("9.0+PTX", 120));
  EXPECT_FALSE(code_runs_on("compute_90", 89));
  EXPECT_TRUE(code_runs_on("sm_90a", 90));
  EXPECT_FALSE(code_runs_on("sm_100a", 103));
  EXPECT_TRUE(code_runs_on("sm_100f", 103)) << "the family";
  EXPECT_FALSE(code_runs_on("sm_100f", 120));
  EXPECT_TRUE(code_runs_on("sm_120", 121));
  EXPECT_FALSE(code_runs_on("gfx90a", 90));
  EXPECT_FALSE(code_runs_on("", 90));
  EXPECT_TRUE(any_code_runs_on({"sm_50", "sm_80"}, 89));
  EXPECT_FALSE(any_code_runs_on({}, 89));
}

TEST(Compatibility, HostCompilersHaveACeiling) {
  EXPECT_EQ(known().host_compiler_fits({13, 0}, "gcc", 15), true);
  EXPECT_EQ(known().host_compiler_fits({13, 0}, "gcc", 16), false);
  EXPECT_EQ(known().host_compiler_fits({13, 0}, "clang", 20), true);
  EXPECT_EQ(known().host_compiler_fits({13, 0}, "clang", 21), false);
  EXPECT_EQ(known().host_compiler_fits({99, 0}, "gcc", 16), std::nullopt);
}

// ---- frameworks

TEST(Compatibility, BuildsAreNamedAfterTheirCuda) {
  EXPECT_EQ(cuda_of_build("cu124"), (Version{12, 4}));
  EXPECT_EQ(cuda_of_build("cu92"), (Version{9, 2}));
  EXPECT_EQ(cuda_of_build("cpu"), std::nullopt);
  EXPECT_EQ(cuda_of_build("rocm6.2"), std::nullopt);
  EXPECT_EQ(build_of_cuda({12, 4}), "cu124");
}

TEST(Compatibility, WheelsAreFoundByReleaseAndBuild) {
  ASSERT_NE(known().torch({2, 5, 0}, "cu124"), nullptr);
  EXPECT_EQ(known().torch({2, 5, 0}, "cu124")->torch, (Version{2, 5, 1})) << "releases of one number are alike";
  EXPECT_EQ(known().torch({2, 5, 1}, "cu130"), nullptr);
  EXPECT_EQ(known().torch_builds_of({2, 5}).size(), 3U);
  EXPECT_EQ(known().torch_for(90, Version{470, 82, 1})->build, "cu118");
  EXPECT_EQ(known().torch_for(120, std::nullopt)->torch, known().newest_torch());
  EXPECT_EQ(known().vllm({0, 9, 1})->torch, (Version{2, 7}));
  EXPECT_EQ(known().vllm({0, 0, 1}), nullptr);
}

TEST(Compatibility, AJetsonsGpuTakesNoCodeOfTheCardsOfItsGeneration) {
  EXPECT_FALSE(code_runs_on("sm_80", 87)) << "measured on Orin: no kernel image";
  EXPECT_FALSE(code_runs_on("8.6", 87));
  EXPECT_FALSE(code_runs_on("sm_87", 89));
  EXPECT_FALSE(code_runs_on("7.0", 72));
  EXPECT_FALSE(code_runs_on("10.0", 101));
  EXPECT_TRUE(code_runs_on("sm_87", 87));
  EXPECT_TRUE(code_runs_on("8.0+PTX", 87)) << "PTX is compiled on it";
  EXPECT_TRUE(code_runs_on("sm_101", 110)) << "Thor by its name in CUDA 12";
  EXPECT_TRUE(code_runs_on("sm_80", 89));
  EXPECT_TRUE(is_jetson(87) && is_jetson(110));
  EXPECT_FALSE(is_jetson(80) || is_jetson(90) || is_jetson(121));
}

TEST(Compatibility, GpusAreFoundByNameIdAndCutName) {
  EXPECT_EQ(known().model("H100 PCIe"), known().model("NVIDIA H100 PCIe"));
  EXPECT_EQ(known().model("unheard of", 0x268410DEU)->name, "NVIDIA GeForce RTX 4090");
  EXPECT_EQ(known().model("unheard of", 0x26841002U), nullptr) << "another maker's id";
  EXPECT_NE(known().model("NVIDIA GeForce RTX 2080 ..."), nullptr);
  EXPECT_EQ(known().model("NVIDIA A100-SXM4-80GB MIG 1g.10gb"), known().model("NVIDIA A100-SXM4-80GB"));
  EXPECT_EQ(known().architecture_of_name("NVIDIA GeForce RTX 3070 Laptop GPU"), 86);
  EXPECT_EQ(known().architecture_of_name("Voodoo"), std::nullopt);
  for (const auto& [name, architecture] :
       {std::pair("GRID A100-40C", 80), std::pair("GRID A100D-80C", 80), std::pair("GRID V100DX-32Q", 70),
        std::pair("GRID T4-16Q", 75), std::pair("GRID RTX6000-24Q", 75), std::pair("NVIDIA L40S-48C", 89),
        std::pair("NVIDIA RTX6000-Ada-48Q", 89), std::pair("NVIDIA H100XM-80C", 90), std::pair("NVIDIA A100-2-10C", 80),
        std::pair("NVIDIA Jetson AGX Orin", 87), std::pair("Jetson Thor", 110), std::pair("Orin NX", 87),
        std::pair("Jetson Orin Nano", 87), std::pair("AGX Xavier", 72), std::pair("Jetson Nano", 53),
        std::pair("NVIDIA Rubin", 107)})
    EXPECT_EQ(known().architecture_of_name(name), architecture) << name;
}

// ---- what judges get wrong most easily

TEST(Compatibility, TheBranchesOfNovember2026) {
  EXPECT_EQ(known().newest_toolkit(), (Version{13, 4}));
  EXPECT_EQ(known().toolkit({13, 4})->ptx, (Version{9, 4}));
  const auto over = [](int branch) { return is_over(known().branch(branch)->end_of_life, kToday); };
  EXPECT_FALSE(over(580));
  EXPECT_FALSE(over(595));
  EXPECT_TRUE(over(535));
  EXPECT_TRUE(over(570));
  EXPECT_TRUE(over(610));
  for (const char* name : {"Tesla V100-SXM2-32GB", "Tesla P100-PCIE-16GB", "Tesla M40"}) {
    ASSERT_NE(known().model(name), nullptr) << name;
    EXPECT_EQ(known().model(name)->last_driver_branch, 580) << name;
  }
}

TEST(Compatibility, TheThirdNumberOfCuda134IsABuild) {
  EXPECT_EQ(release_of(known().toolkit({13, 4, 1})->version), (Version{13, 4}));
  EXPECT_EQ(known().toolkit({13, 4, 1}), known().toolkit({13, 4, 2}));
}

TEST(Compatibility, TheDefaultWheelMovedFromCuda126To128To130) {
  const auto default_of = [](const Version& torch) {
    for (const TorchBuild* build : known().torch_builds_of(torch)) {
      if (build->is_default) return build->build;
    }
    return std::string_view();
  };
  EXPECT_EQ(default_of({2, 7}), "cu126");
  EXPECT_EQ(default_of({2, 8}), "cu128");
  EXPECT_EQ(default_of({2, 10}), "cu128");
  EXPECT_EQ(default_of({2, 11}), "cu130");
  EXPECT_EQ(known().torch({2, 11}, "cu130")->min_driver, (Version{580}));
}

TEST(Compatibility, HopperCameWithCuda118AndThorChangedItsNumber) {
  EXPECT_EQ(known().toolkits_for(90)->first, (Version{11, 8}));
  EXPECT_EQ(known().can_target({12, 8}, 101), true);
  EXPECT_EQ(known().can_target({13, 0}, 110), true);
  EXPECT_EQ(known().can_target({12, 9}, 110), false);
}

TEST(Compatibility, OpenAndProprietaryModulesShareNoMachineOfVoltaAndBlackwell) {
  EXPECT_EQ(known().model("NVIDIA B200")->open_module, OpenModule::required);
  EXPECT_EQ(known().model("NVIDIA GeForce RTX 5090")->open_module, OpenModule::required);
  EXPECT_EQ(known().model("Tesla V100-SXM2-32GB")->open_module, OpenModule::unsupported);
  EXPECT_EQ(known().model("Tesla T4")->open_module, OpenModule::supported);
}

TEST(Compatibility, VllmNeedsCuda13AndTuringSince020) {
  EXPECT_EQ(known().vllm({0, 20})->cuda, (Version{13, 0}));
  EXPECT_EQ(known().vllm({0, 20})->min_capability, 75);
  EXPECT_EQ(known().vllm({0, 18})->cuda.major, 12);
}

}  // namespace
}  // namespace gpuwarden::knowledge
