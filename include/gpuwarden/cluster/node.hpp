// SPDX-License-Identifier: Apache-2.0
// What is seen of one machine: this one, or one of a cluster. Views and the server show a list of them.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/telemetry/alerts.hpp"
#include "gpuwarden/telemetry/reading.hpp"

namespace gpuwarden::cluster {

struct Node {
  std::string name;  ///< its host name, or how it was named where it never answered
  std::string url;   ///< empty for this machine
  /// The last reading; nullptr where there was none yet. A node that is lost keeps its last one.
  std::shared_ptr<const telemetry::Reading> reading;
  std::vector<facts::Health> health;
  /// Why it is not known who has reserved its GPUs: the reading lists none then.
  std::optional<Error> leases_problem;
  /// Why it is not known which of its GPUs are disabled. `health` is judged by what was known last, or empty.
  std::optional<Error> health_problem;
  std::vector<telemetry::Alert> alerts;
  /// Why it does not answer now; empty while it does.
  std::optional<Error> problem;
  std::chrono::system_clock::time_point seen{};  ///< when it answered last
};

/// Where nodes come from. Thread-safe.
class NodeSource {
 public:
  NodeSource() = default;
  NodeSource(const NodeSource&) = delete;
  NodeSource& operator=(const NodeSource&) = delete;
  virtual ~NodeSource() = default;
  /// Never waits for a node.
  virtual std::vector<Node> nodes() const = 0;
};

}  // namespace gpuwarden::cluster
