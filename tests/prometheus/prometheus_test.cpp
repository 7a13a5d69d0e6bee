// SPDX-License-Identifier: Apache-2.0
// gpuwarden serve on simulated fleets, seen by Debian's Prometheus, by a peer, and by those who ask these.
#include "gpuwarden/cluster/prometheus.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/cluster/generate.hpp"
#include "gpuwarden/cluster/peers.hpp"
#include "gpuwarden/net/http.hpp"
#include "support/daemon.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::cluster {
namespace {

using namespace std::chrono_literals;
using testing::Daemon;
using testing::eventually;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::kSoon;
using ::testing::SizeIs;

class Cluster : public ::testing::Test {
 protected:
  Cluster() {
    environment_ = current_environment();
    environment_.erase("GPUWARDEN_SIMULATE");
    environment_["GPUWARDEN_LEASE_DIR"] = (dir_ / "leases").string();
    environment_["GPUWARDEN_SIM_DIR"] = (dir_ / "sim").string();
  }

  /// A server on a fleet, and where it listens.
  struct Server {
    std::unique_ptr<Daemon> daemon;
    std::string address;
  };
  Server serve(const std::string& fleet, const std::vector<std::string>& more = {}) {
    const auto log = dir_ / fmt::format("serve-{}.log", servers_++);
    std::vector<std::string> argv{GPUWARDEN_PROGRAM, "serve",       "--simulate", fleet,
                                  "--listen",        "127.0.0.1:0", "--interval", "500ms"};
    argv.insert(argv.end(), more.begin(), more.end());
    Server server{std::make_unique<Daemon>(argv, environment_, log), ""};
    EXPECT_TRUE(eventually(kSoon, [&] {
      const std::string text = read_file(log).value_or("");
      const auto at = text.find("http://");
      const auto end = at == std::string::npos ? at : text.find_first_of(" \n/", at + 7);
      if (end == std::string::npos) return false;
      server.address = text.substr(at + 7, end - at - 7);
      return true;
    })) << read_file(log).value_or("");
    return server;
  }

  static bool answers(const NodeSource& source, std::size_t wanted) {
    return eventually(kSoon, [&] {
      std::size_t count = 0;
      for (const Node& node : source.nodes()) count += node.reading && !node.problem ? 1 : 0;
      return count == wanted;
    });
  }

  testing::TempDir dir_;
  Environment environment_;
  int servers_ = 0;
};

TEST_F(Cluster, PeersAreSeenByAServer) {
  const Server first = serve("h100x8");
  const Server second = serve("a100x4");
  testing::put(dir_ / "peers", first.address + "\n" + second.address + "\n127.0.0.1:1\n");
  PeersOptions options;
  options.place.file = dir_ / "peers";
  options.interval = 500ms;
  const auto source = PeersSource::open(options);
  ASSERT_THAT(source, IsOk());
  ASSERT_TRUE(answers(**source, 2));
  const auto nodes = (*source)->nodes();
  ASSERT_THAT(nodes, SizeIs(3));
  EXPECT_THAT(nodes[0].reading->snapshot.gpus, SizeIs(8));
  EXPECT_THAT(nodes[1].reading->snapshot.gpus, SizeIs(4));
  EXPECT_TRUE(nodes[0].reading->snapshot.simulated);
  EXPECT_TRUE(eventually(kSoon, [&] { return (*source)->nodes()[2].problem.has_value(); }));
  // A server that shows both gives only itself to those who ask it.
  const Server all = serve("t4x1", {"--peers", (dir_ / "peers").string(), "--peers-interval", "500ms"});
  const auto shown = [&] {
    const auto answer = net::ask({.url = "http://" + all.address + "/api/v1/nodes"});
    const auto json = answer ? nlohmann::json::parse(answer->body, nullptr, false) : nlohmann::json();
    return json.contains("nodes") ? json["nodes"].size() : 0;
  };
  EXPECT_TRUE(eventually(kSoon, [&] { return shown() == 4; })) << "itself, and three in its list";
  testing::put(dir_ / "circle", all.address + "\n");
  options.place.file = dir_ / "circle";
  const auto circle = PeersSource::open(options);
  ASSERT_THAT(circle, IsOk());
  ASSERT_TRUE(answers(**circle, 1));
  EXPECT_THAT((*circle)->nodes().at(0).reading->snapshot.gpus, SizeIs(1));
}

class Scraping : public Cluster {
 protected:
  /// A Prometheus that scrapes these, and judges by these rules.
  void scrape(const std::vector<std::string>& targets, const std::string& rules) {
    const auto program = testing::find_program("prometheus");
    if (program.empty()) return;
    testing::put(dir_ / "rules.yml", rules);
    testing::put(dir_ / "prometheus.yml", fmt::format("global:\n  evaluation_interval: 1s\nrule_files: [{}]\n{}",
                                                      (dir_ / "rules.yml").string(), scrape_config(targets, "", 1s)));
    const auto port = testing::free_ports(1).at(0);
    url_ = fmt::format("http://127.0.0.1:{}", port);
    prometheus_ = std::make_unique<Daemon>(
        std::vector<std::string>{program.string(), "--config.file=" + (dir_ / "prometheus.yml").string(),
                                 "--storage.tsdb.path=" + (dir_ / "tsdb").string(),
                                 fmt::format("--web.listen-address=127.0.0.1:{}", port)},
        environment_, dir_ / "prometheus.log");
  }
  nlohmann::json ask(const std::string& path) const {
    const auto answer = net::ask({.url = url_ + path});
    return answer ? nlohmann::json::parse(answer->body, nullptr, false) : nlohmann::json();
  }
  /// Names of rules that Prometheus has evaluated, and what it says of those it cannot.
  struct Judged {
    std::size_t fine = 0;
    std::size_t pending = 0;
    std::string troubles;
  };
  Judged judged() const {
    Judged judged;
    const auto answer = ask("/api/v1/rules");
    if (!answer.is_object() || !answer.contains("data")) return judged;
    for (const auto& group : answer["data"]["groups"]) {
      for (const auto& rule : group["rules"]) {
        judged.fine += rule["health"] == "ok" ? 1 : 0;
        judged.pending += rule["health"] == "unknown" ? 1 : 0;
        if (rule["health"] == "err")
          judged.troubles += rule["name"].get<std::string>() + ": " + rule.value("lastError", "") + "\n";
      }
    }
    return judged;
  }

  std::string url_;
  std::unique_ptr<Daemon> prometheus_;
};

TEST_F(Scraping, WhatPrometheusKnowsComesBack) {
  Server server = serve("h100x8");
  const auto& rules = telemetry::built_in_rules();
  scrape({server.address, "127.0.0.1:1"}, prometheus_rules(rules));
  if (!prometheus_) GTEST_SKIP() << "no Prometheus";
  PrometheusOptions options;
  options.url = url_;
  options.interval = 500ms;
  const auto source = PrometheusSource::open(options);
  ASSERT_THAT(source, IsOk());
  ASSERT_TRUE(answers(**source, 1)) << read_file(dir_ / "prometheus.log").value_or("");
  ASSERT_TRUE(eventually(kSoon, [&] { return (*source)->nodes().size() == 2; }));
  auto nodes = (*source)->nodes();
  const auto alive = std::ranges::find_if(nodes, [](const Node& node) { return node.reading != nullptr; });
  ASSERT_NE(alive, nodes.end());
  const auto& snapshot = alive->reading->snapshot;
  EXPECT_TRUE(snapshot.simulated);
  ASSERT_THAT(snapshot.gpus, SizeIs(8));
  EXPECT_THAT(snapshot.gpus[7].gpu.name, HasSubstr("H100"));
  EXPECT_EQ(snapshot.gpus[7].gpu.index, GpuIndex{7});
  EXPECT_TRUE(snapshot.gpus[7].sample.power);
  EXPECT_EQ(snapshot.gpus[7].sample.memory_total, 81559_MiB);
  EXPECT_TRUE(snapshot.gpus[7].gpu.temperature_slowdown);
  EXPECT_TRUE(snapshot.gpus[7].sample.throttle_reasons);
  const auto lost = std::ranges::find_if(nodes, [](const Node& node) { return node.reading == nullptr; });
  ASSERT_NE(lost, nodes.end());
  EXPECT_THAT(lost->problem->message, HasSubstr("cannot scrape 127.0.0.1:1"));
  EXPECT_TRUE(eventually(kSoon, [&] { return judged().fine > 0 && judged().pending == 0; }));
  EXPECT_EQ(judged().troubles, "") << "rules that Prometheus cannot evaluate";
  server.daemon->stop();
  ASSERT_TRUE(eventually(kSoon, [&] {
    const auto now = (*source)->nodes();
    return now.size() == 2 && now[0].problem && now[1].problem;
  }));
  nodes = (*source)->nodes();
  EXPECT_TRUE(std::ranges::any_of(nodes, [](const Node& node) { return node.reading != nullptr; }))
      << "what was known of it stays";
}

}  // namespace
}  // namespace gpuwarden::cluster
