// SPDX-License-Identifier: Apache-2.0
#include "observer.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "environment.hpp"
#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/memtrace/snapshot.hpp"

namespace gpuwarden::bindings {
namespace {

namespace fs = std::filesystem;
using memory::OutOfMemoryReport;
using std::chrono::milliseconds;

constexpr const char* kStatus = "GPUWARDEN_MEMORY_STATUS";
constexpr const char* kSnapshot = "GPUWARDEN_MEMORY_SNAPSHOT";

/// Snapshots of out of memory lie at least so far apart: who tries smaller and smaller batches meets it again and
/// again.
constexpr std::chrono::seconds kBetweenSnapshots{1};

Result<std::optional<milliseconds>> read_interval(std::string_view text) {
  if (text == "on" || text == "1") return milliseconds(1000);
  if (text == "off" || text == "0") return std::nullopt;
  const auto interval = parse_duration(text);
  if (interval && interval->count() > 0) return *interval;
  return fail(ErrorCode::invalid_argument, fmt::format("'{}' is neither on, off nor an interval", printable(text)),
              "say on, off, or how often at most, as in 500ms");
}

void say(const char* variable, const Error& error) {
  const std::string hint = error.hint.empty() ? "" : fmt::format(" ({})", error.hint);
  std::fprintf(stderr, "gpuwarden: %s: %s%s\n", variable, error.message.c_str(), hint.c_str());
}

/// Once in a process, however many pools it has.
void say_once(std::atomic<bool>& said, const char* variable, const Error& error) {
  if (!said.exchange(true)) say(variable, error);
}
std::atomic<bool> said_of_status = false;
std::atomic<bool> said_of_snapshot = false;

/// Told at the beginning rather than when a day's work is over.
Result<void> check_writable(const fs::path& file) {
  const fs::path folder = file.parent_path().empty() ? "." : file.parent_path();
  std::error_code ignored;
  if (fs::is_directory(file, ignored))
    return fail(ErrorCode::invalid_argument, fmt::format("cannot write {}: it is a folder", file.string()),
                "name a file; no snapshots are written");
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return {};
  Error error = error_from_errno(errno, fmt::format("cannot write {}", file.string()));
  error.hint = "no snapshots are written";
  return std::unexpected(std::move(error));
}

fs::path numbered(fs::path file, unsigned number) {
  if (number > 0) file += fmt::format(".{}", number);
  return file;
}

/// "run.oom.pickle" beside "run.pickle".
fs::path beside(const fs::path& file) {
  return file.parent_path() / (file.stem().string() + ".oom" + file.extension().string());
}

}  // namespace

Result<ObserverSettings> read_observer_settings() {
  ObserverSettings settings;
  GPUWARDEN_CHECK(take(kStatus, read_interval, settings.publish_every));
  settings.folder = value_of("GPUWARDEN_MEMORY_DIR");
  settings.asks_to_publish = !value_of(kStatus).empty() || !settings.folder.empty();
  settings.snapshot = value_of(kSnapshot);
  return settings;
}

std::function<void(const OutOfMemoryReport&)> PoolObserver::on_out_of_memory() {
  if (settings_.snapshot.empty()) return {};
  return [this](const OutOfMemoryReport& report) {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (pool_ == nullptr || at_out_of_memory_.empty() || (written_ && now - *written_ < kBetweenSnapshots)) return;
    written_ = now;
    write(at_out_of_memory_, &report);
  };
}

void PoolObserver::start(pools::DevicePool& pool, unsigned number) {
  const std::lock_guard lock(mutex_);
  pool_ = &pool;
  process_ = ::getpid();
  if (!settings_.snapshot.empty()) {
    if (const auto writable = check_writable(settings_.snapshot); writable) {
      at_end_ = numbered(settings_.snapshot, number);
      at_out_of_memory_ = numbered(beside(settings_.snapshot), number);
    } else {
      say_once(said_of_snapshot, kSnapshot, writable.error());
    }
  }
  if (!settings_.publish_every) return;
  auto started = pools::PoolPublisher::start(pool, {.folder = settings_.folder, .interval = *settings_.publish_every},
                                             system_clock());
  if (started) {
    publisher_ = std::move(*started);
  } else if (settings_.asks_to_publish) {
    say_once(said_of_status, kStatus, started.error());
  }
}

void PoolObserver::finish() noexcept try {
  if (process_ != ::getpid()) {
    // The mutex may be held for ever by a thread that is not there.
    return;
  }
  const std::lock_guard lock(mutex_);
  if (pool_ == nullptr) return;
  publisher_.reset();
  if (!at_end_.empty()) write(at_end_, nullptr);
  pool_ = nullptr;
} catch (const std::exception& exception) {
  std::fprintf(stderr, "gpuwarden: %s\n", exception.what());
}

void PoolObserver::write(const fs::path& file, const OutOfMemoryReport* report) try {
  memtrace::Recording recording;
  recording.segments = pool_->pool().layout();
  if (report != nullptr)
    recording.events.push_back({.address = report->device_free.value_or(Bytes(0)).value,
                                .size = report->requested.value,
                                .stream = report->stream.value,
                                .what = memtrace::Happening::out_of_memory});
  const bool as_json = settings_.snapshot.extension() == ".json";
  const auto written =
      write_file_atomically(file, as_json ? memtrace::snapshot_json(recording) : memtrace::snapshot_pickle(recording));
  if (!written) say(kSnapshot, written.error());
} catch (const std::exception& exception) {
  say(kSnapshot, Error{ErrorCode::failed, fmt::format("cannot write {}: {}", file.string(), exception.what()), ""});
}

}  // namespace gpuwarden::bindings
