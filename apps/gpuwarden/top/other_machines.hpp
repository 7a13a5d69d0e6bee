// SPDX-License-Identifier: Apache-2.0
// The machines that `gpuwarden top --peers` or `--prometheus` shows.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "command.hpp"
#include "gpuwarden/cluster/peers.hpp"
#include "gpuwarden/cluster/prometheus.hpp"

namespace gpuwarden::cli {

class OtherMachines final : public cluster::NodeSource {
 public:
  /// Those of --peers or --prometheus, one of which is given, asked every `interval`; with --once all at once, and for
  /// a few seconds at most. Fails as cluster::PeersSource::open() and PrometheusSource::open() do.
  static Result<std::unique_ptr<OtherMachines>> open(const Context& context, std::chrono::milliseconds interval);

  /// Where there are none at all, one that stands for them and says why.
  std::vector<cluster::Node> nodes() const override;
  /// Waits until each has answered or is lost.
  std::vector<cluster::Node> first_answers() const;

 private:
  OtherMachines() = default;
  Result<void> ask_peers(const Context& context, std::chrono::milliseconds interval);
  Result<void> ask_prometheus(const Context& context, std::chrono::milliseconds interval);
  bool asked_all() const { return peers_ ? peers_->asked_all() : prometheus_->asked_all(); }
  Error why_none() const;

  std::string place_;
  std::chrono::milliseconds patience_{0};
  mutable std::mutex mutex_;
  std::string trouble_;  ///< with the list of peers
  // Last, so that their threads have ended before what they tell is gone.
  std::unique_ptr<cluster::PeersSource> peers_;
  std::unique_ptr<cluster::PrometheusSource> prometheus_;
};

}  // namespace gpuwarden::cli
