// SPDX-License-Identifier: Apache-2.0
// Silences, power limits, what is not known, brief answers, and what is kept between requests.
#include <zlib.h>

#include "serve/encoding.hpp"
#include "serve/fake_server.hpp"
#include "serve/schema_check.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;

std::string unpacked(std::string_view bytes) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, MAX_WBITS + 16), Z_OK);
  std::string text(std::size_t{1} << 20U, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

class MoreRoutes : public testing::FakeServer {
 protected:
  /// A new reading, as a monitor would have it.
  telemetry::Reading& next_reading() {
    clock_.advance(std::chrono::seconds(1));
    watch_.reading = std::make_shared<telemetry::Reading>(*watch_.reading);
    watch_.reading->when = clock_.now();
    watch_.reading->snapshot.taken_at = clock_.wall_now();
    return *watch_.reading;
  }
};

TEST_F(MoreRoutes, SilencesAreListedAndEnded) {
  allow_actions();
  EXPECT_EQ(json("/api/v1/silences")["silences"].size(), 0U);
  ASSERT_EQ(post("/api/v1/silences", {{"rule", "hot"}, {"for", "1h"}, {"by", "ann"}}, kToken).status, 200);
  const Json list = json("/api/v1/silences");
  EXPECT_THAT(testing::schema_errors(schemas()["Silences"], list, schemas()), IsEmpty());
  EXPECT_EQ(list["silences"][0]["rule"], "hot");
  EXPECT_EQ(list["silences"][0]["by"], "ann");
  EXPECT_EQ(post("/api/v1/silences/end", {{"rule", "hot"}}).status, 401);
  EXPECT_EQ(post("/api/v1/silences/end", {{"rule", "cold"}}, kToken).status, 404);
  EXPECT_EQ(post("/api/v1/silences/end", {{"rule", "hot"}}, kToken).status, 200);
  EXPECT_EQ(json("/api/v1/silences")["silences"].size(), 0U);
}

TEST_F(MoreRoutes, ASilenceThatIsOverIsNotListed) {
  allow_actions();
  ASSERT_EQ(post("/api/v1/silences", {{"for", "1h"}}, kToken).status, 200);
  clock_.advance(std::chrono::hours(2));
  EXPECT_EQ(json("/api/v1/silences")["silences"].size(), 0U);
}

TEST_F(MoreRoutes, APowerLimitIsSetForTheTokenAndSaidAsItIsThen) {
  allow_actions();
  EXPECT_EQ(post("/api/v1/gpus/1/power-limit", {{"watts", 300}}, kToken).status, 503);
  std::pair<std::string, std::int64_t> asked;
  sources_.actions.set_power_limit = [&](const Uuid& gpu, Milliwatts limit) -> Result<Milliwatts> {
    asked = {gpu.value, limit.value};
    if (limit > 700_W) return fail(ErrorCode::invalid_argument, "800 W is not between 200 and 700 W");
    return limit;
  };
  EXPECT_EQ(post("/api/v1/gpus/1/power-limit", {{"watts", 300}}).status, 401);
  for (const Json& wrong : {Json::object(), Json{{"watts", 0}}, Json{{"watts", -5}}, Json{{"watts", "300"}},
                            Json{{"watts", 1e9}}, Json{{"watts", nullptr}}})
    EXPECT_EQ(post("/api/v1/gpus/1/power-limit", wrong, kToken).status, 400) << wrong;
  EXPECT_EQ(asked.second, 0);
  EXPECT_EQ(post("/api/v1/gpus/9/power-limit", {{"watts", 300}}, kToken).status, 404);
  const auto response = post("/api/v1/gpus/1/power-limit", {{"watts", 300.5}}, kToken);
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(asked, (std::pair<std::string, std::int64_t>("GPU-1000-test", 300500)));
  const Json answered = Json::parse(response.body);
  EXPECT_EQ(answered["power_limit_watts"], 300.5);
  EXPECT_THAT(testing::schema_errors(schemas()["PowerLimitSet"], answered, schemas()), IsEmpty());
  EXPECT_EQ(post("/api/v1/gpus/1/power-limit", {{"watts", 800}}, kToken).status, 400);
  clock_.advance(std::chrono::milliseconds(10001));
  EXPECT_EQ(post("/api/v1/gpus/1/power-limit", {{"watts", 300}}, kToken).status, 503) << "index 1 may be another GPU";
}

TEST_F(MoreRoutes, DisablingSaysForWhomItCounts) {
  allow_actions();
  sources_.actions.disable = [](const facts::Disabling&) -> Result<void> { return {}; };
  Json answered = Json::parse(post("/api/v1/gpus/1/disable", {{"reason", "fan"}}, kToken).body);
  EXPECT_EQ(answered["for_everybody"], true);
  EXPECT_EQ(json("/api/v1/session")["actions"]["disables_for_everybody"], true);
  sources_.actions.disables_for = "gpuwarden";
  answered = Json::parse(post("/api/v1/gpus/1/disable", {{"reason", "fan"}}, kToken).body);
  EXPECT_EQ(answered["for_everybody"], false);
  EXPECT_THAT(answered["note"].get<std::string>(), HasSubstr("user gpuwarden alone"));
  EXPECT_THAT(testing::schema_errors(schemas()["Disabled"], answered, schemas()), IsEmpty());
}

TEST_F(MoreRoutes, TheSignalGoesInTheNameOfWhoeverIsConnected) {
  allow_actions();
  int connection = 0;
  sources_.actions.signal = [&](Pid, int, const Peer& peer) -> Result<void> {
    connection = peer.descriptor;
    return {};
  };
  Request asked = request("/api/v1/processes/4242/signal", Method::post);
  asked.headers.emplace_back("authorization", std::string("Bearer ") + kToken);
  asked.headers.emplace_back("content-type", "application/json");
  asked.body = R"({"signal":"TERM"})";
  asked.peer.descriptor = 17;
  EXPECT_EQ(answer(sources_, asked).status, 200);
  EXPECT_EQ(connection, 17);
}

TEST_F(MoreRoutes, LeasesThatCannotBeReadAreUnknownNotNone) {
  sources_.leases_problem = [] { return Error{ErrorCode::permission_denied, "/run/lock/gpuwarden is closed", ""}; };
  watch_.reading->leases.clear();
  const Json node = json("/api/v1/nodes")["nodes"][0];
  EXPECT_EQ(node["leases"], nullptr);
  EXPECT_EQ(node["leases_problem"]["message"], "/run/lock/gpuwarden is closed");
  EXPECT_THAT(testing::schema_errors(schemas()["Node"], node, schemas()), IsEmpty());
  const Json leases = json("/api/v1/leases");
  EXPECT_EQ(leases["leases"].size(), 0U);
  EXPECT_EQ(leases["unknown"][0]["node"], "node1");
  EXPECT_THAT(get("/metrics").body, Not(HasSubstr("gpuwarden_gpu_leased{")));
  sources_.leases_problem = {};
  EXPECT_THAT(get("/metrics").body, HasSubstr("gpuwarden_gpu_leased{"));
  EXPECT_EQ(json("/api/v1/leases")["unknown"].size(), 0U);
}

TEST_F(MoreRoutes, DisablingsThatCannotBeReadAreSaid) {
  sources_.disablings_problem = [] { return Error{ErrorCode::corrupt, "disabled.json: damaged", ""}; };
  Json node = json("/api/v1/nodes")["nodes"][0];
  EXPECT_EQ(node["health"].size(), 2U) << "judged by what was known last";
  EXPECT_EQ(node["health_problem"]["message"], "disabled.json: damaged");
  EXPECT_EQ(json("/api/v1/health")["unknown"][0]["problem"]["message"], "disabled.json: damaged");
  watch_.healths.clear();
  node = json("/api/v1/nodes")["nodes"][0];
  EXPECT_EQ(node["health"], nullptr);
  EXPECT_THAT(testing::schema_errors(schemas()["Node"], node, schemas()), IsEmpty());
}

TEST_F(MoreRoutes, ABriefAnswerHasWhatAnOverviewShowsAndOneGpuWhole) {
  const Json whole = json("/api/v1/nodes")["nodes"][0]["snapshot"]["gpus"];
  const auto answered = json("/api/v1/nodes?brief=true&gpu=GPU-1000-test");
  const Json& gpus = answered["nodes"][0]["snapshot"]["gpus"];
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[1], whole[1]);
  EXPECT_LT(gpus[0].dump().size(), whole[0].dump().size() / 2);
  EXPECT_EQ(gpus[0]["processes"], whole[0]["processes"]);
  EXPECT_EQ(gpus[0]["power_watts"], 300.0);
  EXPECT_FALSE(gpus[0].contains("ecc"));
  EXPECT_THAT(testing::schema_errors(schemas()["Nodes"], answered, schemas()), IsEmpty());
  EXPECT_EQ(json("/api/v1/nodes?brief=true&gpu=elsewhere")["nodes"][0]["snapshot"]["gpus"][1].size(), gpus[0].size());
}

TEST_F(MoreRoutes, WhatIsKeptBetweenRequestsIsNeverOld) {
  EXPECT_EQ(json("/api/v1/nodes")["nodes"][0]["snapshot"]["gpus"][0]["power_watts"], 300.0);
  EXPECT_THAT(get("/metrics").body, HasSubstr("power_watts{gpu=\"0\",uuid=\"GPU-0000-test\"} 300\n"));
  next_reading().snapshot.gpus[0].sample.power = 250_W;
  EXPECT_EQ(json("/api/v1/nodes")["nodes"][0]["snapshot"]["gpus"][0]["power_watts"], 250.0);
  EXPECT_THAT(get("/metrics").body, HasSubstr("power_watts{gpu=\"0\",uuid=\"GPU-0000-test\"} 250\n"));
  watch_.active[0].acknowledged_by = "ann";
  EXPECT_EQ(json("/api/v1/nodes")["nodes"][0]["alerts"][0]["acknowledged_by"], "ann");
  watch_.healths[0].state = facts::HealthState::error;
  EXPECT_EQ(json("/api/v1/nodes")["nodes"][0]["health"][0]["state"], "error");
  watch_.active.clear();
  EXPECT_EQ(json("/api/v1/nodes")["nodes"][0]["alerts"].size(), 0U);
}

TEST_F(MoreRoutes, WhatIsKeptIsNotShownToThoseWhoMayNotSeeIt) {
  Request owner = request("/api/v1/nodes?brief=true");
  owner.peer.user = 1000;
  EXPECT_THAT(answer(sources_, owner).body, HasSubstr("train"));
  EXPECT_THAT(get("/api/v1/nodes?brief=true").body, Not(HasSubstr("train")));
}

TEST_F(MoreRoutes, AnAlertThatQuotesCommandLinesDoesSoToThoseWhoSeeThem) {
  watch_.active[0].message = "GPU 0 is held by train --token hf_abcdefghijklmnopqrstuvwxyz012345";
  watch_.active[0].condition = "utilization < 5";
  sources_.quotes_commands = [](std::string_view rule) { return rule == "hot"; };
  for (const char* target : {"/api/v1/alerts", "/api/v1/nodes"}) {
    EXPECT_THAT(get(target).body, Not(HasSubstr("train --token hf_"))) << target;
    EXPECT_THAT(get(target).body, Not(HasSubstr("held by train"))) << target;
    Request owner = request(target);
    owner.peer.user = 1000;
    EXPECT_THAT(answer(sources_, owner).body, HasSubstr("held by train --token\"")) << target;
  }
}

TEST_F(MoreRoutes, TheLastWordOfAMachineThatIsGoneIsMarked) {
  class Gone final : public cluster::NodeSource {
   public:
    std::vector<cluster::Node> nodes() const override {
      cluster::Node node;
      node.name = "node2";
      node.url = "http://node2:10478";
      node.problem = Error{ErrorCode::timed_out, "node2 does not answer", ""};
      node.alerts.emplace_back().rule = "cold";
      return {node};
    }
  };
  const Gone gone;
  sources_.nodes = &gone;
  const Json alerts = json("/api/v1/alerts")["alerts"];
  ASSERT_EQ(alerts.size(), 2U);
  EXPECT_EQ(alerts[0]["current"], true);
  EXPECT_EQ(alerts[1]["node"], "node2");
  EXPECT_EQ(alerts[1]["current"], false);
}

TEST_F(MoreRoutes, ASessionIsOfOnePortAlone) {
  access_.token = kToken;
  access_.token_to_read = true;
  const auto response = post("/api/v1/login", {{"token", kToken}});
  const std::string cookie = testing::header_of(response, "Set-Cookie");
  EXPECT_THAT(cookie, HasSubstr("gpuwarden_session_10478="));
  Request asked = request("/api/v1/nodes");
  asked.headers.emplace_back("cookie", cookie.substr(0, cookie.find(';')));
  EXPECT_EQ(answer(sources_, asked).status, 200);
  access_.address.port = 10479;
  EXPECT_EQ(answer(sources_, asked).status, 401);
}

TEST_F(MoreRoutes, WhatReadsFilesIsNotForTheThreadOfAll) {
  for (const char* target : {"/api/v1/history?gpu=0&metric=power", "/api/v1/usage", "/api/v1/nodes"})
    EXPECT_TRUE(may_wait(request(target))) << target;
  for (const char* target : {"/metrics", "/api/v1/health", "/-/ready", "/nothing", "/"})
    EXPECT_FALSE(may_wait(request(target))) << target;
  EXPECT_TRUE(may_wait(request("/api/v1/gpus/0/power-limit", Method::post)));
}

TEST_F(MoreRoutes, LongAnswersAreCompressedForThoseWhoTakeIt) {
  for (const char* target : {"/metrics", "/api/v1/openapi.json"}) {
    Request asked = request(target);
    const auto plain = answer(sources_, asked);
    EXPECT_EQ(testing::header_of(plain, "Content-Encoding"), "") << target;
    EXPECT_EQ(testing::header_of(plain, "Vary"), "Accept-Encoding") << target;
    asked.headers.emplace_back("accept-encoding", "deflate, gzip;q=0.8");
    for (int again = 0; again < 2; ++again) {
      const auto packed = answer(sources_, asked);
      EXPECT_EQ(testing::header_of(packed, "Content-Encoding"), "gzip") << target;
      EXPECT_EQ(packed.type, plain.type) << target;
      EXPECT_LT(packed.body.size(), plain.body.size() / 2) << target;
      EXPECT_EQ(unpacked(packed.body), plain.body) << target;
    }
  }
  Request small = request("/-/ready");
  small.headers.emplace_back("accept-encoding", "gzip");
  EXPECT_EQ(answer(sources_, small).body, "ready\n");
}

TEST(AcceptEncoding, IsReadAsTheStandardHasIt) {
  for (const char* header : {"gzip", "deflate, GZIP", "gzip;q=0.1", "*", "br;q=1, *;q=0.5", "x-gzip"})
    EXPECT_TRUE(takes_gzip(header)) << header;
  for (const char* header : {"", "br", "gzip;q=0", "gzip; q=0.0, *", "*;q=0", "identity"})
    EXPECT_FALSE(takes_gzip(header)) << header;
}

TEST_F(MoreRoutes, SeriesOfXidsOfSimulatedGpusSaySo) {
  telemetry::Reading& reading = next_reading();
  reading.snapshot.simulated = true;
  facts::GpuEvent event;
  event.kind = facts::GpuEventKind::xid;
  event.uuid = Uuid("GPU-0000-test");
  event.data = 79;
  reading.events = {event};
  tally_.add(reading);
  const std::string metrics = get("/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("gpuwarden_gpu_xid_errors_total{gpu=\"0\",uuid=\"GPU-0000-test\","
                                 "simulated=\"true\",xid=\"79\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("gpuwarden_gpu_xid_last_timestamp_seconds{gpu=\"0\",uuid=\"GPU-0000-test\","
                                 "simulated=\"true\",xid=\"79\"}"));
}

TEST_F(MoreRoutes, EveryGpuHasACounterOfXidsFromTheStart) {
  EXPECT_THAT(get("/metrics").body, HasSubstr("gpuwarden_gpu_xids_total{gpu=\"0\",uuid=\"GPU-0000-test\"} 0\n"));
  telemetry::Reading& reading = next_reading();
  facts::GpuEvent event;
  event.kind = facts::GpuEventKind::xid;
  event.uuid = Uuid("GPU-0000-test");
  event.data = 79;
  reading.events = {event, event};
  tally_.add(reading);
  const std::string metrics = get("/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("gpuwarden_gpu_xids_total{gpu=\"0\",uuid=\"GPU-0000-test\"} 2\n"));
  EXPECT_THAT(metrics, HasSubstr("gpuwarden_gpu_xids_total{gpu=\"1\",uuid=\"GPU-1000-test\"} 0\n"));
  EXPECT_THAT(metrics, HasSubstr("gpuwarden_gpu_xid_errors_total{gpu=\"0\",uuid=\"GPU-0000-test\",xid=\"79\"} 2\n"));
}

}  // namespace
}  // namespace gpuwarden::serve
