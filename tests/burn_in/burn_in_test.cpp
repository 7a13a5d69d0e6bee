// SPDX-License-Identifier: Apache-2.0
// The whole way through a CUDA library that is opened, called, and fails in all the ways that drivers do.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "burn_in/stand_in.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

facts::BurnInGpu only_gpu(const facts::BurnInRun& run) {
  EXPECT_THAT(run.gpus, SizeIs(1));
  return run.gpus.empty() ? facts::BurnInGpu{} : run.gpus[0];
}

TEST(BurnIn, ASoundGpuPassesEveryTest) {
  const StandInSettings settings("memory=8");
  const auto run = run_burn_in(machine_with_gpus(), stand_in_options());
  EXPECT_EQ(run.not_possible, std::nullopt);
  EXPECT_EQ(run.failed, std::nullopt);
  EXPECT_EQ(run.cuda_version, "12.4");
  EXPECT_TRUE(run.stand_in);
  const auto gpu = only_gpu(run);
  EXPECT_EQ(gpu.index, GpuIndex{0});
  EXPECT_EQ(gpu.failed, std::nullopt);
  ASSERT_TRUE(gpu.memory);
  EXPECT_TRUE(gpu.memory->complete);
  EXPECT_EQ(gpu.memory->mismatches, 0U);
  EXPECT_THAT(gpu.memory->patterns, SizeIs(8));
  EXPECT_EQ(gpu.memory->free, 8_MiB);
  EXPECT_EQ(gpu.memory->tested, 7_MiB) << "90 % of what is free, in whole mebibytes";
  EXPECT_EQ(gpu.wrong_results, 0U);
}

TEST(BurnIn, FiguresFollowFromBytesOperationsAndTheGpusOwnClock) {
  const StandInSettings settings("memory=8;h2d=51;d2h=52;d2d=2900;fp32=55;tensor=500;gemm=700");
  const auto gpu = only_gpu(run_burn_in(machine_with_gpus(), stand_in_options()));
  EXPECT_NEAR(figure(gpu, "pcie_to_device").value, 51, 0.5);
  EXPECT_NEAR(figure(gpu, "pcie_to_host").value, 52, 0.5);
  EXPECT_NEAR(figure(gpu, "memory_bandwidth").value, 2900, 30);
  EXPECT_NEAR(figure(gpu, "fp32").value, 55, 0.5);
  EXPECT_NEAR(figure(gpu, "tensor_bf16").value, 500, 5);
}

TEST(BurnIn, WithoutTheTestOfTheMemoryOnlyRatesAreMeasured) {
  const StandInSettings settings("memory=8");
  auto options = stand_in_options();
  options.memory_share = 0;
  const auto run = run_burn_in(machine_with_gpus(), options);
  EXPECT_FALSE(only_gpu(run).memory);
  EXPECT_GE(only_gpu(run).figures.size(), 5U);
  EXPECT_THAT(run.pairs, IsEmpty()) << "nobody asked for them";
}

facts::BurnInRun run_pairs(int count, const facts::Snapshot& snapshot) {
  auto options = stand_in_options();
  options.memory_share = 0;
  options.pairs = true;
  auto run = run_burn_in(snapshot, options);
  EXPECT_THAT(run.gpus, SizeIs(count));
  return run;
}

TEST(BurnInPairs, EveryTwoGpusCopyToOneAnotherBothWays) {
  const StandInSettings settings("memory=64;devices=3;p2p=380");
  const auto run = run_pairs(3, machine_with_gpus(3));
  ASSERT_THAT(run.pairs, SizeIs(6));
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
  for (const auto& pair : run.pairs) {
    ASSERT_TRUE(pair.figure && pair.from_index && pair.to_index) << pair.failed.value_or("");
    EXPECT_EQ(pair.direct, true);
    EXPECT_NEAR(pair.figure->value, 380, 4);
    EXPECT_FALSE(pair.figure->expected) << "no NVLinks are known";
    EXPECT_EQ(pair.from, run.gpus[pair.from_index->value].uuid);
    seen.emplace(pair.from_index->value, pair.to_index->value);
  }
  EXPECT_THAT(seen, SizeIs(6));
}

TEST(BurnInPairs, WithoutAccessTheHostsMemoryLiesBetween) {
  const StandInSettings settings("memory=64;devices=2;peers=0");
  const auto run = run_pairs(2, machine_with_gpus(2));
  ASSERT_THAT(run.pairs, SizeIs(2));
  EXPECT_EQ(run.pairs[0].direct, false);
  EXPECT_THAT(run.pairs[0].figure->method, HasSubstr("through the host's memory"));
}

TEST(BurnInPairs, APairThatFailsOrCrashesSaysSoAndTheGpusKeepTheirFigures) {
  for (const auto& [fault, words] : {std::pair("fail=cuMemcpyPeerAsync:719", "CUDA_ERROR_LAUNCH_FAILED"),
                                     {"crash=cuMemcpyPeerAsync", "crashed (signal 11)"}}) {
    const StandInSettings settings(std::string("memory=64;devices=2;") + fault);
    const auto run = run_pairs(2, machine_with_gpus(2));
    ASSERT_FALSE(run.pairs.empty()) << fault;
    EXPECT_THAT(run.pairs.front().failed.value_or(""), HasSubstr(words));
    EXPECT_EQ(run.pairs.front().to_index, GpuIndex{1});
    EXPECT_GE(run.gpus[0].figures.size(), 5U);
  }
}

TEST(BurnInPairs, OneGpuHasNobodyToCopyTo) {
  const StandInSettings settings("memory=8");
  EXPECT_THAT(run_pairs(1, machine_with_gpus(1)).pairs, IsEmpty());
}

TEST(BurnInPairs, NvlinksAreHeldAgainstTheirNumberTimesTheirSpeed) {
  auto machine = machine_with_gpus(2);
  facts::Link link{GpuIndex{0}, GpuIndex{1}, std::nullopt};
  link.nvlinks = 18;
  machine.links = std::vector{link};
  for (auto& record : machine.gpus) {
    facts::NvLink one;
    one.active = true;
    one.speed = BytesPerSecond(25'000'000'000);
    record.sample.nvlinks = {one};
  }
  const StandInSettings settings("memory=64;devices=2;p2p=200");
  const auto run = run_pairs(2, machine);
  ASSERT_THAT(run.pairs, SizeIs(2));
  for (const auto& pair : run.pairs) {
    ASSERT_TRUE(pair.figure && pair.figure->expected);
    EXPECT_DOUBLE_EQ(*pair.figure->expected, 450);
    EXPECT_LT(pair.figure->value, *pair.figure->least) << "200 of 450";
  }
}

TEST(BurnIn, CublasIsTheMeasureOfTheTensorCoresWhereItIsThere) {
  const StandInSettings settings("memory=64;gemm=700;tensor=500");
  auto options = stand_in_options();
  options.memory_share = 0.1;
  const auto with = only_gpu(run_burn_in(machine_with_gpus(), options));
  EXPECT_NEAR(figure(with, "matrix_bf16").value, 700, 7);
  EXPECT_THAT(figure(with, "matrix_bf16").method, HasSubstr("cublasGemmEx of "));
  EXPECT_TRUE(figure(with, "matrix_bf16").least);
  EXPECT_FALSE(figure(with, "tensor_bf16").least) << "one verdict about the tensor cores is enough";
  options.cublas = {"/nowhere/libcublas.so.12"};
  const auto without = only_gpu(run_burn_in(machine_with_gpus(), options));
  EXPECT_EQ(figure(without, "matrix_bf16").value, -1);
  EXPECT_TRUE(figure(without, "tensor_bf16").least);
  EXPECT_THAT(without.notes, Contains(HasSubstr("no working libcublas was found")));
}

TEST(BurnIn, OfEveryTypeThereIsAProductAndTheFirstJudges) {
  const StandInSettings settings("memory=256;gemm=700");
  auto options = stand_in_options();
  options.memory_share = 0;
  options.all_types = true;
  const auto gpu = only_gpu(run_burn_in(machine_with_gpus(), options));
  for (const char* id : {"matrix_bf16", "matrix_f16", "matrix_tf32", "matrix_int8", "matrix_fp32"}) {
    EXPECT_NEAR(figure(gpu, id).value, 700, 7) << id;
    EXPECT_EQ(figure(gpu, id).least.has_value(), std::string_view(id) == "matrix_bf16") << id;
  }
  EXPECT_NEAR(figure(gpu, "matrix_int8").expected.value_or(0), 1979, 1);
  EXPECT_NEAR(figure(gpu, "matrix_tf32").expected.value_or(0), 495, 1);
  EXPECT_NEAR(figure(gpu, "matrix_fp32").expected.value_or(0), 67, 1);
  EXPECT_EQ(figure(gpu, "matrix_int8").unit, "TOPS");
}

TEST(BurnIn, ACublasThatRefusesIsANote) {
  const StandInSettings settings("memory=64;cublas=3");
  auto options = stand_in_options();
  options.memory_share = 0.1;
  const auto gpu = only_gpu(run_burn_in(machine_with_gpus(), options));
  EXPECT_EQ(gpu.failed, std::nullopt);
  EXPECT_THAT(gpu.notes, Contains(HasSubstr("cublasCreate of")));
}

TEST(BurnIn, OlderGpusUseTheirOwnInstructions) {
  auto machine = machine_with_gpus();
  for (const auto& [capability, id] : {std::pair("75", "tensor_f16"), std::pair("70", "tensor_f16")}) {
    const StandInSettings settings(std::string("memory=8;tensor=60;capability=") + capability);
    const auto gpu = only_gpu(run_burn_in(machine, stand_in_options()));
    EXPECT_NEAR(figure(gpu, id).value, 60, 0.6) << capability;
  }
  const StandInSettings settings("memory=8;capability=61");
  const auto gpu = only_gpu(run_burn_in(machine, stand_in_options()));
  EXPECT_THAT(gpu.notes, Contains("tensor cores: this GPU has none"));
  EXPECT_GT(figure(gpu, "fp32").value, 0);
}

TEST(BurnInMemory, AFlippedBitIsFoundInEveryPatternWithItsAddress) {
  const StandInSettings settings("memory=8;flip=4096:3");
  const auto gpu = only_gpu(run_burn_in(machine_with_gpus(), stand_in_options()));
  ASSERT_TRUE(gpu.memory);
  EXPECT_EQ(gpu.memory->mismatches, 8U);
  ASSERT_THAT(gpu.memory->faults, SizeIs(8));
  for (const auto& fault : gpu.memory->faults) {
    EXPECT_EQ(fault.expected ^ fault.found, 8U) << fault.pattern;
    EXPECT_EQ(wrong_bits(fault), 1);
    EXPECT_EQ(fault.address, gpu.memory->faults[0].address);
  }
  EXPECT_EQ(gpu.memory->faults[0].pattern, "address");
  EXPECT_EQ(gpu.memory->faults[0].expected, gpu.memory->faults[0].address);
}

TEST(BurnInMemory, AStuckBitIsFoundByThePatternsThatWantItOtherwise) {
  const StandInSettings settings("memory=8;stuck=64:0");
  const auto gpu = only_gpu(run_burn_in(machine_with_gpus(), stand_in_options()));
  ASSERT_TRUE(gpu.memory);
  std::vector<std::string> patterns;
  for (const auto& fault : gpu.memory->faults) patterns.push_back(fault.pattern);
  EXPECT_THAT(patterns, Contains("zeros"));
  EXPECT_THAT(patterns, Contains("0xAA"));
  EXPECT_THAT(patterns, Contains("address"));
  EXPECT_THAT(patterns, ::testing::Not(Contains("ones")));
  EXPECT_THAT(patterns, ::testing::Not(Contains("0x55")));
}

TEST(BurnInMemory, FragmentedMemoryIsWalkedInSmallerPieces) {
  const StandInSettings settings("memory=8;piece=2");
  const auto gpu = only_gpu(run_burn_in(machine_with_gpus(), stand_in_options()));
  ASSERT_TRUE(gpu.memory);
  EXPECT_GE(gpu.memory->tested, 6_MiB);
  EXPECT_TRUE(gpu.memory->complete);
}

TEST(BurnInMemory, TheShareIsOfTheFreeMemory) {
  const StandInSettings settings("memory=10;free=9");
  auto options = stand_in_options();
  options.memory_share = 0.5;
  const auto gpu = only_gpu(run_burn_in(machine_with_gpus(), options));
  ASSERT_TRUE(gpu.memory);
  EXPECT_EQ(gpu.memory->tested, 4_MiB);
}

TEST(BurnInMemory, OutOfMemoryIsANoteAndNoFailure) {
  const StandInSettings settings("memory=8;fail=cuMemAlloc_v2:2");
  const auto gpu = only_gpu(run_burn_in(machine_with_gpus(), stand_in_options()));
  EXPECT_EQ(gpu.failed, std::nullopt);
  EXPECT_FALSE(gpu.memory);
  EXPECT_THAT(gpu.notes, Contains(HasSubstr("CUDA_ERROR_OUT_OF_MEMORY (2)")));
}

TEST(BurnInArithmetic, WrongSumsAreCounted) {
  const StandInSettings settings("memory=8;wrong=2");
  EXPECT_GT(only_gpu(run_burn_in(machine_with_gpus(), stand_in_options())).wrong_results, 0U);
}

TEST(BurnInFailure, ALaunchThatFailsSaysInWhichTestAndKeepsTheRest) {
  const StandInSettings settings("memory=8;fail=cuLaunchKernel:719");
  const auto gpu = only_gpu(run_burn_in(machine_with_gpus(), stand_in_options()));
  ASSERT_TRUE(gpu.failed);
  EXPECT_EQ(*gpu.failed, "memory: cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED (719)");
}

TEST(BurnInFailure, ADriverThatCannotCompileTheKernelsLeavesThemOut) {
  const StandInSettings settings("memory=8;ptx=222");
  const auto gpu = only_gpu(run_burn_in(machine_with_gpus(), stand_in_options()));
  EXPECT_EQ(gpu.failed, std::nullopt);
  EXPECT_THAT(gpu.notes, Contains(HasSubstr("ptxas: line 1: too new")));
  EXPECT_GT(figure(gpu, "memory_bandwidth").value, 0) << "copies need no kernel";
}

TEST(BurnInFailure, ACrashIsTheChildsAloneAndWhatWasFoundIsKept) {
  const StandInSettings settings("memory=8;flip=0:0;crash=cuMemcpyHtoDAsync_v2");
  const auto gpu = only_gpu(run_burn_in(machine_with_gpus(), stand_in_options()));
  ASSERT_TRUE(gpu.failed);
  EXPECT_THAT(*gpu.failed, HasSubstr("pcie: CUDA's driver crashed (signal"));
  ASSERT_TRUE(gpu.memory);
  EXPECT_EQ(gpu.memory->mismatches, 8U);
}

TEST(BurnInFailure, AHangIsEndedAtTheDeadlineAndTheNextGpuIsTested) {
  const StandInSettings settings("memory=8;devices=2;hang=cuLaunchKernel");
  auto options = stand_in_options();
  options.deadline = std::chrono::seconds(5);  // for the one that lists the GPUs, too
  const auto run = run_burn_in(machine_with_gpus(2), options);
  ASSERT_THAT(run.gpus, SizeIs(2));
  for (const auto& gpu : run.gpus) {
    ASSERT_TRUE(gpu.failed);
    EXPECT_THAT(*gpu.failed, HasSubstr("did not answer within 5.0 s"));
  }
}

TEST(BurnInFailure, AnInitThatHangsOrCrashesEndsTheRunNotTheProgram) {
  auto options = stand_in_options();
  options.deadline = std::chrono::seconds(1);
  {
    const StandInSettings settings("hang=cuInit");
    const auto run = run_burn_in(machine_with_gpus(), options);
    ASSERT_TRUE(run.failed);
    EXPECT_THAT(*run.failed, HasSubstr("starting CUDA: CUDA did not answer"));
  }
  options.deadline = std::chrono::seconds(40);
  const StandInSettings settings("crash=cuInit");
  const auto run = run_burn_in(machine_with_gpus(), options);
  ASSERT_TRUE(run.failed);
  EXPECT_THAT(*run.failed, HasSubstr("crashed (signal"));
}

TEST(BurnInFailure, ACudaThatDoesNotStartIsNamedWithItsNextStep) {
  for (const auto& [code, name] :
       {std::pair("803", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"), std::pair("999", "CUDA_ERROR_UNKNOWN (999)"),
        std::pair("802", "CUDA_ERROR_SYSTEM_NOT_READY (802)")}) {
    const StandInSettings settings(std::string("init=") + code);
    const auto run = run_burn_in(machine_with_gpus(), stand_in_options());
    ASSERT_TRUE(run.failed) << code;
    EXPECT_THAT(*run.failed, HasSubstr(name));
    EXPECT_FALSE(run.not_possible);
    EXPECT_THAT(run.next_steps, ::testing::Not(IsEmpty()));
  }
}

TEST(BurnInAbsence, NoDeviceAndNoLibraryAreNoFailures) {
  {
    const StandInSettings settings("devices=0");
    const auto run = run_burn_in(machine_with_gpus(), stand_in_options());
    ASSERT_TRUE(run.not_possible);
    EXPECT_THAT(*run.not_possible, HasSubstr("CUDA_ERROR_NO_DEVICE (100)"));
    EXPECT_FALSE(run.failed);
  }
  auto options = stand_in_options();
  options.library = "/nowhere/libcuda.so.1";
  const auto run = run_burn_in(machine_with_gpus(), options);
  ASSERT_TRUE(run.not_possible);
  EXPECT_THAT(*run.not_possible, HasSubstr("/nowhere/libcuda.so.1"));
}

TEST(BurnInAbsence, ALibraryThatIsNotCudasIsNamed) {
  auto options = stand_in_options();
  options.library = "libm.so.6";
  const auto run = run_burn_in(machine_with_gpus(), options);
  ASSERT_TRUE(run.failed);
  EXPECT_THAT(*run.failed, HasSubstr("libm.so.6 has no cuInit"));
}

TEST(BurnInChoice, GpusOfOthersAreLeftAloneUnlessForced) {
  const StandInSettings settings("memory=8");
  auto machine = machine_with_gpus();
  machine.gpus[0].processes = {facts::GpuProcess{.pid = Pid{77}, .compute = true, .command = "python train.py"}};
  auto options = stand_in_options();
  const auto left = only_gpu(run_burn_in(machine, options));
  EXPECT_EQ(left.not_possible, "1 process runs on it (77 python train.py)");
  EXPECT_FALSE(left.memory);
  options.force = true;
  const auto forced = only_gpu(run_burn_in(machine, options));
  EXPECT_EQ(forced.not_possible, std::nullopt);
  EXPECT_TRUE(forced.memory);
}

TEST(BurnInChoice, LoadAndMemoryOfSomebodyUnseenCountToo) {
  auto machine = machine_with_gpus();
  machine.gpus[0].sample.utilization_gpu = 60_pct;
  EXPECT_THAT(burn_in::in_use(machine.gpus[0]).value_or(""), HasSubstr("60 %"));
  const StandInSettings settings("memory=16;free=4");
  const auto gpu = only_gpu(run_burn_in(machine_with_gpus(), stand_in_options()));
  EXPECT_THAT(gpu.not_possible.value_or(""), HasSubstr("12 MiB of its 16 MiB are in use"));
}

TEST(BurnInChoice, OnlyTheChosenAndTheVisibleAreTested) {
  const StandInSettings settings("memory=4;devices=3");
  const auto machine = machine_with_gpus(3);
  auto options = stand_in_options();
  options.gpus = {machine.gpus[2].gpu.uuid};
  EXPECT_EQ(only_gpu(run_burn_in(machine, options)).index, GpuIndex{2});
  ::setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  options.gpus.clear();
  EXPECT_EQ(only_gpu(run_burn_in(machine, options)).index, GpuIndex{1});
  options.gpus = {machine.gpus[2].gpu.uuid};
  const auto hidden = run_burn_in(machine, options);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_THAT(hidden.gpus, IsEmpty());
  EXPECT_THAT(hidden.not_possible.value_or(""), HasSubstr("none of the chosen"));
}

TEST(BurnInChoice, DevicesWithoutAUuidAreKnownByTheirBus) {
  const StandInSettings settings("memory=4;uuids=GPU-ffffffff-ffff-ffff-ffff-ffffffffffff;bus=0000:3B:00.0");
  auto machine = machine_with_gpus(2);
  machine.gpus[1].gpu.pci_bus_id = "00000000:3b:00.0";
  EXPECT_EQ(only_gpu(run_burn_in(machine, stand_in_options())).index, GpuIndex{1});
}

TEST(BurnInChoice, AMigInstanceIsFoundOnItsGpuAndHeldAgainstNoWholeGpu) {
  const StandInSettings settings("memory=4;uuids=GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee;d2d=100");
  auto machine = machine_with_gpus();
  machine.gpus[0].gpu.mig_enabled = true;
  machine.gpus[0].mig_devices = {facts::MigDevice{.uuid = Uuid("MIG-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee")}};
  const auto gpu = only_gpu(run_burn_in(machine, stand_in_options()));
  EXPECT_EQ(gpu.uuid.value, "MIG-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee");
  EXPECT_FALSE(figure(gpu, "memory_bandwidth").least);
}

TEST(BurnInChoice, AGpuInExclusiveModeIsNoFaultyGpu) {
  const StandInSettings settings("memory=4;fail=cuDevicePrimaryCtxRetain:46");
  const auto gpu = only_gpu(run_burn_in(machine_with_gpus(), stand_in_options()));
  EXPECT_EQ(gpu.failed, std::nullopt);
  EXPECT_THAT(gpu.not_possible.value_or(""), HasSubstr("cuDevicePrimaryCtxRetain: CUDA_ERROR_DEVICE_UNAVAILABLE (46)"));
}

TEST(BurnInListener, IsAskedBeforeUnderLoadAndAfter) {
  const StandInSettings settings("memory=4");
  burn_in::Listener listener;
  std::vector<std::string> phases;
  listener.progress = [&](std::string_view phase) { phases.emplace_back(phase); };
  const auto machine = machine_with_gpus();
  listener.observe = [&](const Uuid& uuid) -> std::optional<facts::GpuRecord> {
    EXPECT_EQ(uuid, machine.gpus[0].gpu.uuid);
    auto record = machine.gpus[0];
    record.sample.pcie_generation = Count(4);
    record.sample.clock_sm = 1755_MHz;
    return record;
  };
  const auto gpu = only_gpu(run_burn_in(machine, stand_in_options(), listener));
  std::vector<std::string> moments;
  for (const auto& moment : gpu.moments) moments.push_back(moment.when);
  EXPECT_EQ(moments, (std::vector<std::string>{"before", "pcie", "load", "after"}));
  EXPECT_EQ(gpu.moments[2].clock_sm, 1755_MHz);
  EXPECT_THAT(phases, Contains("GPU 0 (NVIDIA H100 80GB HBM3): memory"));
  EXPECT_NEAR(figure(gpu, "pcie_to_device").expected.value_or(0), 31.5, 0.1) << "the link as it was seen: 4.0 x16";
}

}  // namespace
}  // namespace gpuwarden::testing
