// SPDX-License-Identifier: Apache-2.0
// Machines that are looked at from elsewhere: peers that serve themselves, or all that a Prometheus knows.
//
//     auto others = cluster::OtherMachines::open({.peers = "dns:gpus.example.org:10478"});
//     if (!others) return others.error();
//     for (const cluster::Node& node : (*others)->nodes()) ...
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/cluster/peers.hpp"
#include "gpuwarden/cluster/prometheus.hpp"

namespace gpuwarden::cluster {

/// Exactly one of `peers` and `prometheus` is given.
struct OthersOptions {
  std::optional<std::string> peers;       ///< as parse_peer_place() takes it
  std::optional<std::string> prometheus;  ///< a URL
  std::filesystem::path token_file;       ///< its first line is sent as a bearer token; empty: none
  std::chrono::milliseconds interval = std::chrono::seconds(5);
  /// How long a machine, or Prometheus, may take to answer; empty: as PeersOptions and PrometheusOptions have it, and
  /// with `once` two and four seconds.
  std::optional<std::chrono::milliseconds> timeout;
  /// For first_answers() alone: all are asked at once, for a few seconds at most.
  bool once = false;
  Clock* clock = &system_clock();
  AskAll ask;       ///< empty: net::ask_all
  Resolve resolve;  ///< of peers; empty: resolve_addresses
};

class OtherMachines final : public NodeSource {
 public:
  /// Fails as parse_peer_place(), PeersSource::open() and PrometheusSource::open() do.
  static Result<std::unique_ptr<OtherMachines>> open(OthersOptions options);

  /// Where there are none at all, one that stands for them and says why.
  std::vector<Node> nodes() const override;
  /// Waits until each has answered or is lost.
  std::vector<Node> first_answers() const;

 private:
  explicit OtherMachines(Clock& clock) : clock_(clock) {}
  Result<void> ask_peers(OthersOptions asked);
  Result<void> ask_prometheus(OthersOptions asked);
  bool asked_all() const { return peers_ ? peers_->asked_all() : prometheus_->asked_all(); }
  Error why_none() const;

  Clock& clock_;
  std::string place_;
  std::chrono::milliseconds patience_{0};
  mutable std::mutex mutex_;
  std::string trouble_;  ///< with the list of peers
  // Last, so that their threads have ended before what they tell is gone.
  std::unique_ptr<PeersSource> peers_;
  std::unique_ptr<PrometheusSource> prometheus_;
};

}  // namespace gpuwarden::cluster
