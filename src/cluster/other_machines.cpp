// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/cluster/other_machines.hpp"

#include <unistd.h>

#include <utility>

#include "gpuwarden/cluster/first_answers.hpp"

namespace gpuwarden::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// With `once`: what is added to the time that the machines may take, for looking names up and for a busy host.
constexpr milliseconds kSpare = seconds(1);
constexpr milliseconds kOncePeerTimeout = seconds(2);
constexpr milliseconds kOncePrometheusTimeout = seconds(4);

}  // namespace

Result<std::unique_ptr<OtherMachines>> OtherMachines::open(OthersOptions options) {
  std::unique_ptr<OtherMachines> others(new OtherMachines(*options.clock));
  GPUWARDEN_CHECK(options.peers ? others->ask_peers(std::move(options)) : others->ask_prometheus(std::move(options)));
  return others;
}

Result<void> OtherMachines::ask_peers(OthersOptions asked) {
  PeersOptions options;
  place_ = *asked.peers;
  GPUWARDEN_TRY(options.place, parse_peer_place(place_));
  options.interval = asked.interval;
  options.timeout = asked.timeout.value_or(milliseconds(0));
  if (asked.once) {
    // Nobody is asked twice, so there is nothing to spread over an interval.
    options.interval = milliseconds(0);
    options.timeout = asked.timeout.value_or(kOncePeerTimeout);
    // One that is silent holds up the first round, not the second.
    patience_ = options.timeout * 2 + kSpare;
  }
  options.token_file = std::move(asked.token_file);
  options.seed = static_cast<unsigned>(::getpid());
  options.log = [this](const std::string& line) {
    const std::scoped_lock lock(mutex_);
    trouble_ = line;
  };
  options.clock = asked.clock;
  options.ask = std::move(asked.ask);
  options.resolve = std::move(asked.resolve);
  GPUWARDEN_TRY(peers_, PeersSource::open(std::move(options)));
  return {};
}

Result<void> OtherMachines::ask_prometheus(OthersOptions asked) {
  PrometheusOptions options;
  options.url = place_ = asked.prometheus.value_or("");
  options.interval = asked.interval;
  if (asked.once) options.timeout = kOncePrometheusTimeout;
  options.timeout = asked.timeout.value_or(options.timeout);
  patience_ = options.timeout + kSpare;
  options.token_file = std::move(asked.token_file);
  options.clock = asked.clock;
  options.ask = std::move(asked.ask);
  GPUWARDEN_TRY(prometheus_, PrometheusSource::open(std::move(options)));
  return {};
}

std::vector<Node> OtherMachines::nodes() const {
  auto nodes = peers_ ? peers_->nodes() : prometheus_->nodes();
  if (!nodes.empty() || !asked_all()) return nodes;
  Node none;
  none.name = none.url = place_;
  none.problem = why_none();
  return {std::move(none)};
}

std::vector<Node> OtherMachines::first_answers() const {
  return cluster::first_answers(*this, [this] { return asked_all(); }, patience_, clock_);
}

Error OtherMachines::why_none() const {
  if (prometheus_)
    return {ErrorCode::unavailable, "Prometheus knows no GPUs", "does it scrape gpuwarden serve or dcgm-exporter?"};
  const std::scoped_lock lock(mutex_);
  return {ErrorCode::unavailable, trouble_.empty() ? "no machines are listed" : trouble_, ""};
}

}  // namespace gpuwarden::cluster
