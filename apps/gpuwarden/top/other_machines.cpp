// SPDX-License-Identifier: Apache-2.0
#include "top/other_machines.hpp"

#include <unistd.h>

#include "gpuwarden/cluster/first_answers.hpp"
#include "options.hpp"

namespace gpuwarden::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// With --once: what is added to the time that the machines may take, for looking names up and for a busy host.
constexpr milliseconds kSpare = seconds(1);
constexpr milliseconds kOncePeerTimeout = seconds(2);
constexpr milliseconds kOncePrometheusTimeout = seconds(4);

Result<std::optional<milliseconds>> answer_timeout(const Args& args) {
  GPUWARDEN_TRY(const auto timeout, duration_option(args, "timeout"));
  if (timeout && timeout->count() <= 0)
    return fail(ErrorCode::invalid_argument, "--timeout must be greater than 0", "for example --timeout 5s");
  return timeout;
}

}  // namespace

Result<std::unique_ptr<OtherMachines>> OtherMachines::open(const Context& context, milliseconds interval) {
  std::unique_ptr<OtherMachines> others(new OtherMachines);
  const bool peers = context.args.has("peers");
  GPUWARDEN_CHECK(peers ? others->ask_peers(context, interval) : others->ask_prometheus(context, interval));
  return others;
}

Result<void> OtherMachines::ask_peers(const Context& context, milliseconds interval) {
  cluster::PeersOptions options;
  place_ = context.args.text("peers").value_or("");
  GPUWARDEN_TRY(options.place, cluster::parse_peer_place(place_));
  GPUWARDEN_TRY(const auto timeout, answer_timeout(context.args));
  options.interval = interval;
  options.timeout = timeout.value_or(milliseconds(0));
  if (context.args.has("once")) {
    // Nobody is asked twice, so there is nothing to spread over an interval.
    options.interval = milliseconds(0);
    options.timeout = timeout.value_or(kOncePeerTimeout);
    // One that is silent holds up the first round, not the second.
    patience_ = options.timeout * 2 + kSpare;
  }
  options.token_file = context.args.text("token-file").value_or("");
  options.seed = static_cast<unsigned>(::getpid());
  options.log = [this](const std::string& line) {
    const std::scoped_lock lock(mutex_);
    trouble_ = line;
  };
  GPUWARDEN_TRY(peers_, cluster::PeersSource::open(std::move(options)));
  return {};
}

Result<void> OtherMachines::ask_prometheus(const Context& context, milliseconds interval) {
  cluster::PrometheusOptions options;
  options.url = place_ = context.args.text("prometheus").value_or("");
  GPUWARDEN_TRY(const auto timeout, answer_timeout(context.args));
  options.interval = interval;
  if (context.args.has("once")) options.timeout = kOncePrometheusTimeout;
  options.timeout = timeout.value_or(options.timeout);
  patience_ = options.timeout + kSpare;
  options.token_file = context.args.text("token-file").value_or("");
  GPUWARDEN_TRY(prometheus_, cluster::PrometheusSource::open(std::move(options)));
  return {};
}

std::vector<cluster::Node> OtherMachines::nodes() const {
  auto nodes = peers_ ? peers_->nodes() : prometheus_->nodes();
  if (!nodes.empty() || !asked_all()) return nodes;
  cluster::Node none;
  none.name = none.url = place_;
  none.problem = why_none();
  return {std::move(none)};
}

std::vector<cluster::Node> OtherMachines::first_answers() const {
  return cluster::first_answers(*this, [this] { return asked_all(); }, patience_, system_clock());
}

Error OtherMachines::why_none() const {
  if (prometheus_)
    return {ErrorCode::unavailable, "Prometheus knows no GPUs", "does it scrape gpuwarden serve or dcgm-exporter?"};
  const std::scoped_lock lock(mutex_);
  return {ErrorCode::unavailable, trouble_.empty() ? "no machines are listed" : trouble_, ""};
}

}  // namespace gpuwarden::cli
