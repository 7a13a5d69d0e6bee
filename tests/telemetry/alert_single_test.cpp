// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "gpuwarden/telemetry/alerts.hpp"
#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::telemetry {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using WallTime = std::chrono::system_clock::time_point;

TEST(AlertJson, IsReadBackWithoutLoss) {
  Alert alert{.id = 7, .rule = "hot", .level = AlertLevel::critical, .gpu = GpuIndex{3}, .uuid = Uuid("GPU-3")};
  alert.host = "n";
  alert.message = "m";
  alert.next_step = "s";
  alert.condition = "temp > 80";
  alert.value = 81.5;
  alert.unit = "°C";
  alert.count = 4;
  alert.since = WallTime(1234567ms);
  alert.ended = WallTime(2345678ms);
  alert.acknowledged_by = "ann";
  alert.simulated = true;
  alert.part_of = 3;
  alert.also = {"it is hot, too"};
  const auto back = alert_from_json(to_json(alert));
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(*back, alert);
  alert.value.reset();
  alert.ended.reset();
  EXPECT_EQ(*alert_from_json(nlohmann::json::parse(to_json(alert).dump())), alert);
}

TEST(BuiltInAlerts, TellTheStateOfALostGpuInWords) {
  const auto message_in = [](facts::GpuState state) {
    AlertBook book(built_in_rules());
    Reading reading;
    reading.snapshot = testing::fleet(1);
    reading.snapshot.taken_at = WallTime(1'700'000'000s);
    reading.snapshot.gpus[0].state = state;
    for (const AlertChange& change : book.judge(reading, {})) {
      if (change.alert.rule == "gpu_lost") return change.alert.message;
    }
    return std::string();
  };
  EXPECT_THAT(message_in(facts::GpuState::needs_reset), EndsWith(") needs a reset"));
  EXPECT_THAT(message_in(facts::GpuState::lost), EndsWith(") is lost"));
}

TEST(BuiltInAlerts, AnUncorrectableMemoryErrorIsOneAlert) {
  AlertBook book(built_in_rules());
  Reading reading;
  reading.snapshot = testing::fleet(1);
  reading.snapshot.taken_at = WallTime(1'700'000'000s);
  facts::GpuRecord& record = reading.snapshot.gpus[0];
  record.sample.ecc_uncorrected_volatile = Count(0);
  facts::Health health{.uuid = record.gpu.uuid, .state = facts::HealthState::available};
  EXPECT_THAT(book.judge(reading, {&health, 1}), IsEmpty());
  reading.snapshot.taken_at += 1s;
  record.sample.ecc_uncorrected_volatile = Count(1);
  health.state = facts::HealthState::error;
  health.reason = "an uncorrectable memory error";
  reading.events = {{.kind = facts::GpuEventKind::xid, .uuid = record.gpu.uuid, .data = 48, .time = {}}};
  const auto changes = book.judge(reading, {&health, 1});
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].alert.rule, "xid_memory");
  ASSERT_EQ(changes[0].alert.also.size(), 2U);
  EXPECT_THAT(changes[0].alert.also[1], HasSubstr("is judged unfit for work: an uncorrectable memory error"));
}

}  // namespace
}  // namespace gpuwarden::telemetry
