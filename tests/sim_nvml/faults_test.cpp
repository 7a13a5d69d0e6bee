// SPDX-License-Identifier: Apache-2.0
// A GPU in trouble, and products that lack something.
#include "sim_nvml/child.hpp"
#include "sim_nvml/proof.hpp"

namespace gpuwarden::nvml {
namespace {

using namespace std::chrono_literals;
using F = Functions;

constexpr const char* kTwoGpus =
    "clock: {frozen: true}\nnvlink: direct\ngpus: [{model: NVIDIA A100-SXM4-80GB, count: 2}]\n";

struct Trouble {
  const char* fault;
  Return code;
};

class Faults : public Simulated, public ::testing::WithParamInterface<Trouble> {};

TEST_P(Faults, ShowInEveryFunctionOfTheGpuAndInNoneOfItsNeighbour) {
  const Nvml& nvml = start(kTwoGpus);
  Device sick = nvml.gpu(0);
  Device well = nvml.gpu(1);
  ASSERT_FALSE(nvml.call(fault(GetParam().fault)).contains("error"));
  const std::string wanted = fmt::format("error {}", GetParam().code);
  for (const auto& proofs : {identity_proofs(), reading_proofs(), process_proofs()}) {
    for (const Proof& proof : proofs) {
      if (std::string_view(proof.symbol) == "nvmlDeviceGetIndex") continue;  // its proof asks the last GPU
      EXPECT_EQ(proof.read(nvml, sick), wanted) << proof.symbol;
      EXPECT_NE(proof.read(nvml, well), wanted) << proof.symbol;
    }
  }
  unsigned count = 0;
  EXPECT_EQ(nvml.nvmlDeviceGetCount_v2(&count), kSuccess);
  EXPECT_EQ(count, 2U) << "a GPU in trouble is still counted";
}

TEST_P(Faults, GoWhenTheyAreCleared) {
  const Nvml& nvml = start(kTwoGpus);
  Device gpu = nvml.gpu(0);
  const std::string before = text<&F::nvmlDeviceGetUUID>(nvml, gpu);
  nvml.call(fault(GetParam().fault));
  nvml.call({{"op", "clear_faults"}, {"gpu", 0}});
  EXPECT_EQ(text<&F::nvmlDeviceGetUUID>(nvml, gpu), before);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Faults,
                         ::testing::Values(Trouble{"lost", kGpuIsLost}, Trouble{"xid=79", kGpuIsLost},
                                           Trouble{"reset_required", kResetRequired},
                                           Trouble{"unknown_error", kUnknown},
                                           Trouble{"no_permission", kNoPermission}));

class Hang : public Simulated {};

TEST_F(Hang, BlocksForEverAndOnlyForTheGpuThatHangs) {
  const Nvml& nvml = start(kTwoGpus);
  Device sick = nvml.gpu(0);
  Device well = nvml.gpu(1);
  nvml.call(fault("hang"));
  EXPECT_EQ(number<&F::nvmlDeviceGetMinorNumber>(nvml, well), "1");
  Child child([&] {
    unsigned value = 0;
    return nvml.nvmlDeviceGetTemperature(sick, kTemperatureGpu, &value);
  });
  EXPECT_TRUE(child.still_runs_after(150ms));
  EXPECT_EQ(number<&F::nvmlDeviceGetMinorNumber>(nvml, well), "1") << "a hung call holds no lock";
  child.kill();
  EXPECT_EQ(child.wait(), -SIGKILL);
}

class Products : public Simulated {};

TEST_F(Products, AGeForceHasAFanButNoEccAndNoMig) {
  const Nvml& nvml = start("rtx4090x2");
  Device gpu = nvml.gpu(0);
  unsigned fan = 999;
  EXPECT_EQ(nvml.nvmlDeviceGetFanSpeed(gpu, &fan), kSuccess);
  EXPECT_LE(fan, 100U);
  EXPECT_EQ(number<&F::nvmlDeviceGetNumFans>(nvml, gpu), "1");
  EXPECT_EQ(two_numbers<&F::nvmlDeviceGetEccMode>(nvml, gpu), "error 3");
  EXPECT_EQ((number<&F::nvmlDeviceGetTotalEccErrors, kEccUncorrected, kEccVolatile>(nvml, gpu)), "error 3");
  EXPECT_EQ(two_numbers<&F::nvmlDeviceGetMigMode>(nvml, gpu), "error 3");
  EXPECT_EQ((number<&F::nvmlDeviceGetNvLinkState, 0U>(nvml, gpu)), "error 3");
}

TEST_F(Products, APassiveBoardHasEccButNoFan) {
  const Nvml& nvml = start("h100x8");
  Device gpu = nvml.gpu(0);
  EXPECT_EQ(number<&F::nvmlDeviceGetFanSpeed>(nvml, gpu), "error 3");
  EXPECT_EQ(number<&F::nvmlDeviceGetNumFans>(nvml, gpu), "0");
  EXPECT_EQ(two_numbers<&F::nvmlDeviceGetEccMode>(nvml, gpu), "1 1");
  EXPECT_EQ((number<&F::nvmlDeviceGetTotalEccErrors, kEccUncorrected, kEccVolatile>(nvml, gpu)), "0");
  EXPECT_EQ(two_numbers<&F::nvmlDeviceGetMigMode>(nvml, gpu), "0 0");
}

TEST_F(Products, AVoltaRetiresPagesWhereAnAmpereRemapsRows) {
  const Nvml& volta = start("v100x2", 450);
  std::array<unsigned, 4> rows{};
  EXPECT_EQ(volta.nvmlDeviceGetRemappedRows(volta.gpu(0), rows.data(), &rows[1], &rows[2], &rows[3]), kNotSupported);
  EXPECT_EQ(number<&F::nvmlDeviceGetRetiredPagesPendingStatus>(volta, volta.gpu(0)), "0");
  const Nvml& ampere = start("a100x4", 535);
  EXPECT_EQ(ampere.nvmlDeviceGetRemappedRows(ampere.gpu(0), rows.data(), &rows[1], &rows[2], &rows[3]), kSuccess);
  EXPECT_EQ(number<&F::nvmlDeviceGetRetiredPagesPendingStatus>(ampere, ampere.gpu(0)), "error 3");
}

TEST_F(Products, PresetsHaveTheirModelsNamesAndMemory) {
  struct Expected {
    const char* preset;
    unsigned gpus;
    const char* name;
    unsigned long long mib;
  };
  for (const Expected& one :
       {Expected{"h100x8", 8, "NVIDIA H100 80GB HBM3", 81559}, Expected{"h200x8", 8, "NVIDIA H200", 143771},
        Expected{"a100x4", 4, "NVIDIA A100-SXM4-80GB", 81920},
        Expected{"a100-40x8-mig", 8, "NVIDIA A100-SXM4-40GB", 40960},
        Expected{"v100x2", 2, "Tesla V100-SXM2-16GB", 16384},
        Expected{"rtx4090x2", 2, "NVIDIA GeForce RTX 4090", 24564}, Expected{"t4x1", 1, "Tesla T4", 15360}}) {
    const Nvml& nvml = start(one.preset);
    unsigned count = 0;
    EXPECT_EQ(nvml.nvmlDeviceGetCount_v2(&count), kSuccess);
    EXPECT_EQ(count, one.gpus) << one.preset;
    Memory memory{};
    EXPECT_EQ(nvml.nvmlDeviceGetMemoryInfo(nvml.gpu(count - 1), &memory), kSuccess);
    EXPECT_EQ(memory.total, one.mib << 20U) << one.preset;
    EXPECT_EQ(text<&F::nvmlDeviceGetName>(nvml, nvml.gpu(count - 1)), one.name);
  }
}

}  // namespace
}  // namespace gpuwarden::nvml
