// SPDX-License-Identifier: Apache-2.0
// Tells from a lane's tape whether it repeats itself, after how many operations, and when least is live in each period.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "memory/steps/tape.hpp"

namespace gpuwarden::memory {

/// Looks at the tape every few operations. A rolling hash over the last 64 of them, and what is live, choose one place
/// in 64 and find where the same was seen before: the distances are periods that may be, of a step and of its parts. A
/// period is believed once half of it, and a little more, has come again word by word; of several the longest counts.
/// Where nothing repeats itself for long it does not listen any more but now and then.
/// Not safe to use from several threads.
class PeriodFinder {
 public:
  static constexpr std::uint32_t kLeastPeriod = 128;
  static constexpr std::uint32_t kMostPeriod = 1U << 17U;

  /// Begins with an empty tape, with so many grains live.
  void start(StepTape& tape, std::uint64_t live);
  /// Before the tape's next operation, with so many grains live: whether a period ends here at which least is live, and
  /// the next one may be planned. A period that stays far below the peak of late is a part of a step.
  bool look(StepTape& tape, std::uint64_t live);
  /// The period that look() has chosen; 0: none.
  std::uint32_t period() const { return chosen_.period; }
  bool is_at_cut(const StepTape& tape) const { return chosen_.period != 0 && tape.op() == cut_; }

  /// No plan came of it: the next one is tried later, and later each time.
  void put_off(const StepTape& tape);
  /// A plan was followed for so many operations up to the tape's present end; they are on it as far as it has room.
  void left(StepTape& tape, std::uint64_t followed);
  std::size_t bytes() const { return places_.size() * sizeof(Place); }
  bool has_started() const { return !places_.empty(); }
  /// How often no plan came of it, or none that lasted, in a row.
  unsigned failures() const { return failures_; }

 private:
  /// Where a hash was seen: the last two times, and the first time that the tape still has.
  struct Place {
    std::uint32_t tag = 0;
    std::array<std::uint32_t, 3> ops{};
  };
  struct Candidate {
    std::uint32_t period = 0;    ///< 0: none
    std::uint32_t run_from = 0;  ///< the first of the operations that equal those a period before, without a gap
  };

  void listen(StepTape& tape, std::uint64_t live, std::uint32_t tapes);
  void scan(StepTape& tape, std::uint64_t live);
  void see(StepTape& tape, Place& place, std::uint32_t tag);
  void consider(const StepTape& tape, std::uint32_t op, std::uint32_t period);
  static void follow_run(const StepTape& tape, Candidate& candidate, std::uint32_t from);
  bool is_believed(const StepTape& tape, const Candidate& candidate) const;
  Candidate choose(const StepTape& tape) const;
  void find_cut(const StepTape& tape, std::uint64_t live, bool here);
  void make_room(StepTape& tape);

  std::uint32_t scanned_ = 0;   ///< up to this operation
  std::uint64_t live_ = 0;      ///< grains, before it
  std::uint32_t recorded_ = 0;  ///< operations on the tape
  std::uint64_t hash_ = 0;
  std::array<std::uint64_t, 2> peaks_{};  ///< of live grains, in this stretch of half a tape and in the last one
  std::uint32_t peaks_from_ = 0;
  std::vector<Place> places_;
  std::uint32_t wanted_ = 0;  ///< a period longer than the tape was seen
  std::array<Candidate, 4> candidates_{};
  Candidate chosen_;
  std::uint32_t cut_ = 0;
  std::uint64_t cut_live_ = 0;
  bool is_low_ = false;                 ///< the chosen period stays far below the peak
  std::uint32_t least_ = kLeastPeriod;  ///< shorter ones have proved wrong
  std::uint32_t hold_until_ = 0;        ///< for periods up to `held_`, which is 0 without
  std::uint32_t held_ = 0;
  unsigned failures_ = 0;
  std::uint32_t quiet_from_ = 0;  ///< it listens at least up to this operation
};

}  // namespace gpuwarden::memory
