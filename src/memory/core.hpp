// SPDX-License-Identifier: Apache-2.0
// The inside of a pool. Locks: `slow` first, then a lane's own, then at most one other lane's; who holds only a lane's
// lock takes no other. Upstream is called behind `slow` alone.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <stop_token>
#include <unordered_map>

#include "gpuwarden/memory/pool.hpp"
#include "memory/capture.hpp"
#include "memory/lane.hpp"
#include "memory/notes.hpp"
#include "memory/page_store.hpp"
#include "memory/stream_uses.hpp"
#include "memory/ticks.hpp"

namespace gpuwarden::memory {

/// A live block and where it is.
struct Place {
  Lane* lane = nullptr;
  unsigned region = 0;
  BlockNumber block = kNoBlock;
  DeviceAddress address;

  explicit operator bool() const { return block != kNoBlock; }
};

/// A request for which no free block was found. Holds the slow lock and its lane's, but for the callbacks.
struct Attempt {
  Lane& lane;
  Bytes bytes;
  Grains size;
  Grains alignment;
  unsigned region;
  std::unique_lock<std::mutex> slow_lock;
  std::unique_lock<BiasedLock> lane_lock;
  Place found;
  std::uint32_t epoch = 0;                    ///< of the last use of what was found, on its lane's stream
  Error last;                                 ///< what upstream said last
  std::array<std::uint64_t, kRungs> spent{};  ///< ticks on each rung; 0: not tried
};

/// Where the pages for a window may come from, beside the spare ones.
struct PageSources {
  bool idle = false;
  bool created = false;
  bool thorough = false;                         ///< every place is looked at
  std::uint64_t most_pages = ~std::uint64_t{0};  ///< none is created beyond
};

/// A claimed hole, and the pieces that are to stand in it.
struct FilledHole {
  BlockNumber block = kNoBlock;
  std::uint32_t missing = 0;  ///< pages
  std::vector<PageHandle> pieces;
};

/// What a claimed window gets its memory from.
struct Filling {
  std::vector<FilledHole> holes;
  std::uint64_t created = 0;  ///< pages

  std::uint32_t missing() const {
    std::uint32_t pages = 0;
    for (const FilledHole& hole : holes) pages += hole.missing;
    return pages;
  }
  std::uint32_t largest_missing() const {
    std::uint32_t pages = 0;
    for (const FilledHole& hole : holes) pages = std::max(pages, hole.missing);
    return pages;
  }
};

/// A place that a buffer may move to, taken; and the pages without a user that it needs.
struct MovePlace {
  DeviceAddress address;
  std::uint64_t pages = 0;
};

static_assert(kLanes == kMostStreams);
/// What reserved memory may exceed the peak of live memory by.
struct Allowance {
  std::uint64_t permille;
  Bytes least;

  std::uint64_t above(std::uint64_t peak) const { return std::max(peak / 1000 * permille, least.value); }
};
/// The same for what is asked for beside a script, rather than leave it.
inline constexpr Allowance kBesideScript{12, 8_MiB};
/// Pages of one learned step, so that places in it are grains.
inline constexpr std::uint64_t kMostPlanned = (std::uint64_t{1} << 31U) / kPageGrains;

class Pool::Core {
 public:
  /// `total`: what the device has.
  Core(Upstream& upstream, Bytes total, PoolConfig config, const Strategy& strategy, DeviceAddress base,
       unsigned region_shift);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core();

  /// Has pools notice that they are in a forked child.
  static void watch_forks();
  static Bytes wide_reservation(unsigned region_shift) {
    return Bytes((std::uint64_t{1} << region_shift) * kRegions * kWideLanes);
  }
  static Bytes narrow_reservation(unsigned region_shift) {
    return Bytes((std::uint64_t{1} << (region_shift - kNarrowBits)) * kRegions * (kLanes - kWideLanes));
  }
  /// Whether handles can hold such addresses.
  static Result<void> check_reach(DeviceAddress base, Bytes size);

  /// Where the epochs of new lanes begin; for tests of their end.
  [[gnu::visibility("hidden")]] inline static std::atomic<std::uint32_t> first_epoch = 1;
  /// Whether all frees that are not the favoured thread's go through the inbox; for tests of it.
  [[gnu::visibility("hidden")]] inline static std::atomic<bool> leaves_always = false;

  /// Whether this is a child of the process that made the pool. Asked before all of the following but the first two,
  /// which ask themselves.
  bool is_forked() const { return process_generation_ != generation.load(std::memory_order_relaxed); }

  /// Value: DeviceAddress or BlockHandle.
  template <class Value>
  Result<Value> allocate(Bytes size, StreamId stream, Bytes alignment);
  Result<void> deallocate(DeviceAddress address, const Bytes* size, StreamId stream, BlockNumber known);
  [[gnu::noinline]] Result<Place> allocate_slow(Bytes size, StreamId stream, Bytes alignment);
  [[gnu::noinline]] Result<void> deallocate_slow(DeviceAddress address, const Bytes* size, StreamId stream);
  Result<void> record_stream(DeviceAddress address, StreamId stream);
  Result<void> order(StreamId later, StreamId earlier);
  Result<Bytes> size_of(DeviceAddress address);
  Result<Bytes> trim(Bytes keep);
  Result<Bytes> trim_idle(Clock::SteadyTime now, std::chrono::nanoseconds idle_for, Bytes keep,
                          const std::stop_token& stop);
  Bytes idle_since(Clock::SteadyTime time);
  Fragmentation fragmentation();
  FragmentationSample sample_fragmentation(std::optional<Clock::SteadyTime> time);
  std::vector<FragmentationSample> fragmentation_history() const { return history_.samples(); }

  Result<CaptureId> begin_capture(StreamId stream);
  Result<void> join_capture(CaptureId id, StreamId stream);
  Result<void> end_capture(CaptureId id);
  Result<void> release_capture(CaptureId id, StreamId replayed_on);

  // For MovableMemory.
  /// Bytes that are not free on each page that has any, by address / kPage; quick lists are merged before.
  std::unordered_map<std::uint64_t, std::uint64_t> used_pages();
  /// Takes the place that needs the fewest pages without a user, at most `most_pages`, and none of `leaving`.
  std::optional<MovePlace> take_place(Bytes size, StreamId stream, const std::set<std::uint64_t>& leaving,
                                      std::uint64_t most_pages);
  /// Gives a live block back, past the quick lists.
  Result<void> vacate(DeviceAddress address, StreamId stream);
  /// What a block really has, in whole grains.
  Bytes held(DeviceAddress address);
  Result<void> copy(DeviceAddress to, DeviceAddress from, Bytes size, StreamId stream);

  Result<void> set_limit(const PoolLimits& limits);
  /// The smaller one of a limit and a share of what the device has; invalid_argument: no such share.
  static Result<std::optional<Bytes>> hard_limit(const PoolLimits& limits, Bytes total);

  PoolStatus status();
  std::uint64_t segments();
  std::vector<SegmentLayout> layout();
  Result<void> check();

  DeviceAddress address_of(const Place& place) const {
    const std::uint64_t start = (*place.lane).regions[place.region][place.block].start;
    return {base_of(*place.lane, place.region).value + (start << kGrainShift)};
  }

 private:
  // The common path, inside.
  template <class Value>
  Value hand_out(Lane& lane, unsigned region, BlockNumber number, Bytes size);
  template <class Value>
  Result<Value> allocate_listed(Lane* locked, Bytes size, StreamId stream, Bytes alignment);
  Lane* lock_lane(Bytes size, StreamId stream, Bytes alignment);
  template <class Value>
  Result<Value> allocate_attended(Lane& lane, Bytes size, StreamId stream);
  Lane* lane_at(DeviceAddress address, StreamId stream, unsigned& region, Grains& start) const;
  void give_listed(Lane& lane, unsigned region, BlockNumber number);
  Result<void> deallocate_any(DeviceAddress address, const Bytes* size, StreamId stream);
  Result<void> deallocate_attended(Lane& lane, const Place& place, Grains start, const Bytes* size, StreamId stream);
  /// Whether a block may go back without further ado.
  static bool is_returnable(const Lane& lane, const Block& block) {
    return block.state == BlockState::live && lane.merges < lane.trim_every;
  }

  /// The lane of a stream; nullptr if the stream has none yet.
  Lane* lane_of(StreamId stream) const {
    for (unsigned at = slot_of(stream);; at = (at + 1) % kSlots) {
      Lane* const lane = slots_[at].load(std::memory_order_acquire);
      if (lane == nullptr || lane->stream == stream) return lane;
    }
  }
  /// The lane by which others wait for a stream: of one that is being captured its usual one, as the other gets no
  /// events.
  static Lane& usual(Lane& lane) { return lane.usual != nullptr ? *lane.usual : lane; }
  Result<Lane*> make_lane(StreamId stream);
  /// A lane that no stream leads to yet.
  Result<Lane*> add_lane(StreamId stream);
  Result<void> deallocate_shared(const Place& place, Grains start, const Lane& user);
  std::span<const StreamUse> uses_of(const Lane& lane, unsigned region, BlockNumber block, StreamUse& only);
  DeviceAddress base_of(const Lane& lane, unsigned region) const {
    if (lane.number < kWideLanes) [[likely]]
      return {base_.value + ((std::uint64_t{lane.number} * kRegions + region) << region_shift_)};
    const std::uint64_t narrow = std::uint64_t{lane.number} - kWideLanes;
    return {narrow_base_.value + ((narrow * kRegions + region) << (region_shift_ - kNarrowBits))};
  }

  /// The lane and region that an address lies in, and the grain there; no lane: none of this pool.
  Place place_of(DeviceAddress address, Grains& start) const;
  Error bad_address(DeviceAddress address, const Place& place, Grains start) const;

  // The rungs; true: the attempt has found a block.
#define GPUWARDEN_RUNG(name, needs) bool name(Attempt& attempt);
  GPUWARDEN_POOL_RUNGS(GPUWARDEN_RUNG)
#undef GPUWARDEN_RUNG
  /// Whether a rung could do anything at all.
  bool applies(const RungRow& row, const Attempt& attempt) const;
  bool climb(Attempt& attempt);
  Error report(Attempt& attempt);
  OutOfMemoryReport describe(const Attempt& attempt);
  PoolStatus status_behind_lock();
  FragmentationSample sample_behind_lock(std::optional<Clock::SteadyTime> time);
  void sample_if_due(Lane& lane);
  /// Reserved memory may grow to so many pages without asking idle memory first.
  std::uint64_t soft_pages() const { return soft_limit_ ? soft_limit_->value / kPage.value : ~std::uint64_t{0}; }

  bool search(Attempt& attempt);
  /// New pages as long as reserved memory exceeds the peak of live memory by no more than so many bytes.
  bool grow_to(Attempt& attempt, std::uint64_t above);
  /// So many bytes above the peak of live memory are kept where demand swings.
  std::uint64_t kept_for_swings(const Lane& lane) const;
  /// So many bytes above the peak of live memory no page is moved.
  std::uint64_t usual_surplus(const Lane& lane) const;
  bool accept(Attempt& attempt, Lane& lane, BlockNumber block);
  /// What was found is not given out after all.
  void put_back(Attempt& attempt);
  bool steal(Attempt& attempt, bool wait);
  bool search_all(Attempt& attempt);
  bool adopt_foreign(Lane& lane, bool wait);
  /// Asks how far the streams are that blocks of a foreign list wait for.
  void refresh_users(const Lane& lane, unsigned region);
  bool adopt_list(Lane& lane, unsigned region, bool wait);
  /// Visits the other lanes, each behind its lock, until `visit` says true.
  void for_each_other(const Attempt& attempt, auto&& visit) {
    for (unsigned i = 0; i < lane_count_; ++i) {
      Lane& lane = *lanes_[i];
      if (&lane == &attempt.lane || lane.is_private) continue;
      const LaneGuard lock(lane);
      if (visit(lane)) return;
    }
  }
  bool back_window(Attempt& attempt, const PageSources& sources) { return back_window(attempt, sources, attempt.lane); }
  /// In the region of `host`, whose lock is held, too; then nothing may come from idle pages.
  bool back_window(Attempt& attempt, const PageSources& sources, Lane& host);
  /// `widen`: whether the window may be made larger than needed; then whether it was.
  bool fill_window(Attempt& attempt, const PageSources& sources, Lane& host, bool& widen);
  /// For a late stream: in the region of an early one. `idle`: pages that are idle may move there.
  bool grow_elsewhere(Attempt& attempt, bool idle);
  bool gather(Attempt& attempt, Filling& filling, const PageSources& sources);
  /// Puts spare pieces into holes; whether all have memory then.
  bool fill(Filling& filling);
  /// Gives idle pieces back that are too large for where they are wanted, so that as many pages can be made; whether
  /// there were any.
  bool break_pieces(Attempt& attempt, std::uint32_t pages);
  /// Makes what is missing, in pieces of at most so many pages.
  Result<void> create_missing(Filling& filling, std::uint32_t most);
  /// Pages of the largest piece that is made now.
  std::uint32_t most_in_piece() const;
  /// So many pages more than a request needs may be made along with it.
  std::uint32_t pages_ahead(const Region& region) const;
  /// Until so many pages are spare; no piece of more than `largest`.
  void gather_idle(Attempt& attempt, std::uint32_t pages, std::uint32_t largest);
  /// New pages where memory would come and go between lanes: no more than was missed before in the same way.
  bool grow_for_lent(Attempt& attempt);
  /// One page that is missed in so many allocations is no reason to make new ones.
  static constexpr std::uint64_t kBearable = 256;
  /// Nor is more made so than what each lane needs at its own peak, and this part of it.
  static constexpr std::uint64_t kPeaksMargin = 16;
  void unmap_idle(Lane& lane, std::uint64_t wanted_spare, std::uint32_t largest = kAnySize);
  /// Whether any page could be idle, at a glance.
  bool has_idle_pages() const;
  /// Claims a window, gathers its pages from the first of the sources that has enough, and maps them there: the block
  /// that it is then; kNoBlock: none has, or the driver refused.
  BlockNumber back_claimed(Attempt& attempt, Lane& host, const Window& window, std::span<const PageSources> sources);
  bool map_claimed(Attempt& attempt, Lane& host, Filling& filling);
  void destroy_spare(std::uint64_t count);
  /// Gives idle pages back until there are no more than `kept`; `beyond`: a piece goes, too, that takes along what may
  /// stay.
  void shrink_to(std::uint64_t kept, bool beyond);
  void give_up_pages(Lane& lane);
  void trim_early(Lane& lane);
  void note_recent_demand();
  /// Behind the slow lock: trim(), which tells how much went.
  Bytes trim_to(Bytes keep);
  /// Early trims keep what was live at the crest of a cycle, or between cycles, at this one and the last ones, and this
  /// part of it: the pages that hold live data have so much more (docs/benchmarks.md).
  static constexpr std::size_t kTrimsLookedBack = 8;
  static constexpr std::uint64_t kTrimMargin = 32;
  /// An early trim gives so many pages back at once, the rest after so many more merging frees: a free must not last.
  static constexpr std::uint32_t kTrimPages = 64;
  /// False in a forked child, and once the context is gone.
  bool is_own_process() const {
    return usable_in_.load(std::memory_order_relaxed) == generation.load(std::memory_order_relaxed);
  }
  static std::uint64_t requested(const Block& block) { return (std::uint64_t{block.size} << kGrainShift) - block.left; }
  Result<void> check_lane(Lane& lane, std::uint64_t& mapped);

  // Learned steps (steps/begin.cpp).
  /// Has a lane follow a script from here on if it is time and there is a plan for it.
  [[gnu::noinline]] void begin_script(Lane& lane);
  bool try_script(Lane& lane);
  /// A live block of so many whole pages in a lane's first region; kNoBlock: there is none.
  BlockNumber find_arena(Lane& lane, Grains size) const;
  /// The same, with pages that are idle elsewhere or, while there are fewer than `most_pages`, new.
  BlockNumber map_arena(Lane& lane, Grains size, std::uint64_t most_pages);
  /// Behind the slow lock, and no other lane's but `own`: all others leave their scripts.
  void leave_others(const Lane& own);

  // Captures.
  Capture* capture_of(CaptureId id);
  /// Leads the stream of `from` to `to`.
  void route(Lane& from, Lane& to);
  Result<Lane*> private_lane(Capture& capture, Lane& usual);
  Result<void> add_to_capture(Capture& capture, StreamId stream);

  // Idle memory.
  void note_demand(Clock::SteadyTime now, std::chrono::nanoseconds span);
  void free_oldest(std::uint64_t wanted_spare);
  void unmap_oldest(Lane& lane, std::uint64_t wanted_spare);

  // Epochs. They never wrap: beyond kLateEpoch a lane's are counted anew once its stream's work can be awaited, and at
  // the last one nothing is recorded any more.
  static constexpr std::uint32_t kLateEpoch = std::uint32_t{1} << 31U;
  /// Begins a lane's next epoch; the one that has ended, 0: there is no next one.
  std::uint32_t end_epoch(Lane& lane);
  /// Behind the slow lock alone, as it blocks and takes each lane's lock.
  void rebase_epochs();
  void rebase_epochs(Lane& lane);
  bool record(Lane& lane);
  void refresh_done(Lane& lane);
  /// Blocks; whether all work of the stream up to now is done.
  bool block_until_done(Lane& lane);
  bool wait_for(Lane& waiting, Lane& user, std::uint32_t epoch);

  std::uint64_t live_bytes() const;
  void for_each_lane(auto&& visit) const {
    for (unsigned i = 0; i < lane_count_; ++i) visit(*lanes_[i]);
  }

  static constexpr unsigned kSlots = 4 * kLanes;
  static unsigned slot_of(StreamId stream) {
    return static_cast<unsigned>((stream.value * 0x9E3779B97F4A7C15U) >> 52U) % kSlots;
  }

  /// How often this process is a child since the program began: a child shares no context with its parent.
  [[gnu::visibility("hidden")]] inline static std::atomic<std::uint64_t> generation = 0;

  // What the common path reads comes first.
  const DeviceAddress base_;
  const unsigned region_shift_;
  std::atomic<unsigned> wide_count_ = 0;  ///< lanes with wide regions
  std::atomic<unsigned> lane_count_ = 0;
  DeviceAddress narrow_base_;    ///< set before the first narrow lane is counted
  const std::uint64_t largest_;  ///< bytes; no request above it can ever be met
  const std::uint64_t process_generation_;
  std::atomic<std::uint64_t> usable_in_;  ///< the same, until the context is gone
  std::array<std::atomic<Lane*>, kSlots> slots_{};
  std::array<std::unique_ptr<Lane>, kLanes> lanes_;
  Upstream& upstream_;
  const PoolConfig config_;
  const Strategy strategy_;

  std::mutex slow_;
  PageStore pages_;
  std::optional<Bytes> soft_limit_;
  StreamUses uses_;
  std::vector<Capture> captures_;
  std::uint64_t last_capture_ = 0;
  unsigned captures_underway_ = 0;
  DemandNotes demand_;
  FragmentationHistory history_;
  Swings swings_;
  std::uint64_t peak_live_ = 0;                                  ///< bytes, as seen in slow work
  std::array<std::uint64_t, kTrimsLookedBack> recent_demand_{};  ///< bytes; at early trims
  std::size_t next_demand_ = 0;
  bool trims_on_ = false;  ///< an early trim has not given everything back yet
  std::uint64_t pages_moved_ = 0;
  std::uint64_t lane_peaks_ = 0;    ///< grains; the sum of the lanes' noted peaks
  std::uint64_t pages_missed_ = 0;  ///< that lanes had lent when they found no block, less those made for it since
  std::uint64_t out_of_memory_ = 0;
  std::uint64_t scripts_ = 0;              ///< that were begun
  std::array<RungCount, kRungs> rungs_{};  ///< times in ticks
  TickScale scale_;
  bool epochs_are_late_ = false;  ///< of some lane
};

}  // namespace gpuwarden::memory
