// SPDX-License-Identifier: Apache-2.0
// Answers from a history's file, which may be another's: what is out of any bounds makes it damaged.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpuwarden/base/text.hpp"
#include "telemetry/store_facts.hpp"
#include "telemetry/store_impl.hpp"

namespace gpuwarden::telemetry {
namespace {

constexpr std::int64_t kMostCells = 200'000'000;
constexpr std::int64_t kMostUses = 1'000'000;
constexpr std::size_t kMostGpusInFile = 4096;
constexpr std::size_t kMostTiers = 32;
/// The years 1970 to 2200: what is beyond was not dated by a clock.
constexpr std::int64_t kLastTime = 7'258'118'400'000;
constexpr std::int64_t kLongestStep = 86'400'000LL * 366;

bool is_time(std::int64_t millis) { return millis >= 0 && millis <= kLastTime; }

std::uint32_t index_from(std::int64_t value) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(value, 0, 65535));
}

double sane_seconds(double seconds) { return std::isfinite(seconds) ? std::clamp(seconds, 0.0, 1e12) : 0.0; }

}  // namespace

Result<void> Store::Impl::start_answer() {
  std::error_code failed;
  const auto size_of = [&](const std::string& file) {
    const auto size = std::filesystem::file_size(file, failed);
    return failed ? 0 : static_cast<std::int64_t>(size);
  };
  // A file cannot hold more than it is long; each page of the log may be a newer version of one in it.
  budget_.bytes = size_of(database_->file().string()) + size_of(database_->file().string() + "-wal") + (1 << 20);
  budget_.cells = kMostCells;
  database_->allow_work();
  return {};
}

Result<std::vector<std::int64_t>> Store::Impl::gpu_numbers() {
  GPUWARDEN_TRY(Statement* const select, database_->statement("SELECT id FROM gpu ORDER BY id LIMIT 4096"));
  std::vector<std::int64_t> numbers;
  while (true) {
    GPUWARDEN_TRY(const bool more, select->step());
    if (!more) return numbers;
    numbers.push_back(select->integer(0));
  }
}

Result<std::vector<KnownGpu>> Store::Impl::gpus() {
  GPUWARDEN_CHECK(start_answer());
  GPUWARDEN_TRY(Statement* const select,
                database_->statement("SELECT uuid, idx, name FROM gpu ORDER BY idx, id LIMIT 4096"));
  std::vector<KnownGpu> result;
  while (result.size() < kMostGpusInFile) {
    GPUWARDEN_TRY(const bool more, select->step());
    if (!more) break;
    const std::string uuid = select->text(0);
    if (uuid.empty() || printable(uuid) != uuid) continue;
    result.push_back({Uuid(uuid), GpuIndex{index_from(select->integer(1))}, printable(select->text(2))});
  }
  select->reset();
  return result;
}

Result<Store::Impl::Stretch> Store::Impl::stretch_of(std::int64_t gpu, std::int64_t step) {
  GPUWARDEN_TRY(Statement* const first,
                database_->statement("SELECT t0 FROM chunk WHERE gpu = ?1 AND step = ?2 ORDER BY t0 LIMIT 1"));
  GPUWARDEN_TRY(const bool found, first->bind(1, gpu).bind(2, step).step());
  Stretch stretch;
  if (found) stretch.from = first->integer(0);
  first->reset();
  GPUWARDEN_TRY(Statement* const last,
                database_->statement("SELECT t1 FROM chunk WHERE gpu = ?1 AND step = ?2 ORDER BY t0 DESC LIMIT 1"));
  GPUWARDEN_TRY(const bool found_last, last->bind(1, gpu).bind(2, step).step());
  if (found_last) stretch.to = last->integer(0);
  last->reset();
  if (!is_time(stretch.from) || !is_time(stretch.to))
    return std::unexpected(damaged(database_->file(), "a chunk is of no possible time"));
  return stretch;
}

Result<std::vector<Store::Impl::Coverage>> Store::Impl::coverage(std::int64_t gpu) {
  std::vector<Coverage> tiers;
  std::int64_t step = -1;
  while (tiers.size() < kMostTiers) {
    GPUWARDEN_TRY(Statement* const next,
                  database_->statement("SELECT min(step) FROM chunk WHERE gpu = ?1 AND step > ?2"));
    GPUWARDEN_TRY(const bool found, next->bind(1, gpu).bind(2, step).step());
    const bool is_last = !found || next->is_null(0);
    if (!is_last) step = next->integer(0);
    next->reset();
    if (is_last || step > kLongestStep) break;
    GPUWARDEN_TRY(const Stretch stretch, stretch_of(gpu, step));
    tiers.push_back({step, stretch.from, stretch.to});
  }
  // The hot table goes on where the chunks of readings end.
  GPUWARDEN_TRY(Statement* const hot, database_->statement("SELECT min(t), max(t) FROM hot WHERE gpu = ?1"));
  GPUWARDEN_TRY(const bool found, hot->bind(1, gpu).step());
  const bool has_hot = found && !hot->is_null(0);
  const Coverage readings{0, has_hot ? hot->integer(0) : 0, has_hot ? hot->integer(1) + 1 : 0};
  hot->reset();
  if (!has_hot) return tiers;
  if (!is_time(readings.from) || !is_time(readings.to))
    return std::unexpected(damaged(database_->file(), "a reading is of no possible time"));
  if (tiers.empty() || tiers.front().step != 0) {
    tiers.insert(tiers.begin(), readings);
  } else {
    tiers.front().to = std::max(tiers.front().to, readings.to);
  }
  return tiers;
}

Result<void> Store::Impl::read_chunks(std::int64_t gpu, std::int64_t step, Stretch stretch,
                                      const std::vector<std::uint32_t>& metrics, const UseFrame& use) {
  GPUWARDEN_TRY(
      Statement* const select,
      database_->statement("SELECT data FROM chunk WHERE gpu = ?1 AND step = ?2 AND t0 < ?4 AND t1 > ?3 ORDER "
                           "BY t0"));
  select->bind(1, gpu).bind(2, step).bind(3, stretch.from).bind(4, stretch.to);
  while (true) {
    GPUWARDEN_TRY(const bool more, select->step());
    if (!more) return {};
    if (!writes_ && database_->is_late()) {
      select->reset();
      return std::unexpected(too_slow(database_->file()));
    }
    const std::string_view data = select->blob(0);
    budget_.bytes -= static_cast<std::int64_t>(data.size());
    const auto view = FrameView::open(data);
    if (view) budget_.cells -= static_cast<std::int64_t>((view->rows() + 1) * (metrics.size() + 1));
    const bool is_too_much = budget_.bytes < 0 || budget_.cells < 0;
    const auto frame = view && !is_too_much ? view->read(metrics) : std::nullopt;
    if (!frame) {
      select->reset();
      return std::unexpected(damaged(database_->file(), is_too_much ? "it claims more readings than it can hold"
                                                                    : "a chunk of readings cannot be decoded"));
    }
    use(*frame, stretch);
  }
}

Result<void> Store::Impl::read_hot(std::int64_t gpu, Stretch stretch, const UseFrame& use) {
  GPUWARDEN_TRY(Statement* const select,
                database_->statement("SELECT t, data FROM hot WHERE t >= ?2 AND t < ?3 AND gpu = ?1 ORDER BY t"));
  select->bind(1, gpu).bind(2, stretch.from).bind(3, stretch.to);
  Frame frame;
  while (true) {
    GPUWARDEN_TRY(const bool more, select->step());
    if (!more) break;
    const auto row = codec::decode_row(select->blob(1), kMostColumns);
    if (row) budget_.cells -= static_cast<std::int64_t>(row->size());
    if (!row || (!writes_ && budget_.cells < 0)) {
      select->reset();
      return std::unexpected(damaged(database_->file(), "a reading cannot be decoded"));
    }
    for (std::size_t i = 0; i < row->size(); ++i) {
      if ((*row)[i] == codec::kGap) continue;
      auto& column = frame.columns[{static_cast<std::uint32_t>(i + 1), Part::value}];
      column.resize(frame.times.size(), codec::kGap);
      column.push_back((*row)[i]);
    }
    frame.times.push_back(select->integer(0));
  }
  if (!frame.times.empty()) use(frame, stretch);
  return {};
}

Result<void> Store::Impl::read_tiers(std::int64_t gpu, const std::vector<Coverage>& tiers, Stretch stretch,
                                     const std::vector<std::uint32_t>& metrics, const UseFrame& use) {
  std::int64_t begin = stretch.from;
  for (std::size_t i = tiers.size(); i-- > 0;) {
    const Coverage& tier = tiers[i];
    const std::int64_t end = tier.step == 0 ? stretch.to : std::min(stretch.to, tier.to);
    if (end <= begin) continue;
    GPUWARDEN_CHECK(read_chunks(gpu, tier.step, {begin, end}, metrics, use));
    if (tier.step == 0) {
      GPUWARDEN_TRY(const Stretch sealed, stretch_of(gpu, 0));
      GPUWARDEN_CHECK(read_hot(gpu, {std::max(begin, sealed.to), end}, use));
    }
    begin = end;
  }
  return {};
}

namespace {

struct TierBounds {
  std::int64_t step = 0;
  std::int64_t from = 0;
};

/// Which tier an answer begins with: the finest that reaches back as far as any does, or a coarser one that is fine
/// enough for what is asked.
std::size_t main_tier(const std::vector<TierBounds>& tiers, std::int64_t from, std::int64_t step) {
  std::size_t finest = 0;
  const auto reaches = [&](std::size_t tier) {
    if (tiers[tier].from <= from) return true;
    // Coarser steps begin a little earlier with the same readings.
    return std::none_of(tiers.begin() + static_cast<std::ptrdiff_t>(tier) + 1, tiers.end(),
                        [&](const TierBounds& other) { return other.from + other.step <= tiers[tier].from; });
  };
  while (finest + 1 < tiers.size() && !reaches(finest)) ++finest;
  for (std::size_t tier = tiers.size() - 1; tier > finest; --tier) {
    if (tiers[tier].step <= step && step % tiers[tier].step == 0 && reaches(tier)) return tier;
  }
  return finest;
}

}  // namespace

Result<facts::Gpu> Store::Impl::facts_of(const Uuid& gpu) {
  GPUWARDEN_TRY(Statement* const select, database_->statement("SELECT value FROM meta WHERE key = ?1"));
  GPUWARDEN_TRY(const bool found, select->bind(1, std::string(kGpuFactsKey) + gpu.value).step());
  facts::Gpu facts = found ? gpu_facts_from(select->text(0)) : facts::Gpu{};
  select->reset();
  return facts;
}

Result<Series> Store::Impl::series_of(const Uuid& gpu, std::string_view metric, Window window, std::int64_t step) {
  GPUWARDEN_TRY(Statement* const select, database_->statement("SELECT id FROM gpu WHERE uuid = ?1"));
  GPUWARDEN_TRY(const bool found, select->bind(1, gpu.value).step());
  const std::int64_t number = found ? select->integer(0) : 0;
  select->reset();
  if (!found)
    return fail(ErrorCode::not_found,
                fmt::format("no GPU '{}' in '{}'", printable(gpu.value), database_->file().string()));
  GPUWARDEN_TRY(const auto columns, load_columns());
  GPUWARDEN_TRY(const SeriesSource source, series_source(metric, columns));
  GPUWARDEN_TRY(auto tiers, coverage(number));
  const std::int64_t from = to_millis(window.from);
  const std::int64_t to = to_millis(window.to);
  std::vector<TierBounds> bounds;
  for (const Coverage& tier : tiers) bounds.push_back({tier.step, tier.from});
  const std::size_t first = tiers.empty() ? 0 : main_tier(bounds, from, step);
  const std::int64_t finest = tiers.empty() ? 0 : tiers[first].step;
  if (finest > 0) step = std::max(floor_to(step + finest - 1, finest), finest);
  // Of a step that the window begins in the whole is told: it cannot be taken apart.
  SeriesBuilder builder(finest > 0 ? floor_to(from, finest) : from, to, step);
  if (!tiers.empty()) tiers.resize(first + 1);
  std::vector<std::uint32_t> metrics;
  for (const MetricColumn& input : source.inputs) metrics.push_back(input.id);
  GPUWARDEN_TRY(const facts::Gpu facts, facts_of(gpu));
  const UseFrame use = [&](const Frame& frame, Stretch stretch) {
    builder.look_at(stretch.from, stretch.to);
    add_rows(builder, frame, 0, source, facts);
  };
  GPUWARDEN_CHECK(read_tiers(number, tiers, {builder.from(), to}, metrics, use));
  return builder.finish(gpu, metric);
}

Result<Series> Store::Impl::series(const Uuid& gpu, std::string_view metric, Window window,
                                   std::chrono::milliseconds step) {
  GPUWARDEN_CHECK(start_answer());
  // One look at the file, though its writer goes on.
  GPUWARDEN_CHECK(database_->execute("BEGIN"));
  auto result = series_of(gpu, metric, window, std::clamp<std::int64_t>(step.count(), 0, kLongestStep));
  // An answer that is late is interrupted, and what ends it must not be.
  const bool late = !writes_ && database_->is_late();
  database_->allow_work();
  const auto ended = database_->execute("COMMIT");
  if (!result && late && result.error().code == ErrorCode::corrupt) return std::unexpected(too_slow(database_->file()));
  if (result && !ended) return std::unexpected(ended.error());
  return result;
}

Result<std::optional<Window>> Store::Impl::covers() {
  GPUWARDEN_CHECK(start_answer());
  std::optional<Stretch> whole;
  GPUWARDEN_TRY(const auto numbers, gpu_numbers());
  for (const std::int64_t gpu : numbers) {
    GPUWARDEN_TRY(const auto tiers, coverage(gpu));
    for (const Coverage& tier : tiers) {
      if (!whole) whole = Stretch{tier.from, 0};
      whole->from = std::min(whole->from, tier.from);
      // A tier of steps ends with a whole chunk, which may reach beyond the last reading in it.
      if (tier.step == 0 || tiers.front().step != 0) whole->to = std::max(whole->to, tier.to);
    }
  }
  if (!whole) return std::nullopt;
  return Window{from_millis(whole->from), from_millis(whole->to)};
}

Result<std::vector<Use>> Store::Impl::uses(Window window) {
  GPUWARDEN_CHECK(start_answer());
  GPUWARDEN_TRY(Statement* const select,
                database_->statement("SELECT t0, t1, gpu, idx, user, job, pid, command, gpu_seconds, busy_seconds, "
                                     "utilization, memory FROM usage WHERE merged IN (0, 1) AND t1 > ?1 AND t0 < ?2 "
                                     "ORDER BY t0, id LIMIT ?3"));
  select->bind(1, to_millis(window.from)).bind(2, to_millis(window.to)).bind(3, kMostUses);
  std::vector<Use> result;
  while (true) {
    GPUWARDEN_TRY(const bool more, select->step());
    if (!more) return result;
    if (!is_time(select->integer(0)) || !is_time(select->integer(1)) || select->integer(0) > select->integer(1))
      continue;
    Use use;
    use.from = from_millis(select->integer(0));
    use.to = from_millis(select->integer(1));
    use.gpu = Uuid(printable(select->text(2)));
    use.index = GpuIndex{index_from(select->integer(3))};
    use.user = printable(select->text(4));
    use.job = printable(select->text(5));
    if (!select->is_null(6))
      use.pid = Pid{static_cast<std::int32_t>(std::clamp<std::int64_t>(select->integer(6), 0, 1 << 30))};
    use.command = printable(select->text(7));
    use.gpu_seconds = sane_seconds(select->real(8));
    use.busy_seconds = sane_seconds(select->real(9));
    if (!select->is_null(10)) use.mean_utilization = std::min(sane_seconds(select->real(10)), 100.0);
    if (!select->is_null(11))
      use.peak_memory = Bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(select->integer(11), 0)));
    result.push_back(std::move(use));
  }
}

Result<std::vector<Happening>> Store::Impl::happenings(Window window, std::size_t most) {
  GPUWARDEN_CHECK(start_answer());
  GPUWARDEN_TRY(
      Statement* const select,
      database_->statement("SELECT t, kind, gpu, text FROM happening WHERE t >= ?1 AND t < ?2 ORDER BY t DESC, "
                           "id DESC LIMIT ?3"));
  select->bind(1, to_millis(window.from)).bind(2, to_millis(window.to));
  select->bind(3, static_cast<std::int64_t>(std::min<std::size_t>(most, 1'000'000)));
  std::vector<Happening> result;
  while (true) {
    GPUWARDEN_TRY(const bool more, select->step());
    if (!more) break;
    if (!is_time(select->integer(0))) continue;
    result.push_back({.time = from_millis(select->integer(0)),
                      .kind = printable(select->text(1)),
                      .gpu = Uuid(printable(select->text(2))),
                      .text = printable(select->text(3))});
  }
  std::ranges::reverse(result);
  return result;
}

}  // namespace gpuwarden::telemetry
