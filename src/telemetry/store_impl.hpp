// SPDX-License-Identifier: Apache-2.0
// A store's inside. store_open.cpp opens and checks, store_write.cpp adds, store_upkeep.cpp seals, downsamples and
// forgets, store_read.cpp answers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/telemetry/store.hpp"
#include "telemetry/columns_metrics.hpp"
#include "telemetry/store_sqlite.hpp"

namespace gpuwarden::telemetry {

/// The most readings that the hot table holds before they are sealed in chunks.
inline constexpr std::int64_t kHotReadings = 600;

class Store::Impl {
 public:
  static Result<std::unique_ptr<Impl>> open(const std::filesystem::path& file, const StoreConfig& config,
                                            const StoreInfo& info, Clock& clock);
  static Result<std::unique_ptr<Impl>> read(const std::filesystem::path& file, std::chrono::milliseconds patience);

  Result<void> add(const Reading& reading, const std::vector<Use>& uses, const std::vector<Happening>& happenings);
  Result<void> finish(std::optional<int> exit_code);
  /// Works for at most `most`; whether more is to be done.
  Result<bool> upkeep(std::chrono::nanoseconds most);

  Result<StoreInfo> info();
  Result<std::vector<KnownGpu>> gpus();
  Result<std::optional<Window>> covers();
  Result<Series> series(const Uuid& gpu, std::string_view metric, Window window, std::chrono::milliseconds step);
  Result<std::vector<Use>> uses(Window window);
  Result<std::vector<Happening>> happenings(Window window, std::size_t most);

 private:
  /// What the file has of one GPU in one step.
  struct Coverage {
    std::int64_t step = 0;
    std::int64_t from = 0;
    std::int64_t to = 0;
  };
  /// What one answer may cost: a file that claims more than it can hold is damaged.
  struct Budget {
    std::int64_t bytes = 0;
    std::int64_t cells = 0;
  };
  /// A reading's time in the file, and whether what the file has after it is from a clock that was set wrong.
  struct FileTime {
    std::int64_t time = 0;
    bool forget_later = false;
  };
  /// Milliseconds, `to` not included.
  struct Stretch {
    std::int64_t from = 0;
    std::int64_t to = 0;
  };
  /// Told a frame, and of which stretch its rows are asked for: others may be in it.
  using UseFrame = std::function<void(const Frame&, Stretch)>;

  // store_open.cpp
  Result<void> prepare(const StoreInfo& info, bool is_new);
  Result<void> write_info(const StoreInfo& info);
  Result<void> write_meta(const std::string& key, const std::string& value);
  Result<std::map<std::string, std::string>> read_meta();
  Result<void> load_state();
  Result<std::vector<MetricColumn>> load_columns();
  Result<void> add_missing_metrics();

  // store_write.cpp
  Result<FileTime> time_of(const Reading& reading);
  Result<bool> lies_in_a_gap(std::int64_t time);
  Result<void> forget_after(std::int64_t time);
  bool clock_is_settled(std::int64_t time, Clock::SteadyTime when);
  Result<void> keep_facts(const facts::Gpu& gpu);
  Result<void> insert_readings(std::int64_t time, const Reading& reading);
  Result<std::int64_t> number_of(const facts::GpuRecord& record);
  Result<void> insert_uses(const std::vector<Use>& uses);
  Result<void> insert_happenings(const std::vector<Happening>& happenings);

  // store_upkeep.cpp
  Result<bool> work_once();
  /// Puts what the hot table has up to `until` (included) of one GPU into a chunk; whether there was such a GPU.
  Result<bool> seal_one(std::int64_t until);
  Result<bool> seal_due();
  Result<bool> roll_up_one();
  Result<std::optional<std::int64_t>> due_begin(std::int64_t gpu, std::size_t tier);
  Result<void> roll_up(std::int64_t gpu, std::size_t tier, std::int64_t begin);
  Result<bool> forget_one();
  Result<bool> merge_uses();
  Result<bool> forget_surplus();
  Result<void> insert_chunk(std::int64_t gpu, std::int64_t step, Stretch stretch, const Frame& frame);
  std::int64_t span_of(std::size_t tier) const;

  // store_read.cpp
  Result<std::vector<std::int64_t>> gpu_numbers();
  Result<std::vector<Coverage>> coverage(std::int64_t gpu);
  Result<Stretch> stretch_of(std::int64_t gpu, std::int64_t step);
  Result<void> read_chunks(std::int64_t gpu, std::int64_t step, Stretch stretch,
                           const std::vector<std::uint32_t>& metrics, const UseFrame& use);
  /// From each tier (finest first) what the coarser ones do not have, and at the end what is not sealed yet.
  Result<void> read_tiers(std::int64_t gpu, const std::vector<Coverage>& tiers, Stretch stretch,
                          const std::vector<std::uint32_t>& metrics, const UseFrame& use);
  Result<void> read_hot(std::int64_t gpu, Stretch stretch, const UseFrame& use);
  Result<void> start_answer();
  Result<facts::Gpu> facts_of(const Uuid& gpu);
  Result<Series> series_of(const Uuid& gpu, std::string_view metric, Window window, std::int64_t step);

  UniqueFd lock_;  ///< closed after the database: closing any descriptor of a file drops SQLite's own locks on it
  std::unique_ptr<Database> database_;
  bool writes_ = false;
  std::vector<Tier> tiers_;  ///< finest first; the first one has step 0
  Clock* clock_ = nullptr;
  Budget budget_;
  // Of the file, as far as the last transaction that was committed:
  std::vector<MetricColumn> columns_;
  std::map<Uuid, KnownGpu> known_;
  std::map<Uuid, std::int64_t> numbers_;
  std::map<Uuid, facts::Gpu> facts_;  ///< as they were written
  std::optional<std::int64_t> last_time_;
  std::int64_t hot_readings_ = 0;
  Clock::SteadyTime last_when_{};
  std::int64_t next_upkeep_ = 0;
  std::int64_t uses_ = 0;                         ///< rows, at least as many as there are
  std::optional<Clock::SteadyTime> set_forward_;  ///< the clock, by a lot: whether it stays so shows later
  bool finished_ = false;
};

}  // namespace gpuwarden::telemetry
