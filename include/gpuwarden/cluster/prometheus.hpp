// SPDX-License-Identifier: Apache-2.0
// A whole cluster as a Prometheus sees it: its answers turned back into readings.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/cluster/node.hpp"
#include "gpuwarden/cluster/peers.hpp"

namespace gpuwarden::cluster {

/// One sample of an instant vector.
struct PrometheusSample {
  std::string metric;  ///< its label __name__
  std::map<std::string, std::string> labels;
  double value = 0;
  std::chrono::system_clock::time_point time{};
};

/// Reads the answer of /api/v1/query (prometheus.io/docs/prometheus/latest/querying/api, "Instant queries"). Fails with
/// corrupt where it is no such answer, and with failed, in Prometheus's words, where that could not say.
Result<std::vector<PrometheusSample>> parse_instant_vector(std::string_view answer);

/// The expressions whose answers nodes_of() takes, in its order.
std::vector<std::string> prometheus_queries();

/// The machines and their GPUs: those of `gpuwarden serve`, and of dcgm-exporter (its names before and after 4.9) where
/// no gpuwarden watches the same instance. `samples`: what prometheus_queries() were answered with, all together. A
/// target that is down, or that no GPU is known of, is a node with a problem. Sorted by name. Pure.
std::vector<Node> nodes_of(std::span<const PrometheusSample> samples, Clock::SteadyTime now);

struct PrometheusOptions {
  std::string url;  ///< "http://prometheus:9090", with a path where it stands behind one
  /// A file whose first line is sent as a bearer token; empty: none.
  std::filesystem::path token_file;
  std::chrono::milliseconds interval = std::chrono::seconds(5);
  std::chrono::milliseconds timeout = std::chrono::seconds(10);
  std::size_t most_bytes = 256UZ << 20U;
  Clock* clock = &system_clock();
  AskAll ask;  ///< empty: net::ask_all
};

/// Asks in a thread of its own. While Prometheus does not answer all nodes have that as their problem; before it ever
/// did there is one node, named by the URL.
class PrometheusSource final : public NodeSource {
 public:
  /// Fails with invalid_argument for what is no http(s) URL or a token that cannot be read.
  static Result<std::unique_ptr<PrometheusSource>> open(PrometheusOptions options);
  ~PrometheusSource() override;  ///< ends at once
  std::vector<Node> nodes() const override;
  /// Whether Prometheus has answered, or is known not to.
  bool asked_all() const;

 private:
  class Impl;
  explicit PrometheusSource(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpuwarden::cluster
