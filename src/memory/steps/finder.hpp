// SPDX-License-Identifier: Apache-2.0
// Tells from a lane's tape whether it repeats itself, after how many operations, and when least is live in each period.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/steps/tape.hpp"

namespace gpuwarden::memory {

/// Looks at the tape every few operations. A rolling hash over the last 64 of them, and what is live, choose one place
/// in 64 and find where the same was seen before: the distance is a period that may be. It is believed once half of it,
/// and a little more, has come again word by word. Not safe to use from several threads.
class PeriodFinder {
 public:
  static constexpr std::uint32_t kLeastPeriod = 128;
  static constexpr std::uint32_t kMostPeriod = 1U << 17U;

  /// Begins with an empty tape.
  void start(StepTape& tape);
  /// Before the tape's next operation, with so many grains live: whether a period ends here at which least is live, and
  /// the next one may be planned.
  bool look(StepTape& tape, std::uint64_t live);
  std::uint32_t period() const { return period_; }
  bool is_at_cut(const StepTape& tape) const { return period_ != 0 && tape.op() == cut_ && has_cut_; }

  /// No plan came of it: the next one is tried later, and later each time.
  void put_off(const StepTape& tape);
  /// A plan was followed for so many operations up to the tape's present end, of which the last `recorded` are on it.
  void left(StepTape& tape, std::uint64_t followed, std::uint32_t recorded);
  std::size_t bytes() const { return places_.size() * sizeof(Place); }
  /// How often no plan came of it, or none that lasted, in a row.
  unsigned failures() const { return failures_; }

 private:
  /// Where a hash was seen first, or a period ago.
  struct Place {
    std::uint32_t tag = 0;
    std::uint32_t op = 0;
  };
  void scan(StepTape& tape, std::uint64_t live);
  void consider(StepTape& tape, std::uint32_t op, std::uint32_t period);
  void follow_run(const StepTape& tape, std::uint32_t from);
  void find_cut(const StepTape& tape, std::uint64_t live);
  void make_room(StepTape& tape);
  /// Operations that have to come again before a period is believed.
  std::uint32_t needed() const { return period_ / 2 + 512; }
  std::uint32_t run(const StepTape& tape) const { return tape.op() - run_from_; }

  std::uint32_t scanned_ = 0;   ///< up to this operation
  std::uint32_t recorded_ = 0;  ///< operations on the tape
  std::uint64_t hash_ = 0;
  std::vector<Place> places_;
  std::uint32_t wanted_ = 0;  ///< a period longer than the tape was seen
  std::uint32_t period_ = 0;  ///< 0: none in sight
  std::uint32_t run_from_ = 0;
  std::uint32_t cut_ = 0;
  std::uint64_t cut_live_ = 0;
  bool has_cut_ = false;
  std::uint32_t least_ = kLeastPeriod;  ///< shorter ones have proved wrong
  std::uint32_t hold_until_ = 0;
  bool holds_ = false;
  unsigned failures_ = 0;
};

}  // namespace gpuwarden::memory
