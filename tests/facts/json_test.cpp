// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/json.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/facts/packed.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::facts {
namespace {

using namespace gpuwarden::testing;

/// A snapshot in which every field is set, each metric to a value of its own.
Snapshot full_snapshot() {
  GpuRecord record;
  Gpu& gpu = record.gpu;
  gpu.index = GpuIndex{3};
  gpu.uuid = Uuid("GPU-0123");
  gpu.name = "NVIDIA H100 80GB HBM3";
  gpu.pci_bus_id = "00000000:17:00.0";
  gpu.pci_device_id = 0x233010DE;
  gpu.serial = "1650123";
  gpu.board_part_number = "900-1";
  gpu.vbios_version = "96.00";
  gpu.brand = "NVIDIA";
  gpu.architecture = "Hopper";
  gpu.compute_capability = ComputeCapability{9, 0};
  gpu.multiprocessors = Count(132);
  gpu.cuda_cores = Count(16896);
  gpu.power_limit_min = 200_W;
  gpu.power_limit_max = 700_W;
  gpu.power_limit_default = 699_W;
  gpu.clock_graphics_max = 1980_MHz;
  gpu.clock_sm_max = 1979_MHz;
  gpu.clock_memory_max = 2619_MHz;
  gpu.pcie_generation_max = Count(5);
  gpu.pcie_width_max = Count(16);
  gpu.mig_enabled = true;
  gpu.mig_pending = false;
  gpu.compute_mode = ComputeMode::exclusive_process;
  gpu.persistence = true;
  gpu.ecc_enabled = true;
  gpu.numa_node = 1;
  gpu.cpu_affinity = "48-95";
  gpu.minor_number = Count(3);
  gpu.clock_video_max = 1740_MHz;
  gpu.temperature_shutdown = 92_degC;
  gpu.temperature_slowdown = 89_degC;
  gpu.temperature_max = 87_degC;
  gpu.temperature_memory_max = 95_degC;
  gpu.temperature_acoustic = 83_degC;
  gpu.memory_bus_width = Count(5120);
  gpu.vendor = "AMD";
  gpu.board_id = "0x1700";
  gpu.inforom_image_version = "G520.0200.00.05";
  gpu.inforom_oem_version = "2.1";
  gpu.inforom_ecc_version = "7.16";
  gpu.inforom_power_version = "1.0";
  gpu.gsp_firmware_version = "550.54.15";
  gpu.virtualization_mode = "pass_through";
  gpu.addressing_mode = "HMM";
  gpu.confidential_computing = false;
  gpu.accounting = true;
  gpu.display_attached = false;
  gpu.display_active = true;
  gpu.fabric = Fabric{"completed", "success", "0-1", 7};
  double value = 1.001;
  for (const Metric& metric : metrics()) set_value(metric, record.sample, value += 1);
  record.sample.throttle_reasons = {ThrottleReason::sw_power_cap, ThrottleReason::hw_power_brake};
  record.sample.fans = {Fan{Percent(40), Count(1500)}};
  record.sample.ecc_locations = {EccCounts{"dram", Count(1), Count(2), Count(3), Count(4)}};
  record.sample.nvlinks = {NvLink{2, true, Count(4), BytesPerSecond(26'562'000'000), "00000000:05:00.0", 1_KiB, 2_KiB,
                                  Count(1), Count(2), Count(3), Count(4)}};
  record.sample.remap_availability = RemapAvailability{Count(640), Count(1), Count(2), Count(3), Count(4)};
  record.processes = {GpuProcess{.pid = Pid{42},
                                 .compute = true,
                                 .graphics = true,
                                 .user = "ada",
                                 .command = "python t.py",
                                 .memory = 5_GiB,
                                 .gpu_instance = 1,
                                 .compute_instance = 0,
                                 .mps = true,
                                 .sm = 90_pct,
                                 .memory_busy = 40_pct,
                                 .encoder = 1_pct,
                                 .decoder = 2_pct,
                                 .jpeg = 3_pct,
                                 .ofa = 4_pct,
                                 .container = "0123456789ab",
                                 .pod = "5c7e",
                                 .slurm_job = "77"},
                      GpuProcess{.pid = Pid{43}, .listed = false}};
  record.mig_devices = {MigDevice{.index = 1,
                                  .uuid = Uuid("MIG-7"),
                                  .name = "MIG 1g.10gb",
                                  .profile = "1g.10gb",
                                  .gpu_instance = 9,
                                  .compute_instance = 0,
                                  .multiprocessors = Count(16),
                                  .memory_total = 10_GiB,
                                  .memory_used = 1_GiB,
                                  .memory_free = 9_GiB}};
  record.state = GpuState::needs_reset;
  record.cause = "NVML says RESET_REQUIRED";
  record.next_step = "nvidia-smi --gpu-reset -i 3";
  record.processes_unreadable = true;
  Snapshot snapshot;
  snapshot.simulated = true;
  snapshot.fleet = "h100x8";
  snapshot.source = "sysfs";
  snapshot.taken_at = std::chrono::system_clock::time_point(std::chrono::milliseconds(1'790'000'000'123));
  snapshot.host = "node1";
  snapshot.driver_version = "550.54.15";
  snapshot.cuda_driver_version = "12.4";
  snapshot.nvml_version = "12.550.54.15";
  snapshot.kernel_module_version = "550.54.14";
  snapshot.problem = {DriverProblem::Kind::mismatch, {ErrorCode::unavailable, "mismatch", "reboot"}};
  snapshot.gaps = {
      {ReadingGap::Part::cuda_order, {DriverProblem::Kind::timed_out, {ErrorCode::timed_out, "no answer", "wait"}}}};
  snapshot.gpus = {record, GpuRecord{}};
  snapshot.links = {Link{GpuIndex{0}, GpuIndex{3}, LinkLevel::node, 18, "OK", "CNS", "NS", "U"}};
  snapshot.nics = {Nic{"mlx5_0", "0000:17:00.0", 1, {{GpuIndex{3}, LinkLevel::single_switch}}}};
  snapshot.kernel_faults = {KernelFault{"xid", 79, "0000:17:00", Pid{7}, "fallen off the bus", 12}};
  snapshot.origin = "box.txt: smi_table";
  snapshot.cuda_order = {Uuid("GPU-0123")};
  return snapshot;
}

TEST(FactsJson, EveryKindOfProblemHasANameThatIsReadBack) {
  for (int number = 0; number <= static_cast<int>(DriverProblem::Kind::other); ++number) {
    const DriverProblem before(static_cast<DriverProblem::Kind>(number), {ErrorCode::timed_out, "words", "hint"});
    const nlohmann::json json = to_json(before);
    EXPECT_NE(json["kind"], "?");
    const auto after = driver_problem_from_json(json);
    ASSERT_TRUE(after) << after.error().message;
    EXPECT_EQ(*after, before);
  }
  for (int number = 0; number <= static_cast<int>(ReadingGap::Part::slow_metrics); ++number) {
    const auto part = static_cast<ReadingGap::Part>(number);
    EXPECT_EQ(reading_gap_part_from(to_string(part)), part);
  }
  for (int number = 0; number <= static_cast<int>(DeviceNode::Refusal::other); ++number) {
    const auto refusal = static_cast<DeviceNode::Refusal>(number);
    EXPECT_EQ(node_refusal_from(to_string(refusal)), refusal);
  }
  EXPECT_EQ(gpu_state_from(to_string(GpuState::faulty)), GpuState::faulty);
}

TEST(FactsJson, SnapshotSurvivesTheRoundTrip) {
  const Snapshot before = full_snapshot();
  const auto after = snapshot_from_json(nlohmann::json::parse(to_json(before).dump()));
  ASSERT_THAT(after, IsOk());
  EXPECT_EQ(*after, before);
}

TEST(FactsJson, SnapshotSurvivesCbor) {
  const Snapshot before = full_snapshot();
  EXPECT_THAT(snapshot_from_json(nlohmann::json::from_cbor(nlohmann::json::to_cbor(to_json(before)))), IsOkAnd(before));
}

TEST(FactsJson, UnknownIsNullAndNotZero) {
  const auto json = to_json(GpuRecord{});
  for (const Metric& metric : metrics()) {
    std::string pointer = "/" + std::string(metric.json_path);
    std::ranges::replace(pointer, '.', '/');
    EXPECT_TRUE(json.at(nlohmann::json::json_pointer(pointer)).is_null()) << metric.id;
  }
  EXPECT_TRUE(json["processes"].is_null());
  EXPECT_EQ(json["mig"]["devices"], nlohmann::json::array());
}

TEST(FactsJson, ShapeIsTheContract) {
  const auto gpu = to_json(full_snapshot())["gpus"][0];
  EXPECT_EQ(gpu["processes"][0]["type"], "M+C+G");
  EXPECT_EQ(gpu["processes"][0]["memory_bytes"], (5_GiB).value);
  EXPECT_EQ(gpu["state"], "needs_reset");
  EXPECT_TRUE(gpu["power_watts"].is_number_float());
  EXPECT_TRUE(gpu["memory"]["total_bytes"].is_number_integer());
  EXPECT_EQ(gpu["mig"]["devices"][0]["profile"], "1g.10gb");
}

TEST(FactsJson, WrongTypesNameTheKey) {
  auto json = to_json(full_snapshot());
  json["gpus"][0]["temperature_celsius"] = "hot";
  EXPECT_THAT(snapshot_from_json(json), FailsWith(ErrorCode::corrupt, ::testing::HasSubstr("temperature_celsius")));
  EXPECT_THAT(snapshot_from_json(nlohmann::json::array()), FailsWith(ErrorCode::corrupt, ::testing::_));
  EXPECT_THAT(gpu_record_from_json({{"index", -1}}), FailsWith(ErrorCode::corrupt, ::testing::HasSubstr("index")));
}

TEST(FactsJson, AnotherSchemaIsRefused) {
  auto json = to_json(Snapshot{});
  json["schema"] = 99;
  EXPECT_THAT(snapshot_from_json(json), FailsWith(ErrorCode::corrupt, ::testing::HasSubstr("schema")));
}

TEST(FactsJson, LeaseSurvivesTheRoundTrip) {
  const Lease lease{Uuid("GPU-1"), true, {{Pid{7}, "bob", "r1", "python", std::chrono::system_clock::time_point{}}}};
  EXPECT_THAT(lease_from_json(to_json(lease)), IsOkAnd(lease));
}

TEST(FactsJson, AnEventComesBackAsItWas) {
  const GpuEvent event{GpuEventKind::ecc_double_bit, Uuid("GPU-1"), 48,
                       std::chrono::system_clock::time_point(std::chrono::milliseconds(1'700'000'000'123))};
  const auto json = to_json(event);
  EXPECT_EQ(json["kind"], "ecc_double_bit");
  EXPECT_EQ(gpu_event_from_json(json), event);
  EXPECT_FALSE(gpu_event_from_json({{"kind", "earthquake"}}));
}

TEST(Packed, ARecordComesBackAsItWas) {
  const GpuRecord record = full_snapshot().gpus.at(0);
  const auto back = unpack_gpu_record(pack(record));
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(*back, record);
  EXPECT_THAT(unpack_gpu_record(pack(GpuRecord())), IsOkAnd(GpuRecord()));
}

TEST(Packed, BytesThatAreNoRecordAreRefused) {
  const std::string bytes = pack(full_snapshot().gpus.at(0));
  for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(unpack_gpu_record(bytes.substr(0, size)));
  EXPECT_FALSE(unpack_gpu_record(bytes + '\0'));
  EXPECT_FALSE(unpack_gpu_record(std::string(4096, '\xff')));
}

TEST(HealthJson, ComesBackAsItWas) {
  using std::chrono::system_clock;
  const auto time = system_clock::time_point(std::chrono::seconds(1'700'000'000));
  const Health health{Uuid("GPU-1"), GpuIndex{2}, HealthState::error, "lost", "reboot", time, 3, time};
  EXPECT_THAT(health_from_json(to_json(health)), IsOkAnd(health));
  EXPECT_EQ(to_json(health)["state"], "error");
  const Disabling disabling{Uuid("GPU-1"), "fan is loud", "root", false, time};
  EXPECT_THAT(disabling_from_json(to_json(disabling)), IsOkAnd(disabling));
  for (const auto state : {HealthState::available, HealthState::busy, HealthState::error, HealthState::disabled})
    EXPECT_EQ(health_state_from(to_string(state)), state);
  EXPECT_FALSE(health_from_json({{"state", "ill"}}));
}

TEST(Disabling, IsToldWithItsAge) {
  const auto now = std::chrono::system_clock::time_point(std::chrono::hours(1000));
  const auto since = [&](auto age) { return describe_disabling({Uuid("x"), "loud", "root", true, now - age}, now); };
  EXPECT_EQ(since(std::chrono::seconds(5)), "disabled: loud (by root, just now)");
  EXPECT_EQ(since(std::chrono::minutes(5)), "disabled: loud (by root, 5 min ago)");
  EXPECT_EQ(since(std::chrono::hours(5)), "disabled: loud (by root, 5 h ago)");
  EXPECT_EQ(since(std::chrono::hours(75)), "disabled: loud (by root, 3 d ago)");
}

}  // namespace
}  // namespace gpuwarden::facts
