// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/capture/capture.hpp"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/file.hpp"
#include "support/corpus.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::capture {
namespace {

using namespace gpuwarden::testing;
using nlohmann::json;

constexpr std::string_view kLog = R"(<?xml version="1.0" ?>
<nvidia_smi_log>
  <driver_version>550.54.15</driver_version><cuda_version>12.4</cuda_version><attached_gpus>1</attached_gpus>
  <gpu id="0000:17:00.0">
    <product_name>NVIDIA H100 80GB HBM3</product_name><uuid>GPU-1</uuid><serial>165</serial><fan_speed>N/A</fan_speed>
    <persistence_mode>Enabled</persistence_mode><compute_mode>Exclusive_Process</compute_mode><performance_state>P0</performance_state>
    <mig_mode><current_mig>Disabled</current_mig><pending_mig>Disabled</pending_mig></mig_mode>
    <pci><pci_bus_id>0000:17:00.0</pci_bus_id><pci_device_id>233010DE</pci_device_id></pci>
    <fb_memory_usage><total>81559 MiB</total><reserved>551 MiB</reserved><used>1024 MiB</used><free>79984 MiB</free></fb_memory_usage>
    <utilization><gpu_util>37 %</gpu_util><memory_util>[Unknown Error]</memory_util></utilization>
    <temperature><gpu_temp>41 C</gpu_temp></temperature>
    <gpu_power_readings><power_draw>N/A</power_draw><instant_power_draw>123.45 W</instant_power_draw><current_power_limit>700.00 W</current_power_limit></gpu_power_readings>
    <clocks_event_reasons><clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle><clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap></clocks_event_reasons>
    <processes><process_info><pid>42</pid><type>C</type><process_name>python</process_name><used_memory>1000 MiB</used_memory></process_info></processes>
  </gpu>
</nvidia_smi_log>)";

TEST(SmiXml, ReadsWhatItSaysAndLeavesTheRestUnknown) {
  const auto snapshot = snapshot_from_smi_xml(kLog);
  ASSERT_THAT(snapshot, IsOk());
  EXPECT_EQ(snapshot->driver_version, "550.54.15");
  ASSERT_EQ(snapshot->gpus.size(), 1U);
  const auto& record = snapshot->gpus[0];
  EXPECT_EQ(record.gpu.pci_bus_id, "00000000:17:00.0");
  EXPECT_EQ(record.gpu.pci_device_id, 0x233010DEU);
  EXPECT_EQ(record.gpu.compute_mode, facts::ComputeMode::exclusive_process);
  EXPECT_EQ(record.sample.memory_used, 1_GiB);
  EXPECT_EQ(record.sample.utilization_gpu, 37_pct);
  EXPECT_FALSE(record.sample.utilization_memory);
  EXPECT_FALSE(record.sample.fan_speed);
  EXPECT_EQ(record.sample.power, 123450_mW);
  EXPECT_EQ(record.sample.performance_state, Count(0));
  EXPECT_THAT(*record.sample.throttle_reasons, ::testing::ElementsAre(facts::ThrottleReason::sw_power_cap));
  ASSERT_EQ(record.processes->size(), 1U);
  EXPECT_EQ((*record.processes)[0].memory, Bytes(1000ULL << 20U));
  EXPECT_EQ(record.state, facts::GpuState::busy);
}

TEST(SmiXml, AnythingElseIsRefused) {
  for (const char* text : {"", "<html/>", "not xml at all", "<nvidia_smi_log>"}) {
    EXPECT_THAT(snapshot_from_smi_xml(text), FailsWith(ErrorCode::corrupt, ::testing::_)) << text;
  }
  EXPECT_THAT(snapshot_from_smi_xml("<gpu id='1'><product_name>X</product_name></gpu>"), IsOk()) << "a fragment";
}

/// Compares an expected value of the index, where it has one.
void expect_near(const json& expected, std::optional<double> value, const std::string& where, double tolerance) {
  ASSERT_EQ(expected.is_null(), !value.has_value()) << where;
  EXPECT_NEAR(expected.is_null() ? 0 : expected.get<double>(), value.value_or(0), tolerance) << where;
}

void compare_gpu(const json& expected, const facts::GpuRecord& record, const std::string& where) {
  const auto& sample = record.sample;
  const auto mib = [](const std::optional<Bytes>& bytes) {
    return bytes ? std::optional(static_cast<double>(bytes->value) / (1 << 20)) : std::nullopt;
  };
  EXPECT_EQ(expected["name"], record.gpu.name) << where;
  EXPECT_EQ(expected["uuid"], record.gpu.uuid.value) << where;
  EXPECT_EQ(expected["bus"], record.gpu.pci_bus_id) << where;
  expect_near(expected["memory_total_mib"], mib(sample.memory_total), where + " total", 0.5);
  expect_near(expected["memory_used_mib"], mib(sample.memory_used), where + " used", 0.5);
  expect_near(expected["temp"],
              sample.temperature ? std::optional(static_cast<double>(sample.temperature->value)) : std::nullopt,
              where + " temp", 0.1);
  expect_near(expected["power"],
              sample.power ? std::optional<double>(static_cast<double>(sample.power->value) / 1000) : std::nullopt,
              where + " power", 0.01);
  expect_near(expected["util"],
              sample.utilization_gpu ? std::optional(static_cast<double>(sample.utilization_gpu->value)) : std::nullopt,
              where + " util", 0.1);
  EXPECT_EQ(expected["mig"] == "Enabled", record.gpu.mig_enabled.value_or(false)) << where;
  EXPECT_EQ(expected["mig_devices"], record.mig_devices.size()) << where;
  EXPECT_EQ(expected["processes"], record.processes ? record.processes->size() : 0U) << where;
}

TEST(SmiXml, ADriverModelIsOfWindowsOrOfWslByThePersistenceMode) {
  const auto host_of = [](const std::string& persistence) {
    const std::string gpu = "<gpu id=\"x\"><persistence_mode>" + persistence +
                            "</persistence_mode><driver_model><current_dm>WDDM</current_dm></driver_model></gpu>";
    const auto snapshot = snapshot_from_smi_xml("<nvidia_smi_log>" + gpu + gpu + "</nvidia_smi_log>");
    EXPECT_THAT(snapshot, IsOk());
    return snapshot && snapshot->environment ? snapshot->environment->host : facts::Host{};
  };
  EXPECT_EQ(host_of("N/A"), facts::Host{.distribution = "windows"});
  EXPECT_EQ(host_of("Enabled"), facts::Host{.wsl = 2});
  EXPECT_EQ(host_of("Disabled"), facts::Host{.wsl = 2});
}

TEST(SmiXml, AgreesWithTheCorpus) {
  const auto folder = corpus();
  std::ifstream index(folder / "captures/index.jsonl");
  int files = 0;
  for (std::string line; std::getline(index, line);) {
    const json entry = json::parse(line);
    if (entry["kind"] != "smi_xml") continue;
    const auto text = read_file(folder / "captures" / entry["file"].get<std::string>());
    if (!text) continue;
    ++files;
    const std::string where = entry["file"];
    const auto snapshot = snapshot_from_smi_xml(*text);
    ASSERT_THAT(snapshot, IsOk()) << where;
    const json& expected = entry["expected"];
    EXPECT_EQ(expected["driver"].is_null() ? std::nullopt : std::optional(expected["driver"].get<std::string>()),
              snapshot->driver_version)
        << where;
    const bool known = expected["cuda"] != "Not Found" && !expected["cuda"].is_null();
    EXPECT_EQ(known ? std::optional(expected["cuda"].get<std::string>()) : std::nullopt, snapshot->cuda_driver_version)
        << where;
    ASSERT_EQ(expected["gpus"].size(), snapshot->gpus.size()) << where;
    for (std::size_t i = 0; i < snapshot->gpus.size(); ++i)
      compare_gpu(expected["gpus"][i], snapshot->gpus[i], where + " GPU " + std::to_string(i));
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace gpuwarden::capture
