// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::launch {
namespace {

using Json = nlohmann::json;

constexpr auto kFirstPause = std::chrono::milliseconds(25);

/// The record of a GPU, or of the GPU that a MIG instance is on. A GPU that is lost tells neither its UUID nor its
/// instances any more: it is the one in the place where it was before.
const facts::GpuRecord* find_record(const facts::Snapshot& snapshot, const Uuid& uuid,
                                    const std::optional<GpuIndex>& place) {
  const auto found = std::ranges::find_if(snapshot.gpus, [&](const facts::GpuRecord& record) {
    return record.gpu.uuid == uuid ||
           std::ranges::find(record.mig_devices, uuid, &facts::MigDevice::uuid) != record.mig_devices.end();
  });
  if (found != snapshot.gpus.end()) return &*found;
  const auto there = std::ranges::find_if(snapshot.gpus, [&](const facts::GpuRecord& record) {
    return place && record.gpu.index == *place && !facts::is_usable(record);
  });
  return there == snapshot.gpus.end() ? nullptr : &*there;
}

template <class T>
void keep_largest(std::optional<T>& largest, const std::optional<T>& value) {
  if (value && (!largest || *value > *largest)) largest = value;
}

}  // namespace

ReportBuilder::ReportBuilder(const std::vector<Uuid>& gpus) {
  for (const Uuid& uuid : gpus) tracks_.emplace_back().report.uuid = uuid;
}

void ReportBuilder::add_load(Track& track, const facts::GpuSample& sample) {
  GpuReport& report = track.report;
  ++report.samples;
  keep_largest(report.peak_memory, sample.memory_used);
  keep_largest(report.peak_temperature, sample.temperature);
  if (sample.utilization_gpu) {
    track.utilization_sum += static_cast<double>(sample.utilization_gpu->value);
    ++track.utilization_samples;
  }
  for (const auto reason : sample.throttle_reasons.value_or(std::vector<facts::ThrottleReason>{})) {
    const bool known = std::ranges::find(report.throttling, reason) != report.throttling.end();
    if (facts::is_slowdown(reason) && !known) report.throttling.push_back(reason);
  }
}

void ReportBuilder::add_sample(Track& track, const facts::GpuRecord& record, Clock::SteadyTime when, Moment moment) {
  GpuReport& report = track.report;
  const facts::GpuSample& sample = record.sample;
  report.index = record.gpu.index;
  track.place = record.gpu.index;
  if (!record.gpu.name.empty()) report.name = record.gpu.name;
  if (!facts::is_usable(record)) {
    report.trouble = record.cause;
    track.last_power.reset();
    return;
  }
  report.memory_total = sample.memory_total;
  if (moment == Moment::during_job) add_load(track, sample);
  if (!track.first_energy) track.first_energy = sample.energy;
  if (sample.energy) track.last_energy = sample.energy;
  if (sample.power && track.last_power) {
    const double mean_watts = static_cast<double>(sample.power->value + track.last_power->value) / 2000;
    track.integrated_joules += mean_watts * std::chrono::duration<double>(when - track.last_time).count();
  }
  track.last_power = sample.power;
  track.last_time = when;
}

void ReportBuilder::add(const facts::Snapshot& snapshot, Clock::SteadyTime when, Moment moment) {
  for (Track& track : tracks_) {
    if (const auto* record = find_record(snapshot, track.report.uuid, track.place))
      add_sample(track, *record, when, moment);
    else if (track.place)
      track.report.trouble = snapshot.problem ? snapshot.problem->message : "the driver no longer reports this GPU";
  }
}

std::vector<GpuReport> ReportBuilder::finish() const {
  std::vector<GpuReport> reports;
  for (const Track& track : tracks_) {
    GpuReport report = track.report;
    if (track.utilization_samples > 0) report.mean_utilization = track.utilization_sum / track.utilization_samples;
    // Without a reading meanwhile the counter's difference would be that of the time around the job.
    const bool seen = report.samples > 0;
    if (seen && track.first_energy && track.last_energy) {
      report.energy_joules = static_cast<double>(track.last_energy->value - track.first_energy->value) / 1000;
    } else if (seen && track.integrated_joules > 0) {
      report.energy_joules = track.integrated_joules;
      report.energy_is_estimate = true;
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

struct Sampler::Impl {
  Impl(probe::ReaderOptions options, const std::vector<Uuid>& gpus, Clock& c)
      : reader(std::move(options)), builder(gpus), clock(c) {}

  void sample() {
    const auto begun = clock.now();
    const auto snapshot = reader.read({.processes = false});
    const std::scoped_lock lock(mutex);
    const bool during = job_runs_since && *job_runs_since <= begun;
    builder.add(snapshot, clock.now(), during ? Moment::during_job : Moment::around_job);
  }

  probe::MachineReader reader;
  std::mutex mutex;
  ReportBuilder builder;
  std::optional<Clock::SteadyTime> job_runs_since;
  Clock& clock;
  std::jthread thread;
};

Sampler::Sampler(probe::ReaderOptions options, const std::vector<Uuid>& gpus, std::chrono::milliseconds period,
                 Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(options), gpus, clock)) {
  // The thread starts with all signals blocked: they are for the launcher's loop.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  impl_->thread = std::jthread([impl = impl_.get(), period](const std::stop_token& stop) {
    // Short jobs end before the first whole period: the first samples come quickly, then ever slower up to the period.
    auto pause = std::min(period, kFirstPause);
    do {
      impl->sample();
    } while (impl->clock.sleep_for(std::exchange(pause, std::min(period, pause * 2)), stop));
    // The last one too: the reader's process ends with the thread that started it.
    impl->sample();
  });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Sampler::~Sampler() = default;

void Sampler::job_started() {
  const std::scoped_lock lock(impl_->mutex);
  impl_->job_runs_since = impl_->clock.now();
}

void Sampler::job_ended() {
  const std::scoped_lock lock(impl_->mutex);
  impl_->job_runs_since.reset();
}

std::vector<GpuReport> Sampler::finish() {
  impl_->thread.request_stop();
  if (impl_->thread.joinable()) impl_->thread.join();
  return impl_->builder.finish();
}

std::vector<std::string> gpu_warnings(const RunReport& report) {
  std::vector<std::string> warnings;
  for (const GpuReport& gpu : report.gpus) {
    if (!gpu.trouble.empty())
      warnings.push_back(fmt::format("GPU {} failed during the run: {}", gpu.index.value, printable(gpu.trouble)));
  }
  return warnings;
}

Json to_json(const RunReport& report) {
  std::vector<std::string> warnings = report.end.warnings;
  std::ranges::move(gpu_warnings(report), std::back_inserter(warnings));
  Json findings = Json::array();
  for (const SiteFinding& finding : report.findings)
    findings.push_back(
        {{"id", finding.id}, {"severity", finding.severity}, {"message", finding.message}, {"fix", finding.fix}});
  Json gpus = Json::array();
  const auto number = [](const auto& value) { return value ? Json(value->value) : Json(); };
  for (const GpuReport& gpu : report.gpus) {
    Json reasons = Json::array();
    for (const auto reason : gpu.throttling) reasons.push_back(std::string(facts::to_string(reason)));
    gpus.push_back({{"index", gpu.index.value},
                    {"uuid", gpu.uuid.value},
                    {"name", gpu.name},
                    {"peak_memory_bytes", number(gpu.peak_memory)},
                    {"memory_total_bytes", number(gpu.memory_total)},
                    {"mean_utilization_percent", gpu.mean_utilization ? Json(*gpu.mean_utilization) : Json()},
                    {"peak_temperature_celsius", number(gpu.peak_temperature)},
                    {"energy_joules", gpu.energy_joules ? Json(*gpu.energy_joules) : Json()},
                    {"energy_is_estimate", gpu.energy_is_estimate},
                    {"throttling", reasons},
                    {"samples", gpu.samples},
                    {"trouble", gpu.trouble}});
  }
  Json ranks = Json::array();
  for (const RankEnd& rank : report.end.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"pid", rank.pid.value},
                     {"exit_code", rank.exit_code ? Json(*rank.exit_code) : Json()},
                     {"signal", rank.signal ? Json(*rank.signal) : Json()}});
  }
  return {{"schema", facts::kJsonSchema},
          {"simulated", report.simulated},
          {"run_id", report.run_id},
          {"command", report.command},
          {"started", format_utc(report.started)},
          {"wall_seconds", static_cast<double>(report.end.wall_time.count()) / 1000},
          {"exit_code", report.end.exit_code},
          {"first_failure", report.end.first_failure ? Json(*report.end.first_failure) : Json()},
          {"ranks", ranks},
          {"gpus", gpus},
          {"warnings", warnings},
          {"findings", findings}};
}

}  // namespace gpuwarden::launch
