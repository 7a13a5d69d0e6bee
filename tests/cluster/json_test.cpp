// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/cluster/json.hpp"

#include <nlohmann/json.hpp>

#include "support/matchers.hpp"

namespace gpuwarden::cluster {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;
using testing::IsOk;
using WallTime = std::chrono::system_clock::time_point;

telemetry::Reading full_reading() {
  telemetry::Reading reading;
  reading.snapshot.host = "gpu-1";
  reading.snapshot.taken_at = WallTime(std::chrono::milliseconds(1763900000123));
  reading.snapshot.gpus.push_back({});
  reading.snapshot.gpus[0].gpu.uuid = Uuid("GPU-a");
  reading.snapshot.gpus[0].sample.power = Milliwatts(312500);
  reading.leases.push_back({.uuid = Uuid("GPU-a"), .shared = true});
  reading.events.push_back({.uuid = Uuid("GPU-a"), .data = 79});
  reading.took = std::chrono::milliseconds(12);
  return reading;
}

TEST(NodeJson, ComesBackAsItWas) {
  Node node{.name = "gpu-1", .url = "http://gpu-1:1"};
  node.reading = std::make_shared<const telemetry::Reading>(full_reading());
  node.health.push_back({.uuid = Uuid("GPU-a"), .state = facts::HealthState::error, .reason = "Xid 79"});
  node.problem = Error{ErrorCode::timed_out, "timed out after 5 s", "is it up?"};
  node.seen = WallTime(std::chrono::milliseconds(1763900000200));
  telemetry::Alert alert;
  alert.rule = "hot";
  alert.uuid = Uuid("GPU-a");
  node.alerts.push_back(alert);
  const auto json = to_json(node);
  EXPECT_EQ(json["snapshot"]["gpus"][0]["power_watts"], 312.5);
  EXPECT_EQ(json["seen_unix_ms"], 1763900000200);
  const auto back = node_from_json(json);
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(back->name, "gpu-1");
  EXPECT_EQ(back->url, "http://gpu-1:1");
  EXPECT_EQ(back->health, node.health);
  EXPECT_EQ(back->alerts, node.alerts);
  EXPECT_EQ(back->problem, node.problem);
  EXPECT_EQ(back->seen, node.seen);
  ASSERT_TRUE(back->reading);
  EXPECT_EQ(back->reading->snapshot, node.reading->snapshot);
  EXPECT_EQ(back->reading->leases, node.reading->leases);
  EXPECT_EQ(back->reading->events, node.reading->events);
  EXPECT_EQ(back->reading->took, node.reading->took);
}

TEST(NodeJson, WhatIsNotKnownIsNull) {
  const auto json = to_json(Node{.name = "gpu-1"});
  EXPECT_TRUE(json["snapshot"].is_null());
  EXPECT_TRUE(json["problem"].is_null());
  EXPECT_TRUE(json["seen_unix_ms"].is_null());
  const auto back = node_from_json(json);
  ASSERT_THAT(back, IsOk());
  EXPECT_FALSE(back->reading);
  EXPECT_EQ(back->seen, WallTime{});
}

TEST(NodeJson, AListOfNodesHasTheSchemasNumber) {
  const std::vector<Node> nodes{Node{.name = "a"}, Node{.name = "b"}};
  const auto json = to_json(std::span(nodes));
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["nodes"].size(), 2U);
}

TEST(NodeJson, LiesAreFoundAndNamed) {
  const auto refused = [](const char* text, const char* key) {
    EXPECT_THAT(node_from_json(nlohmann::json::parse(text)), FailsWith(ErrorCode::corrupt, HasSubstr(key))) << text;
  };
  refused("[]", "a node");
  refused(R"({"name": 3})", "'name'");
  refused(R"({"name": "a", "problem": "x"})", "'problem'");
  refused(R"({"name": "a", "seen_unix_ms": "today"})", "'seen_unix_ms'");
  refused(R"({"name": "a", "reading_seconds": -1})", "'reading_seconds'");
  refused(R"({"name": "a", "health": {}})", "'health'");
  refused(R"({"name": "a", "health": [{"state": "fine"}]})", "'state'");
  refused(R"({"name": "a", "snapshot": {"gpus": 8}})", "'gpus'");
  refused(R"({"name": "a", "snapshot": {"schema": 99}})", "'schema'");
}

}  // namespace
}  // namespace gpuwarden::cluster
