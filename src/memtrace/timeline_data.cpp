// SPDX-License-Identifier: Apache-2.0
#include "memtrace/timeline_data.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace gpuwarden::memtrace {
namespace {

constexpr std::uint64_t kPageBytes = memory::kPage.value;
constexpr std::uint64_t kPageGrains = memory::kPage.value / memory::kGrain.value;

/// Pages that ever had memory lie one above the other, in the order of their addresses: what lies between them is only
/// address space.
class Places {
 public:
  explicit Places(const Recording& recording) {
    for (const RecordedEvent& event : recording.events) {
      if (event.what != Happening::mapped) continue;
      for (std::uint64_t at = 0; at < event.size; at += kPageBytes) pages_.push_back((event.address + at) / kPageBytes);
    }
    std::ranges::sort(pages_);
    const auto twice = std::ranges::unique(pages_);
    pages_.erase(twice.begin(), twice.end());
  }
  std::uint64_t of(std::uint64_t address) const {
    const auto found = std::ranges::lower_bound(pages_, address / kPageBytes);
    return static_cast<std::uint64_t>(found - pages_.begin()) * kPageGrains +
           address % kPageBytes / memory::kGrain.value;
  }
  std::uint64_t height() const { return pages_.size() * kPageGrains; }

 private:
  std::vector<std::uint64_t> pages_;
};

class TimelineMaker {
 public:
  TimelineMaker(const Recording& recording, std::size_t points)
      : recording_(recording),
        places_(recording),
        every_(std::max<std::uint64_t>(1, recording.operations / std::max<std::size_t>(points, 1))) {}

  TimelineData make(std::size_t most) {
    for (const RecordedEvent& event : recording_.events) take(event);
    data_.operations = recording_.operations;
    data_.duration_us = recording_.events.empty() ? 0 : recording_.events.back().time_us;
    data_.height = places_.height();
    for (const auto& [block, index] : live_) end(data_.blocks[index], data_.operations, data_.duration_us);
    while (!mapped_.empty()) unmap(mapped_.begin()->first, data_.operations, data_.duration_us);
    if (recording_.operations > 0) point(data_.operations, data_.duration_us);
    join_runs();
    keep_largest(most);
    return std::move(data_);
  }

 private:
  struct Since {
    std::uint64_t operation = 0;
    std::int64_t time_us = 0;
  };

  void take(const RecordedEvent& event) {
    if (event.operation >= next_point_) {
      point(event.operation, event.time_us);
      next_point_ = event.operation + every_;
    }
    switch (event.what) {
      case Happening::allocated:
        allocate(event);
        break;
      case Happening::freed:
        free(event);
        break;
      case Happening::mapped:
        for (std::uint64_t at = 0; at < event.size; at += kPageBytes)
          mapped_[event.address + at] = {event.operation, event.time_us};
        now_.mapped += event.size;
        break;
      case Happening::unmapped:
        for (std::uint64_t at = 0; at < event.size; at += kPageBytes)
          unmap(event.address + at, event.operation, event.time_us);
        now_.mapped -= event.size;
        break;
      case Happening::out_of_memory:
        break;
    }
    most_.live = std::max(most_.live, now_.live);
    most_.mapped = std::max(most_.mapped, now_.mapped);
  }

  void allocate(const RecordedEvent& event) {
    live_[event.block] = data_.blocks.size();
    data_.blocks.push_back({.size = event.size,
                            .place = places_.of(event.address),
                            .stream = event.stream,
                            .begin = event.operation,
                            .begin_us = event.time_us,
                            .block = event.block,
                            .before = recording_.was_before[event.block]});
    now_.live += event.size;
  }

  void free(const RecordedEvent& event) {
    const auto found = live_.find(event.block);
    if (found == live_.end()) return;
    Lifetime& block = data_.blocks[found->second];
    end(block, event.operation, event.time_us);
    block.freed = true;
    now_.live -= block.size;
    live_.erase(found);
  }

  static void end(Lifetime& block, std::uint64_t operation, std::int64_t time_us) {
    block.end = operation;
    block.end_us = time_us;
  }

  void unmap(std::uint64_t address, std::uint64_t operation, std::int64_t time_us) {
    const auto found = mapped_.find(address);
    if (found == mapped_.end()) return;
    data_.mapped.push_back(
        {places_.of(address), kPageGrains, found->second.operation, operation, found->second.time_us, time_us});
    mapped_.erase(found);
  }

  void point(std::uint64_t operation, std::int64_t time_us) {
    data_.curve.push_back({operation, time_us, most_.live, most_.mapped});
    most_ = now_;
  }

  /// Pages side by side that came and went together are one.
  void join_runs() {
    const auto order = [](const MappedRun& run) { return std::tuple(run.begin, run.end, run.place); };
    std::ranges::sort(data_.mapped, {}, order);
    std::vector<MappedRun> joined;
    for (const MappedRun& run : data_.mapped) {
      const bool goes_on = !joined.empty() && joined.back().begin == run.begin && joined.back().end == run.end &&
                           joined.back().place + joined.back().size == run.place;
      if (goes_on)
        joined.back().size += run.size;
      else
        joined.push_back(run);
    }
    data_.mapped = std::move(joined);
  }

  void keep_largest(std::size_t most) {
    if (data_.blocks.size() <= most) return;
    const auto weight = [](const Lifetime& block) {
      return static_cast<double>(block.size) * static_cast<double>(block.end - block.begin + 1);
    };
    data_.left_out = data_.blocks.size() - most;
    std::ranges::nth_element(data_.blocks, data_.blocks.begin() + static_cast<std::ptrdiff_t>(most),
                             std::ranges::greater{}, weight);
    data_.blocks.resize(most);
    std::ranges::sort(data_.blocks, {}, [](const Lifetime& block) { return std::tuple(block.begin, block.block); });
  }

  const Recording& recording_;
  Places places_;
  std::uint64_t every_;
  std::uint64_t next_point_ = 0;
  TimelineData data_;
  CurvePoint now_;
  CurvePoint most_;
  std::unordered_map<std::uint32_t, std::size_t> live_;
  std::unordered_map<std::uint64_t, Since> mapped_;
};

}  // namespace

TimelineData timeline_data(const Recording& recording, std::size_t blocks, std::size_t points) {
  return TimelineMaker(recording, points).make(blocks);
}

}  // namespace gpuwarden::memtrace
