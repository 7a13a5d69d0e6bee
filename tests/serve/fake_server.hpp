// SPDX-License-Identifier: Apache-2.0
// A watcher that says what a test put in, and all that answers are made of around it.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gpuwarden/serve/routes.hpp"
#include "support/fake_clock.hpp"
#include "support/fleet_builder.hpp"

namespace gpuwarden::testing {

class FakeWatch final : public serve::Watch {
 public:
  std::shared_ptr<const telemetry::Reading> latest() const override { return reading; }
  Result<telemetry::Series> history(const Uuid& gpu, std::string_view metric, telemetry::Window window,
                                    std::chrono::milliseconds step) const override {
    asked_window = window;
    asked_step = step;
    if (metric != "power") return fail(ErrorCode::invalid_argument, "unknown metric 'powr'", "did you mean 'power'?");
    return telemetry::Series{gpu, std::string(metric), step, {{window.from, 90, 100, 110, 3}}};
  }
  std::vector<facts::Health> health() const override { return healths; }
  std::vector<telemetry::Alert> alerts() const override { return active; }
  std::vector<telemetry::AlertChange> alert_log(std::size_t) const override {
    std::vector<telemetry::AlertChange> log;
    for (const auto& alert : active) log.push_back({telemetry::AlertChange::Kind::began, alert, false});
    return log;
  }
  Result<void> acknowledge(std::uint64_t alert, std::string by) override {
    if (alert != 7) return fail(ErrorCode::not_found, "no such alert");
    acknowledged = std::move(by);
    return {};
  }
  Result<void> silence(telemetry::Silence value) override {
    if (value.rule == "hto") return fail(ErrorCode::not_found, "there is no alert rule 'hto'", "did you mean 'hot'?");
    silenced = std::move(value);
    return {};
  }
  std::vector<telemetry::Silence> silences() const override {
    return silenced ? std::vector{*silenced} : std::vector<telemetry::Silence>{};
  }
  bool end_silence(std::string_view rule, const Uuid& gpu) override {
    const bool there = silenced && silenced->rule == rule && silenced->uuid == gpu;
    if (there) silenced.reset();
    return there;
  }
  std::vector<telemetry::Use> uses(telemetry::Window window) const override {
    telemetry::Use use;
    use.user = "ann";
    use.pid = Pid{4242};
    use.command = "train --token hf_abcdefghijklmnopqrstuvwxyz012345";
    use.gpu = Uuid("GPU-0000-test");
    use.from = window.from;
    use.to = window.to;
    use.gpu_seconds = 60;
    return {use};
  }
  std::vector<telemetry::Happening> happenings(telemetry::Window window, std::size_t) const override {
    return {{window.from, "xid", Uuid("GPU-0000-test"), "Xid 79"}};
  }

  std::shared_ptr<telemetry::Reading> reading;
  std::vector<facts::Health> healths;
  std::vector<telemetry::Alert> active;
  std::string acknowledged;
  std::optional<telemetry::Silence> silenced;
  mutable telemetry::Window asked_window;
  mutable std::chrono::milliseconds asked_step{-1};
};

/// Two GPUs, a process of ann's on GPU 0, an alert on it.
class FakeServer : public ::testing::Test {
 protected:
  FakeServer() {
    watch_.reading = std::make_shared<telemetry::Reading>();
    telemetry::Reading& reading = *watch_.reading;
    reading.snapshot = fleet(2);
    reading.snapshot.host = "node1";
    reading.snapshot.driver_version = "550.54.15";
    reading.snapshot.taken_at = clock_.wall_now();
    reading.when = clock_.now();
    facts::GpuProcess process;
    process.pid = Pid{4242};
    process.compute = true;
    process.user = "ann";
    process.command = "train --token hf_abcdefghijklmnopqrstuvwxyz012345";
    process.memory = 10_GiB;
    reading.snapshot.gpus[0].processes = {process};
    reading.snapshot.gpus[0].sample.power = 300_W;
    reading.snapshot.gpus[0].sample.memory_used = 10_GiB;
    reading.leases = {{Uuid("GPU-1000-test"), false, {{Pid{77}, "bob", "run-1", "secret job", {}}}}};
    for (const auto& record : reading.snapshot.gpus) {
      facts::Health health;
      health.uuid = record.gpu.uuid;
      health.index = record.gpu.index;
      watch_.healths.push_back(health);
    }
    telemetry::Alert alert;
    alert.id = 7;
    alert.rule = "hot";
    alert.uuid = Uuid("GPU-0000-test");
    alert.message = "GPU 0 is hot";
    watch_.active = {alert};
    access_.address = {"127.0.0.1", 10478, true, false};
    access_.owner = 1000;
    sources_.watch = &watch_;
    sources_.access = &access_;
    sources_.sessions = &sessions_;
    sources_.events = &events_;
    sources_.tally = &tally_;
    sources_.texts = &texts_;
    sources_.clock = &clock_;
    sources_.host = "node1";
    sources_.metrics.version = "0.1.0";
    sources_.redact = [](std::string_view text) {
      return text.substr(0, text.find(" hf_")) == text ? std::string(text)
                                                       : std::string(text.substr(0, text.find(" hf_")));
    };
    tally_.add(reading);
  }

  serve::Request request(const std::string& target, serve::Method method = serve::Method::get) const {
    serve::Request request;
    const auto parsed = serve::parse_target(target);
    EXPECT_TRUE(parsed.has_value()) << target;
    request.method = method;
    request.path = parsed->path;
    request.query = parsed->query;
    request.headers = {{"host", "127.0.0.1:10478"}};
    request.peer.loopback = true;
    return request;
  }
  serve::Response get(const std::string& target) const { return serve::answer(sources_, request(target)); }
  nlohmann::json json(const std::string& target) const {
    const auto response = get(target);
    EXPECT_EQ(response.status, 200) << target << ": " << response.body;
    return nlohmann::json::parse(response.body, nullptr, false);
  }
  serve::Response post(const std::string& target, const nlohmann::json& body, const std::string& token = {}) const {
    serve::Request asked = request(target, serve::Method::post);
    asked.headers.emplace_back("content-type", "application/json");
    if (!token.empty()) asked.headers.emplace_back("authorization", "Bearer " + token);
    asked.body = body.dump();
    return serve::answer(sources_, asked);
  }
  void allow_actions() {
    access_.token = kToken;
    access_.allow_actions = true;
  }

  static constexpr const char* kToken = "0123456789abcdef-token";
  FakeClock clock_;
  FakeWatch watch_;
  serve::Access access_;
  serve::Sessions sessions_;
  serve::EventHub events_;
  serve::Tally tally_;
  serve::NodeTexts texts_;
  serve::Sources sources_;
};

inline std::string header_of(const serve::Response& response, const std::string& name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return {};
}

}  // namespace gpuwarden::testing
