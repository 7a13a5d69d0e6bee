// SPDX-License-Identifier: Apache-2.0
// Every function answers what the fleet's state says: each proof reads, changes the fleet, and reads the change.
#include <algorithm>
#include <set>

#include "sim_nvml/proof.hpp"

namespace gpuwarden::nvml {
namespace {

/// GPU 0 has a pinned value of its own for every reading that changes, so that no two can be mixed up.
constexpr const char* kFleetInStates = R"(
driver: 580.65.06
cuda: "13.0"
clock: {frozen: true}
nvlink: direct
gpus:
  - model: NVIDIA A100-SXM4-80GB
    uuid: GPU-11111111-2222-3333-4444-555555555555
    serial: "1320000000001"
    vbios: 92.00.45.00.03
    board_part_number: 692-2G506-0200-002
    bus_id: "00000000:17:00.0"
    cpu_list: 0-3,8
    processes: [{pid: 4194001, user: ada, command: python train.py, memory: 1000MiB, utilization: 40}]
    readings: {temperature: 41, memory_temperature: 49, power: 251.5, energy: 1000, utilization: 62, memory_utilization: 33,
      encoder_utilization: 11, decoder_utilization: 12, memory_used: 1000, memory_reserved: 600, bar1_total: 2048,
      bar1_used: 5, clock_graphics: 1111, clock_sm: 1112, clock_memory: 1593, clock_video: 1113, performance_state: 2,
      throttle_reasons: 4, pcie_generation: 3, pcie_width: 8, pcie_tx: 1234, pcie_rx: 5678, pcie_replays: 7,
      ecc_corrected_volatile: 21, ecc_uncorrected_volatile: 22, ecc_corrected_aggregate: 23,
      ecc_uncorrected_aggregate: 24, remapped_corrected: 3, remapped_uncorrected: 2, remapped_pending: 1,
      remapped_failure: 0, numa_node: 1, fan_speed: 37, retired_pending: 0}
  - {model: NVIDIA A100-SXM4-80GB, readings: {numa_node: 1}}
)";
constexpr const char* kOtherFleet = R"(
driver: 570.86.10
cuda: "12.8"
clock: {frozen: true}
nvlink: nvswitch
gpus:
  - model: NVIDIA H100 80GB HBM3
    uuid: GPU-99999999-2222-3333-4444-555555555555
    serial: "1650000000009"
    vbios: 96.00.74.00.01
    board_part_number: 692-2G520-0200-000
    bus_id: "00000001:4C:00.0"
    cpu_list: 1,64
    mig: {enabled: true, instances: [3g.40gb, 1g.10gb]}
    processes: [{pid: 4194001, user: ada, command: python serve.py, memory: 500MiB, gpu_instance: 7}]
    readings: {numa_node: 0}
  - {model: NVIDIA GeForce RTX 4090, readings: {numa_node: 1}}
  - {model: NVIDIA H100 80GB HBM3, readings: {numa_node: 2}}
)";

std::vector<Proof> all_proofs() {
  std::vector<Proof> all;
  for (const auto& part : {system_proofs(), identity_proofs(), reading_proofs(), process_proofs(),
                           mig_and_link_proofs(), detail_proofs()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

class State : public Simulated, public ::testing::WithParamInterface<Proof> {};

TEST_P(State, IsWhatTheFunctionAnswersBeforeAndAfterAChange) {
  const Proof& proof = GetParam();
  const Nvml& nvml = start(kFleetInStates);
  Device device = nvml.gpu(0);
  EXPECT_EQ(proof.read(nvml, device), proof.before);
  if (proof.change.is_null()) {
    open(580, kOtherFleet);
  } else {
    const Json reply = nvml.call(proof.change);
    ASSERT_FALSE(reply.contains("error")) << reply.dump();
  }
  EXPECT_EQ(proof.read(nvml, device), proof.after);
}

/// The proofs whose function gives one reading of the GPU and nothing else.
std::vector<Proof> proofs_of_readings() {
  // These tell something without the reading, too: no fans, no links, "supported: none" of several fields.
  static const std::set<std::string> kOther{"nvmlDeviceGetNumFans", "nvmlDeviceGetTopologyCommonAncestor",
                                            "nvmlDeviceGetP2PStatus"};
  std::vector<Proof> chosen = all_proofs();
  std::erase_if(chosen, [](const Proof& proof) {
    return !proof.change.is_object() || proof.change["op"] != "set" || kOther.contains(proof.symbol);
  });
  return chosen;
}

class Reading : public State {};

TEST_P(Reading, ThatTheProductLacksIsNotSupportedAndNeverZero) {
  const Proof& proof = GetParam();
  const Nvml& nvml = start(kFleetInStates);
  Device device = nvml.gpu(0);
  Json change = proof.change;
  change["value"] = nullptr;
  ASSERT_FALSE(nvml.call(change).contains("error"));
  EXPECT_EQ(proof.read(nvml, device), fmt::format("error {}", kNotSupported));
}

class Drivers : public Simulated {};

TEST_F(Drivers, OfEveryAgeReadTheSame) {
  const std::vector<Proof> proofs = all_proofs();
  for (const int profile : kProfiles) {
    const Nvml& nvml = start(kFleetInStates, profile);
    std::size_t read = 0;
    for (const Proof& proof : proofs) {
      const auto* const symbol =
          std::ranges::find_if(kSymbols, [&](const Symbol& one) { return std::string_view(one.name) == proof.symbol; });
      if (symbol == kSymbols.end() || symbol->since > profile) continue;
      EXPECT_EQ(proof.read(nvml, nvml.gpu(0)), proof.before) << proof.symbol << ", driver " << profile;
      ++read;
    }
    EXPECT_GT(read, 90U) << "driver " << profile;
  }
}

std::string test_name(const ::testing::TestParamInfo<Proof>& info) {
  return fmt::format("{}_{}", info.param.symbol + 4, info.index);
}
INSTANTIATE_TEST_SUITE_P(Functions, State, ::testing::ValuesIn(all_proofs()), test_name);
INSTANTIATE_TEST_SUITE_P(Functions, Reading, ::testing::ValuesIn(proofs_of_readings()), test_name);

TEST(StateProofs, CoverEveryFunction) {
  // Those that live through more than one call have tests of their own: lifecycle_test.cpp, events_test.cpp,
  // profiling_test.cpp, settings_test.cpp.
  std::set<std::string> proven{"nvmlShutdown",
                               "nvmlErrorString",
                               "nvmlEventSetCreate",
                               "nvmlEventSetFree",
                               "nvmlEventSetWait",
                               "nvmlEventSetWait_v2",
                               "nvmlDeviceRegisterEvents",
                               "nvmlGpmQueryDeviceSupport",
                               "nvmlGpmSampleAlloc",
                               "nvmlGpmSampleFree",
                               "nvmlGpmSampleGet",
                               "nvmlGpmMetricsGet",
                               "nvmlDeviceSetPowerManagementLimit"};
  for (const Proof& proof : all_proofs()) proven.insert(proof.symbol);
  std::set<std::string> functions;
  for (const Symbol& symbol : kSymbols) {
    if (symbol.kind == Symbol::Kind::called) functions.insert(symbol.name);
  }
  EXPECT_EQ(proven, functions);
}

}  // namespace

// A failing proof is told by its function.
void PrintTo(const Proof& proof, std::ostream* out) { *out << proof.symbol; }

}  // namespace gpuwarden::nvml
