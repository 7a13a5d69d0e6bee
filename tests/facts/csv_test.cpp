// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/csv.hpp"

#include <set>

#include "gpuwarden/facts/metrics.hpp"

namespace gpuwarden::facts {
namespace {

using ::testing::HasSubstr;

Snapshot two_gpus() {
  Snapshot snapshot;
  snapshot.driver_version = "550.54.15";
  GpuRecord& first = snapshot.gpus.emplace_back();
  first.gpu.index = GpuIndex{0};
  first.gpu.name = "NVIDIA H100 80GB HBM3";
  first.gpu.uuid = Uuid("GPU-1");
  first.gpu.compute_capability = ComputeCapability{9, 0};
  first.gpu.persistence = true;
  first.sample.utilization_gpu = Percent(45);
  first.sample.memory_total = Bytes(80ULL << 30U);
  first.sample.memory_used = Bytes((1ULL << 20U) + 5);
  first.sample.temperature = Celsius(34);
  first.sample.power = Milliwatts(71640);
  first.sample.performance_state = Count(2);
  GpuRecord& second = snapshot.gpus.emplace_back();
  second.gpu.index = GpuIndex{1};
  second.gpu.name = "Odd, \"quoted\"";
  second.state = GpuState::lost;
  return snapshot;
}

std::string csv(const std::vector<std::string>& fields, const CsvStyle& style = {}) {
  return to_csv(two_gpus(), fields, style).value_or("refused");
}

TEST(Csv, NvidiaSmisNamesHaveItsUnits) {
  EXPECT_EQ(csv({"index", "utilization.gpu", "memory.used", "temperature.gpu", "power.draw", "pstate", "compute_cap",
                 "persistence_mode"}),
            "index, utilization.gpu [%], memory.used [MiB], temperature.gpu, power.draw [W], pstate, compute_cap, "
            "persistence_mode\n"
            "0, 45 %, 1 MiB, 34, 71.64 W, P2, 9.0, Enabled\n"
            "1, [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A]\n");
}

TEST(Csv, MetricsByTheirOwnIdsStandInTheirOwnUnits) {
  EXPECT_EQ(csv({"memory_used", "power", "state"}, {.header = false}),
            "1048581 B, 71.64 W, in_use\n[N/A], [N/A], lost\n");
}

/// The state that is written for the first of the two GPUs once it was changed.
std::string state_after(void (*change)(GpuRecord&), const std::vector<Lease>& leases = {}) {
  Snapshot snapshot = two_gpus();
  snapshot.gpus[0].sample.utilization_gpu = Percent(0);
  snapshot.gpus.pop_back();
  change(snapshot.gpus[0]);
  const std::vector<std::string> fields{"state"};
  return to_csv(snapshot, fields, {.header = false}, leases).value_or("refused");
}

TEST(Csv, AGpuIsAvailableOnlyWhereItIsFree) {
  EXPECT_EQ(state_after([](GpuRecord&) {}), "available\n");
  EXPECT_EQ(state_after([](GpuRecord& gpu) { gpu.sample.memory_used = 39_GiB; }), "in_use\n");
  EXPECT_EQ(state_after([](GpuRecord& gpu) { gpu.gpu.mig_enabled = true; }), "mig_without_instances\n");
  EXPECT_EQ(state_after([](GpuRecord& gpu) { gpu.processes_unreadable = true; }), "unknown\n");
  const std::vector<Lease> leases{{Uuid("GPU-1"), false, {}}};
  EXPECT_EQ(state_after([](GpuRecord&) {}, leases), "leased\n");
  EXPECT_EQ(state_after([](GpuRecord& gpu) { gpu.state = GpuState::busy; }, leases), "busy\n");
}

TEST(Csv, AGpuThatIsOutOfUseIsNotAvailable) {
  Snapshot snapshot = two_gpus();
  snapshot.gpus[0].sample.utilization_gpu = Percent(0);
  const std::vector<std::string> fields{"state", "disabled"};
  std::vector<Disabling> word{{snapshot.gpus[0].gpu.uuid, "fan is loud", "root", true, snapshot.taken_at}};
  EXPECT_EQ(to_csv(snapshot, fields, {.header = false}, {}, word).value_or("refused"),
            "disabled, \"disabled: fan is loud (by root, just now)\"\nlost, [N/A]\n");
  word[0] = {.uuid = snapshot.gpus[0].gpu.uuid, .reason = "unfit: broken memory", .judged = true};
  EXPECT_EQ(to_csv(snapshot, fields, {.header = false}, {}, word).value_or("refused"),
            "unfit, unfit: broken memory\nlost, [N/A]\n");
}

TEST(Csv, LeasesHaveTheirHoldersNamed) {
  LeaseHolder ada;
  ada.pid = Pid{41};
  ada.user = "ada";
  LeaseHolder bob;
  bob.pid = Pid{42};
  bob.user = "bob";
  const std::vector<std::string> fields{"lease.user", "lease.pid"};
  const std::vector<Lease> shared{{Uuid("GPU-1"), true, {ada, bob}}};
  EXPECT_EQ(to_csv(two_gpus(), fields, {.header = false}, shared).value_or("refused"),
            "ada bob, 41 42\n[N/A], [N/A]\n");
  const std::vector<Lease> hidden{{Uuid("GPU-1"), false, {}}};
  EXPECT_EQ(to_csv(two_gpus(), fields, {.header = false}, hidden).value_or("refused"), "?, ?\n[N/A], [N/A]\n");
}

TEST(Csv, HeaderAndUnitsCanBeLeftOut) {
  EXPECT_EQ(csv({"index", "power.draw"}, {.header = false, .units = false}), "0, 71.64\n1, [N/A]\n");
  EXPECT_TRUE(csv({"index", "power.draw"}, {.units = false}).starts_with("index, power.draw\n"));
}

TEST(Csv, ACommaInAValueDoesNotMakeACell) { EXPECT_THAT(csv({"name"}), HasSubstr("\n\"Odd, \"\"quoted\"\"\"\n")); }

TEST(Csv, EveryNameIsUniqueAndKnownAndEveryMetricHasOne) {
  const auto names = csv_field_names();
  const std::set<std::string> unique(names.begin(), names.end());
  EXPECT_EQ(unique.size(), names.size());
  for (const Metric& metric : metrics()) EXPECT_TRUE(unique.contains(std::string(metric.id))) << metric.id;
  EXPECT_TRUE(to_csv(two_gpus(), names, {}).has_value());
  for (const std::string_view field : default_csv_fields()) EXPECT_TRUE(unique.contains(std::string(field))) << field;
}

TEST(Csv, AnUnknownFieldNamesThoseThatAreLikeIt) {
  const std::vector<std::string> wrong{"power.drawn"};
  const auto refused = to_csv(two_gpus(), wrong, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(refused.error().message, "unknown field 'power.drawn'");
  EXPECT_TRUE(refused.error().hint.starts_with("did you mean power.draw, ")) << refused.error().hint;
}

}  // namespace
}  // namespace gpuwarden::facts
