// SPDX-License-Identifier: Apache-2.0
// The full reading against the simulator: every metric has its source, and what a product lacks costs nothing else.
#include <algorithm>
#include <cstdlib>
#include <set>

#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/probe/nvml_reader.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::probe {
namespace {

using namespace gpuwarden::testing;

class FullReading : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("GPUWARDEN_SIM_DIR", (dir_ / "sim").c_str(), 1); }

  facts::Snapshot read(std::string_view yaml, Detail detail = Detail::slow, int profile = 580) const {
    put(dir_ / "fleet.yaml", yaml);
    ::setenv("GPUWARDEN_SIM_FLEET", (dir_ / "fleet.yaml").c_str(), 1);
    ReaderOptions options;
    options.nvml_library = std::filesystem::path(GPUWARDEN_SIM_LIB_DIR) / std::to_string(profile) / "libnvidia-ml.so.1";
    options.sys_root = dir_ / "sys";
    options.driver_proc_root = dir_ / "proc";
    options.timeout = std::chrono::seconds(20);
    return read_snapshot(options, {.detail = detail, .links = true});
  }
  facts::GpuRecord read_one(std::string_view yaml, Detail detail = Detail::slow, int profile = 580) const {
    const auto snapshot = read(yaml, detail, profile);
    EXPECT_FALSE(snapshot.gpus.empty());
    return snapshot.gpus.empty() ? facts::GpuRecord{} : snapshot.gpus[0];
  }

  TempDir dir_;
};

/// The simulator's name of a reading, what to pin it to, and the metric that shows it (in the metric's unit).
struct Pinned {
  const char* reading;
  double value;
  const char* metric;
  double shown;
};

constexpr Pinned kPinned[] = {{"utilization", 11, "utilization", 11},
                              {"memory_utilization", 12, "memory_utilization", 12},
                              {"encoder_utilization", 13, "encoder_utilization", 13},
                              {"decoder_utilization", 14, "decoder_utilization", 14},
                              {"jpeg_utilization", 15, "jpeg_utilization", 15},
                              {"ofa_utilization", 16, "ofa_utilization", 16},
                              {"encoder_sessions", 3, "encoder_sessions", 3},
                              {"encoder_fps", 61, "encoder_frame_rate", 61},
                              {"encoder_latency", 1500, "encoder_latency", 0.0015},
                              {"fbc_sessions", 2, "frame_capture_sessions", 2},
                              {"bar1_used", 7, "bar1_used", 7 * 1048576.0},
                              {"memory_temperature", 77, "memory_temperature", 77},
                              {"temperature_margin", 21, "temperature_margin", 21},
                              {"power", 412.5, "power_average", 412.5},
                              {"power_limit", 555, "power_limit_requested", 555},
                              {"clock_graphics_application", 1410, "clock_graphics_application", 1410},
                              {"clock_memory_application", 2600, "clock_memory_application", 2600},
                              {"pcie_tx", 1234, "pcie_sent", 1234000},
                              {"pcie_rx", 4321, "pcie_received", 4321000},
                              {"pcie_replays", 9, "pcie_replays", 9},
                              {"remapped_corrected", 1, "remapped_rows_corrected", 1},
                              {"remapped_uncorrected", 4, "remapped_rows_uncorrected", 4},
                              {"remapped_pending", 1, "remapped_rows_pending", 1},
                              {"remapped_failure", 1, "remapped_rows_failed", 1},
                              {"slowdown_power", 2500000, "slowdown_power", 2.5},
                              {"slowdown_thermal", 1500000, "slowdown_thermal", 1.5},
                              {"slowdown_sync_boost", 1000, "slowdown_sync_boost", 0.001},
                              {"slowdown_board_limit", 2000, "slowdown_board_limit", 0.002},
                              {"slowdown_low_utilization", 3000, "slowdown_low_utilization", 0.003},
                              {"slowdown_reliability", 4000, "slowdown_reliability", 0.004},
                              {"slowdown_hw_thermal", 5000, "slowdown_hw_thermal", 0.005},
                              {"slowdown_hw_power_brake", 6000, "slowdown_hw_power_brake", 0.006},
                              {"sm_active", 91.25, "sm_active", 91.25},
                              {"sm_occupancy", 20.5, "sm_occupancy", 20.5},
                              {"tensor_active", 48.75, "tensor_active", 48.75},
                              {"dram_active", 37.5, "dram_active", 37.5},
                              {"fp64_active", 0.25, "fp64_active", 0.25},
                              {"fp32_active", 9.5, "fp32_active", 9.5},
                              {"fp16_active", 4.5, "fp16_active", 4.5},
                              {"nvlink_tx", 100, "nvlink_sent", 104857600},
                              {"nvlink_rx", 200, "nvlink_received", 209715200}};

TEST_F(FullReading, EveryPinnedReadingArrivesAsItsMetric) {
  std::string yaml = "driver: 580.65.06\ngpus:\n  - model: NVIDIA H200\n    readings:\n";
  for (const Pinned& pinned : kPinned)
    yaml += "      " + std::string(pinned.reading) + ": " + std::to_string(pinned.value) + "\n";
  const auto record = read_one(yaml);
  for (const Pinned& pinned : kPinned) {
    const auto* metric = facts::find_metric(pinned.metric);
    ASSERT_NE(metric, nullptr) << pinned.metric;
    const auto value = value_of(*metric, record.sample);
    ASSERT_TRUE(value) << pinned.metric;
    EXPECT_NEAR(*value, pinned.shown, 1e-6 * (1 + pinned.shown)) << pinned.metric;
  }
}

TEST_F(FullReading, NoMetricOfTheTableIsWithoutASourceOnSomeProduct) {
  // Between a new server board, an old one and a GeForce every metric must be told by somebody.
  std::set<std::string_view> told;
  for (const char* model :
       {"NVIDIA H100 80GB HBM3", "NVIDIA H200", "Tesla V100-SXM2-32GB", "NVIDIA GeForce RTX 4090"}) {
    const auto record = read_one(std::string("driver: 580.65.06\nnvlink: nvswitch\ngpus: [{model: ") + model + "}]\n");
    for (const facts::Metric& metric : facts::metrics()) {
      if (value_of(metric, record.sample)) told.insert(metric.id);
    }
  }
  for (const facts::Metric& metric : facts::metrics()) EXPECT_TRUE(told.contains(metric.id)) << metric.id;
}

TEST_F(FullReading, WhatAProductLacksIsEmptyAndNothingElse) {
  const auto record = read_one("driver: 580.65.06\ngpus: [{model: NVIDIA GeForce RTX 4090}]\n");
  EXPECT_FALSE(record.sample.remapped_rows_corrected);
  EXPECT_FALSE(record.sample.retired_pages_single_bit);
  EXPECT_FALSE(record.sample.slowdown_power);
  EXPECT_FALSE(record.sample.clock_graphics_application);
  EXPECT_FALSE(record.sample.sm_active);
  EXPECT_TRUE(record.sample.nvlinks.empty());
  EXPECT_TRUE(record.sample.ecc_locations.empty());
  EXPECT_FALSE(record.gpu.inforom_image_version);
  EXPECT_TRUE(record.sample.bar1_total);
  ASSERT_EQ(record.sample.fans.size(), 1U);
  EXPECT_TRUE(record.sample.fans[0].rpm);
  EXPECT_TRUE(record.gpu.temperature_acoustic);
  EXPECT_EQ(record.gpu.virtualization_mode, "none");
}

TEST_F(FullReading, AServerTellsItsInventoryLinksRepairsAndErrorsByPlace) {
  const auto snapshot = read("driver: 580.65.06\ngpus: [{model: NVIDIA H100 80GB HBM3, count: 2}]\nnvlink: nvswitch\n");
  const auto& record = snapshot.gpus.at(0);
  EXPECT_EQ(record.gpu.gsp_firmware_version, "580.65.06");
  EXPECT_EQ(record.gpu.inforom_ecc_version, "7.16");
  EXPECT_EQ(record.gpu.inforom_power_version, std::nullopt);
  EXPECT_EQ(record.gpu.addressing_mode, "none");
  EXPECT_EQ(record.gpu.confidential_computing, false);
  ASSERT_TRUE(record.gpu.fabric);
  EXPECT_EQ(record.gpu.fabric->state, "completed");
  ASSERT_EQ(record.sample.nvlinks.size(), 18U);
  EXPECT_EQ(record.sample.nvlinks[3].speed, BytesPerSecond(26'562'000'000));
  EXPECT_TRUE(record.sample.nvlinks[3].remote);
  EXPECT_EQ(record.sample.nvlinks[3].replay_errors, Count(0));
  ASSERT_TRUE(record.sample.remap_availability);
  EXPECT_EQ(record.sample.remap_availability->none, Count(0));
  EXPECT_FALSE(record.sample.ecc_locations.empty());
  ASSERT_TRUE(snapshot.links);
  EXPECT_EQ(snapshot.links->at(0).p2p_read, "OK");
  EXPECT_EQ(snapshot.links->at(0).p2p_nvlink, "OK");
}

TEST_F(FullReading, OldDriversTellLessAndLoseNothing) {
  const std::string yaml = "driver: 418.87.01\ngpus: [{model: Tesla V100-SXM2-32GB}]\n";
  const auto record = read_one(yaml, Detail::slow, 418);
  EXPECT_EQ(record.state, facts::GpuState::available);
  EXPECT_TRUE(record.sample.temperature);
  EXPECT_TRUE(record.sample.retired_pages_double_bit);
  EXPECT_TRUE(record.sample.encoder_sessions);
  EXPECT_FALSE(record.sample.utilization_jpeg) << "the function came later";
  EXPECT_FALSE(record.sample.temperature_margin);
  EXPECT_FALSE(record.gpu.gsp_firmware_version);
}

TEST_F(FullReading, TheBasicReadingAsksForNoneOfIt) {
  const auto record = read_one("driver: 580.65.06\ngpus: [{model: NVIDIA H200}]\n", Detail::basic);
  EXPECT_TRUE(record.sample.temperature);
  EXPECT_FALSE(record.sample.bar1_total);
  EXPECT_FALSE(record.sample.sm_active);
  EXPECT_FALSE(record.gpu.board_id);
  const auto full = read_one("driver: 580.65.06\ngpus: [{model: NVIDIA H200}]\n", Detail::full);
  EXPECT_TRUE(full.sample.bar1_total);
  EXPECT_FALSE(full.sample.sm_active) << "profiling takes time and is asked for apart";
}

TEST_F(FullReading, ProcessesHaveTheirSharesAndMpsClientsAreMarked) {
  const auto record = read_one(
      "driver: 550.54.15\ngpus:\n  - model: Tesla T4\n    processes:\n"
      "    - {pid: 11, command: train, memory: 100MiB, utilization: 40}\n"
      "    - {pid: 12, command: serve, memory: 50MiB, type: M+C}\n",
      Detail::full, 550);
  ASSERT_TRUE(record.processes);
  ASSERT_EQ(record.processes->size(), 2U);
  EXPECT_EQ(record.processes->at(0).sm, 40_pct);
  EXPECT_FALSE(record.processes->at(0).mps);
  EXPECT_TRUE(record.processes->at(1).mps);
  EXPECT_EQ(type_of(record.processes->at(1)), "M+C");
}

}  // namespace
}  // namespace gpuwarden::probe
