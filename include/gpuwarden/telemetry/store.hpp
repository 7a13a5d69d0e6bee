// SPDX-License-Identifier: Apache-2.0
// History on disk: one SQLite file, downsampled as it ages. The same file is what `record` writes and `report` reads.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/telemetry/alerts.hpp"
#include "gpuwarden/telemetry/history.hpp"
#include "gpuwarden/telemetry/usage.hpp"

namespace gpuwarden::telemetry {

/// A resolution and for how long it is kept. Zero: for ever.
struct Tier {
  std::chrono::milliseconds step{};
  std::chrono::milliseconds keep{};
};

struct StoreConfig {
  /// Finest first; the first one's step 0 keeps readings as they are made.
  std::vector<Tier> tiers = {{std::chrono::milliseconds(0), std::chrono::hours(2)},
                             {std::chrono::seconds(10), std::chrono::hours(24)},
                             {std::chrono::minutes(1), std::chrono::hours(24 * 14)},
                             {std::chrono::minutes(15), std::chrono::hours(24 * 730)}};
  /// A recording: everything is kept as it was read.
  static StoreConfig of_recording();
};

/// What a file says about itself.
struct StoreInfo {
  std::string host;
  bool simulated = false;
  std::string fleet;
  std::string driver_version;
  std::vector<std::string> command;  ///< of a recording
  std::optional<int> exit_code;      ///< of its command
  std::chrono::milliseconds interval{};
  bool finished = false;  ///< it was closed in order
};

/// An event or a change of an alert or of health, as it was kept.
struct Happening {
  WallTime time{};
  std::string kind;  ///< "xid", "alert", "health", "lost", "throttle" ...
  Uuid gpu;
  std::string text;
  std::optional<std::int64_t> number = std::nullopt;  ///< of an Xid; a file keeps its text alone
};

/// A history in a file. Writes go to SQLite in WAL mode, in one transaction for each call of add(); a crash loses what
/// was not added, and never the file. A file system that is full fails add(), and the next one tries again. Not
/// thread-safe; several processes may read while one writes.
class Store {
 public:
  /// Opens or makes the file. Fails with invalid_argument where it is another program's database or no database,
  /// corrupt where it is damaged, permission_denied, and unavailable where it was written by a newer gpuwarden.
  static Result<Store> open(const std::filesystem::path& file, const StoreConfig& config, const StoreInfo& info,
                            Clock& clock);
  /// For reading alone. Fails as open() does, and with not_found where there is none. A series that takes longer than
  /// `patience` (0: as long as it takes) fails with timed_out.
  static Result<Store> read(const std::filesystem::path& file, std::chrono::milliseconds patience = {});
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  /// A transaction: in the file when this returns, or not at all. A file's times only grow: after the clock was set
  /// back by at most an hour they go on at half pace until it has caught up, after more at full pace. Where the clock
  /// was far ahead for a time and is right again, what was dated in that time is forgotten; until ten minutes after it
  /// was set far ahead nothing else is.
  Result<void> add(const Reading& reading, const std::vector<Use>& uses = {},
                   const std::vector<Happening>& happenings = {});
  /// Seals, marks as finished and brings everything into the one file. Fails with unavailable where somebody reads it:
  /// what lies beside the file then belongs to it, and finish() can be called again.
  Result<void> finish(std::optional<int> exit_code = {});
  /// Downsamples and forgets all that is due; add() does so by itself, at most 20 ms at a time.
  Result<void> maintain();

  // What reads fails with corrupt where the file is damaged, unavailable where another program locks it, timed_out
  // beyond read()'s patience, and failed where the disk does; the two that change it too, and with invalid_argument on
  // a history that is open for reading or was finished.
  /// Whose readings they are.
  Result<StoreInfo> info() const;
  /// By index.
  Result<std::vector<KnownGpu>> gpus() const;
  /// From the first to the last reading; nothing before the first.
  Result<std::optional<Window>> covers() const;
  /// As History::series, from the finest tier that reaches back as far, or a coarser one that divides `step`; newer
  /// than what that tier has yet, from finer ones. The series' step is then a multiple of the tier's.
  /// Fails with not_found for a GPU that is not in the file, and with invalid_argument for a metric that there is not.
  Result<Series> series(const Uuid& gpu, std::string_view metric, Window window, std::chrono::milliseconds step) const;
  /// Who used which GPU in the window.
  Result<std::vector<Use>> uses(Window window) const;
  /// The newest `most` of them, oldest first.
  Result<std::vector<Happening>> happenings(Window window, std::size_t most = 1000) const;

 private:
  class Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpuwarden::telemetry
