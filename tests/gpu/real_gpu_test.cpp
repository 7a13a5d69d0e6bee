// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/placement/select.hpp"
#include "gpuwarden/probe/nvml_reader.hpp"
#include "support/patience.hpp"

namespace gpuwarden {
namespace {

/// This machine's GPUs, or nothing.
class RealGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    snapshot_ = probe::read_snapshot({});
    if (snapshot_.problem || snapshot_.gpus.empty()) GTEST_SKIP() << "no GPU answers on this machine";
  }

  /// One nvidia-smi query: a row of fields for each GPU.
  static std::vector<std::vector<std::string>> ask_nvidia_smi(const std::string& fields) {
    const auto done =
        testing::run_patiently({.argv = {"nvidia-smi", "--query-gpu=" + fields, "--format=csv,noheader,nounits"}});
    std::vector<std::vector<std::string>> rows;
    if (!done || done->exit_code != 0) return rows;
    for (const auto line : split(trim(done->standard_output), '\n')) {
      auto& row = rows.emplace_back();
      for (const auto field : split(line, ',')) row.emplace_back(trim(field));
    }
    return rows;
  }

  facts::Snapshot snapshot_;
};

TEST_F(RealGpu, InventoryAgreesWithNvidiaSmi) {
  const auto rows = ask_nvidia_smi("index,uuid,name,pci.bus_id,driver_version,memory.total,compute_cap,vbios_version");
  if (rows.empty()) GTEST_SKIP() << "no nvidia-smi";
  ASSERT_EQ(rows.size(), snapshot_.gpus.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& gpu = snapshot_.gpus[i].gpu;
    EXPECT_EQ(rows[i][0], std::to_string(gpu.index.value));
    EXPECT_EQ(rows[i][1], gpu.uuid.value);
    EXPECT_EQ(rows[i][2], gpu.name);
    EXPECT_EQ(rows[i][3], gpu.pci_bus_id);
    EXPECT_EQ(rows[i][4], snapshot_.driver_version);
    EXPECT_EQ(rows[i][5], std::to_string(snapshot_.gpus[i].sample.memory_total->value >> 20U));
    ASSERT_TRUE(gpu.compute_capability);
    EXPECT_EQ(rows[i][6],
              std::to_string(gpu.compute_capability->major) + "." + std::to_string(gpu.compute_capability->minor));
    EXPECT_EQ(rows[i][7], gpu.vbios_version);
  }
}

TEST_F(RealGpu, ReadingsAreNearNvidiaSmis) {
  const auto rows = ask_nvidia_smi("temperature.gpu,power.draw,memory.used,pstate");
  if (rows.empty()) GTEST_SKIP() << "no nvidia-smi";
  ASSERT_EQ(rows.size(), snapshot_.gpus.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& sample = snapshot_.gpus[i].sample;
    if (const auto value = parse_number(rows[i][0])) {
      EXPECT_NEAR(static_cast<double>(sample.temperature->value), *value, 5);
    }
    if (const auto value = parse_number(rows[i][1])) {
      EXPECT_NEAR(static_cast<double>(sample.power->value) / 1000, *value, std::max(40.0, *value * 0.3));
    }
    if (const auto value = parse_number(rows[i][2])) {
      EXPECT_NEAR(static_cast<double>(sample.memory_used->value) / (1 << 20), *value, 512);
    }
  }
}

TEST_F(RealGpu, SelectionNamesOneThatExists) {
  const std::vector<facts::Lease> leases;
  const std::vector<Uuid> spoken_for;
  placement::Request request;
  request.count = 1;
  request.shared = true;
  const auto decision = placement::select(request, {snapshot_, leases, spoken_for, {}});
  ASSERT_TRUE(decision.has_value()) << decision.error().message;
  ASSERT_TRUE(decision->satisfied) << decision->missing;
  EXPECT_TRUE(decision->selected[0].uuid.value.starts_with("GPU-") ||
              decision->selected[0].uuid.value.starts_with("MIG-"));
}

}  // namespace
}  // namespace gpuwarden
