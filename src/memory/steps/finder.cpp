// SPDX-License-Identifier: Apache-2.0
#include "memory/steps/finder.hpp"

#include <algorithm>
#include <utility>

namespace gpuwarden::memory {
namespace {

/// Operations between two looks, and those that the hash covers.
constexpr std::uint32_t kStride = 64;
constexpr unsigned kPlaceBits = 11;
constexpr unsigned kMostPutOff = 10;
/// After so many tapes without a period it listens for so many, a quarter of the time.
constexpr std::uint32_t kPatience = 8;
constexpr std::uint32_t kListens = 4;
/// A period whose peak is lower than that of late by more than this part is none.
constexpr std::uint64_t kBelowPeak = 10;
/// A plan that was followed for so many periods has paid.
constexpr std::uint64_t kPaid = 4;
/// Odd, from the golden ratio and from MurmurHash3's finaliser.
constexpr std::uint64_t kMixWord = 0x9E3779B97F4A7C15U;
constexpr std::uint64_t kMixLive = 0xFF51AFD7ED558CCDU;

constexpr std::uint64_t plain(std::uint64_t recorded) { return recorded & ~word::kDistance; }
bool is_past(std::uint32_t op, std::uint32_t limit) { return static_cast<std::int32_t>(op - limit) >= 0; }
/// Operations that have to come again before a period is believed.
constexpr std::uint32_t needed(std::uint32_t period) { return period / 2 + 512; }

}  // namespace

void PeriodFinder::start(StepTape& tape, std::uint64_t live) {
  places_.assign(std::size_t{1} << kPlaceBits, {});
  tape.grow(StepTape::kLeast);
  listen(tape, live, kPatience * StepTape::kUsual / StepTape::kLeast);
  tape.wake_at(scanned_ + kStride);
}

void PeriodFinder::listen(StepTape& tape, std::uint64_t live, std::uint32_t tapes) {
  tape.switch_on(tape.op());
  scanned_ = tape.op();
  recorded_ = 0;
  live_ = live;
  candidates_ = {};
  quiet_from_ = tape.op() + tapes * tape.capacity();
}

bool PeriodFinder::look(StepTape& tape, std::uint64_t live) {
  if (!tape.is_on()) listen(tape, live, kListens);
  // Without looks in between, as while a script was followed for long, what was recorded is overwritten.
  if (tape.op() - scanned_ > tape.capacity() / 2) {
    recorded_ = tape.capacity() / 2;
    scanned_ = tape.op();
    live_ = live;
    for (Candidate& candidate : candidates_) candidate.run_from = scanned_;
  }
  recorded_ = std::min(recorded_ + (tape.op() - scanned_), tape.capacity());
  for (Candidate& candidate : candidates_) follow_run(tape, candidate, scanned_);
  scan(tape, live);
  make_room(tape);
  if (held_ != 0 && is_past(tape.op(), hold_until_)) held_ = 0;
  const Candidate best = choose(tape);
  const bool same = best.period == chosen_.period && best.run_from == chosen_.run_from;
  chosen_ = best;
  tape.wake_at(tape.op() + kStride);
  if (chosen_.period == 0) {
    if (is_past(tape.op(), quiet_from_) && tape.capacity() >= StepTape::kUsual)
      tape.pause(tape.op() + 3 * kListens * tape.capacity());
    return false;
  }
  if (!same || (tape.op() != cut_ && is_past(tape.op(), cut_))) find_cut(tape, live, true);
  if (tape.op() == cut_) {
    if (chosen_.period > held_ && !is_low_ && live == cut_live_) return true;
    find_cut(tape, live, false);
  }
  tape.wake_at(tape.op() + std::min(kStride, cut_ - tape.op()));
  return false;
}

void PeriodFinder::follow_run(const StepTape& tape, Candidate& candidate, std::uint32_t from) {
  if (candidate.period == 0) return;
  std::uint32_t op = tape.op();
  if (tape.is_alike(from, from - candidate.period, op - from)) return;
  while (op != from && plain(tape[op - 1]) == plain(tape[op - 1 - candidate.period])) --op;
  if (op != from) candidate.run_from = op;
}

void PeriodFinder::scan(StepTape& tape, std::uint64_t live) {
  std::uint64_t now = std::exchange(live_, live);
  if (tape.op() - peaks_from_ > tape.capacity() / 2) {
    peaks_ = {now, peaks_[0]};
    peaks_from_ = tape.op();
  }
  for (; scanned_ != tape.op(); ++scanned_) {
    const std::uint64_t recorded = tape[scanned_];
    now += static_cast<std::uint64_t>(word::growth(recorded));
    peaks_[0] = std::max(peaks_[0], now);
    // What lies more than 64 operations back has been shifted out.
    hash_ = (hash_ << 1U) + plain(recorded) * kMixWord;
    if (hash_ >> 58U != 0) continue;
    const std::uint64_t mixed = (hash_ + now * kMixLive) * kMixWord;
    see(tape, places_[mixed >> (64 - kPlaceBits)], static_cast<std::uint32_t>(mixed));
  }
}

void PeriodFinder::see(StepTape& tape, Place& place, std::uint32_t tag) {
  if (place.tag != tag) {
    place = {tag, {scanned_, scanned_, scanned_}};
    return;
  }
  auto& [last, before, first] = place.ops;
  if (scanned_ - last < least_) return;
  for (const std::uint32_t op : {last, before, first}) {
    const std::uint32_t period = scanned_ - op;
    if (period > kMostPeriod) continue;
    if (period + 2 * kStride > tape.capacity()) {
      wanted_ = std::max(wanted_, period);
    } else {
      consider(tape, scanned_, period);
    }
  }
  if (scanned_ - first > tape.capacity()) first = before;
  before = last;
  last = scanned_;
}

void PeriodFinder::consider(const StepTape& tape, std::uint32_t op, std::uint32_t period) {
  const auto runs = [&](const Candidate& one) { return one.period != 0 && is_past(op, one.run_from + kStride); };
  // A multiple tells nothing new.
  if (std::ranges::any_of(candidates_, [&](const Candidate& one) { return runs(one) && period % one.period == 0; }))
    return;
  const std::uint32_t most = std::min(recorded_ - std::min(recorded_, period + kStride), period);
  std::uint32_t alike = 0;
  while (alike < most && plain(tape[op - alike]) == plain(tape[op - alike - period])) ++alike;
  if (alike < kStride) return;
  Candidate* worst = &candidates_[0];
  for (Candidate& one : candidates_) {
    if (one.period == period) worst = &one;
    if (worst->period == period) break;
    const bool weaker = runs(one) == runs(*worst) ? one.period < worst->period : !runs(one);
    if (weaker) worst = &one;
  }
  *worst = {period, op + 1 - alike};
  follow_run(tape, *worst, op + 1);
}

bool PeriodFinder::is_believed(const StepTape& tape, const Candidate& candidate) const {
  return candidate.period != 0 && recorded_ >= candidate.period &&
         tape.op() - candidate.run_from >= needed(candidate.period);
}

PeriodFinder::Candidate PeriodFinder::choose(const StepTape& tape) const {
  Candidate best;
  for (const Candidate& one : candidates_) {
    if (one.period <= best.period || !is_believed(tape, one)) continue;
    const bool is_multiple = std::ranges::any_of(candidates_, [&](const Candidate& other) {
      return other.period < one.period && is_believed(tape, other) && one.period % other.period == 0;
    });
    if (!is_multiple) best = one;
  }
  return best;
}

void PeriodFinder::find_cut(const StepTape& tape, std::uint64_t live, bool here) {
  std::uint64_t least = live;
  std::uint64_t most = live;
  std::uint64_t now = live;
  std::uint32_t lowest = tape.op();
  // Of equal places the one that comes again first.
  for (std::uint32_t op = tape.op(); op != tape.op() - chosen_.period; --op) {
    most = std::max(most, now);
    if (now < least || (now == least && lowest != tape.op())) {
      least = now;
      lowest = op;
    }
    now -= static_cast<std::uint64_t>(word::growth(tape[op - 1]));
  }
  cut_ = here && lowest == tape.op() ? lowest : lowest + chosen_.period;
  cut_live_ = least;
  const std::uint64_t peak = std::max(peaks_[0], peaks_[1]);
  is_low_ = most < peak - peak / kBelowPeak;
}

void PeriodFinder::make_room(StepTape& tape) {
  const std::uint32_t capacity = tape.capacity();
  std::uint32_t grown = capacity;
  if (recorded_ + 2 * kStride > capacity && capacity < StepTape::kUsual) grown = 2 * capacity;
  while (grown < wanted_ + 4 * kStride && grown < StepTape::kMost) grown *= 2;
  if (grown != capacity) tape.grow(grown);
}

void PeriodFinder::put_off(const StepTape& tape) {
  failures_ = std::min(failures_ + 1, kMostPutOff);
  held_ = chosen_.period;
  hold_until_ = tape.op() + (held_ << failures_);
}

void PeriodFinder::left(StepTape& tape, std::uint64_t followed) {
  // What was followed may be a part of a longer period: the next look goes over it.
  tape.wake_at(tape.op());
  if (followed >= kPaid * chosen_.period) {
    failures_ = 0;
    least_ = kLeastPeriod;
    quiet_from_ = tape.op() + kPatience * tape.capacity();
  } else {
    put_off(tape);
    // It repeated itself for so long and then did not: if there is a period, it is longer.
    if (failures_ > 1) least_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(followed + 1, kMostPeriod / 2));
  }
  chosen_ = {};
}

}  // namespace gpuwarden::memory
