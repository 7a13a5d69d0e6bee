// SPDX-License-Identifier: Apache-2.0
// What one reading has taken from the readers' processes so far, and where one of them fell silent.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>

#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/probe/child_process.hpp"
#include "probe/holders.hpp"
#include "probe/problems.hpp"

namespace gpuwarden::probe {

/// How far a child came with a request.
struct Progress {
  enum class Stage {
    nothing,  ///< not even the number of GPUs was said
    refused,  ///< `problem` says why there is no answer
    stale,    ///< the driver was replaced under the session
    gpu,      ///< fell silent while it read GPU `index`
    part,     ///< fell silent while it read `part`, after all GPUs
    done,
  };
  Stage stage = Stage::nothing;
  std::uint32_t index = 0;
  facts::ReadingGap::Part part = facts::ReadingGap::Part::links;
  std::optional<facts::DriverProblem> problem;
};

/// How a child that was not received from fell silent; ends it.
Silence silence_of(ChildProcess& child);

/// The answers of one reading, whichever child gave them.
class Reading {
 public:
  /// Takes a child's answers until it is done or silent, or `stop` is requested; `patience` tells how long to wait for
  /// the next, from how far it came.
  template <class Patience>
  Progress take(ChildProcess& child, const Patience& patience, const std::stop_token& stop) {
    Progress progress;
    while (progress.stage != Progress::Stage::done) {
      const auto message = child.receive(patience(progress), stop);
      if (!message || !take_message(*message, progress)) break;
    }
    return progress;
  }

  /// Takes one message; false where there is nothing more to come.
  bool take_message(const nlohmann::json& message, Progress& progress);
  /// GPUs that were not read, of those that the driver counts.
  std::vector<std::uint32_t> missing() const;
  /// What is known of a GPU that fell silent.
  facts::Gpu known(std::uint32_t index) const;

  std::map<std::uint32_t, facts::GpuRecord> records;
  std::optional<std::vector<facts::Link>> links;
  std::optional<std::vector<Uuid>> cuda_order;
  std::optional<std::vector<Holder>> holders;
  std::uint32_t count = 0;

 private:
  void take_order(const nlohmann::json& message);

  std::map<std::uint32_t, facts::Gpu> known_;
};

}  // namespace gpuwarden::probe
