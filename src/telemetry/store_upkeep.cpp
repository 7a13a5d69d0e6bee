// SPDX-License-Identifier: Apache-2.0
// What keeps a history's file small: readings are sealed in chunks, chunks are summed up in those of the next tier, and
// what is old is forgotten, but never before the next tier has it. Each piece of work is a transaction of its own.
#include <algorithm>
#include <cmath>
#include <limits>

#include "telemetry/store_impl.hpp"

namespace gpuwarden::telemetry {
namespace {

constexpr std::int64_t kMostSteps = 600;  // in a chunk: what compresses best
constexpr std::int64_t kMergeAfter = 86'400'000;
constexpr std::int64_t kMostHappenings = 100'000;
constexpr std::int64_t kMostUsesKept = 300'000;
/// Rows of one piece of work.
constexpr std::int64_t kMostMerged = 2000;

std::int64_t wrapping_add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
std::int64_t wrapping_subtract(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}

struct RolledStep {
  std::int64_t min = std::numeric_limits<std::int64_t>::max();
  std::int64_t max = std::numeric_limits<std::int64_t>::min();
  double sum = 0;
  std::int64_t count = 0;
};

/// Sums up frames in steps of one stretch, metric by metric.
class Roller {
 public:
  Roller(std::int64_t begin, std::int64_t step, std::size_t steps) : begin_(begin), step_(step), steps_(steps) {}

  /// Adds the rows from `from`, before `to`.
  void add(const Frame& frame, std::int64_t from, std::int64_t to) {
    from_ = std::max(from, begin_);
    to_ = std::min(to, begin_ + step_ * static_cast<std::int64_t>(steps_));
    for (const auto& [key, values] : frame.columns) {
      if (key.part == Part::value) add_metric(frame, key.metric, values);
    }
  }

  Frame finish() const {
    Frame frame;
    for (std::size_t i = 0; i < steps_; ++i) {
      const bool is_used =
          std::ranges::any_of(metrics_, [&](const auto& metric) { return metric.second[i].count > 0; });
      if (is_used) add_row(frame, i);
    }
    return frame;
  }

 private:
  static std::int64_t cell(const Frame& frame, ColumnKey key, std::size_t row, std::int64_t otherwise) {
    const auto found = frame.columns.find(key);
    if (found == frame.columns.end() || row >= found->second.size() || found->second[row] == codec::kGap)
      return otherwise;
    return found->second[row];
  }

  void add_metric(const Frame& frame, std::uint32_t metric, const std::vector<std::int64_t>& values) {
    auto& steps = metrics_[metric];
    steps.resize(steps_);
    for (std::size_t row = 0; row < std::min(values.size(), frame.times.size()); ++row) {
      const std::int64_t time = frame.times[row];
      if (values[row] == codec::kGap || time < from_ || time >= to_) continue;
      RolledStep& step = steps[static_cast<std::size_t>((time - begin_) / step_)];
      const std::int64_t count = std::max<std::int64_t>(cell(frame, {metric, Part::count}, row, 1), 1);
      const double above = static_cast<double>(cell(frame, {metric, Part::mean}, row, 0)) / kMeanSteps;
      step.min = std::min(step.min, values[row]);
      step.max = std::max(step.max, wrapping_add(values[row], cell(frame, {metric, Part::spread}, row, 0)));
      step.sum += (static_cast<double>(values[row]) + above) * static_cast<double>(count);
      step.count = std::min(step.count + count, std::int64_t{1} << 40);
    }
  }

  void add_row(Frame& frame, std::size_t i) const {
    const std::size_t rows = frame.times.size();
    frame.times.push_back(begin_ + static_cast<std::int64_t>(i) * step_);
    for (const auto& [metric, steps] : metrics_) {
      const RolledStep& step = steps[i];
      if (step.count == 0) continue;
      const double mean = step.sum / static_cast<double>(step.count);
      const double above = std::clamp(mean - static_cast<double>(step.min), 0.0, 1e15);
      put(frame, {metric, Part::value}, rows, step.min);
      put(frame, {metric, Part::spread}, rows, wrapping_subtract(step.max, step.min));
      put(frame, {metric, Part::mean}, rows, std::llround(above * kMeanSteps));
      put(frame, {metric, Part::count}, rows, step.count);
    }
  }

  static void put(Frame& frame, ColumnKey key, std::size_t row, std::int64_t value) {
    auto& column = frame.columns[key];
    column.resize(row, codec::kGap);
    column.push_back(value);
  }

  std::int64_t begin_;
  std::int64_t step_;
  std::size_t steps_;
  std::int64_t from_ = 0;
  std::int64_t to_ = 0;
  std::map<std::uint32_t, std::vector<RolledStep>> metrics_;
};

}  // namespace

Result<bool> Store::Impl::upkeep(std::chrono::nanoseconds most) {
  if (!writes_ || finished_ || !last_time_) return false;
  const auto begun = clock_->now();
  while (true) {
    GPUWARDEN_TRY(const bool worked, work_once());
    if (!worked) return false;
    if (clock_->now() - begun >= most) return true;
  }
}

Result<bool> Store::Impl::work_once() {
  for (const auto work :
       {&Impl::seal_due, &Impl::roll_up_one, &Impl::forget_one, &Impl::merge_uses, &Impl::forget_surplus}) {
    GPUWARDEN_TRY(const bool worked, (this->*work)());
    if (worked) return true;
  }
  return false;
}

Result<void> Store::Impl::insert_chunk(std::int64_t gpu, std::int64_t step, Stretch stretch, const Frame& frame) {
  const std::string data = encode_frame(frame, true);
  GPUWARDEN_TRY(Statement* const insert,
                database_->statement("INSERT INTO chunk(gpu, step, t0, t1, n, data) VALUES(?1, ?2, ?3, ?4, ?5, ?6)"));
  insert->bind(1, gpu).bind(2, step).bind(3, stretch.from).bind(4, stretch.to);
  return insert->bind(5, static_cast<std::int64_t>(frame.times.size())).bind_blob(6, data).run();
}

Result<bool> Store::Impl::seal_due() {
  // What the next tiers forget must not come back to them from the hot table.
  std::int64_t longest = std::numeric_limits<std::int64_t>::max();
  for (const Tier& tier : tiers_) {
    if (tier.step.count() > 0 && tier.keep.count() > 0)
      longest = std::min<std::int64_t>(longest, tier.keep.count() / 2);
  }
  GPUWARDEN_TRY(const std::int64_t oldest, database_->number("SELECT t FROM hot ORDER BY t LIMIT 1"));
  const bool is_old = oldest > 0 && *last_time_ - oldest > longest;
  if (hot_readings_ < kHotReadings && !is_old) return false;
  GPUWARDEN_TRY(
      const std::int64_t until,
      database_->number("SELECT t FROM (SELECT DISTINCT t FROM hot ORDER BY t LIMIT 600) ORDER BY t DESC LIMIT 1"));
  GPUWARDEN_TRY(const bool sealed, seal_one(until));
  if (sealed) return true;
  GPUWARDEN_TRY(Statement* const remove, database_->statement("DELETE FROM hot WHERE t <= ?1"));
  GPUWARDEN_CHECK(remove->bind(1, until).run());
  GPUWARDEN_TRY(hot_readings_, database_->number("SELECT count(DISTINCT t) FROM hot"));
  return true;
}

Result<bool> Store::Impl::seal_one(std::int64_t until) {
  GPUWARDEN_TRY(const auto gpus, gpu_numbers());
  for (const std::int64_t gpu : gpus) {
    // What is sealed already is still in the hot table until all GPUs are.
    GPUWARDEN_TRY(const Stretch sealed, stretch_of(gpu, 0));
    Frame frame;
    GPUWARDEN_CHECK(read_hot(gpu, {sealed.to, until + 1}, [&](const Frame& hot, Stretch) { frame = hot; }));
    if (frame.times.empty()) continue;
    // A hot table that could not be sealed for long (a disk that was full) may be longer than a chunk.
    for (auto& [key, column] : frame.columns) column.resize(std::min<std::size_t>(column.size(), kHotReadings));
    frame.times.resize(std::min<std::size_t>(frame.times.size(), kHotReadings));
    GPUWARDEN_CHECK(insert_chunk(gpu, 0, {frame.times.front(), frame.times.back() + 1}, frame));
    return true;
  }
  return false;
}

std::int64_t Store::Impl::span_of(std::size_t tier) const {
  const std::int64_t step = tiers_[tier].step.count();
  const std::int64_t kept = tiers_[tier - 1].keep.count();
  // Until a chunk is made the finer tier keeps what goes into it.
  return step * (kept == 0 ? kMostSteps : std::clamp<std::int64_t>(kept / (2 * step), 1, kMostSteps));
}

Result<std::optional<std::int64_t>> Store::Impl::due_begin(std::int64_t gpu, std::size_t tier) {
  const std::int64_t step = tiers_[tier].step.count();
  GPUWARDEN_TRY(const Stretch done, stretch_of(gpu, step));
  std::optional<std::int64_t> first;
  for (const std::int64_t finer : {std::int64_t{0}, tiers_[tier - 1].step.count()}) {
    GPUWARDEN_TRY(Statement* const select,
                  database_->statement("SELECT min(t0) FROM chunk WHERE gpu = ?1 AND step = ?2 AND t1 > ?3"));
    GPUWARDEN_TRY(const bool found, select->bind(1, gpu).bind(2, finer).bind(3, done.to).step());
    if (found && !select->is_null(0)) first = std::min(first.value_or(select->integer(0)), select->integer(0));
    select->reset();
  }
  GPUWARDEN_TRY(Statement* const hot,
                database_->statement("SELECT t FROM hot WHERE t >= ?2 AND gpu = ?1 ORDER BY t LIMIT 1"));
  GPUWARDEN_TRY(const bool found, hot->bind(1, gpu).bind(2, done.to).step());
  if (found) first = std::min(first.value_or(hot->integer(0)), hot->integer(0));
  hot->reset();
  if (!first) return std::nullopt;
  const std::int64_t begin = std::max(done.to, floor_to(*first, step));
  if (begin > *last_time_ - span_of(tier)) return std::nullopt;
  return begin;
}

Result<bool> Store::Impl::roll_up_one() {
  GPUWARDEN_TRY(const auto gpus, gpu_numbers());
  for (std::size_t tier = 1; tier < tiers_.size(); ++tier) {
    for (const std::int64_t gpu : gpus) {
      GPUWARDEN_TRY(const auto begin, due_begin(gpu, tier));
      if (!begin) continue;
      GPUWARDEN_CHECK(roll_up(gpu, tier, *begin));
      return true;
    }
  }
  return false;
}

Result<void> Store::Impl::roll_up(std::int64_t gpu, std::size_t tier, std::int64_t begin) {
  const std::int64_t step = tiers_[tier].step.count();
  const Stretch whole{begin, begin + span_of(tier)};
  std::vector<std::uint32_t> metrics;
  for (const MetricColumn& column : columns_) metrics.push_back(column.id);
  Roller roller(begin, step, static_cast<std::size_t>((whole.to - begin) / step));
  GPUWARDEN_CHECK(start_answer());
  GPUWARDEN_TRY(auto finer, coverage(gpu));
  std::erase_if(finer, [&](const Coverage& other) { return other.step >= step; });
  GPUWARDEN_CHECK(read_tiers(gpu, finer, whole, metrics,
                             [&](const Frame& frame, Stretch part) { roller.add(frame, part.from, part.to); }));
  // An empty chunk says that there is nothing, and that it was looked at.
  return insert_chunk(gpu, step, whole, roller.finish());
}

Result<bool> Store::Impl::forget_one() {
  GPUWARDEN_TRY(const auto gpus, gpu_numbers());
  for (std::size_t tier = 0; tier < tiers_.size(); ++tier) {
    if (tiers_[tier].keep.count() == 0) continue;
    for (const std::int64_t gpu : gpus) {
      std::int64_t until = *last_time_ - tiers_[tier].keep.count();
      if (tier + 1 < tiers_.size()) {
        GPUWARDEN_TRY(const Stretch done, stretch_of(gpu, tiers_[tier + 1].step.count()));
        until = std::min(until, done.to);
      }
      GPUWARDEN_TRY(
          Statement* const remove,
          database_->statement("DELETE FROM chunk WHERE id IN (SELECT id FROM chunk WHERE gpu = ?1 AND step = "
                               "?2 AND t1 <= ?3 ORDER BY t0 LIMIT 64)"));
      GPUWARDEN_CHECK(remove->bind(1, gpu).bind(2, tiers_[tier].step.count()).bind(3, until).run());
      if (database_->changes() > 0) return true;
    }
  }
  GPUWARDEN_TRY(const std::int64_t unused, database_->number("PRAGMA freelist_count"));
  GPUWARDEN_TRY(const std::int64_t pages, database_->number("PRAGMA page_count"));
  // Free pages are used again; only a file that has become much smaller gives them back.
  if (unused > 256 && unused > pages / 4) GPUWARDEN_CHECK(database_->execute("PRAGMA incremental_vacuum(128)"));
  return false;
}

/// Uses that are older than a day are added up to hours, and forgotten with the coarsest tier, as happenings are.
Result<bool> Store::Impl::merge_uses() {
  if (tiers_.size() < 2) return false;
  const std::int64_t until = floor_to(*last_time_ - kMergeAfter, 3'600'000);
  GPUWARDEN_TRY(Statement* const oldest,
                database_->statement("SELECT t1 FROM usage WHERE merged = 0 AND t1 <= ?1 ORDER BY t1 LIMIT 1"));
  GPUWARDEN_TRY(const bool due, oldest->bind(1, until).step());
  const std::int64_t hour = due ? floor_to(oldest->integer(0) - 1, 3'600'000) + 3'600'000 : 0;
  oldest->reset();
  if (due) {
    // An hour in which very many processes ran is merged in parts: sums stay what they are.
    GPUWARDEN_CHECK(database_->transact([&]() -> Result<void> {
      GPUWARDEN_TRY(
          Statement* const merge,
          database_->statement(
              "INSERT INTO usage(t0, t1, gpu, idx, user, job, pid, command, gpu_seconds, busy_seconds, "
              "utilization, memory, merged) SELECT min(t0), max(t1), gpu, idx, user, job, pid, command, "
              "sum(gpu_seconds), sum(busy_seconds), sum(utilization * gpu_seconds) / sum(CASE WHEN utilization "
              "IS NOT NULL THEN gpu_seconds END), max(memory), 1 FROM usage WHERE id IN (SELECT id FROM usage WHERE "
              "merged = 0 AND t1 <= ?1 ORDER BY t1, id LIMIT ?2) GROUP BY gpu, idx, user, job, pid, command"));
      GPUWARDEN_CHECK(merge->bind(1, hour).bind(2, kMostMerged).run());
      uses_ += database_->changes();
      GPUWARDEN_TRY(Statement* const remove,
                    database_->statement("DELETE FROM usage WHERE id IN (SELECT id FROM usage WHERE merged = 0 AND t1 "
                                         "<= ?1 ORDER BY t1, id LIMIT ?2)"));
      GPUWARDEN_CHECK(remove->bind(1, hour).bind(2, kMostMerged).run());
      uses_ -= database_->changes();
      return {};
    }));
    return true;
  }
  const std::int64_t keep = tiers_.back().keep.count();
  if (keep == 0) return false;
  for (const char* const sql :
       {"DELETE FROM usage WHERE merged = 1 AND t1 <= ?1", "DELETE FROM happening WHERE t <= ?1"}) {
    GPUWARDEN_TRY(Statement* const remove, database_->statement(sql));
    GPUWARDEN_CHECK(remove->bind(1, *last_time_ - keep).run());
  }
  return false;
}

/// However much happens, and however many processes come and go, the file is bounded.
Result<bool> Store::Impl::forget_surplus() {
  if (tiers_.back().keep.count() == 0) return false;
  GPUWARDEN_TRY(Statement* const surplus,
                database_->statement("DELETE FROM happening WHERE id IN (SELECT id FROM happening WHERE id <= (SELECT "
                                     "max(id) FROM happening) - ?1 LIMIT ?2)"));
  GPUWARDEN_CHECK(surplus->bind(1, kMostHappenings).bind(2, kMostMerged).run());
  if (database_->changes() > 0) return true;
  if (uses_ <= kMostUsesKept) return false;
  // Merged ones are older than those that are not.
  GPUWARDEN_TRY(Statement* const remove,
                database_->statement("DELETE FROM usage WHERE id IN (SELECT id FROM usage WHERE merged IN (0, 1) ORDER "
                                     "BY merged DESC, t1 LIMIT ?1)"));
  GPUWARDEN_CHECK(remove->bind(1, kMostMerged).run());
  uses_ -= database_->changes();
  return database_->changes() > 0;
}

}  // namespace gpuwarden::telemetry
