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
/// A plan that was followed for so many periods has paid.
constexpr std::uint64_t kPaid = 4;
/// Odd, from the golden ratio and from MurmurHash3's finaliser.
constexpr std::uint64_t kMixWord = 0x9E3779B97F4A7C15U;
constexpr std::uint64_t kMixLive = 0xFF51AFD7ED558CCDU;

constexpr std::uint64_t plain(std::uint64_t recorded) { return recorded & ~word::kDistance; }
bool is_past(std::uint32_t op, std::uint32_t limit) { return static_cast<std::int32_t>(op - limit) >= 0; }

}  // namespace

void PeriodFinder::start(StepTape& tape) {
  places_.assign(std::size_t{1} << kPlaceBits, {});
  tape.grow(StepTape::kLeast);
  scanned_ = tape.op();
  tape.wake_at(scanned_ + kStride);
}

bool PeriodFinder::look(StepTape& tape, std::uint64_t live) {
  // Without looks in between, for example while the context was lost, what was recorded is overwritten.
  if (tape.op() - scanned_ > tape.capacity() / 2) {
    recorded_ = 0;
    scanned_ = tape.op();
    period_ = 0;
  }
  recorded_ = std::min(recorded_ + (tape.op() - scanned_), tape.capacity());
  if (period_ != 0) follow_run(tape, scanned_);
  scan(tape, live);
  make_room(tape);
  if (holds_ && is_past(tape.op(), hold_until_)) holds_ = false;
  const bool believed = period_ != 0 && run(tape) >= needed() && recorded_ >= period_;
  if (!believed) has_cut_ = false;
  if (believed && (!has_cut_ || (is_past(tape.op(), cut_) && tape.op() != cut_))) find_cut(tape, live);
  tape.wake_at(tape.op() + kStride);
  if (!has_cut_) return false;
  if (tape.op() != cut_) {
    tape.wake_at(std::min(kStride, cut_ - tape.op()) + tape.op());
    return false;
  }
  if (!holds_ && live == cut_live_) return true;
  find_cut(tape, live);
  return false;
}

void PeriodFinder::follow_run(const StepTape& tape, std::uint32_t from) {
  for (std::uint32_t op = from; op != tape.op(); ++op) {
    if (plain(tape[op]) != plain(tape[op - period_])) run_from_ = op + 1;
  }
}

void PeriodFinder::scan(StepTape& tape, std::uint64_t live) {
  std::int64_t growth = 0;
  for (std::uint32_t op = scanned_; op != tape.op(); ++op) growth += word::growth(tape[op]);
  std::uint64_t now = live - static_cast<std::uint64_t>(growth);
  for (; scanned_ != tape.op(); ++scanned_) {
    const std::uint64_t recorded = tape[scanned_];
    now += static_cast<std::uint64_t>(word::growth(recorded));
    // What lies more than 64 operations back has been shifted out.
    hash_ = (hash_ << 1U) + plain(recorded) * kMixWord;
    if (hash_ >> 58U != 0) continue;
    const std::uint64_t mixed = (hash_ + now * kMixLive) * kMixWord;
    Place& place = places_[mixed >> (64 - kPlaceBits)];
    const auto tag = static_cast<std::uint32_t>(mixed);
    const std::uint32_t period = scanned_ - place.op;
    if (place.tag != tag) {
      place = {tag, scanned_};
    } else if (period >= least_) {
      place.op = scanned_;
      consider(tape, scanned_, period);
    }
  }
}

void PeriodFinder::consider(StepTape& tape, std::uint32_t op, std::uint32_t period) {
  const bool runs = period_ != 0 && is_past(op, run_from_ + kStride);
  if (period > kMostPeriod || runs) return;
  if (period + 2 * kStride > tape.capacity()) {
    wanted_ = std::max(wanted_, period);
    return;
  }
  const std::uint32_t most = std::min(recorded_ - std::min(recorded_, period + kStride), period);
  std::uint32_t alike = 0;
  while (alike < most && plain(tape[op - alike]) == plain(tape[op - alike - period])) ++alike;
  if (alike < kStride) return;
  period_ = period;
  run_from_ = op + 1 - alike;
  has_cut_ = false;
  follow_run(tape, op + 1);
}

void PeriodFinder::find_cut(const StepTape& tape, std::uint64_t live) {
  std::uint64_t least = live;
  std::uint64_t now = live;
  std::uint32_t lowest = tape.op();
  for (std::uint32_t op = tape.op(); op != tape.op() - period_ + 1; --op) {
    if (now < least || (now == least && op != tape.op() && lowest != tape.op())) {
      least = now;
      lowest = op;
    }
    now -= static_cast<std::uint64_t>(word::growth(tape[op - 1]));
  }
  // Here and now only before the first look at this place.
  const bool now_again = lowest == tape.op() && (!has_cut_ || cut_ != tape.op());
  cut_ = now_again ? lowest : lowest + period_;
  cut_live_ = least;
  has_cut_ = true;
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
  holds_ = true;
  hold_until_ = tape.op() + (period_ << failures_);
}

void PeriodFinder::left(StepTape& tape, std::uint64_t followed, std::uint32_t recorded) {
  scanned_ = run_from_ = tape.op();
  recorded_ = std::min({recorded_, recorded, tape.capacity()});
  has_cut_ = false;
  tape.wake_at(tape.op() + kStride);
  if (followed >= kPaid * period_) {
    failures_ = 0;
    least_ = kLeastPeriod;
    return;
  }
  put_off(tape);
  // It repeated itself for so long and then did not: if there is a period, it is longer.
  if (failures_ > 1) least_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(followed + 1, kMostPeriod / 2));
}

}  // namespace gpuwarden::memory
