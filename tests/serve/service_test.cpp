// SPDX-License-Identifier: Apache-2.0
// A whole server of a simulated machine, over loopback.
#include "gpuwarden/serve/service.hpp"

#include <unistd.h>

#include <csignal>
#include <mutex>
#include <thread>

#include "gpuwarden/serve/local_actions.hpp"
#include "machine/simulated.hpp"
#include "support/http_client.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"

namespace gpuwarden::serve {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ServiceTest : public testing::Machines {
 protected:
  void SetUp() override {
    std::signal(SIGPIPE, SIG_IGN);
    machine::Options all = options();
    all.environment["GPUWARDEN_STATE_DIR"] = (dir_ / "state").string();
    auto opened = machine::Machine::open(machine::Simulated{"h100x8"}, all);
    ASSERT_TRUE(opened) << opened.error().message;
    machine_.emplace(std::move(*opened));
  }

  /// Serves with these; the service is ticked every second.
  void serve(ServiceOptions options) {
    ServerOptions of_server{.address = {"127.0.0.1", 0, true, false}};
    of_server.tick = [this] { service_->tick(); };
    auto server = Server::listen(std::move(of_server));
    ASSERT_TRUE(server.has_value()) << server.error().message;
    server_ = std::move(*server);
    options.access.address = server_->address();
    options.access.owner = ::getuid();
    options.metrics.version = "0.1.0";
    options.log = [this](const std::string& line) {
      const std::scoped_lock lock(mutex_);
      lines_.push_back(line);
    };
    service_.emplace(*machine_, std::move(options));
    ASSERT_THAT(service_->start(), testing::IsOk());
    thread_ = std::jthread([this](const std::stop_token& stop) { service_->run(*server_, stop); });
    ASSERT_TRUE(testing::eventually(testing::kSoon, [&] { return get("/-/ready").starts_with("HTTP/1.1 200"); }));
  }
  void TearDown() override {
    if (thread_.joinable()) {
      thread_.request_stop();
      thread_.join();
    }
  }

  std::string get(const std::string& path) const {
    testing::HttpClient client(server_->address().port);
    client.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    return client.read_until("\x01 never");
  }
  std::vector<std::string> lines() const {
    const std::scoped_lock lock(mutex_);
    return lines_;
  }

  std::optional<machine::Machine> machine_;
  std::unique_ptr<Server> server_;
  std::optional<Service> service_;
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
  std::jthread thread_;
};

TEST_F(ServiceTest, TellsOfTheMachineThatItWatches) {
  serve({});
  EXPECT_THAT(get("/metrics"), HasSubstr("gpuwarden_gpu_"));
  EXPECT_THAT(get("/api/v1/nodes"), HasSubstr("H100"));
}

TEST_F(ServiceTest, RulesThatCannotBeReadChangeNothing) {
  Result<telemetry::AlertConfig> rules = fail(ErrorCode::invalid_argument, "rules.yaml: no such rule");
  ServiceOptions options;
  options.read_rules = [&] { return rules; };
  serve(std::move(options));
  service_->reload();
  EXPECT_THAT(lines(), Contains("the rules stay as they were: rules.yaml: no such rule"));
  rules = telemetry::AlertConfig{.rules = {telemetry::built_in_rules()[0]}, .sinks = {}};
  service_->reload();
  EXPECT_THAT(lines(), Contains("read 1 alert rules"));
}

TEST_F(ServiceTest, ASystemThatCannotBeNotifiedIsComplainedOfOnce) {
  ServiceOptions options;
  options.environment["NOTIFY_SOCKET"] = (dir_ / "nobody listens").string();
  serve(std::move(options));
  service_->tick();
  const auto told = lines();
  EXPECT_EQ(std::ranges::count_if(told, [](const std::string& line) { return line.starts_with("warning: "); }), 1);
}

TEST_F(ServiceTest, DisablesAndEnablesByItselfWhereNoRightIsKept) {
  const auto helper = start_helper(*machine_, {});
  ASSERT_THAT(helper, testing::IsOk());
  EXPECT_EQ(*helper, nullptr);
  const Actions actions = actions_of(*machine_, {}, nullptr);
  EXPECT_FALSE(actions.set_power_limit) << "only root's helper could";
  const Uuid gpu = machine_->read({.processes = false}).gpus.at(1).gpu.uuid;
  facts::Disabling wanted;
  wanted.uuid = gpu;
  wanted.reason = "fan is loud";
  wanted.by = "ann";
  ASSERT_THAT(actions.disable(wanted), testing::IsOk());
  const auto view = machine_->disablings().read();
  ASSERT_THAT(view, testing::IsOk());
  EXPECT_NE(facts::find_disabling(view->disabled, gpu), nullptr);
  ASSERT_THAT(actions.enable(gpu), testing::IsOk());
  const auto after = machine_->disablings().read();
  ASSERT_THAT(after, testing::IsOk());
  EXPECT_EQ(facts::find_disabling(after->disabled, gpu), nullptr);
  EXPECT_EQ(actions.signal(Pid{1}, SIGTERM, {}).error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace gpuwarden::serve
