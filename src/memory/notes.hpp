// SPDX-License-Identifier: Apache-2.0
// What a pool remembers of the past, so that it can tell how long memory has been idle. Behind the slow lock.
#pragma once

#include <optional>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/quantity.hpp"

namespace gpuwarden::memory {

/// How much was live at most between one note and the next.
class DemandNotes {
 public:
  /// Nobody will ask for more than `span` before `time`.
  void add(Clock::SteadyTime time, Bytes peak, std::chrono::nanoseconds span);
  /// The most that was live since `time`; empty: nobody looked then.
  std::optional<Bytes> most_since(Clock::SteadyTime time) const;

 private:
  struct Note {
    Clock::SteadyTime time;  ///< the end of what it covers
    Bytes peak;
  };
  Clock::SteadyTime since_;
  std::vector<Note> notes_;
};

/// Which epoch of a lane ended when.
class EpochNotes {
 public:
  void add(Clock::SteadyTime time, std::uint32_t epoch);
  /// What carries this epoch or an earlier one was used before `time`; 0: nothing is known.
  std::uint32_t before(Clock::SteadyTime time) const;
  /// The epochs begin anew behind `done`; earlier ones are forgotten.
  void rebase(std::uint32_t done);

 private:
  struct Note {
    Clock::SteadyTime time;
    std::uint32_t epoch;
  };
  std::vector<Note> notes_;
};

}  // namespace gpuwarden::memory
