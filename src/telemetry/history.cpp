// SPDX-License-Identifier: Apache-2.0
// Readings of the last minutes lie open, as plain columns; older ones in blocks of encoded frames. Times are those of
// the clock that was read last: where it was set, what was read before is dated anew by as much, so that the order
// stays and "the last ten minutes" means what it says.
#include "gpuwarden/telemetry/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <mutex>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/use.hpp"
#include "telemetry/columns_metrics.hpp"
#include "telemetry/elapsed.hpp"

namespace gpuwarden::telemetry {

struct HistoryGpu {
  KnownGpu known;
  facts::Gpu facts;
};

/// What a closed stretch holds; it never changes.
struct HistoryRows {
  std::string times;                                      ///< a column
  std::vector<std::pair<std::size_t, std::string>> gpus;  ///< which GPU, and its frame
};

/// A closed stretch; times in its frames count from `first`.
struct HistoryBlock {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::size_t rows = 0;
  std::shared_ptr<const HistoryRows> held;
};

namespace {

constexpr std::size_t kBlockRows = 128;
constexpr std::size_t kEmptyColumn = sizeof(std::vector<std::int64_t>);
/// A machine with more GPUs than this does not exist; what names ever new ones does not fill the memory.
constexpr std::size_t kMostGpus = 1024;

/// Every metric of the table; its number is its row, from 1.
std::vector<MetricColumn> table_columns() {
  std::vector<MetricColumn> columns;
  for (const facts::Metric& metric : facts::metrics())
    columns.push_back({static_cast<std::uint32_t>(columns.size() + 1), &metric, steps_per_unit(metric)});
  return columns;
}

std::vector<std::uint32_t> ids_of(const std::vector<MetricColumn>& columns) {
  std::vector<std::uint32_t> ids;
  for (const MetricColumn& column : columns) ids.push_back(column.id);
  return ids;
}

std::size_t bytes_of(const std::vector<std::int64_t>& column) { return column.capacity() * sizeof(std::int64_t); }

}  // namespace

class History::Impl {
 public:
  Impl(std::chrono::milliseconds span, std::size_t most)
      : span_(std::max<std::int64_t>(span.count(), 1)),
        most_(std::max<std::size_t>(most, 1)),
        block_rows_(std::clamp<std::size_t>(most_ / 8, 1, kBlockRows)) {}

  void add(const Reading& reading) {
    const std::scoped_lock lock(mutex_);
    begin_row(reading);
    for (const facts::GpuRecord& record : reading.snapshot.gpus) add_gpu(record);
    if (times_.size() >= block_rows_) close_block();
    forget();
  }

  std::vector<KnownGpu> gpus() const {
    const std::scoped_lock lock(mutex_);
    std::vector<KnownGpu> result;
    for (const HistoryGpu& gpu : gpus_) result.push_back(gpu.known);
    std::ranges::stable_sort(result, {}, &KnownGpu::index);
    return result;
  }

  Result<Series> series(const Uuid& gpu, std::string_view metric, Window window, std::chrono::milliseconds step) const {
    GPUWARDEN_TRY(const SeriesSource source, series_source(metric, columns_));
    const Excerpt part = copy_of(gpu, source, window);
    if (!part.is_known)
      return fail(ErrorCode::not_found, fmt::format("no GPU '{}' in the history", printable(gpu.value)));
    SeriesBuilder builder(part.from, to_millis(window.to), std::max<std::int64_t>(step.count(), 0));
    for (const HistoryBlock& block : part.blocks) add_block(builder, block, part.number, part.facts, source);
    add_rows(builder, part.open, 0, source, part.facts);
    return builder.finish(gpu, metric);
  }

  std::optional<Window> covers() const {
    const std::scoped_lock lock(mutex_);
    if (!newest_) return std::nullopt;
    return Window{from_millis(oldest_), from_millis(*newest_)};
  }

  std::size_t footprint() const {
    const std::scoped_lock lock(mutex_);
    std::size_t bytes = bytes_of(times_) + gpus_.size() * sizeof(HistoryGpu) + columns_.size() * sizeof(MetricColumn);
    for (const auto& gpu : open_) {
      for (const auto& column : gpu) bytes += kEmptyColumn + bytes_of(column);
    }
    for (const HistoryBlock& block : blocks_) {
      const HistoryRows& held = *block.held;
      bytes += sizeof(block) + sizeof(held) + held.times.capacity() + held.gpus.capacity() * sizeof(held.gpus.front());
      for (const auto& [gpu, frame] : held.gpus) bytes += frame.capacity();
    }
    return bytes;
  }

 private:
  using Columns = std::vector<std::vector<std::int64_t>>;  ///< by row of the metric table; shorter ones end in gaps

  /// What an answer is made of, without the lock.
  struct Excerpt {
    bool is_known = false;
    std::size_t number = 0;
    facts::Gpu facts;
    std::int64_t from = 0;
    std::vector<HistoryBlock> blocks;
    Frame open;
  };

  Excerpt copy_of(const Uuid& gpu, const SeriesSource& source, Window window) const {
    const std::scoped_lock lock(mutex_);
    Excerpt part;
    const auto found = std::ranges::find(gpus_, gpu, [](const HistoryGpu& known) { return known.known.uuid; });
    if (found == gpus_.end()) return part;
    part.is_known = true;
    part.number = static_cast<std::size_t>(found - gpus_.begin());
    part.facts = found->facts;
    part.from = std::max(to_millis(window.from), oldest_);
    std::ranges::copy_if(blocks_, std::back_inserter(part.blocks), [&](const HistoryBlock& block) {
      return block.last >= part.from && block.first < to_millis(window.to);
    });
    if (part.number < open_.size()) part.open = open_frame(part.number, source);
    return part;
  }

  void begin_row(const Reading& reading) {
    const std::int64_t time = to_millis(reading.snapshot.taken_at);
    if (newest_) {
      const Elapsed since = elapsed_between({*newest_, newest_when_}, {time, reading.when});
      // Two readings have two times.
      if (since.set != 0 || time <= *newest_) date_back(*newest_ + std::max<std::int64_t>(since.passed, 1) - time);
    }
    times_.push_back(time);
    newest_ = time;
    newest_when_ = reading.when;
  }

  void date_back(std::int64_t by) {
    for (HistoryBlock& block : blocks_) {
      block.first -= by;
      block.last -= by;
    }
    for (std::int64_t& time : times_) time -= by;
    oldest_ -= by;
  }

  void add_gpu(const facts::GpuRecord& record) {
    const Uuid uuid = facts::identity_of(record);
    auto found = std::ranges::find(gpus_, uuid, [](const HistoryGpu& known) { return known.known.uuid; });
    if (found == gpus_.end()) {
      if (gpus_.size() >= kMostGpus) return;
      found = gpus_.insert(gpus_.end(), {{.uuid = uuid, .index = record.gpu.index, .name = record.gpu.name}, {}});
    }
    found->known.index = record.gpu.index;
    // A GPU that is lost tells its name no more.
    if (!record.gpu.name.empty()) {
      found->known.name = record.gpu.name;
      found->facts = record.gpu;
    }
    open_.resize(gpus_.size());
    Columns& columns = open_[static_cast<std::size_t>(found - gpus_.begin())];
    columns.resize(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::int64_t value = to_column(columns_[i], record.sample);
      if (value == codec::kGap) continue;
      columns[i].resize(times_.size() - 1, codec::kGap);
      columns[i].push_back(value);
    }
  }

  void close_block() {
    HistoryBlock block{.first = times_.front(), .last = times_.back(), .rows = times_.size(), .held = {}};
    HistoryRows held;
    std::vector<std::int64_t> times = times_;
    for (std::int64_t& time : times) time -= block.first;
    held.times = codec::encode_column(times);
    for (std::size_t gpu = 0; gpu < open_.size(); ++gpu) {
      Frame frame{.times = times, .columns = {}};
      for (std::size_t i = 0; i < open_[gpu].size(); ++i) {
        if (!open_[gpu][i].empty()) frame.columns[{columns_[i].id, Part::value}] = std::move(open_[gpu][i]);
      }
      if (frame.columns.empty()) continue;
      held.gpus.emplace_back(gpu, encode_frame(frame, false));
      held.gpus.back().second.shrink_to_fit();
    }
    held.gpus.shrink_to_fit();
    block.held = std::make_shared<const HistoryRows>(std::move(held));
    closed_rows_ += block.rows;
    blocks_.push_back(std::move(block));
    open_.clear();
    times_.clear();
  }

  void forget() {
    const std::int64_t first_kept = *newest_ - span_;
    while (!blocks_.empty() &&
           (blocks_.front().last < first_kept || closed_rows_ + times_.size() - blocks_.front().rows >= most_)) {
      closed_rows_ -= blocks_.front().rows;
      blocks_.pop_front();
    }
    // Of the oldest block only the rows that are still kept are seen.
    std::vector<std::int64_t> times = times_;
    std::int64_t shift = 0;
    if (!blocks_.empty()) {
      times = codec::decode_column(blocks_.front().held->times, blocks_.front().rows).value_or(times_);
      shift = blocks_.front().first;
    }
    const std::size_t kept = closed_rows_ + times_.size();
    const std::size_t skip = std::min(kept > most_ ? kept - most_ : 0, times.size() - 1);
    oldest_ = times[skip] + shift;
    const auto in_span = std::ranges::lower_bound(times, first_kept - shift);
    if (in_span != times.end()) oldest_ = std::max(oldest_, *in_span + shift);
  }

  static void add_block(SeriesBuilder& builder, const HistoryBlock& block, std::size_t gpu, const facts::Gpu& facts,
                        const SeriesSource& source) {
    const auto found = std::ranges::find(block.held->gpus, gpu, [](const auto& entry) { return entry.first; });
    if (found == block.held->gpus.end()) return;
    const auto view = FrameView::open(found->second);
    const auto frame = view ? view->read(ids_of(source.inputs)) : std::nullopt;
    if (frame) add_rows(builder, *frame, block.first, source, facts);
  }

  Frame open_frame(std::size_t gpu, const SeriesSource& source) const {
    Frame frame{.times = times_, .columns = {}};
    for (const MetricColumn& input : source.inputs) {
      const std::size_t row = input.id - 1;
      if (row < open_[gpu].size()) frame.columns[{input.id, Part::value}] = open_[gpu][row];
    }
    return frame;
  }

  const std::int64_t span_;  ///< milliseconds, as all times here
  const std::size_t most_;
  const std::size_t block_rows_;
  const std::vector<MetricColumn> columns_ = table_columns();
  mutable std::mutex mutex_;  ///< held for copying alone: whoever asks much keeps nobody from adding
  std::vector<HistoryGpu> gpus_;
  std::deque<HistoryBlock> blocks_;
  std::size_t closed_rows_ = 0;
  std::vector<std::int64_t> times_;  ///< of the open columns
  std::vector<Columns> open_;        ///< by number of the GPU
  std::int64_t oldest_ = 0;
  std::optional<std::int64_t> newest_;
  Clock::SteadyTime newest_when_{};
};

History::History(std::chrono::milliseconds span, std::size_t most) : impl_(std::make_unique<Impl>(span, most)) {}
History::~History() = default;

void History::add(const Reading& reading) { impl_->add(reading); }
std::vector<KnownGpu> History::gpus() const { return impl_->gpus(); }
Result<Series> History::series(const Uuid& gpu, std::string_view metric, Window window,
                               std::chrono::milliseconds step) const {
  return impl_->series(gpu, metric, window, step);
}
std::optional<Window> History::covers() const { return impl_->covers(); }
std::size_t History::footprint() const { return impl_->footprint(); }

}  // namespace gpuwarden::telemetry
