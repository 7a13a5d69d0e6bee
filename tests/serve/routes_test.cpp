// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/serve/routes.hpp"

#include <array>
#include <csignal>
#include <set>

#include "gpuwarden/facts/json.hpp"
#include "serve/fake_server.hpp"
#include "serve/schema_check.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;

class Routes : public testing::FakeServer {};

TEST(RouteTable, HasEachPathAndMethodOnceAndASchemaForEachAnswerInJson) {
  std::set<std::pair<Method, std::string_view>> seen;
  for (const Route& route : routes()) {
    EXPECT_TRUE(seen.emplace(route.method, route.path).second) << route.path;
    EXPECT_FALSE(route.help.empty()) << route.path;
    if (route.type == "application/json") {
      EXPECT_TRUE(schemas().contains(std::string(route.schema))) << route.path;
    }
    if (!route.body.empty()) {
      EXPECT_TRUE(schemas().contains(std::string(route.body))) << route.path;
    }
    EXPECT_EQ(route.changes && route.open, false) << route.path;
    if (route.changes) {
      EXPECT_EQ(route.method, Method::post) << route.path;
    }
  }
}

TEST_F(Routes, EveryAnswerInJsonIsAsTheApiDescribesIt) {
  const Json description = openapi("0.1.0");
  unsigned checked = 0;
  for (const Route& route : routes()) {
    if (route.method != Method::get || route.type != "application/json") continue;
    std::string target(route.path);
    if (route.path == "/api/v1/history") target += "?gpu=0&metric=power";
    const Json answer = Json::parse(get(target).body, nullptr, false);
    EXPECT_THAT(testing::schema_errors(schemas()[std::string(route.schema)], answer, schemas()), IsEmpty()) << target;
    ++checked;
  }
  EXPECT_GE(checked, 12U);
  std::size_t described = 0;
  for (const Json& path : description["paths"]) described += path.size();
  EXPECT_EQ(described, routes().size());
}

TEST_F(Routes, ErrorsAreAsTheApiDescribesThem) {
  for (const char* target : {"/api/v1/history", "/nothing", "/api/v1/samples?metrics=powr", "/api/v1/usage?by=x"}) {
    const auto response = get(target);
    EXPECT_GE(response.status, 400) << target;
    const Json answer = Json::parse(response.body, nullptr, false);
    EXPECT_THAT(testing::schema_errors(schemas()["Error"], answer, schemas()), IsEmpty()) << target;
  }
}

TEST_F(Routes, UnknownPathsAndMethodsAreRefusedInOnePlace) {
  EXPECT_EQ(get("/api/v1/nothing").status, 404);
  EXPECT_EQ(post("/api/v1/nothing", {}).status, 404);
  const auto wrong = post("/api/v1/nodes", {});
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(testing::header_of(wrong, "Allow"), "GET, HEAD");
  EXPECT_EQ(get("/api/v1/login").status, 405);
  EXPECT_EQ(answer(sources_, request("/api/v1/nodes", Method::other)).status, 405);
}

TEST_F(Routes, ARequestUnderAForeignNameIsMisdirected) {
  Request asked = request("/api/v1/nodes");
  asked.headers = {{"host", "evil.example"}};
  EXPECT_EQ(answer(sources_, asked).status, 421);
  asked.headers.clear();
  EXPECT_EQ(answer(sources_, asked).status, 421);
}

TEST_F(Routes, EveryAnswerTellsBrowsersWhatTheyMayNot) {
  for (const char* target : {"/", "/metrics", "/api/v1/nodes", "/nothing"}) {
    const auto response = get(target);
    EXPECT_THAT(testing::header_of(response, "Content-Security-Policy"), HasSubstr("default-src 'none'")) << target;
    EXPECT_EQ(testing::header_of(response, "X-Content-Type-Options"), "nosniff") << target;
  }
}

TEST_F(Routes, AnOldReadingIsNotReadyAndMetricsSaySo) {
  EXPECT_EQ(get("/-/ready").status, 200);
  EXPECT_EQ(get("/healthz").status, 200);
  EXPECT_THAT(get("/metrics").body, HasSubstr("\ngpuwarden_up 1\n"));
  EXPECT_THAT(get("/metrics").body, HasSubstr("gpuwarden_gpu_power_watts"));
  clock_.advance(std::chrono::milliseconds(10001));
  for (const char* target : {"/-/ready", "/-/healthy", "/healthz"}) {
    EXPECT_EQ(get(target).status, 503) << target;
    EXPECT_THAT(get(target).body, HasSubstr("read 10 s ago")) << target;
  }
  const auto metrics = get("/metrics");
  EXPECT_EQ(metrics.status, 200);
  EXPECT_THAT(metrics.body, HasSubstr("\ngpuwarden_up 0\n"));
  EXPECT_THAT(metrics.body, Not(HasSubstr("gpuwarden_gpu_power_watts")));
  EXPECT_FALSE(json("/api/v1/health")["ready"]);
  EXPECT_EQ(get("/api/v1/inventory").status, 503) << "an old state is not shown as what is now";
  EXPECT_THAT(json("/api/v1/nodes")["nodes"][0]["problem"]["message"], HasSubstr("do not answer since"));
}

TEST_F(Routes, WithoutADriverTheServerIsNotReadyAndSaysWhy) {
  watch_.reading->snapshot.gpus.clear();
  watch_.reading->snapshot.problem = facts::DriverProblem(
      facts::DriverProblem::Kind::no_library, {ErrorCode::unavailable, "no NVIDIA driver is installed", "install it"});
  for (const char* target : {"/-/ready", "/-/healthy", "/healthz"}) {
    EXPECT_EQ(get(target).status, 503) << target;
    EXPECT_EQ(get(target).body, "no NVIDIA driver is installed\nhint: install it\n") << target;
  }
  EXPECT_THAT(get("/metrics").body, HasSubstr("\ngpuwarden_up 0\n"));
  const Json health = json("/api/v1/health");
  EXPECT_FALSE(health["ready"]);
  EXPECT_EQ(health["problem"]["message"], "no NVIDIA driver is installed");
  EXPECT_EQ(json("/api/v1/inventory")["problem"]["message"], "no NVIDIA driver is installed");
}

TEST_F(Routes, TheInventorySaysWhatIsOutOfUse) {
  sources_.disabled = [] {
    facts::Disabling one;
    one.uuid = Uuid("GPU-1000-test");
    one.reason = "fan is loud";
    return std::vector{one};
  };
  const Json gpus = json("/api/v1/inventory")["gpus"];
  EXPECT_TRUE(gpus[0]["disabled"].is_null());
  EXPECT_EQ(gpus[1]["disabled"]["reason"], "fan is loud");
}

TEST_F(Routes, AnUnknownParameterIsRefusedWithTheNearest) {
  const auto unknown = get("/api/v1/samples?metric=power");
  EXPECT_EQ(unknown.status, 400);
  EXPECT_THAT(unknown.body, HasSubstr("has no parameter 'metric'"));
  EXPECT_THAT(unknown.body, HasSubstr("did you mean 'metrics'?"));
  EXPECT_EQ(get("/api/v1/leases?x=1").status, 400);
  EXPECT_EQ(get("/api/v1/nodes?own=yes").status, 400);
  EXPECT_EQ(get("/api/v1/nodes?own=true").status, 200);
  EXPECT_EQ(get("/metrics?collect=all").status, 200) << "scrapers add parameters of their own";
}

TEST_F(Routes, MetricsAndGpusHaveTheNamesThatTheCommandLineTakes) {
  for (const char* name : {"power", "pwr", "gpuwarden_gpu_power_watts", "DCGM_FI_DEV_POWER_USAGE"}) {
    const Json values = json(std::string("/api/v1/samples?metrics=") + name)["nodes"][0]["gpus"][0]["values"];
    EXPECT_EQ(values["power"], 300) << name;
    EXPECT_EQ(json(std::string("/api/v1/history?gpu=0&metric=") + name)["metric"], "power") << name;
  }
  for (const char* name : {"1", "GPU-1000-test", "GPU-1"})
    EXPECT_EQ(json(std::string("/api/v1/history?metric=power&gpu=") + name)["uuid"], "GPU-1000-test") << name;
  EXPECT_EQ(get("/api/v1/history?metric=power&gpu=GPU-").status, 200) << "a GPU that is gone has a history";
}

TEST_F(Routes, WhatIsDoneIsRecordedWithWhatIsKnownOfTheCaller) {
  allow_actions();
  const auto acknowledge = [&](const Json& body, const Peer& peer) {
    Request asked = request("/api/v1/alerts/7/acknowledge", Method::post);
    asked.headers.emplace_back("content-type", "application/json");
    asked.headers.emplace_back("authorization", std::string("Bearer ") + kToken);
    asked.body = body.dump();
    asked.peer = peer;
    EXPECT_EQ(answer(sources_, asked).status, 200);
    return watch_.acknowledged;
  };
  EXPECT_EQ(acknowledge(Json::object(), {}), "a holder of the token");
  EXPECT_EQ(acknowledge(Json::object(), {.loopback = false, .address = "10.1.2.3", .user = {}}), "from 10.1.2.3");
  EXPECT_EQ(acknowledge({{"by", "ann"}}, {.loopback = false, .address = "10.1.2.3", .user = {}}),
            "ann (from 10.1.2.3)");
  EXPECT_EQ(acknowledge({{"by", "ann"}}, {.loopback = true, .address = "127.0.0.1", .user = 0}), "ann (user root)");
}

TEST_F(Routes, ASilenceOfWhatThereIsNotIsRefusedWithTheNearest) {
  allow_actions();
  const auto refused = post("/api/v1/silences", {{"rule", "hto"}, {"for", "1h"}}, kToken);
  EXPECT_EQ(refused.status, 404);
  EXPECT_THAT(refused.body, HasSubstr("did you mean 'hot'?"));
  EXPECT_FALSE(watch_.silenced.has_value());
}

TEST_F(Routes, BrowsersGetErrorsAsAPageAndProgramsAsJson) {
  Request asked = request("/nothing<script>");
  asked.headers.emplace_back("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
  const auto page = answer(sources_, asked);
  EXPECT_EQ(page.status, 404);
  EXPECT_EQ(page.type, "text/html; charset=utf-8");
  EXPECT_THAT(page.body, HasSubstr("<h1>404 Not Found</h1>"));
  EXPECT_THAT(page.body, HasSubstr("/nothing&lt;script&gt;"));
  asked.path = "/api/v1/nothing";
  EXPECT_EQ(answer(sources_, asked).type, "application/json");
  EXPECT_EQ(get("/nothing").type, "application/json");
}

TEST_F(Routes, BeforeTheFirstReadingTheServerIsHealthyButNotReady) {
  watch_.reading = nullptr;
  EXPECT_EQ(get("/-/ready").status, 503);
  EXPECT_EQ(get("/healthz").status, 200);
  EXPECT_EQ(get("/api/v1/inventory").status, 503);
  EXPECT_EQ(json("/api/v1/nodes")["nodes"][0]["snapshot"], nullptr);
}

TEST_F(Routes, CommandLinesAreForThoseWhoMaySeeThemAndWithoutSecrets) {
  const auto commands = [&](const Request& asked) {
    const auto answered = Json::parse(answer(sources_, asked).body);
    const auto& command = answered["nodes"][0]["snapshot"]["gpus"][0]["processes"][0]["command"];
    return command.is_string() ? command.get<std::string>() : std::string();
  };
  Request asked = request("/api/v1/nodes");
  EXPECT_EQ(commands(asked), "");
  EXPECT_THAT(answer(sources_, asked).body, Not(HasSubstr("secret job")));
  asked.peer.user = 1000;
  EXPECT_EQ(commands(asked), "train --token");
  EXPECT_THAT(answer(sources_, asked).body, HasSubstr("secret job"));
  for (const char* target : {"/api/v1/inventory", "/api/v1/processes", "/api/v1/leases", "/api/v1/usage"}) {
    EXPECT_THAT(get(target).body, Not(HasSubstr("train"))) << target;
    EXPECT_THAT(get(target).body, Not(HasSubstr("secret job"))) << target;
  }
}

TEST_F(Routes, ReadingNeedsTheTokenWhereOthersAreListenedTo) {
  access_.token = kToken;
  access_.token_to_read = true;
  EXPECT_EQ(get("/api/v1/nodes").status, 401);
  EXPECT_EQ(get("/metrics").status, 401);
  EXPECT_THAT(testing::header_of(get("/metrics"), "WWW-Authenticate"), HasSubstr("Bearer"));
  EXPECT_EQ(get("/-/ready").status, 200);
  EXPECT_TRUE(json("/api/v1/session")["token_needed"]);
  Request asked = request("/api/v1/nodes");
  asked.headers.emplace_back("authorization", std::string("Bearer ") + kToken);
  EXPECT_EQ(answer(sources_, asked).status, 200);
}

TEST_F(Routes, ALoginGivesACookieThatIsTheTokensEqual) {
  access_.token = kToken;
  access_.token_to_read = true;
  EXPECT_EQ(post("/api/v1/login", {{"token", "wrong"}}).status, 401);
  EXPECT_EQ(post("/api/v1/login", {{"token", 1}}).status, 401);
  const auto response = post("/api/v1/login", {{"token", kToken}});
  ASSERT_EQ(response.status, 200);
  const std::string cookie = testing::header_of(response, "Set-Cookie");
  EXPECT_THAT(cookie, HasSubstr("HttpOnly; SameSite=Strict"));
  EXPECT_THAT(cookie, Not(HasSubstr(kToken)));
  Request asked = request("/api/v1/nodes");
  asked.headers.emplace_back("cookie", "a=b; " + cookie.substr(0, cookie.find(';')));
  EXPECT_EQ(answer(sources_, asked).status, 200);
  Request out = asked;
  out.path = "/api/v1/logout";
  out.method = Method::post;
  EXPECT_EQ(answer(sources_, out).status, 200);
  EXPECT_EQ(answer(sources_, asked).status, 401);
}

TEST_F(Routes, NothingIsChangedWithoutPermissionAndToken) {
  const std::string target = "/api/v1/alerts/7/acknowledge";
  EXPECT_EQ(post(target, {{"by", "ann"}}).status, 403);
  access_.token = kToken;
  EXPECT_EQ(post(target, {{"by", "ann"}}, kToken).status, 403);
  access_.allow_actions = true;
  EXPECT_EQ(post(target, {{"by", "ann"}}).status, 401);
  EXPECT_EQ(watch_.acknowledged, "");
  EXPECT_EQ(post(target, {{"by", "ann"}}, kToken).status, 200);
  EXPECT_EQ(watch_.acknowledged, "ann");
  std::string longest;
  for (int i = 0; i < 31; ++i) longest += "é";
  EXPECT_EQ(post(target, {{"by", "x" + longest + longest}}, kToken).status, 200);
  EXPECT_EQ(watch_.acknowledged, "x" + longest) << "cut between characters";
  EXPECT_EQ(post("/api/v1/alerts/8/acknowledge", Json::object(), kToken).status, 404);
  EXPECT_EQ(post("/api/v1/alerts/x/acknowledge", Json::object(), kToken).status, 400);
}

TEST_F(Routes, WhatAnotherSitesFormSendsIsNotTaken) {
  allow_actions();
  Request asked = request("/api/v1/silences", Method::post);
  asked.headers.emplace_back("authorization", std::string("Bearer ") + kToken);
  asked.headers.emplace_back("content-type", "text/plain");
  asked.body = R"({"for":"1h"})";
  EXPECT_EQ(answer(sources_, asked).status, 400);
  asked.headers.back().second = "application/json";
  EXPECT_EQ(answer(sources_, asked).status, 200);
  asked.headers.emplace_back("origin", "http://evil.example");
  EXPECT_EQ(answer(sources_, asked).status, 403);
}

TEST_F(Routes, ASilenceLastsAsLongAsItWasAskedFor) {
  allow_actions();
  EXPECT_EQ(post("/api/v1/silences", {{"rule", "hot"}, {"for", "2h"}, {"comment", "cooling"}}, kToken).status, 200);
  ASSERT_TRUE(watch_.silenced.has_value());
  EXPECT_EQ(watch_.silenced->until, clock_.wall_now() + std::chrono::hours(2));
  EXPECT_EQ(watch_.silenced->comment, "cooling");
  for (const char* bad : {"", "0", "x", "31d"})
    EXPECT_EQ(post("/api/v1/silences", {{"for", bad}}, kToken).status, 400) << bad;
}

TEST_F(Routes, OnlyProcessesOnGpusAreSignalled) {
  allow_actions();
  std::pair<int, int> sent{0, 0};
  sources_.actions.signal = [&](Pid pid, int signal, const Peer&) -> Result<void> {
    sent = {pid.value, signal};
    return {};
  };
  EXPECT_EQ(post("/api/v1/processes/4243/signal", {{"signal", "TERM"}}, kToken).status, 404);
  EXPECT_EQ(post("/api/v1/processes/1/signal", {{"signal", "TERM"}}, kToken).status, 404);
  EXPECT_EQ(post("/api/v1/processes/-4242/signal", {{"signal", "TERM"}}, kToken).status, 404);
  EXPECT_EQ(post("/api/v1/processes/4242/signal", {{"signal", "SEGV"}}, kToken).status, 400);
  EXPECT_EQ(sent.first, 0);
  EXPECT_EQ(post("/api/v1/processes/4242/signal", {{"signal", "TERM"}}, kToken).status, 200);
  EXPECT_EQ(sent, std::pair(4242, SIGTERM));
  sent = {};
  watch_.reading->snapshot.simulated = true;
  const auto simulated = post("/api/v1/processes/4242/signal", {{"signal", "TERM"}}, kToken);
  EXPECT_EQ(simulated.status, 400);
  EXPECT_THAT(simulated.body, HasSubstr("simulated"));
  watch_.reading->snapshot.simulated = false;
  clock_.advance(std::chrono::milliseconds(10001));
  EXPECT_EQ(post("/api/v1/processes/4242/signal", {{"signal", "TERM"}}, kToken).status, 503) << "the pid may be reused";
  EXPECT_EQ(sent.first, 0);
}

TEST_F(Routes, DisablingNamesAGpuAndAReason) {
  allow_actions();
  facts::Disabling disabled;
  sources_.actions.disable = [&](const facts::Disabling& disabling) -> Result<void> {
    disabled = disabling;
    return {};
  };
  EXPECT_EQ(post("/api/v1/gpus/1/disable", Json::object(), kToken).status, 400);
  EXPECT_EQ(post("/api/v1/gpus/9/disable", {{"reason", "x"}}, kToken).status, 404);
  EXPECT_EQ(post("/api/v1/gpus/1/disable", {{"reason", "fan"}}, kToken).status, 200);
  EXPECT_EQ(disabled.uuid.value, "GPU-1000-test");
  EXPECT_EQ(disabled.reason, "fan");
  EXPECT_EQ(post("/api/v1/gpus/1/enable", Json::object(), kToken).status, 503);
}

TEST_F(Routes, HistoryIsOfAGpuByIndexOrUuid) {
  const Json answered = json("/api/v1/history?gpu=1&metric=power&from=-1h&step=10s");
  EXPECT_EQ(answered["uuid"], "GPU-1000-test");
  EXPECT_EQ(answered["unit"], "W");
  EXPECT_EQ(answered["points"][0], Json({1'699'996'400'000, 90.0, 100.0, 110.0}));
  EXPECT_EQ(watch_.asked_step, std::chrono::seconds(10));
  EXPECT_EQ(json("/api/v1/history?gpu=GPU-1000-test&metric=power")["uuid"], "GPU-1000-test");
  EXPECT_EQ(get("/api/v1/history?gpu=9&metric=power").status, 404);
  EXPECT_EQ(get("/api/v1/history?metric=power").status, 400);
  EXPECT_EQ(get("/api/v1/history?gpu=1").status, 400);
  EXPECT_EQ(get("/api/v1/history?gpu=1&metric=power&from=now&to=-1h").status, 400);
  EXPECT_THAT(get("/api/v1/history?gpu=1&metric=powr").body, HasSubstr("did you mean 'power'?"));
}

TEST_F(Routes, AHistoryIsNoHeapOfPoints) {
  EXPECT_EQ(json("/api/v1/history?gpu=1&metric=power&from=-24h")["step_seconds"], 172.8);
  const auto response = get("/api/v1/history?gpu=1&metric=power&from=-24h&step=1s");
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(response.body, HasSubstr("more than 11000 points"));
  // What there is anyway is given as it was read.
  EXPECT_EQ(json("/api/v1/history?gpu=1&metric=power&from=-5m")["step_seconds"], 0);
}

TEST_F(Routes, SamplesAreOfTheMetricsThatAreAskedFor) {
  const Json values = json("/api/v1/samples?metrics=power,memory_used,energy")["nodes"][0]["gpus"][0]["values"];
  EXPECT_EQ(values, Json({{"power", 300.0}, {"memory_used", 10737418240.0}, {"energy", nullptr}}));
  EXPECT_GT(json("/api/v1/samples?metrics=all")["nodes"][0]["gpus"][0]["values"].size(), 69U);
  EXPECT_THAT(get("/api/v1/samples?metrics=powr").body, HasSubstr("did you mean 'power'?"));
  EXPECT_EQ(json("/api/v1/samples?node=elsewhere")["nodes"].size(), 0U);
}

TEST_F(Routes, EventsAreAStream) {
  auto response = get("/api/v1/events");
  ASSERT_NE(response.stream, nullptr);
  EXPECT_EQ(response.type, "text/event-stream");
  tell_reading(events_, *watch_.reading);
  EXPECT_THAT(response.stream->take(clock_.now()), HasSubstr("event: reading\ndata: {"));
  Request again = request("/api/v1/events");
  tell_alert(events_, {telemetry::AlertChange::Kind::began, watch_.active[0], false});
  again.headers.emplace_back("last-event-id", "1");
  EXPECT_THAT(answer(sources_, again).stream->take(clock_.now()), HasSubstr("\"rule\":\"hot\""));
}

TEST_F(Routes, WithoutAPageTheRootNamesTheApi) {
  const auto response = get("/");
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(response.body, HasSubstr("this build has no page"));
}

TEST_F(Routes, PageFilesComeFromTheTableAlone) {
  constexpr auto kFiles = std::to_array<PageFile>({{"/", "text/html; charset=utf-8", "<p>", "\"1\""}});
  sources_.page = kFiles;
  const auto page = get("/");
  EXPECT_EQ(page.body, "<p>");
  EXPECT_EQ(testing::header_of(page, "ETag"), "\"1\"");
  Request again = request("/");
  again.headers.emplace_back("if-none-match", "\"1\"");
  const auto unchanged = answer(sources_, again);
  EXPECT_EQ(unchanged.status, 304);
  EXPECT_EQ(unchanged.body, "");
  EXPECT_EQ(get("/etc/passwd").status, 404);
}

TEST(NodeTexts, AreMadeOncePerKeyAndForgottenWhereThereAreTooMany) {
  NodeTexts texts;
  int made = 0;
  const auto get = [&](const char* node, const char* key) {
    return texts.get(node, key, [&] { return fmt::format("{}{}", node, ++made); });
  };
  EXPECT_EQ(get("a", "1"), "a1");
  EXPECT_EQ(get("a", "1"), "a1");
  EXPECT_EQ(get("a", "2"), "a2");
  EXPECT_EQ(get("b", "1"), "b3");
  texts.bound(2);
  EXPECT_EQ(get("b", "1"), "b3");
  texts.bound(1);
  EXPECT_EQ(get("b", "1"), "b4");
}

/// Two machines beside this one, of which one is gone.
class TwoPeers final : public cluster::NodeSource {
 public:
  explicit TwoPeers(std::shared_ptr<const telemetry::Reading> reading) {
    cluster::Node alive;
    alive.name = "node2";
    alive.url = "http://node2:10478";
    alive.reading = std::move(reading);
    cluster::Node gone;
    gone.name = "node3";
    gone.url = "http://node3:10478";
    gone.problem = Error{ErrorCode::timed_out, "node3 does not answer", ""};
    gone.health.emplace_back().uuid = Uuid("GPU-of-node3");
    nodes_ = {alive, gone};
  }
  std::vector<cluster::Node> nodes() const override { return nodes_; }

 private:
  std::vector<cluster::Node> nodes_;
};

TEST_F(Routes, OtherMachinesAreShownWithTheirNames) {
  const TwoPeers peers(watch_.reading);
  sources_.nodes = &peers;
  const Json nodes = json("/api/v1/nodes")["nodes"];
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_EQ(nodes[2]["problem"]["message"], "node3 does not answer");
  EXPECT_EQ(json("/api/v1/nodes?own=true")["nodes"].size(), 1U);
  EXPECT_EQ(json("/api/v1/health")["gpus"].size(), 2U) << "this machine's, not those of a node that is gone";
  EXPECT_THAT(testing::schema_errors(schemas()["Nodes"], json("/api/v1/nodes"), schemas()), IsEmpty());
  const std::string metrics = get("/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("gpuwarden_up{node=\"node1\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("gpuwarden_up{node=\"node3\"} 0\n"));
  EXPECT_THAT(metrics, HasSubstr("gpuwarden_gpu_power_watts{node=\"node2\",gpu=\"0\",uuid=\"GPU-0000-test\"} 300\n"));
}

}  // namespace
}  // namespace gpuwarden::serve
