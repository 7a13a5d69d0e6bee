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
  /// No more than so many from here on: gives back the rest.
  void shrink(std::uint32_t count);
  /// While ranks run: whether the job can go on without this one of its GPUs. It needs fewer, or another one is held
  /// from here on, with which replace() goes on. Others may have what looks free: only what is held is a successor.
  bool can_spare(const Uuid& gpu);
  bool is_elastic() const { return options_.elastic.has_value() && !gpus_.decision().cpu; }
  /// These failed the job.
  void blame(const std::vector<Uuid>& gpus);
  /// Instead of those at fault: others, or for an elastic job what is left and what is available at once. Where that is
  /// less than it needs, it holds nothing while it waits. Why not; nothing: the job can go on.
  std::optional<Error> replace(const std::vector<Uuid>& at_fault);
  /// Nothing but the CPU from here on.
  void leave_gpus() { gpus_ = machine::Reservation::of_cpu(); }
  /// An elastic job takes what there is before it is started again.
  void grow();

  /// A try begins.
  void begin();
  /// From the sampler's thread.
  void hear(const telemetry::Reading& reading);
  /// For a program that has just saved its state: a sentence where there are more GPUs, which are held then.
  std::string regroup();

 private:
  bool has_spare() const;
  std::vector<Uuid> outcasts() const { return outcasts_.at(clock_.now()); }

  machine::Reservation gpus_;
  const Options& options_;
  Clock& clock_;
  Outcasts outcasts_;
  std::uint32_t most_ = 0;                  ///< GPUs of an elastic job
  std::uint32_t wanted_ = 0;                ///< GPUs of one that is not
  bool substitute_ = false;                 ///< one more is held, for one that is to go
  std::optional<Clock::SteadyTime> asked_;  ///< for one that could not be had

  mutable std::mutex mutex_;
  std::vector<Uuid> mine_;
  bool spare_ = false;  ///< a GPU that may be had was seen at the last reading
};

}  // namespace gpuwarden::healing
