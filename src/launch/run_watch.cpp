// SPDX-License-Identifier: Apache-2.0
#include "launch/run_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::launch {
namespace {

using facts::GpuState;
using std::chrono::seconds;

constexpr auto kLastMinute = std::chrono::minutes(1);
/// More readings than a minute has at a reading a second of 16 GPUs.
constexpr std::size_t kMostLateReadings = 1000;
/// A job whose GPUs are all gone has that long to notice and to say what it sees.
constexpr seconds kAllLostPatience{10};
/// Between two looks at the stacks, at most.
constexpr seconds kBetweenLooks{5};
/// Of many ranks the first ones tell; looking takes time.
constexpr std::size_t kMostRanks = 8;

/// A GPU that is silent may come back; these do not without a reset.
bool is_gone(const facts::GpuRecord& record) {
  return record.state == GpuState::lost || record.state == GpuState::needs_reset || record.state == GpuState::disabled;
}

/// What is read before and after the ranks run has no figures of them.
bool tells(const facts::GpuRecord& record) {
  const facts::GpuSample& sample = record.sample;
  return !facts::is_usable(record) || sample.utilization_gpu || sample.memory_used || sample.power ||
         sample.temperature;
}

LateReading late_reading(const facts::GpuRecord& record, std::chrono::system_clock::time_point time) {
  const facts::GpuSample& sample = record.sample;
  return {.time = time,
          .gpu = record.gpu.index,
          .state = record.state,
          .utilization = sample.utilization_gpu,
          .memory_utilization = sample.utilization_memory,
          .memory_used = sample.memory_used,
          .power = sample.power,
          .temperature = sample.temperature,
          .sm_clock = sample.clock_sm,
          .throttling = sample.throttle_reasons.value_or(std::vector<facts::ThrottleReason>{})};
}

}  // namespace

RunWatch::RunWatch(const ReadyRun& run, const RunOptions& options, Clock& clock)
    : run_(run), options_(options), clock_(clock), straggler_watch_(run.gpus, options.straggler_window) {
  if (options.hang_timeout.count() > 0) hang_.emplace(options.hang_timeout, run.gpus, clock);
  if (options.heeds_emergencies) emergencies_.emplace(run.job.log_directory.value_or(""));
}

std::function<void(telemetry::Reading)> RunWatch::hearing(std::function<void(telemetry::Reading)> next) {
  return [this, next = std::move(next)](telemetry::Reading reading) {
    hear(reading);
    if (next) next(std::move(reading));
  };
}

void RunWatch::hear(const telemetry::Reading& reading) {
  if (hang_) hang_->reading(reading.snapshot);
  if (options_.glance) options_.glance(reading);
  const std::scoped_lock lock(mutex_);
  note_late_readings(reading.snapshot);
  note_lost(reading.snapshot);
  if (options_.straggler_window.count() <= 0) return;
  for (Straggler& one : straggler_watch_.add(reading.snapshot, reading.when)) stragglers_.push_back(std::move(one));
}

const facts::GpuRecord* RunWatch::record_of(const facts::Snapshot& snapshot, std::size_t gpu) const {
  const auto found = std::ranges::find_if(snapshot.gpus, [&](const facts::GpuRecord& record) {
    // One that is lost does not tell its UUID any more.
    const bool there = gpu < run_.places.size() && record.gpu.index == run_.places[gpu];
    return record.gpu.uuid == run_.gpus[gpu] || (there && !facts::is_usable(record));
  });
  return found == snapshot.gpus.end() ? nullptr : &*found;
}

void RunWatch::note_late_readings(const facts::Snapshot& snapshot) {
  if (!last_seen_) last_seen_ = snapshot;
  std::vector<facts::GpuRecord> seen;
  for (std::size_t i = 0; i < run_.gpus.size(); ++i) {
    const auto* record = record_of(snapshot, i);
    const auto* before = record_of(*last_seen_, i);
    if (record != nullptr && tells(*record))
      late_.push_back(late_reading(*record, snapshot.taken_at));
    else if (before != nullptr && (record != nullptr || snapshot.problem))
      record = before;  // a driver that does not answer says nothing of its GPUs
    if (record != nullptr) seen.push_back(*record);
  }
  last_seen_->gpus = std::move(seen);
  while (!late_.empty() && (late_.size() > kMostLateReadings || late_.front().time + kLastMinute < snapshot.taken_at))
    late_.pop_front();
}

void RunWatch::note_lost(const facts::Snapshot& snapshot) {
  // A driver that does not answer tells nothing of its GPUs.
  if (snapshot.problem) return;
  for (std::size_t i = 0; i < run_.gpus.size(); ++i) {
    const auto* record = record_of(snapshot, i);
    if (record == nullptr || !is_gone(*record))
      lost_.erase(i);
    else
      lost_.try_emplace(i, Loss{clock_.now(), record->gpu.index});
  }
}

std::string RunWatch::lost_gpus() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> gone;
  std::size_t all = 0;
  for (const auto& [gpu, loss] : lost_) {
    const auto lasted = clock_.now() - loss.since;
    if (lasted >= kAllLostPatience) ++all;
    const bool counts = options_.lost_gpu_patience.count() > 0 && lasted >= options_.lost_gpu_patience;
    if (counts || lasted >= kAllLostPatience) gone.push_back(std::to_string(loss.place.value));
  }
  const bool every = !run_.gpus.empty() && all == run_.gpus.size();
  if (gone.empty() || (!every && options_.lost_gpu_patience.count() == 0)) return "";
  return fmt::format("GPU {} {} lost, and the job did not end by itself: it is ended", join(gone, ", "),
                     gone.size() == 1 ? "is" : "are");
}

void RunWatch::warn_of_stragglers() {
  std::vector<std::string> news;
  {
    const std::scoped_lock lock(mutex_);
    for (; warned_of_ < stragglers_.size(); ++warned_of_) news.push_back(stragglers_[warned_of_].sentence());
  }
  if (options_.warning) std::ranges::for_each(news, options_.warning);
}

std::string RunWatch::intolerable_straggler() {
  if (!options_.ends_for) return "";
  std::vector<Straggler> known;
  {
    const std::scoped_lock lock(mutex_);
    known = stragglers_;
  }
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (!options_.ends_for(known[i])) continue;
    const std::scoped_lock lock(mutex_);
    stragglers_[i].ended_job = true;
    return known[i].sentence() + ": the job is ended, to be started again without it";
  }
  return "";
}

std::optional<EarlyEnd> RunWatch::end_early(const std::vector<RankEnd>& running) {
  warn_of_stragglers();
  std::vector<Pid> pids;
  for (const RankEnd& rank : running) pids.push_back(rank.pid);
  if (std::string why = lost_gpus(); !why.empty()) return EarlyEnd{EarlyEnd::Kind::gpus_lost, std::move(why)};
  if (std::string why = emergencies_ ? emergencies_->look(pids) : ""; !why.empty())
    return EarlyEnd{EarlyEnd::Kind::no_resources, std::move(why), emergencies_->of_memory()};
  if (std::string why = intolerable_straggler(); !why.empty())
    return EarlyEnd{EarlyEnd::Kind::straggler, std::move(why)};
  if (std::string why = options_.regroup ? options_.regroup() : ""; !why.empty())
    return EarlyEnd{EarlyEnd::Kind::regroup, std::move(why)};
  return std::nullopt;
}

std::string RunWatch::give_up(const std::vector<RankEnd>& running, const Environment& environment) {
  std::vector<Pid> pids;
  for (const RankEnd& rank : running) pids.push_back(rank.pid);
  std::string why = hang_->stuck(pids);
  if (why.empty()) {
    looked_ = false;
    return "";
  }
  const auto between = std::min<std::chrono::milliseconds>(kBetweenLooks, options_.hang_timeout / 2);
  if (looked_ && clock_.now() - looked_at_ < between) return "";
  Stacks now;
  bool moved = false;
  for (std::size_t i = 0; i < std::min(kMostRanks, running.size()); ++i) {
    std::string stacks = stacks_of(running[i].pid, environment);
    moved = moved || (looked_ && has_moved(stacks_[running[i].rank], stacks));
    now[running[i].rank] = std::move(stacks);
  }
  stacks_ = std::move(now);
  looked_at_ = clock_.now();
  if (!std::exchange(looked_, true)) return "";
  if (moved) {
    // It computes without GPUs and without a word.
    hang_->output();
    return "";
  }
  const std::scoped_lock lock(mutex_);
  for (const Straggler& one : stragglers_) why += "; " + one.sentence();
  return why;
}

void RunWatch::hook_into(JobHooks& hooks, const Environment& environment) {
  hooks.end_early = [this](const std::vector<RankEnd>& running) { return end_early(running); };
  if (!hang_) return;
  hooks.output = [this] { hang_->output(); };
  hooks.give_up = [this, &environment](const std::vector<RankEnd>& running) { return give_up(running, environment); };
}

void RunWatch::tell(RunReport& report) const {
  if (!report.end.given_up.empty()) {
    for (RankEnd& rank : report.end.ranks) {
      const auto found = stacks_.find(rank.rank);
      if (found != stacks_.end()) rank.stacks = found->second;
    }
  }
  const std::scoped_lock lock(mutex_);
  report.stragglers = stragglers_;
  report.last_minute.assign(late_.begin(), late_.end());
  report.last_seen = last_seen_;
}

}  // namespace gpuwarden::launch
