// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/recording/recorder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/recording/collector.hpp"
#include "gpuwarden/recording/watch.hpp"
#include "recording/text_files.hpp"

namespace gpuwarden::recording {
namespace {

namespace fs = std::filesystem;
using telemetry::Happening;
using telemetry::Reading;
using telemetry::Store;
using telemetry::Use;

/// Of what happened, more is in the file than anybody reads.
constexpr std::size_t kMostRemembered = 10'000;
constexpr std::size_t kMostUses = 50'000;

Error exists_error(const fs::path& file, const RecorderOptions& options) {
  return {ErrorCode::invalid_argument, fmt::format("{} exists already", printable(file.string())),
          options.if_it_exists};
}

Result<void> check_append(const fs::path& file, const telemetry::StoreInfo& info) {
  GPUWARDEN_TRY(const auto store, Store::read(file));
  GPUWARDEN_TRY(const auto before, store.info());
  if (before.host == info.host && before.simulated == info.simulated && before.fleet == info.fleet) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} is a recording of {}, not of this machine", printable(file.string()),
                          printable(before.simulated ? "the simulated fleet " + before.fleet : before.host)),
              "choose another name with -o");
}

/// Makes room for a recording as the user wants it.
Result<void> prepare(const fs::path& file, const RecorderOptions& options) {
  std::error_code error;
  const auto status = fs::status(file, error);
  if (!fs::exists(status)) return {};
  if (!fs::is_regular_file(status))
    return fail(ErrorCode::invalid_argument, fmt::format("{} is not a regular file", printable(file.string())),
                "--csv and --jsonl write into pipes and devices");
  if (options.existing == Existing::refuse) return std::unexpected(exists_error(file, options));
  if (options.existing == Existing::append) return check_append(file, options.info);
  // SQLite keeps these beside a database that was not closed; another database's would be taken for this one's.
  for (const char* beside : {"", "-wal", "-shm", "-journal"}) {
    fs::remove(file.string() + beside, error);
    if (error) return std::unexpected(error_from_errno(error.value(), "cannot replace " + printable(file.string())));
  }
  return {};
}

Result<std::optional<TextFile>> open_text(const fs::path& path, Existing existing) {
  if (path.empty()) return std::nullopt;
  GPUWARDEN_TRY(auto file, TextFile::open(path, existing));
  return std::optional(std::move(file));
}

std::vector<Happening> held_since(const facts::Snapshot& snapshot, const std::string& run) {
  std::vector<Happening> held;
  for (const facts::GpuRecord& record : snapshot.gpus)
    held.push_back({snapshot.taken_at, std::string(kHeldKind), record.gpu.uuid, run});
  return held;
}

}  // namespace

telemetry::StoreInfo info_of(const facts::Snapshot& snapshot, std::vector<std::string> command,
                             std::chrono::milliseconds interval) {
  telemetry::StoreInfo info;
  info.host = snapshot.host;
  info.simulated = snapshot.simulated;
  info.fleet = snapshot.fleet;
  info.driver_version = snapshot.driver_version.value_or("");
  info.command = std::move(command);
  info.interval = interval;
  return info;
}

std::string usual_file_name(const std::string& host, telemetry::WallTime time) {
  std::string name;
  for (const char c : host) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    name += plain ? c : '-';
  }
  std::string stamp;
  for (const char c : format_utc(time)) {
    if (c >= '0' && c <= '9') stamp += c;
    if (c == 'T') stamp += '-';
  }
  return fmt::format("gpuwarden-{}-{}.db", name.empty() ? "host" : name, stamp);
}

class Recorder::Impl {
 public:
  explicit Impl(RecorderOptions options) : options_(std::move(options)), collector_(options_.info.interval) {}

  Result<void> open(Clock& clock) {
    GPUWARDEN_TRY(csv_, open_text(options_.csv, options_.existing));
    GPUWARDEN_TRY(jsonl_, open_text(options_.jsonl, options_.existing));
    if (csv_ && csv_->fresh()) GPUWARDEN_CHECK(csv_->write(csv_heading()));
    if (options_.file.empty()) return {};
    GPUWARDEN_CHECK(prepare(options_.file, options_));
    GPUWARDEN_TRY(auto store, Store::open(options_.file, telemetry::StoreConfig::of_recording(), options_.info, clock));
    store_ = std::move(store);
    return {};
  }

  void add(Reading reading) {
    const std::scoped_lock lock(mutex_);
    if (finished_) return;
    watch_.identify(reading.snapshot);
    keep_named(reading);
    auto happenings = watch_.judge(reading);
    if (progress_.readings == 0 && !options_.held_by.empty())
      std::ranges::move(held_since(reading.snapshot, options_.held_by), std::back_inserter(happenings));
    meter_.add(reading);
    keep(meter_.take_finished(), std::move(happenings));
    write(reading);
    for (const facts::GpuRecord& record : reading.snapshot.gpus)
      collector_.add(record, record.gpu.uuid, reading.snapshot.taken_at);
    note(reading.snapshot);
  }

  Progress progress() const {
    const std::scoped_lock lock(mutex_);
    return progress_;
  }

  Told finish(std::optional<int> exit_code) {
    const std::scoped_lock lock(mutex_);
    finished_ = true;
    keep(meter_.take_all(), {});
    if (store_) {
      if (!new_uses_.empty() || !new_happenings_.empty()) {
        if (auto added = store_->add(last_moment_, new_uses_, new_happenings_); !added) note_trouble(added.error());
      }
      if (auto done = store_->finish(exit_code); !done) note_trouble(done.error());
    }
    Told told = options_.existing == Existing::append ? told_by_file() : Told{};
    if (!told.readings) told = told_by_memory(exit_code);
    store_.reset();
    return told;
  }

 private:
  /// Of the readings only those GPUs that were asked for.
  void keep_named(Reading& reading) {
    if (options_.gpus.empty()) return;
    // One that was named by its place, because it was lost, tells its UUID at last.
    for (const facts::GpuRecord& record : reading.snapshot.gpus) {
      const auto place = std::ranges::find(options_.gpus, place_name(record.gpu.index));
      const bool named = std::ranges::find(options_.gpus, record.gpu.uuid) != options_.gpus.end();
      if (place != options_.gpus.end() && !named) options_.gpus.push_back(record.gpu.uuid);
    }
    const auto unnamed = [&](const Uuid& uuid) {
      return std::ranges::find(options_.gpus, uuid) == options_.gpus.end();
    };
    std::erase_if(reading.snapshot.gpus, [&](const auto& record) { return unnamed(record.gpu.uuid); });
    std::erase_if(reading.events, [&](const auto& event) { return unnamed(event.uuid); });
    std::erase_if(reading.leases, [&](const auto& lease) { return unnamed(lease.uuid); });
  }

  /// Notes what is to be written, and what the summary is made of.
  void keep(std::vector<Use> uses, std::vector<Happening> happenings) {
    uses_.insert(uses_.end(), uses.begin(), uses.end());
    if (uses_.size() > kMostUses) uses_ = telemetry::sum_up(uses_, telemetry::UseBy::process);
    for (const Happening& happening : happenings) {
      if (happenings_.size() < kMostRemembered) happenings_.push_back(happening);
    }
    if (!store_) return;
    std::ranges::move(uses, std::back_inserter(new_uses_));
    std::ranges::move(happenings, std::back_inserter(new_happenings_));
  }

  void note_trouble(const Error& error) {
    if (!progress_.trouble) progress_.trouble = error;
  }

  void write(const Reading& reading) {
    bool written = true;
    const auto check = [&](const Result<void>& done) {
      if (!done) note_trouble(done.error());
      written = written && done.has_value();
      return done.has_value();
    };
    // What could not be written is tried again with the next reading.
    if (store_ && check(store_->add(reading, new_uses_, new_happenings_))) {
      new_uses_.clear();
      new_happenings_.clear();
    }
    if (csv_) check(csv_->write(csv_lines(reading)));
    if (jsonl_) check(jsonl_->write(json_line_of(reading)));
    ++progress_.readings;
    progress_.lost += written ? 0 : 1;
  }

  void note(const facts::Snapshot& snapshot) {
    last_moment_.snapshot = snapshot;
    last_moment_.snapshot.gpus.clear();
    progress_.gpus = snapshot.gpus.size();
    double percent = 0;
    int known = 0;
    progress_.watts.reset();
    progress_.hottest.reset();
    for (const facts::GpuRecord& record : snapshot.gpus) {
      const facts::GpuSample& sample = record.sample;
      if (!facts::is_usable(record)) continue;
      if (sample.utilization_gpu) percent += static_cast<double>(sample.utilization_gpu->value);
      known += sample.utilization_gpu ? 1 : 0;
      if (sample.power) progress_.watts = progress_.watts.value_or(0) + static_cast<double>(sample.power->value) / 1000;
      if (sample.temperature)
        progress_.hottest = std::max(progress_.hottest.value_or(-1000), static_cast<double>(sample.temperature->value));
    }
    progress_.mean_utilization = known > 0 ? std::optional(percent / known) : std::nullopt;
  }

  Told told_by_file() const {
    if (!store_) return {};
    auto readings = read_recording(*store_);
    if (!readings) return {};
    Told told{.summary = summarize(*readings), .readings = {}};
    told.readings = std::move(*readings);
    return told;
  }

  Told told_by_memory(std::optional<int> exit_code) const {
    Recording recording = collector_.recording();
    recording.info = options_.info;
    recording.info.exit_code = exit_code;
    recording.info.finished = true;
    recording.uses = uses_;
    recording.happenings = happenings_;
    recording.held = !options_.held_by.empty();
    join_nameless(recording);
    Told told{.summary = summarize(recording), .readings = {}};
    told.readings = std::move(recording);
    return told;
  }

  RecorderOptions options_;
  mutable std::mutex mutex_;
  std::optional<Store> store_;
  std::optional<TextFile> csv_;
  std::optional<TextFile> jsonl_;
  Watch watch_;
  Collector collector_;
  telemetry::UsageMeter meter_;
  std::vector<Use> uses_;
  std::vector<Use> new_uses_;
  std::vector<Happening> happenings_;
  std::vector<Happening> new_happenings_;
  Reading last_moment_;  ///< the last reading without its GPUs
  Progress progress_;
  bool finished_ = false;
};

Recorder::Recorder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Recorder::~Recorder() = default;

Result<std::unique_ptr<Recorder>> Recorder::open(RecorderOptions options, Clock& clock) {
  auto impl = std::make_unique<Impl>(std::move(options));
  GPUWARDEN_CHECK(impl->open(clock));
  return std::unique_ptr<Recorder>(new Recorder(std::move(impl)));
}

void Recorder::add(Reading reading) { impl_->add(std::move(reading)); }
Recorder::Progress Recorder::progress() const { return impl_->progress(); }
Told Recorder::finish(std::optional<int> exit_code) { return impl_->finish(exit_code); }

}  // namespace gpuwarden::recording
