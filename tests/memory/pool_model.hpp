// SPDX-License-Identifier: Apache-2.0
// A naive model beside a pool: what is live, where, how large. Every step is held against it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "gpuwarden/memory/pool.hpp"
#include "memory/model_upstream.hpp"

namespace gpuwarden::memory {

class PoolModel {
 public:
  PoolModel(ModelUpstream& upstream, Pool& pool, unsigned seed, unsigned streams)
      : upstream_(upstream), pool_(pool), random_(seed), streams_(streams) {}

  /// One random operation; an allocation may fail with `unsatisfied` only.
  void step() {
    if (draw(25) == 0) step_graphs();
    if (!live_.empty() && draw(8) == 0)
      use_elsewhere(std::next(live_.begin(), static_cast<std::ptrdiff_t>(draw(live_.size()))));
    const bool allocates = live_.empty() || (draw(100) < 55 && live_.size() < 400);
    if (allocates) {
      allocate();
    } else {
      free(std::next(live_.begin(), static_cast<std::ptrdiff_t>(draw(live_.size()))));
    }
    if (draw(300) == 0) upstream_.finish_all();
  }

  void allocate() {
    const StreamId stream{draw(streams_)};
    const Bytes size = random_size();
    const Bytes alignment = draw(10) == 0 ? Bytes(std::uint64_t{512} << draw(13)) : kGrain;
    const auto before = pool_.status();
    const auto address = pool_.allocate(size, stream, alignment);
    if (!address) {
      ++failures;
      EXPECT_EQ(address.error().code, ErrorCode::unsatisfied) << address.error().message;
      const auto after = pool_.status();
      EXPECT_EQ(after.live, before.live);
      EXPECT_EQ(after.requested, before.requested);
      EXPECT_LE(after.reserved, before.reserved);
      EXPECT_EQ(after.live_blocks, before.live_blocks);
      return;
    }
    EXPECT_EQ(address->value % alignment.value, 0U);
    const auto next = live_.lower_bound(address->value);
    if (next != live_.end()) {
      EXPECT_LE(address->value + size.value, next->first) << "overlaps the next block";
    }
    if (next != live_.begin()) {
      EXPECT_LE(std::prev(next)->first + std::prev(next)->second.size.value, address->value) << "overlaps";
    }
    EXPECT_TRUE(upstream_.is_mapped(*address, size));
    for (const Graph& graph : graphs_) EXPECT_FALSE(graph.uses(*address, size)) << "a graph uses it at each replay";
    const bool captured = is_captured(stream);
    live_[address->value] = {size, stream, captured ? capturing_->id : CaptureId{}};
    if (captured) {
      // A replay may run on any stream.
      EXPECT_FALSE(upstream_.is_busy_for(StreamId{999}, *address, size)) << "captured while a stream works on it";
      capturing_->ranges.emplace_back(address->value, address->value + size.value);
      return;
    }
    if (capturing_) {
      EXPECT_FALSE(capturing_->uses(*address, size)) << "the capture uses it";
    }
    EXPECT_FALSE(upstream_.is_busy_for(stream, *address, size)) << "given out while another stream works on it";
    upstream_.submit(stream, *address, size);
  }

  /// The books of the pool against the model's.
  void compare() {
    Bytes requested;
    for (const auto& [address, block] : live_) requested += block.size;
    const auto status = pool_.status();
    EXPECT_EQ(status.requested, requested);
    EXPECT_GE(status.live, requested);
    EXPECT_EQ(status.live_blocks, live_.size());
    EXPECT_EQ(status.live + status.cached + status.free, status.reserved);
    EXPECT_EQ(status.reserved, kPage * upstream_.pages());
    EXPECT_EQ(status.spare, kPage * (upstream_.pages() - upstream_.mapped_pages()));
    const auto checked = pool_.check();
    EXPECT_TRUE(checked) << checked.error().message;
    EXPECT_THAT(upstream_.misuses(), testing::IsEmpty());
  }

  void free_all() {
    if (capturing_) end_capture();
    while (!graphs_.empty() && release(graphs_.size() - 1)) continue;
    while (!live_.empty()) free(live_.begin());
  }

  unsigned failures = 0;
  /// Has another thread do something; where it is set, half of the frees are done so.
  std::function<void(std::function<void()>)> elsewhere;

 private:
  struct Block {
    Bytes size;
    StreamId stream;
    CaptureId capture;  ///< in which it was allocated
  };
  /// What a captured graph uses, and where it was replayed last.
  struct Graph {
    CaptureId id;
    StreamId stream;
    StreamId replayed_on;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;

    bool uses(DeviceAddress address, Bytes size) const {
      return std::ranges::any_of(ranges, [&](const auto& range) {
        return address.value < range.second && range.first < address.value + size.value;
      });
    }
  };

  bool is_captured(StreamId stream) const { return capturing_ && capturing_->stream == stream; }

  /// Begins or ends a capture, replays a graph, or releases one.
  void step_graphs() {
    const std::uint64_t what = draw(4);
    if (what == 0 && !capturing_ && graphs_.size() < 4) {
      const StreamId stream{draw(streams_)};
      const auto id = pool_.begin_capture(stream);
      if (!id) return;
      capturing_ = Graph{.id = *id, .stream = stream, .replayed_on = stream, .ranges = {}};
      upstream_.capture(stream, true);
    } else if (what == 1 && capturing_) {
      end_capture();
    } else if (what == 2 && !graphs_.empty()) {
      Graph& graph = graphs_[draw(graphs_.size())];
      const StreamId stream{draw(streams_)};
      if (is_captured(stream)) return;
      // Replays of a graph follow each other, and what was captured follows what was submitted before.
      upstream_.follow(stream, graph.replayed_on);
      graph.replayed_on = stream;
      for (const auto& [begin, end] : graph.ranges) upstream_.submit(stream, {begin}, Bytes(end - begin));
    } else if (what == 3 && !graphs_.empty()) {
      release(draw(graphs_.size()));
    }
  }

  void end_capture() {
    upstream_.capture(capturing_->stream, false);
    const auto ended = pool_.end_capture(capturing_->id);
    EXPECT_TRUE(ended) << ended.error().message;
    graphs_.push_back(*std::exchange(capturing_, std::nullopt));
  }

  bool release(std::size_t at) {
    if (!pool_.release_capture(graphs_[at].id, graphs_[at].replayed_on)) return false;
    graphs_.erase(graphs_.begin() + static_cast<std::ptrdiff_t>(at));
    return true;
  }

  /// Another stream works on a block, too, and tells so; its owner's stream does not wait for that.
  void use_elsewhere(std::map<std::uint64_t, Block>::iterator at) {
    const auto& [address, block] = *at;
    const StreamId stream{draw(streams_)};
    if (is_captured(stream) || is_captured(block.stream)) return;
    const auto noted = pool_.record_stream({address}, stream);
    EXPECT_TRUE(noted) << noted.error().message;
    upstream_.follow(stream, block.stream);
    upstream_.submit(stream, {address}, block.size);
  }

  void free(std::map<std::uint64_t, Block>::iterator at) {
    const auto [address, block] = *at;
    // A block given back on another stream has been used there, behind its own stream's work.
    StreamId stream = block.stream;
    // What a capture did not allocate is not given back in it: the graph could still use it.
    if (is_captured(stream) && block.capture != capturing_->id) return;
    if (const StreamId other{draw(streams_)}; draw(4) == 0 && !is_captured(other) && !is_captured(stream)) {
      stream = other;
      upstream_.follow(stream, block.stream);
      upstream_.submit(stream, {address}, block.size);
    }
    const auto give_back = [&] {
      const auto result = pool_.deallocate({address}, block.size, stream);
      EXPECT_TRUE(result) << result.error().message;
    };
    if (elsewhere && draw(2) == 0) {
      elsewhere(give_back);
    } else {
      give_back();
    }
    live_.erase(at);
  }

  std::uint64_t draw(std::uint64_t below) {
    return std::uniform_int_distribution<std::uint64_t>(0, below - 1)(random_);
  }

  Bytes random_size() {
    static constexpr std::array kRepeated{4096U, 65536U, 1048576U, 3000000U, 5242880U};
    if (draw(3) == 0) return Bytes(kRepeated.at(draw(kRepeated.size())));
    return Bytes(1 + draw(std::uint64_t{1} << (4 + draw(20))));
  }

  ModelUpstream& upstream_;
  Pool& pool_;
  std::mt19937_64 random_;
  unsigned streams_;
  std::map<std::uint64_t, Block> live_;
  std::optional<Graph> capturing_;
  std::vector<Graph> graphs_;
};

}  // namespace gpuwarden::memory
