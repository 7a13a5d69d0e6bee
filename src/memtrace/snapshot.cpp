// SPDX-License-Identifier: Apache-2.0
// From a PyTorch snapshot to a trace. Source of keys and actions: torch/csrc/cuda/memory_snapshot.cpp and the
// documentation of torch.cuda.memory._snapshot.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "memtrace/builder.hpp"
#include "memtrace/snapshot_tree.hpp"

namespace gpuwarden::memtrace {
namespace {

constexpr std::string_view kHowToRecord =
    "record with torch.cuda.memory._record_memory_history(), then write it with torch.cuda.memory._dump_snapshot(FILE)";

class SnapshotReader {
 public:
  SnapshotReader(const SnapshotTree& tree, const Value& root, std::string format, const std::string& name)
      : tree_(tree), root_(root), name_(name), builder_(std::move(format), Unknown::was_live_before) {}

  Result<Trace> read(const ReadOptions& options) {
    GPUWARDEN_TRY(const Value events, choose(options));
    for (std::size_t i = 0; i < tree_.length(events); ++i) GPUWARDEN_CHECK(take(tree_.at(events, i), i));
    GPUWARDEN_CHECK(take_segments());
    count_reserved(events);
    // Blocks side by side were most likely allocated one after the other.
    return builder_.finish(true);
  }

 private:
  std::unexpected<Error> nothing(const std::string& what) const {
    return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", name_, what), std::string(kHowToRecord));
  }
  std::unexpected<Error> wrong(std::size_t position, std::string_view what) const {
    return fail(ErrorCode::corrupt, fmt::format("{}: event {} of device {} {}", name_, position, device_, what),
                "write the snapshot again; a file that was copied may be damaged");
  }

  /// The events of the device that was asked for, or of the one with most.
  Result<Value> choose(const ReadOptions& options) {
    const auto traces = tree_.find(root_, Word::device_traces);
    if (!traces || !traces->is(Kind::list)) return nothing("is not a snapshot with a history of events");
    std::vector<std::uint64_t>& counts = builder_.trace().events_of_devices;
    for (std::size_t i = 0; i < tree_.length(*traces); ++i) {
      const Value one = tree_.at(*traces, i);
      counts.push_back(one.is(Kind::list) ? tree_.length(one) : 0);
    }
    const auto most = std::ranges::max_element(counts);
    if (counts.empty() || *most == 0) return nothing("is a snapshot without a history of events");
    device_ = options.device.value_or(static_cast<std::uint32_t>(most - counts.begin()));
    if (device_ >= counts.size() || counts[device_] == 0)
      return fail(ErrorCode::invalid_argument, fmt::format("{}: device {} has no events", name_, device_),
                  fmt::format("most events has device {}", most - counts.begin()));
    builder_.trace().device = device_;
    return tree_.at(*traces, device_);
  }

  Result<void> take(const Value& event, std::size_t position) {
    const Word action = tree_.word(event, Word::action);
    if (action == Word::oom) ++builder_.trace().failed_allocations;
    // What was asked to be freed may be in use by a stream until it is completed.
    const bool frees = action == Word::free_completed || action == Word::free;
    if (action != Word::alloc && !frees) return {};
    const auto address = tree_.number(event, Word::addr);
    const auto size = tree_.number(event, Word::size);
    if (!address || !size) return wrong(position, "has no addr or no size");
    const std::uint64_t stream = tree_.number(event, Word::stream).value_or(0);
    const auto time = static_cast<std::int64_t>(tree_.number(event, Word::time_us).value_or(0));
    const auto problem =
        frees ? builder_.free(*address, *size, stream, time) : builder_.allocate(*address, *size, stream, time);
    if (!problem.empty()) return wrong(position, fmt::format("{} (address {:#x})", problem, *address));
    return {};
  }

  /// Blocks that are live at the end and that no event tells of were live all the time.
  Result<void> take_segments() {
    const auto segments = tree_.find(root_, Word::segments);
    if (!segments || !segments->is(Kind::list)) return {};
    for (std::size_t i = 0; i < tree_.length(*segments); ++i) {
      const Value segment = tree_.at(*segments, i);
      if (tree_.number(segment, Word::device).value_or(0) != device_) continue;
      reserved_ += tree_.number(segment, Word::total_size).value_or(0);
      has_segments_ = true;
      GPUWARDEN_CHECK(take_blocks(segment));
    }
    return {};
  }

  Result<void> take_blocks(const Value& segment) {
    const auto blocks = tree_.find(segment, Word::blocks);
    if (!blocks || !blocks->is(Kind::list)) return {};
    if (tree_.length(*blocks) != 0 && !read_blocks_.insert(blocks->payload).second)
      return fail(ErrorCode::corrupt, fmt::format("{}: two segments have the same list of blocks", name_),
                  "write the snapshot again; PyTorch gives each segment its own list");
    std::uint64_t next = tree_.number(segment, Word::address).value_or(0);
    for (std::size_t i = 0; i < tree_.length(*blocks); ++i) {
      const Value block = tree_.at(*blocks, i);
      const std::uint64_t size = tree_.number(block, Word::size).value_or(0);
      const std::uint64_t address = tree_.number(block, Word::address).value_or(next);
      next = address + size;
      const Word state = tree_.word(block, Word::state);
      const bool live =
          state == Word::active_allocated || state == Word::active_pending_free || state == Word::active_awaiting_free;
      if (!live || builder_.is_live(address)) continue;
      const auto problem = builder_.live_before(address, tree_.number(block, Word::requested_size).value_or(size),
                                                tree_.number(segment, Word::stream).value_or(0));
      if (!problem.empty())
        return fail(ErrorCode::corrupt, fmt::format("{}: the block at {:#x} {}", name_, address, problem));
    }
    return {};
  }

  /// What PyTorch had reserved: known for the end, and backwards from there by what it took and returned.
  void count_reserved(const Value& events) {
    if (!has_segments_) return;
    RecordedAllocator recorded{.name = "PyTorch", .reserved_at_end = Bytes(reserved_)};
    std::uint64_t now = reserved_;
    std::uint64_t peak = now;
    for (std::size_t i = tree_.length(events); i-- > 0;) {
      const Value event = tree_.at(events, i);
      const std::uint64_t size = tree_.number(event, Word::size).value_or(0);
      const Word action = tree_.word(event, Word::action);
      if (action == Word::segment_alloc || action == Word::segment_map) {
        now -= std::min(now, size);
        ++recorded.segments_taken;
      } else if (action == Word::segment_free || action == Word::segment_unmap) {
        now += size;
        ++recorded.segments_returned;
      }
      peak = std::max(peak, now);
    }
    recorded.peak_reserved = Bytes(peak);
    builder_.trace().recorded = std::move(recorded);
  }

  const SnapshotTree& tree_;
  Value root_;
  const std::string& name_;
  TraceBuilder builder_;
  std::uint32_t device_ = 0;
  std::uint64_t reserved_ = 0;
  bool has_segments_ = false;
  std::unordered_set<std::uint64_t> read_blocks_;  ///< lists of blocks
};

}  // namespace

Result<Trace> trace_of_snapshot(const SnapshotTree& tree, const Value& root, std::string format,
                                const std::string& name, const ReadOptions& options) {
  return SnapshotReader(tree, root, std::move(format), name).read(options);
}

}  // namespace gpuwarden::memtrace
