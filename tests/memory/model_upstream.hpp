// SPDX-License-Identifier: Apache-2.0
// An upstream that knows what is allowed: it fails on demand, counts, and notices every misuse (a page mapped twice,
// unmapped while a stream still works on it, address space released with pages in it).
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "gpuwarden/memory/upstream.hpp"

namespace gpuwarden::memory {

class ModelUpstream final : public Upstream {
 public:
  explicit ModelUpstream(Bytes capacity) : capacity_(capacity) {}

  /// Asked before each call with its name; true: the call fails and does nothing.
  std::function<bool(const std::string& call)> fails;
  /// The code that failing calls have.
  ErrorCode failure = ErrorCode::unsatisfied;
  /// Streams' work is done when an event is asked about; otherwise only after synchronize() or finish_all().
  bool works_at_once = true;

  /// A stream that no pool may serve.
  StreamId refused{~std::uint64_t{0}};

  std::uint64_t calls() const { return calls_; }
  std::size_t pages() const { return pages_held_; }
  /// Pieces that were made, ever, and the pages of the largest.
  std::uint64_t created() const { return created_; }
  std::uint32_t largest_piece() const { return largest_piece_; }
  std::size_t mapped_pages() const { return mapped_.size(); }
  std::size_t reservations() const { return reservations_.size(); }
  std::size_t events() const { return events_.size(); }
  const std::vector<std::string>& misuses() const { return misuses_; }

  /// Work on a stream touches these bytes from now until the stream's work is done.
  void submit(StreamId stream, DeviceAddress address, Bytes size) {
    const std::lock_guard lock(mutex_);
    auto& state = streams_[stream];
    work_.push_back({stream, ++state.submitted, address.value, address.value + size.value});
  }
  /// The program itself makes later work of `later` wait for all work of `earlier` so far.
  void follow(StreamId later, StreamId earlier) {
    const std::lock_guard lock(mutex_);
    join(streams_[later].waits, snapshot(earlier));
  }
  /// Whether everything in [address, address + size) is mapped.
  bool is_mapped(DeviceAddress address, Bytes size) {
    const std::lock_guard lock(mutex_);
    for (std::uint64_t at = address.value / kPage.value; at <= (address.value + size.value - 1) / kPage.value; ++at) {
      if (!mapped_.contains(at)) return false;
    }
    return true;
  }
  /// Whether work that touches the range may still run when new work of `stream` begins.
  bool is_busy_for(StreamId stream, DeviceAddress address, Bytes size) {
    const std::lock_guard lock(mutex_);
    for (const Work& work : work_) {
      if (work.end <= address.value || address.value + size.value <= work.begin || work.stream == stream) continue;
      if (work.number <= streams_[work.stream].done) continue;
      const auto waited = streams_[stream].waits.find(work.stream);
      if (waited == streams_[stream].waits.end() || waited->second < work.number) return true;
    }
    return false;
  }
  /// The stream's work goes into a graph from now on, or no longer does.
  void capture(StreamId stream, bool begins) {
    const std::lock_guard lock(mutex_);
    if (begins) {
      captured_.insert(stream);
    } else {
      captured_.erase(stream);
    }
  }
  void finish_all() {
    const std::lock_guard lock(mutex_);
    for (auto& [stream, state] : streams_) state.done = state.submitted;
    work_.clear();
  }

  Result<DeviceAddress> reserve(Bytes size) override {
    const std::lock_guard lock(mutex_);
    GPUWARDEN_CHECK(called("reserve"));
    const DeviceAddress address{next_address_};
    next_address_ += size.value + kPage.value;
    reservations_[address.value] = size.value;
    return address;
  }

  Result<void> release(DeviceAddress address, Bytes size) override {
    const std::lock_guard lock(mutex_);
    GPUWARDEN_CHECK(called("release"));
    if (reservations_[address.value] != size.value) misuse("released what was not reserved");
    const auto first = mapped_.lower_bound(address.value / kPage.value);
    if (first != mapped_.end() && first->first < (address.value + size.value) / kPage.value)
      misuse("released address space with pages in it");
    reservations_.erase(address.value);
    return {};
  }

  Result<void> create(std::span<PageHandle> pages) override {
    const std::lock_guard lock(mutex_);
    GPUWARDEN_CHECK(called("create"));
    if ((pages_held_ + pages_in(pages)) * kPage.value > capacity_.value)
      return fail(ErrorCode::unsatisfied, "the model device is full");
    for (PageHandle& piece : pages) {
      piece.value = ++next_handle_;
      pieces_.emplace(piece.value, piece.pages);
      pages_held_ += piece.pages;
      largest_piece_ = std::max(largest_piece_, piece.pages);
      created_ += 1;
    }
    return {};
  }

  Result<void> destroy(std::span<const PageHandle> pages) override {
    const std::lock_guard lock(mutex_);
    GPUWARDEN_CHECK(called("destroy"));
    for (const PageHandle piece : pages) {
      if (used_.contains(piece.value)) misuse("destroyed a mapped page");
      expect_known(piece, "destroyed a page that is not there");
      if (pieces_.erase(piece.value) != 0) pages_held_ -= piece.pages;
    }
    return {};
  }

  Result<void> map(DeviceAddress address, std::span<const PageHandle> pages) override {
    const std::lock_guard lock(mutex_);
    GPUWARDEN_CHECK(called("map"));
    std::uint64_t at = address.value / kPage.value;
    for (const PageHandle& piece : pages) {
      expect_known(piece, "mapped a page that is not there");
      if (!used_.insert(piece.value).second) misuse("mapped a page twice");
      for (std::uint32_t page = 0; page < piece.pages; ++page) {
        if (!mapped_.emplace(at++, piece.value).second) misuse("mapped over a page");
      }
    }
    return {};
  }

  Result<void> unmap(DeviceAddress address, Bytes size) override {
    const std::lock_guard lock(mutex_);
    GPUWARDEN_CHECK(called("unmap"));
    if (!captured_.empty()) misuse("unmapped during a capture");
    for (const Work& work : work_) {
      const bool outside = work.end <= address.value || address.value + size.value <= work.begin;
      if (!outside && work.number > streams_[work.stream].done) misuse("unmapped memory that a stream works on");
    }
    std::map<std::uint64_t, std::uint32_t> touched;
    for (std::uint64_t at = address.value / kPage.value; at < (address.value + size.value) / kPage.value; ++at) {
      const auto found = mapped_.find(at);
      if (found == mapped_.end()) {
        misuse("unmapped what is not mapped");
        continue;
      }
      ++touched[found->second];
      used_.erase(found->second);
      mapped_.erase(found);
    }
    for (const auto& [piece, count] : touched) {
      if (pieces_[piece] != count) misuse("unmapped a part of a piece");
    }
    return {};
  }

  Result<void> accepts(StreamId stream) override {
    if (stream != refused) return {};
    return fail(ErrorCode::invalid_argument, "the model refuses this stream");
  }

  Result<EventHandle> record(StreamId stream) override {
    const std::lock_guard lock(mutex_);
    GPUWARDEN_CHECK(called("record"));
    if (captured_.contains(stream)) misuse("recorded an event on a stream that is captured");
    events_[++next_handle_] = snapshot(stream);
    return EventHandle{next_handle_};
  }

  Result<bool> is_done(EventHandle event) override {
    const std::lock_guard lock(mutex_);
    GPUWARDEN_CHECK(called("is_done"));
    if (!captured_.empty()) misuse("asked for an event during a capture");
    if (works_at_once) finish(events_.at(event.value));
    for (const auto& [stream, number] : events_.at(event.value)) {
      if (streams_[stream].done < number) return false;
    }
    return true;
  }

  Result<void> wait(StreamId stream, EventHandle event) override {
    const std::lock_guard lock(mutex_);
    GPUWARDEN_CHECK(called("wait"));
    if (captured_.contains(stream)) misuse("a stream that is captured waits for one that is not");
    join(streams_[stream].waits, events_.at(event.value));
    return {};
  }

  Result<void> synchronize(EventHandle event) override {
    const std::lock_guard lock(mutex_);
    GPUWARDEN_CHECK(called("synchronize"));
    if (!captured_.empty()) misuse("blocked during a capture");
    finish(events_.at(event.value));
    return {};
  }

  Result<void> forget(EventHandle event) override {
    const std::lock_guard lock(mutex_);
    GPUWARDEN_CHECK(called("forget"));
    if (events_.erase(event.value) == 0) misuse("forgot an event twice");
    return {};
  }

  bool is_capturing(StreamId stream) override {
    const std::lock_guard lock(mutex_);
    return captured_.contains(stream);
  }

  Result<void> copy(DeviceAddress to, DeviceAddress from, Bytes size, StreamId stream) override {
    if (!is_mapped(to, size) || !is_mapped(from, size)) misuse("copied to or from address space without memory");
    if (is_busy_for(stream, to, size) || is_busy_for(stream, from, size)) misuse("copied what another stream works on");
    {
      const std::lock_guard lock(mutex_);
      GPUWARDEN_CHECK(called("copy"));
    }
    submit(stream, to, size);
    submit(stream, from, size);
    return {};
  }

  Result<DeviceMemory> memory() override {
    const std::lock_guard lock(mutex_);
    GPUWARDEN_CHECK(called("memory"));
    return DeviceMemory{capacity_, capacity_ - kPage * pages_held_};
  }

 private:
  struct Work {
    StreamId stream;
    std::uint64_t number;
    std::uint64_t begin;
    std::uint64_t end;
  };
  /// Up to which work of each stream something is ordered.
  using Order = std::map<StreamId, std::uint64_t>;
  struct Stream {
    std::uint64_t submitted = 0;
    std::uint64_t done = 0;
    Order waits;
  };

  static void join(Order& into, const Order& more) {
    for (const auto& [stream, number] : more) into[stream] = std::max(into[stream], number);
  }
  Order snapshot(StreamId stream) {
    Order order = streams_[stream].waits;
    order[stream] = streams_[stream].submitted;
    return order;
  }
  void finish(const Order& order) {
    for (const auto& [stream, number] : order) streams_[stream].done = std::max(streams_[stream].done, number);
    std::erase_if(work_, [&](const Work& work) { return work.number <= streams_[work.stream].done; });
  }

  Result<void> called(const std::string& call) {
    ++calls_;
    if (fails && fails(call)) return fail(failure, call + " was made to fail");
    return {};
  }
  void expect_known(PageHandle piece, const char* otherwise) {
    const auto found = pieces_.find(piece.value);
    if (found == pieces_.end() || found->second != piece.pages) misuse(otherwise);
  }
  void misuse(std::string what) { misuses_.push_back(std::move(what)); }

  std::mutex mutex_;
  Bytes capacity_;
  std::uint64_t calls_ = 0;
  std::uint64_t next_address_ = std::uint64_t{1} << 40U;
  std::uint64_t next_handle_ = 0;
  std::map<std::uint64_t, std::uint64_t> reservations_;
  std::map<std::uint64_t, std::uint32_t> pieces_;  ///< handle to pages
  std::uint64_t pages_held_ = 0;
  std::uint64_t created_ = 0;
  std::uint32_t largest_piece_ = 0;
  std::set<std::uint64_t> used_;
  std::map<std::uint64_t, std::uint64_t> mapped_;  ///< page of address space to handle
  std::map<std::uint64_t, Order> events_;
  std::map<StreamId, Stream> streams_;
  std::vector<Work> work_;
  std::set<StreamId> captured_;
  std::vector<std::string> misuses_;
};

}  // namespace gpuwarden::memory
