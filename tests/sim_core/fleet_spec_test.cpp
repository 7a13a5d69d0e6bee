// SPDX-License-Identifier: Apache-2.0
#include "sim/core/fleet_spec.hpp"

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/capture/capture.hpp"
#include "gpuwarden/machine/fleet_file.hpp"
#include "sim/core/physics.hpp"
#include "support/corpus.hpp"
#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::sim {
namespace {

using namespace gpuwarden::testing;
using ::testing::HasSubstr;

Result<FleetSpec> parse(std::string_view yaml) { return parse_fleet(yaml, "f.yaml", "test"); }
auto fails(const std::string& part) { return FailsWith(ErrorCode::invalid_argument, HasSubstr(part)); }

TEST(FleetSpec, EveryPresetIsAFleet) {
  const auto names = preset_names();
  for (const char* wanted :
       {"h100x8", "h200x8", "a100x4", "a100-40x8-mig", "v100x2", "rtx4090x2", "t4x1", "mixed", "none"}) {
    EXPECT_NE(std::ranges::find(names, wanted), names.end()) << wanted;
  }
  for (const auto& name : names) EXPECT_THAT(parse(*preset(name)), IsOk()) << name;
}

TEST(FleetSpec, IdentitiesAreMadeUpButStable) {
  const auto one = parse("gpus: [{model: Tesla T4, count: 2}]\n");
  const auto two = parse("gpus: [{model: Tesla T4, count: 2}]\n");
  const auto other = parse_fleet("gpus: [{model: Tesla T4, count: 2}]\n", "f.yaml", "another");
  ASSERT_THAT(one, IsOk());
  EXPECT_EQ(one->gpus[0].uuid, two->gpus[0].uuid);
  EXPECT_NE(one->gpus[0].uuid, one->gpus[1].uuid);
  EXPECT_NE(one->gpus[0].uuid, other->gpus[0].uuid);
  EXPECT_EQ(one->gpus[0].uuid.size(), 40U);
}

TEST(FleetSpec, MistakesHaveTheirPlaceAndImpossibleValuesAreRefused) {
  EXPECT_THAT(parse("gpus:\n  - {modl: Tesla T4}\n"), fails("f.yaml:2:6: gpus[0]: has no key 'modl'"));
  EXPECT_THAT(parse("gpus:\n  - {model: Tesla T4, memory: 2TiB}\n"), fails("at most"));
  EXPECT_THAT(parse("gpus:\n  - {model: Tesla T4, readings: {power: -1}}\n"), fails("impossible value for power"));
  EXPECT_THAT(parse("gpus:\n  - {model: Tesla T4, readings: {warmth: 1}}\n"), fails("no reading 'warmth'"));
  EXPECT_THAT(parse("gpus:\n  - {model: Tesla T4, count: 65}\n"), fails("f.yaml:2"));
  EXPECT_THAT(parse("gpus:\n  - {model: Tesla T4, uuid: GPU-1}\n  - {model: Tesla T4, uuid: GPU-1}\n"),
              fails("'GPU-1' is there twice"));
  EXPECT_THAT(parse("gpus:\n  - {model: Tesla T4, faults: [gremlins]}\n"), fails("is no fault"));
  EXPECT_THAT(parse("gpus:\n  - {model: Tesla T4, faults: [xid]}\n"), fails("a number belongs after"));
  EXPECT_THAT(parse("gpus:\n  - {model: Tesla T4, mig: {enabled: true}}\n"), fails("has no MIG"));
  EXPECT_THAT(parse("gpus:\n  - {model: NVIDIA A100-SXM4-40GB, mig: {enabled: true, instances: [9g.90gb]}}\n"),
              fails("no MIG profile"));
  EXPECT_THAT(parse("gpus:\n  - {model: NVIDIA A100-SXM4-40GB, mig: {enabled: true, instances: [4g.20gb, 4g.20gb]}}\n"),
              fails("do not fit"));
  EXPECT_THAT(parse("gpus:\n  - {model: Tesla T4, readings: {memory_used: 99999}}\n"), fails("more memory is used"));
  EXPECT_THAT(parse("driver: new\ngpus: []\n"), fails("driver should be a version"));
  EXPECT_THAT(parse("clock: {speed: 0}\ngpus: []\n"), fails("speed"));
  EXPECT_THAT(parse("name: x\n"), fails("gpus should be a list"));
  EXPECT_THAT(parse("gpus:\n  - 3\n"), fails("should be a map"));
  EXPECT_THAT(parse("gpus:\n  - {model: Tesla T4, mig: 3, workload: [1], processes: 7}\n"), fails("should be"));
  EXPECT_THAT(parse("gpus: 3\n"), fails("gpus should be a list"));
}

TEST(FleetSpec, ALinkThatGoesDownIsOneOfTheGpus) {
  const auto fleet = [](const std::string& links, const std::string& fault) {
    return parse("nvlink: " + links + "\ngpus:\n  - {model: NVIDIA A100-SXM4-40GB, count: 2, faults: [" + fault +
                 "]}\n");
  };
  EXPECT_THAT(fleet("direct", "nvlink_down=11"), IsOk());
  EXPECT_THAT(fleet("direct", "nvlink_down=12"),
              fails("f.yaml:3:55: gpus[0]: there is no NVLink 12: links are 0 to 11"));
  EXPECT_THAT(fleet("direct", "{fault: nvlink_down=99, at: 3s}"), fails("f.yaml:3:55: gpus[0]: there is no NVLink 99"));
  EXPECT_THAT(fleet("none", "nvlink_down=0"), fails("gpus[0]: there is no NVLink 0: these GPUs have none"));
  EXPECT_THAT(parse("faults: [nvlink_down=1]\ngpus:\n  - {model: Tesla T4}\n"),
              fails("f.yaml:1:10: nvlink_down is a fault of one GPU"));
}

TEST(FleetSpec, DriverVersionsHaveTheirProfile) {
  EXPECT_EQ(library_profile("418.43"), 418);
  EXPECT_EQ(library_profile("525.147.05"), 470);
  EXPECT_EQ(library_profile("595.58.03"), 580);
  EXPECT_EQ(library_profile("384.111"), 418);
}

GpuSpec h100() { return parse("gpus: [{model: NVIDIA H100 80GB HBM3}]\n")->gpus[0]; }

GpuState after(const GpuSpec& gpu, double load, int ticks, const Ailments& ailments = {}, double limit = 700) {
  GpuState state = settled(gpu);
  for (int i = 0; i < ticks; ++i) step(state, gpu, load, Limits{.power = limit}, ailments);
  return state;
}

TEST(Physics, MoreLoadMeansMorePowerAndMoreHeat) {
  const GpuSpec gpu = h100();
  double power = 0;
  double temperature = 0;
  for (const double load : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const GpuState state = after(gpu, load, 3000);
    EXPECT_GT(state.power, power);
    EXPECT_GT(state.temperature, temperature);
    power = state.power;
    temperature = state.temperature;
  }
  EXPECT_LT(temperature, gpu.model.temperature_slowdown) << "a healthy GPU does not throttle by heat";
}

TEST(Physics, ThePowerCapHoldsAndSaysSo) {
  const GpuState state = after(h100(), 1.0, 3000, {}, 400);
  EXPECT_NEAR(state.power, 400, 1);
  EXPECT_LT(state.clock, 1);
  EXPECT_NE(state.throttle & 0x4U, 0U);
}

TEST(Physics, HeatThrottlesAndStopsAtTheShutdownMark) {
  const GpuSpec gpu = h100();
  const GpuState state = after(gpu, 1.0, 6000, {.thermal_runaway = true});
  EXPECT_NE(state.throttle & 0x20U, 0U);
  EXPECT_LT(state.clock, 1);
  EXPECT_LE(state.temperature, gpu.model.temperature_shutdown);
  EXPECT_GT(after(gpu, 1.0, 3000, {.fan_failure = true}).temperature, after(gpu, 1.0, 3000).temperature);
}

TEST(Physics, TemperatureFollowsWithItsTimeConstant) {
  const GpuSpec gpu = h100();
  const double start = settled(gpu).temperature;
  const double end = after(gpu, 1.0, 6000).temperature;
  const double at_constant = after(gpu, 1.0, static_cast<int>(kThermalSeconds / kTickSeconds)).temperature;
  EXPECT_NEAR((at_constant - start) / (end - start), 0.63, 0.04);
}

TEST(Physics, EnergyIsTheIntegralOfPower) {
  const GpuSpec gpu = h100();
  GpuState state = settled(gpu);
  double sum = 0;
  for (int i = 0; i < 1000; ++i) {
    step(state, gpu, 0.7, Limits{.power = 700}, {});
    sum += state.power * kTickSeconds;
  }
  EXPECT_NEAR(state.energy, sum, 1e-6);
}

TEST(Physics, ScriptedLoadIsTheSameForTheSameSeedAndTick) {
  GpuSpec gpu = h100();
  gpu.workload.kind = "training";
  EXPECT_EQ(scripted_load(gpu, 1, 77), scripted_load(gpu, 1, 77));
  EXPECT_NE(scripted_load(gpu, 1, 77), scripted_load(gpu, 2, 77));
  const auto stall = static_cast<std::uint64_t>((gpu.workload.epoch + 1) / kTickSeconds);
  EXPECT_LT(scripted_load(gpu, 1, stall), 0.1) << "data stalls";
}

TEST(SmiFleet, OddCapturesStillBecomeFleets) {
  auto snapshot = testing::fleet(2);
  snapshot.gpus[0].gpu.pci_bus_id = "00000000:XX:00.0";
  snapshot.gpus[1].gpu.uuid = snapshot.gpus[0].gpu.uuid;
  snapshot.gpus[0].sample.fan_speed = Percent(104);
  snapshot.gpus[0].sample.pcie_generation = Count(0);
  snapshot.gpus[1].processes = {
      {.pid = Pid{7}, .compute = true, .command = "python \"x\" \\ #{}: - é", .memory = 900_GiB}};
  const auto yaml = machine::fleet_yaml_from(snapshot, "odd \"name\"");
  ASSERT_THAT(yaml, IsOk());
  const auto spec = parse(*yaml);
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->gpus[0].readings.at(Field::fan_speed), 100);
  EXPECT_FALSE(spec->gpus[1].processes[0].memory_mib);
  EXPECT_THAT(machine::fleet_yaml_from({}, "none"), fails("no GPU"));
}

TEST(SmiFleet, EveryCaptureOfTheCorpusBecomesAFleetWithItsMig) {
  for (const auto& path : list_directory(testing::corpus() / "captures/smi_xml")) {
    const auto snapshot = capture::snapshot_from_smi_xml(read_file(path).value_or(""));
    ASSERT_THAT(snapshot, IsOk()) << path;
    const auto yaml = machine::fleet_yaml_from(*snapshot, path.stem().string());
    ASSERT_THAT(yaml, IsOk()) << path;
    const auto spec = parse(*yaml);
    ASSERT_THAT(spec, IsOk()) << path;
    ASSERT_EQ(spec->gpus.size(), snapshot->gpus.size()) << path;
    for (std::size_t i = 0; i < spec->gpus.size(); ++i)
      EXPECT_EQ(spec->gpus[i].instances.size(), snapshot->gpus[i].mig_devices.size()) << path;
  }
}

}  // namespace
}  // namespace gpuwarden::sim
