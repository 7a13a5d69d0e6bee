// SPDX-License-Identifier: Apache-2.0
// The GPUs of a job over all its tries: given back, replaced, and got back again.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpuwarden/healing/run.hpp"
#include "healing/outcasts.hpp"

namespace gpuwarden::healing {

class Holding {
 public:
  Holding(machine::Reservation gpus, const Options& options, Clock& clock);

  machine::Reservation& gpus() { return gpus_; }
  std::uint32_t count() const { return static_cast<std::uint32_t>(gpus_.decision().selected.size()); }
  bool is_elastic() const { return options_.elastic.has_value() && !gpus_.decision().cpu; }
  /// These failed the job.
  void blame(const std::vector<Uuid>& gpus);
  /// Instead of those at fault: others, or for an elastic job what is left. Why not; nothing: the job can go on.
  std::optional<Error> replace(const std::vector<Uuid>& at_fault);
  /// Nothing but the CPU from here on.
  void leave_gpus() { gpus_ = machine::Reservation::of_cpu(); }
  /// An elastic job takes what there is before it is started again.
  void grow();

  /// A try begins: what is saved from now on counts.
  void begin();
  /// From the sampler's thread.
  void hear(const telemetry::Reading& reading);
  /// A sentence where the program has just saved its state and there are more GPUs, which are held then.
  std::string regroup();

 private:
  /// When the checkpoint was last written, and how long it is; empty: there is none.
  using Stamp = std::optional<std::pair<std::int64_t, std::int64_t>>;
  Stamp stamp() const;
  bool has_spare() const;
  std::vector<Uuid> outcasts() const { return outcasts_.at(clock_.now()); }

  machine::Reservation gpus_;
  const Options& options_;
  Clock& clock_;
  Outcasts outcasts_;
  Stamp done_;  ///< what was saved before, or has been acted upon
  Stamp seen_;  ///< at the last look: one that is still written changes

  mutable std::mutex mutex_;
  std::vector<Uuid> mine_;
  bool spare_ = false;  ///< a GPU that may be had was seen at the last reading
};

}  // namespace gpuwarden::healing
