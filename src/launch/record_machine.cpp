// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/record_machine.hpp"

#include <algorithm>
#include <utility>

#include "gpuwarden/facts/use.hpp"
#include "gpuwarden/machine/lease_watch.hpp"
#include "gpuwarden/machine/out_of_use.hpp"
#include "gpuwarden/placement/names.hpp"
#include "gpuwarden/telemetry/monitor.hpp"

namespace gpuwarden::launch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A short recording is read often enough that there is something between its readings.
milliseconds interval_of(const RecordRequest& request) {
  constexpr milliseconds kShortest(100);
  constexpr milliseconds kUsual = seconds(5);
  constexpr int kReadings = 10;
  if (request.interval) return *request.interval;
  if (!request.command.empty()) return seconds(1);
  return request.duration ? std::clamp(*request.duration / kReadings, kShortest, kUsual) : kUsual;
}

/// The GPUs that are asked for, as they are now.
Result<facts::Snapshot> first_look(const machine::Machine& machine, const std::vector<std::string>& names) {
  // As one of a series: a GPU that hangs does not keep the recording from beginning.
  facts::Snapshot snapshot = machine.read({.processes = false, .every = seconds(1)});
  if (snapshot.problem) return std::unexpected(Error(*snapshot.problem));
  if (snapshot.gpus.empty())
    return fail(ErrorCode::unavailable, "there is no GPU to record", "gpuwarden doctor says why none is seen");
  GPUWARDEN_CHECK(placement::keep_named(placement::expand_ranges(names), snapshot));
  return snapshot;
}

recording::RecorderOptions completed(const RecordRequest& request, const facts::Snapshot& snapshot) {
  recording::RecorderOptions files = request.files;
  if (files.file.empty() && files.csv.empty() && files.jsonl.empty())
    files.file = recording::usual_file_name(snapshot.host, system_clock().wall_now());
  files.info = recording::info_of(snapshot, request.command, interval_of(request));
  if (!request.gpus.empty()) {
    for (const facts::GpuRecord& record : snapshot.gpus) files.gpus.push_back(facts::identity_of(record));
  }
  return files;
}

/// Alerts are the recorder's.
telemetry::MonitorOptions monitor_options(const machine::Machine& machine, milliseconds interval,
                                          std::function<void(const std::string&)> log) {
  telemetry::MonitorOptions options;
  options.reader = machine.reader();
  options.sampler.interval = interval;
  options.leases = machine::watch_leases(machine);
  options.alerts = {};
  options.remember = {};
  options.publish_health = machine::health_places(machine.options().environment, machine.reader());
  options.publish_as = "gpuwarden record";
  options.log = std::move(log);
  return options;
}

}  // namespace

class MachineRecording::Impl {
 public:
  Impl(const machine::Machine& machine, RecordRequest request, facts::Snapshot snapshot,
       recording::RecorderOptions files, std::unique_ptr<recording::Recorder> recorder)
      : request_(std::move(request)),
        snapshot_(std::move(snapshot)),
        files_(std::move(files)),
        recorder_(std::move(recorder)),
        monitor_(monitor_options(machine, files_.info.interval, request_.log)) {
    monitor_.add_reading_callback([this](const telemetry::Reading& reading) { take(reading); });
  }

  Result<void> start() {
    constexpr milliseconds kForTheFirst = seconds(2);
    GPUWARDEN_CHECK(monitor_.start());
    if (!request_.command.empty()) monitor_.wait_for_reading({}, kForTheFirst);
    return {};
  }

  recording::Told finish(std::optional<int> exit_code) {
    monitor_.stop();
    return recorder_->finish(exit_code);
  }

  recording::Recorder& recorder() const { return *recorder_; }
  const facts::Snapshot& snapshot() const { return snapshot_; }
  const recording::RecorderOptions& files() const { return files_; }

 private:
  void take(const telemetry::Reading& reading) {
    recorder_->add(reading);
    const auto trouble = recorder_->progress().trouble;
    if (trouble && !told_ && request_.log) request_.log(trouble->message);
    told_ = told_ || trouble.has_value();
  }

  RecordRequest request_;
  facts::Snapshot snapshot_;
  recording::RecorderOptions files_;
  std::unique_ptr<recording::Recorder> recorder_;
  bool told_ = false;
  telemetry::PerformanceMonitor monitor_;  // last: its thread has ended before what it writes to is gone
};

MachineRecording::MachineRecording(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MachineRecording::~MachineRecording() = default;

Result<std::unique_ptr<MachineRecording>> MachineRecording::open(const machine::Machine& machine,
                                                                 RecordRequest request) {
  GPUWARDEN_TRY(facts::Snapshot snapshot, first_look(machine, request.gpus));
  recording::RecorderOptions files = completed(request, snapshot);
  GPUWARDEN_TRY(auto recorder, recording::Recorder::open(files, system_clock()));
  auto impl =
      std::make_unique<Impl>(machine, std::move(request), std::move(snapshot), std::move(files), std::move(recorder));
  return std::unique_ptr<MachineRecording>(new MachineRecording(std::move(impl)));
}

Result<void> MachineRecording::start() { return impl_->start(); }
recording::Recorder::Progress MachineRecording::progress() const { return impl_->recorder().progress(); }
recording::Told MachineRecording::finish(std::optional<int> exit_code) { return impl_->finish(exit_code); }
const facts::Snapshot& MachineRecording::gpus() const { return impl_->snapshot(); }
const recording::RecorderOptions& MachineRecording::files() const { return impl_->files(); }

}  // namespace gpuwarden::launch
