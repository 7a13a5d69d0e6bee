// SPDX-License-Identifier: Apache-2.0
// Adding to a history's file.
#include <algorithm>
#include <limits>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/use.hpp"
#include "telemetry/elapsed.hpp"
#include "telemetry/store_facts.hpp"
#include "telemetry/store_impl.hpp"

namespace gpuwarden::telemetry {
namespace {

constexpr std::chrono::milliseconds kUpkeepSlice = std::chrono::milliseconds(20);
/// How much time of readings passes before it is looked whether upkeep is due.
constexpr std::int64_t kUpkeepEvery = 10'000;
constexpr std::size_t kLongestCommand = 1024;
/// By how much a clock may be ahead of itself and be waited for, in milliseconds.
constexpr std::int64_t kLittleAhead = 3'600'000;
constexpr std::chrono::minutes kSettling{10};

}  // namespace

/// A file's times only grow. After the clock was set back a little they go on at half pace until the clock has caught
/// up; after more than that they go on at full pace, or, where the file ends with what a clock that was far ahead has
/// dated, that is forgotten.
Result<Store::Impl::FileTime> Store::Impl::time_of(const Reading& reading) {
  const std::int64_t time = to_millis(reading.snapshot.taken_at);
  if (!last_time_ || time > *last_time_) return FileTime{time, false};
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(reading.when - last_when_).count();
  // Of a reading from before this program was started the steady clock tells nothing.
  const bool is_known = last_when_ != Clock::SteadyTime{} && passed > 0;
  const std::int64_t known = is_known ? passed : 0;
  if (*last_time_ - time <= kLittleAhead) return FileTime{*last_time_ + std::max<std::int64_t>(known / 2, 1), false};
  GPUWARDEN_TRY(const bool in_a_gap, lies_in_a_gap(time));
  if (in_a_gap) return FileTime{time, true};
  return FileTime{*last_time_ + std::max<std::int64_t>(known, 1), false};
}

/// Whether there are readings before that time, and the next ones long after it: a clock was set far ahead, and back.
/// Else it is this clock that is wrong, and what the file has stays.
Result<bool> Store::Impl::lies_in_a_gap(std::int64_t time) {
  const auto ask = [&](const char* sql) -> Result<std::optional<std::int64_t>> {
    GPUWARDEN_TRY(Statement* const select, database_->statement(sql));
    GPUWARDEN_TRY(const bool found, select->bind(1, time).step());
    const auto answer = found && !select->is_null(0) ? std::optional(select->integer(0)) : std::nullopt;
    select->reset();
    return answer;
  };
  // Readings as they were made, before as after: where they were downsampled since, what follows may be whole.
  GPUWARDEN_TRY(const auto hot_before, ask("SELECT max(t) FROM hot WHERE t <= ?1"));
  GPUWARDEN_TRY(const auto chunk_before, ask("SELECT max(t0) FROM chunk WHERE t0 <= ?1 AND step = 0"));
  GPUWARDEN_TRY(const auto over_it, ask("SELECT 1 FROM chunk WHERE t0 <= ?1 AND t1 > ?1 AND step = 0 LIMIT 1"));
  GPUWARDEN_TRY(const auto hot_after, ask("SELECT min(t) FROM hot WHERE t > ?1"));
  GPUWARDEN_TRY(const auto chunk_after, ask("SELECT min(t0) FROM chunk WHERE t0 > ?1 AND step = 0"));
  if ((!hot_before && !chunk_before) || over_it) return false;
  const std::int64_t none = std::numeric_limits<std::int64_t>::max();
  return std::min(hot_after.value_or(none), chunk_after.value_or(none)) - time > kLittleAhead;
}

Result<void> Store::Impl::forget_after(std::int64_t time) {
  for (const char* const sql : {"DELETE FROM hot WHERE t > ?1", "DELETE FROM chunk WHERE t0 > ?1"}) {
    GPUWARDEN_TRY(Statement* const remove, database_->statement(sql));
    GPUWARDEN_CHECK(remove->bind(1, time).run());
  }
  return {};
}

/// Nothing is downsampled and forgotten by a clock that has just been set forward by a lot: it may be set back soon.
bool Store::Impl::clock_is_settled(std::int64_t time, Clock::SteadyTime when) {
  const bool known = last_when_ != Clock::SteadyTime{} && when > last_when_;
  if (last_time_ && known) {
    const Elapsed since = elapsed_between({*last_time_, last_when_}, {time, when});
    if (since.set > kLittleAhead) set_forward_ = when;
  }
  if (set_forward_ && when - *set_forward_ >= kSettling) set_forward_.reset();
  return !set_forward_;
}

Result<void> Store::Impl::add(const Reading& reading, const std::vector<Use>& uses,
                              const std::vector<Happening>& happenings) {
  if (!writes_ || finished_)
    return fail(ErrorCode::invalid_argument, "this history is open for reading only, or was finished");
  GPUWARDEN_TRY(const FileTime at, time_of(reading));
  const std::int64_t time = at.time;
  auto added = database_->transact([&]() -> Result<void> {
    if (at.forget_later) GPUWARDEN_CHECK(forget_after(time));
    GPUWARDEN_CHECK(insert_readings(time, reading));
    GPUWARDEN_CHECK(insert_uses(uses));
    return insert_happenings(happenings);
  });
  if (!added || at.forget_later) {
    // What was noted of a transaction that did not happen is forgotten; the file knows. Should it not answer, the next
    // call fails in turn.
    if (const auto loaded = load_state(); !loaded) return std::unexpected(loaded.error());
    if (!added) return added;
    set_forward_.reset();
    next_upkeep_ = 0;
  }
  const bool settled = clock_is_settled(time, reading.when);
  last_time_ = time;
  last_when_ = reading.when;
  uses_ += static_cast<std::int64_t>(uses.size());
  ++hot_readings_;
  if (time < next_upkeep_ || !settled) return {};
  // The reading is safe. What upkeep could not do now it does later, and a disk that is full fails the next reading.
  const auto more = upkeep(kUpkeepSlice);
  next_upkeep_ = time + (more.value_or(false) ? 0 : kUpkeepEvery);
  return {};
}

Result<void> Store::Impl::keep_facts(const facts::Gpu& gpu) {
  // A GPU that is lost tells nothing of itself.
  if (gpu.name.empty() || gpu.uuid.value.empty()) return {};
  const auto known = facts_.find(gpu.uuid);
  if (known != facts_.end() && known->second == gpu) return {};
  const std::string text = gpu_facts_text(gpu);
  if (known == facts_.end() || gpu_facts_text(known->second) != text)
    GPUWARDEN_CHECK(write_meta(std::string(kGpuFactsKey) + gpu.uuid.value, text));
  facts_[gpu.uuid] = gpu;
  return {};
}

Result<std::int64_t> Store::Impl::number_of(const facts::GpuRecord& record) {
  const Uuid uuid = facts::identity_of(record);
  const auto number = numbers_.find(uuid);
  KnownGpu now{.uuid = uuid, .index = record.gpu.index, .name = record.gpu.name};
  if (number != numbers_.end()) {
    const KnownGpu& known = known_[uuid];
    // A GPU that is lost tells its name no more.
    if (now.name.empty()) now.name = known.name;
    if (known.index == now.index && known.name == now.name) return number->second;
  }
  GPUWARDEN_TRY(Statement* const insert,
                database_->statement("INSERT INTO gpu(uuid, idx, name) VALUES(?1, ?2, ?3) ON CONFLICT(uuid) DO UPDATE "
                                     "SET idx = excluded.idx, name = excluded.name RETURNING id"));
  insert->bind(1, uuid.value).bind(2, static_cast<std::int64_t>(now.index.value)).bind(3, now.name);
  GPUWARDEN_CHECK(insert->step());
  const std::int64_t id = insert->integer(0);
  GPUWARDEN_CHECK(insert->step());
  insert->reset();
  numbers_[uuid] = id;
  known_[uuid] = now;
  return id;
}

Result<void> Store::Impl::insert_readings(std::int64_t time, const Reading& reading) {
  for (const facts::GpuRecord& record : reading.snapshot.gpus) {
    GPUWARDEN_TRY(const std::int64_t gpu, number_of(record));
    GPUWARDEN_CHECK(keep_facts(record.gpu));
    std::vector<std::int64_t> values(columns_.empty() ? 0 : columns_.back().id, codec::kGap);
    for (const MetricColumn& column : columns_) values[column.id - 1] = to_column(column, record.sample);
    const std::string row = codec::encode_row(values);
    GPUWARDEN_TRY(Statement* const insert,
                  database_->statement("INSERT OR REPLACE INTO hot(t, gpu, data) VALUES(?1, ?2, ?3)"));
    GPUWARDEN_CHECK(insert->bind(1, time).bind(2, gpu).bind_blob(3, row).run());
  }
  return {};
}

Result<void> Store::Impl::insert_uses(const std::vector<Use>& uses) {
  if (uses.empty()) return {};
  GPUWARDEN_TRY(Statement* const insert,
                database_->statement(
                    "INSERT INTO usage(t0, t1, gpu, idx, user, job, pid, command, gpu_seconds, busy_seconds, "
                    "utilization, memory, merged) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 0)"));
  for (const Use& use : uses) {
    insert->bind(1, to_millis(use.from)).bind(2, to_millis(use.to)).bind(3, use.gpu.value);
    insert->bind(4, static_cast<std::int64_t>(use.index.value)).bind(5, use.user).bind(6, use.job);
    use.pid ? insert->bind(7, static_cast<std::int64_t>(use.pid->value)) : insert->bind_null(7);
    insert->bind(8, use.command.substr(0, kLongestCommand)).bind(9, use.gpu_seconds).bind(10, use.busy_seconds);
    use.mean_utilization ? insert->bind(11, *use.mean_utilization) : insert->bind_null(11);
    use.peak_memory ? insert->bind(12, static_cast<std::int64_t>(use.peak_memory->value)) : insert->bind_null(12);
    GPUWARDEN_CHECK(insert->run());
  }
  return {};
}

Result<void> Store::Impl::insert_happenings(const std::vector<Happening>& happenings) {
  if (happenings.empty()) return {};
  GPUWARDEN_TRY(Statement* const insert,
                database_->statement("INSERT INTO happening(t, kind, gpu, text) VALUES(?1, ?2, ?3, ?4)"));
  for (const Happening& happening : happenings) {
    insert->bind(1, to_millis(happening.time)).bind(2, happening.kind).bind(3, happening.gpu.value);
    GPUWARDEN_CHECK(insert->bind(4, happening.text.substr(0, kLongestCommand)).run());
  }
  return {};
}

Result<void> Store::Impl::finish(std::optional<int> exit_code) {
  if (!writes_) return fail(ErrorCode::invalid_argument, "this history is open for reading only");
  while (last_time_ && !finished_) {
    GPUWARDEN_TRY(const bool sealed, seal_one(*last_time_));
    if (!sealed) break;
  }
  if (!finished_) {
    GPUWARDEN_CHECK(database_->transact([&]() -> Result<void> {
      GPUWARDEN_CHECK(database_->execute("DELETE FROM hot"));
      GPUWARDEN_CHECK(write_meta("exit_code", exit_code ? std::to_string(*exit_code) : ""));
      return write_meta("finished", "1");
    }));
  }
  finished_ = true;
  // The log goes into the file and is removed; where somebody reads the file it stays beside it and belongs to it.
  GPUWARDEN_CHECK(database_->execute("PRAGMA wal_checkpoint(TRUNCATE)"));
  return database_->execute("PRAGMA journal_mode = DELETE");
}

}  // namespace gpuwarden::telemetry
