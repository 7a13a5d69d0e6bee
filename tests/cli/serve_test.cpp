// SPDX-License-Identifier: Apache-2.0
// gpuwarden serve on a simulated fleet.
#include <sys/stat.h>

#include <csignal>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/daemon.hpp"
#include "support/http_client.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

class ServeProgram : public Program {
 protected:
  ServeProgram() { environment_.erase("NOTIFY_SOCKET"); }
  ~ServeProgram() override {
    server_.reset();
    if (fleet_) [[maybe_unused]]
      const auto stopped = run({"sim", "stop", "lab"});
  }

  void start_fleet(const std::string& spec) {
    ASSERT_EQ(run({"sim", "start", "lab", "--fleet", spec}).exit_code, 0);
    fleet_ = true;
  }
  void start(std::vector<std::string> more, const std::string& fleet) {
    std::vector<std::string> words{GPUWARDEN_PROGRAM, "serve",       "--simulate", fleet,
                                   "--listen",        "127.0.0.1:0", "--interval", "200ms"};
    words.insert(words.end(), more.begin(), more.end());
    log_ = dir_ / "serve.log";
    server_ = std::make_unique<Daemon>(words, environment_, log_);
    ASSERT_TRUE(eventually(kSoon, [&] { return port_of_log() || !server_->runs(); }));
    ASSERT_TRUE(port_of_log().has_value()) << log();
    port_ = *port_of_log();
    ASSERT_TRUE(eventually(kSoon, [&] { return ask("/-/ready").ends_with("ready\n"); })) << log();
  }
  std::string log() const { return read_file(log_).value_or(""); }
  /// Of "listening on http://127.0.0.1:PORT".
  std::optional<std::uint16_t> port_of_log() const {
    constexpr std::string_view kUrl = "listening on http://127.0.0.1:";
    const std::string text = log();
    const std::size_t at = text.find(kUrl);
    if (at == std::string::npos || text.find('\n', at) == std::string::npos) return std::nullopt;
    const std::string_view rest = std::string_view(text).substr(at + kUrl.size());
    const auto port = parse_integer(rest.substr(0, rest.find_first_not_of("0123456789")));
    return port ? std::optional(static_cast<std::uint16_t>(*port)) : std::nullopt;
  }
  std::string ask(const std::string& target, const std::string& more = {}) const {
    return HttpClient(port_).ask(target, more);
  }
  Json api(const std::string& target, const std::string& more = {}) const {
    const std::string text = ask(target, more);
    const std::size_t body = text.find("\r\n\r\n");
    return Json::parse(body == std::string::npos ? "" : text.substr(body + 4), nullptr, false);
  }

  /// What is posted with the token of token_file().
  std::string post(const std::string& target, const std::string& body) const {
    HttpClient client(port_);
    client.send(
        fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {}\r\n"
                    "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                    target, kToken, body.size(), body));
    return client.read_until("\x01 never");
  }
  std::string token_file() const {
    const std::string path = file("token", std::string(kToken) + "\n");
    ::chmod(path.c_str(), 0600);
    return path;
  }

  static constexpr const char* kToken = "0123456789abcdef0123";
  std::filesystem::path log_;
  std::unique_ptr<Daemon> server_;
  std::uint16_t port_ = 0;
  bool fleet_ = false;
};

TEST_F(ServeProgram, AnswersAboutASimulatedFleet) {
  start({}, "h100x8");
  const std::string metrics = ask("/metrics");
  EXPECT_THAT(metrics, HasSubstr("\ngpuwarden_up 1\n"));
  EXPECT_THAT(metrics, HasSubstr("\ngpuwarden_gpus_present 8\n"));
  EXPECT_THAT(metrics, HasSubstr("simulated=\"true\""));
  const Json nodes = api("/api/v1/nodes");
  EXPECT_EQ(nodes["nodes"][0]["snapshot"]["gpus"].size(), 8U);
  EXPECT_EQ(nodes["nodes"][0]["snapshot"]["simulated"], true);
  EXPECT_EQ(nodes["nodes"][0]["health"].size(), 8U);
  EXPECT_TRUE(eventually(kSoon, [&] { return api("/api/v1/history?gpu=0&metric=temperature")["points"].size() > 2; }))
      << ask("/api/v1/history?gpu=0&metric=temperature");
  const Json description = api("/api/v1/openapi.json");
  EXPECT_EQ(description["openapi"], "3.1.0");
  EXPECT_THAT(ask("/"), HasSubstr("HTTP/1.1 200 OK"));
}

TEST_F(ServeProgram, ShowsAFaultSoon) {
  start_fleet("a100x4");
  start({}, "lab");
  HttpClient listener(port_);
  listener.send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(listener.read_until("event: reading"), HasSubstr("event: reading"));
  // What it hears of events comes from a process of its own, which may start later.
  ASSERT_TRUE(eventually(kSoon, [&] {
    run({"sim", "fault", "lab", "--gpu", "1", "xid=31"});
    return ask("/metrics").find("gpuwarden_gpu_xid_errors_total{gpu=\"1\"") != std::string::npos;
  }));
  ASSERT_EQ(run({"sim", "fault", "lab", "--gpu", "2", "xid=79"}).exit_code, 0);
  EXPECT_TRUE(eventually(kSoon, [&] {
    return ask("/metrics").find("gpuwarden_gpu_xid_errors_total{gpu=\"2\"") != std::string::npos;
  })) << ask("/metrics");
  EXPECT_THAT(listener.read_until("event: alert"), HasSubstr("event: alert"));
  EXPECT_TRUE(eventually(kSoon, [&] { return api("/api/v1/health")["gpus"][2]["state"] == "error"; }))
      << api("/api/v1/health").dump();
}

TEST_F(ServeProgram, WhatItJudgedOutlivesItUntilSomebodyEnablesTheGpu) {
  start_fleet("h100x8");
  start({}, "lab");
  ASSERT_EQ(run({"sim", "fault", "lab", "--gpu", "2", "xid=64"}).exit_code, 0);
  ASSERT_TRUE(eventually(kSoon, [&] { return api("/api/v1/health")["gpus"][2]["state"] == "error"; }));
  server_.reset();
  environment_["GPUWARDEN_SIMULATE"] = "lab";
  const auto disabled = [&] { return json({"list"})["gpus"][2]["disabled"]; };
  ASSERT_TRUE(disabled().is_object());
  EXPECT_EQ(disabled()["judged"], true);
  EXPECT_THAT(disabled()["reason"].get<std::string>(), HasSubstr("judged unfit: Xid 64"));
  EXPECT_THAT(disabled()["by"].get<std::string>(), HasSubstr("gpuwarden serve"));
  expect_error({"select", "--gpu-ids", "2"}, 1, "Xid 64");
  EXPECT_THAT(run({"enable", "2"}).standard_output, HasSubstr("GPU 2 is enabled although it is unfit: Xid 64"));
  EXPECT_TRUE(disabled().is_null());
  EXPECT_EQ(run({"select", "--gpu-ids", "2", "--index"}).standard_output, "2\n");
}

TEST_F(ServeProgram, WithoutADriverItIsNotReadyAndSaysSo) {
  start_fleet("t4x1");
  start({}, "lab");
  ASSERT_EQ(run({"sim", "fault", "lab", "driver_not_loaded"}).exit_code, 0);
  EXPECT_TRUE(eventually(kSoon, [&] { return ask("/-/ready").starts_with("HTTP/1.1 503"); })) << ask("/-/ready");
  EXPECT_THAT(ask("/metrics"), HasSubstr("\ngpuwarden_up 0\n"));
  EXPECT_TRUE(eventually(kSoon, [&] { return log().find("gpuwarden: not ready: ") != std::string::npos; })) << log();
}

TEST_F(ServeProgram, ASinkWhoseProgramIsMissingIsRefusedAtTheStart) {
  const std::string rules = file("rules.yaml", "sinks:\n  - {name: mail, command: [/no/such/mailer, root]}\n");
  const auto done = run({"serve", "--simulate", "t4x1", "--listen", "127.0.0.1:0", "--rules", rules});
  EXPECT_NE(done.exit_code, 0);
  EXPECT_THAT(done.standard_error, HasSubstr("alert sink 'mail': /no/such/mailer is not a file"));
}

TEST_F(ServeProgram, MetricsArePrometheuss) {
  start({}, "h100x8");
  const std::string text = ask("/metrics");
  const auto done = run_patiently(
      {.argv = {"promtool", "check", "metrics"}, .standard_input = text.substr(text.find("\r\n\r\n") + 4)});
  if (!done) GTEST_SKIP() << "prometheus is not installed";
  EXPECT_EQ(done->exit_code, 0) << done->standard_output << done->standard_error;
}

TEST_F(ServeProgram, ActsForTheTokenAlone) {
  const std::string token = file("token", "0123456789abcdef0123\n");
  ::chmod(token.c_str(), 0600);
  start({"--token-file", token, "--allow-actions"}, "h100x8");
  const auto silence = [&](const std::string& header) {
    HttpClient client(port_);
    client.send("POST /api/v1/silences HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + header +
                "Content-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"for\":\"1h\"}");
    return client.read_until("\x01 never");
  };
  EXPECT_THAT(silence(""), HasSubstr("401 Unauthorized"));
  EXPECT_THAT(silence("Authorization: Bearer 0123456789abcdef0124\r\n"), HasSubstr("401 Unauthorized"));
  EXPECT_THAT(silence("Authorization: Bearer 0123456789abcdef0123\r\n"), HasSubstr("200 OK"));
  EXPECT_THAT(log(), Not(HasSubstr("0123456789abcdef")));
}

TEST_F(ServeProgram, SetsAPowerLimitThroughItsHelperAndNothingElse) {
  start_fleet("a100x4");
  start({"--token-file", token_file(), "--allow-actions", "--keep", "power"}, "lab");
  EXPECT_EQ(api("/api/v1/session")["actions"]["power_limit"], true);
  EXPECT_THAT(post("/api/v1/gpus/1/power-limit", R"({"watts":250})"), HasSubstr("\"power_limit_watts\":250.0"));
  EXPECT_TRUE(eventually(kSoon, [&] { return api("/api/v1/inventory")["gpus"][1]["power_limit_watts"] == 250.0; }))
      << api("/api/v1/inventory")["gpus"][1]["power_limit_watts"];
  EXPECT_THAT(post("/api/v1/gpus/1/power-limit", R"({"watts":9000})"), HasSubstr("the range of this GPU"));
  EXPECT_THAT(log(), HasSubstr("root helper: power GPU-"));
  ::kill(server_->pid(), SIGTERM);
  EXPECT_TRUE(eventually(kSoon, [&] { return !server_->runs(); })) << "the helper ends with its server";
}

TEST_F(ServeProgram, WithoutTheRightNoPowerLimitIsSet) {
  start({"--token-file", token_file(), "--allow-actions"}, "h100x8");
  EXPECT_THAT(post("/api/v1/gpus/1/power-limit", R"({"watts":300})"), HasSubstr("--keep power"));
}

TEST_F(ServeProgram, TakesItsTokenFromSystemd) {
  token_file();
  environment_["CREDENTIALS_DIRECTORY"] = dir_.path().string();
  start({"--allow-actions"}, "h100x8");
  EXPECT_THAT(post("/api/v1/silences", R"({"for":"1h"})"), HasSubstr("200 OK"));
  EXPECT_EQ(api("/api/v1/silences")["silences"].size(), 1U);
}

TEST_F(ServeProgram, DisablingsThatCannotBeReadAreSaid) {
  environment_["GPUWARDEN_STATE_DIR"] = (dir_ / "state").string();
  put(dir_ / "state/disabled.json", "damaged\n");
  start({}, "h100x8");
  EXPECT_TRUE(eventually(kSoon, [&] { return api("/api/v1/health")["unknown"].size() == 1; }))
      << api("/api/v1/health").dump();
  EXPECT_THAT(ask("/-/ready"), HasSubstr("ready")) << "the GPUs are read all the same";
}

TEST_F(ServeProgram, ReadsItsRulesAnewAndEndsInOrder) {
  const std::string rules = file("rules.yaml", "rules:\n  - id: warm\n    when: temperature > 5\n    level: info\n");
  start({"--rules", rules}, "h100x8");
  EXPECT_TRUE(eventually(kSoon, [&] { return ask("/api/v1/alerts").find("\"warm\"") != std::string::npos; }));
  put(rules, "rules:\n  - id: warm\n    when: temprature > 5\n");
  ::kill(server_->pid(), SIGHUP);
  EXPECT_TRUE(eventually(kSoon, [&] { return log().find("the rules stay as they were") != std::string::npos; }))
      << log();
  put(rules, "rules: []\n");
  ::kill(server_->pid(), SIGHUP);
  EXPECT_TRUE(eventually(kSoon, [&] { return log().find("alert rules\n") != std::string::npos; })) << log();
  EXPECT_THAT(ask("/-/ready"), HasSubstr("ready"));
  ::kill(server_->pid(), SIGTERM);
  EXPECT_TRUE(eventually(kSoon, [&] { return !server_->runs(); }));
}

TEST_F(ServeProgram, SaysWhatIsWrongWithItsOptions) {
  expect_error({"serve", "--listen", "nowhere"}, 2, "--listen: 'nowhere' is not an address to listen on");
  expect_error({"serve", "--listen", "0.0.0.0:0"}, 2, "needs --token-file");
  expect_error({"serve", "--allow-actions"}, 2, "--allow-actions needs --token-file");
  expect_error({"serve", "--metrics-dialect", "dcgm"}, 2, "unknown dialect 'dcgm'");
  expect_error({"serve", "--tls-cert", "x"}, 2, "require each other");
  expect_error({"serve", "--keep", "power"}, 2, "--keep requires --allow-actions");
  expect_error({"serve", "--keep", "all"}, 2, "unknown right 'all'");
  expect_error({"serve", "--interval", "1ms"}, 2, "between 100ms and 10m");
  const std::string token = file("token", "0123456789abcdef0123\n");
  ::chmod(token.c_str(), 0644);
  expect_error({"serve", "--token-file", token}, 2, "can be read by others");
  expect_error({"serve", "--rules", file("bad.yaml", "rules:\n  - id: x\n    when: temprature > 5\n")}, 2,
               "temperature");
}

TEST_F(ServeProgram, APortInUseIsNamed) {
  start({}, "h100x8");
  expect_error({"serve", "--simulate", "h100x8", "--listen", fmt::format("127.0.0.1:{}", port_)}, 1,
               fmt::format("port {} on 127.0.0.1 is in use", port_));
}

TEST_F(ServeProgram, ListsTheNamesOfADialect) {
  const auto done = run({"serve", "--list-metrics", "--metrics-dialect", "dcgm-4.9"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr("DCGM_FI_DEV_BOARD_POWER_WATTS"));
  EXPECT_THAT(done.standard_output, HasSubstr("\nomitted:\n"));
}

}  // namespace
}  // namespace gpuwarden::testing
