// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/recording/watch.hpp"
#include "gpuwarden/telemetry/event_inbox.hpp"

namespace gpuwarden::launch {
namespace {

using Json = nlohmann::json;

constexpr auto kFirstPause = std::chrono::milliseconds(25);
/// How long a reading waits for one GPU before it goes on without it.
constexpr std::chrono::milliseconds kPatience{2000};
/// More than anybody reads of one run.
constexpr std::size_t kMostHappenings = 1000;

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

std::optional<double> most_of(const recording::GpuSummary& gpu, std::string_view metric) {
  const auto* figure = gpu.figure(metric);
  return figure == nullptr ? std::nullopt : std::optional(figure->max);
}

/// The figures that the report has had from the beginning.
void add_figures(GpuReport& report) {
  const recording::GpuSummary& gpu = report.summary;
  report.memory_total = gpu.memory_total;
  if (const auto most = most_of(gpu, "memory_used")) report.peak_memory = Bytes(static_cast<std::uint64_t>(*most));
  if (const auto most = most_of(gpu, "temperature")) report.peak_temperature = Celsius(std::llround(*most));
  if (const auto* utilization = gpu.figure("utilization")) report.mean_utilization = utilization->mean;
  for (const recording::ThrottleShare& one : gpu.throttling) report.throttling.push_back(one.reason);
  if (!gpu.energy) return;
  report.energy_joules = gpu.energy->joules;
  report.energy_is_estimate = !gpu.energy->from_counter;
}

/// A reading that says nothing of what the job did: what is left is good for its energy and for the GPUs' limits. So a
/// recording of the run comes to what the run's report says.
telemetry::Reading beside_the_job(telemetry::Reading reading) {
  for (facts::GpuRecord& record : reading.snapshot.gpus) {
    facts::GpuSample kept;
    kept.energy = record.sample.energy;
    kept.memory_total = record.sample.memory_total;
    kept.power_limit = record.sample.power_limit;
    record.sample = std::move(kept);
  }
  return reading;
}

/// Whose events are a job's: of a MIG instance its GPU's, which only all of them are sure to hold. One that hangs and
/// is not the job's then does not keep the others' from being heard.
std::vector<Uuid> watched_for(const std::vector<Uuid>& gpus) {
  const bool whole = std::ranges::none_of(gpus, [](const Uuid& uuid) { return uuid.value.starts_with("MIG-"); });
  return whole ? gpus : std::vector<Uuid>{};
}

}  // namespace

ReportBuilder::ReportBuilder(const std::vector<Uuid>& gpus, const std::vector<GpuIndex>& places) {
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    Track& track = tracks_.emplace_back();
    track.report.uuid = gpus[i];
    if (i >= places.size()) continue;
    track.place = places[i];
    track.report.index = places[i];
  }
}

std::string Straggler::sentence() const {
  return fmt::format("GPU {} is far behind the job's other GPUs ({}): {}", gpu.value, evidence,
                     reason.empty() ? "the driver tells no reason" : "held back by " + reason);
}

telemetry::WallTime ReportBuilder::time_of(const facts::Snapshot& snapshot, Clock::SteadyTime when) {
  if (!first_) first_.emplace(snapshot.taken_at, when);
  return first_->first + std::chrono::duration_cast<telemetry::WallTime::duration>(when - first_->second);
}

void ReportBuilder::add_sample(Track& track, const facts::GpuRecord& record, telemetry::WallTime time, Moment moment) {
  GpuReport& report = track.report;
  report.index = record.gpu.index;
  track.place = record.gpu.index;
  if (!record.gpu.name.empty()) report.name = record.gpu.name;
  collector_.add(record, report.uuid, time, moment);
  if (facts::is_usable(record)) {
    report.samples += moment == Moment::during_job ? 1 : 0;
    track.answers = true;
  } else {
    note_trouble(track, record.cause, time);
  }
}

void ReportBuilder::note_trouble(Track& track, const std::string& cause, telemetry::WallTime time) {
  if (track.answers) track.troubled = time;
  track.answers = false;
  track.report.trouble = cause;
}

void ReportBuilder::add(const facts::Snapshot& snapshot, Clock::SteadyTime when, Moment moment) {
  const telemetry::WallTime time = time_of(snapshot, when);
  for (Track& track : tracks_) {
    if (const auto* record = find_record(snapshot, track.report.uuid, track.place)) {
      add_sample(track, *record, time, moment);
    } else if (track.place) {
      note_trouble(track, snapshot.problem ? snapshot.problem->message : "the driver no longer reports this GPU", time);
    }
  }
}

telemetry::Reading ReportBuilder::only_these(telemetry::Reading reading) const {
  std::vector<facts::GpuRecord> records;
  for (const Track& track : tracks_) {
    const auto* record = find_record(reading.snapshot, track.report.uuid, track.place);
    const bool there = record != nullptr && std::ranges::none_of(records, [&](const facts::GpuRecord& one) {
                         return one.gpu.index == record->gpu.index;
                       });
    if (there) records.push_back(*record);
  }
  reading.snapshot.gpus = std::move(records);
  std::erase_if(reading.events, [&](const facts::GpuEvent& event) {
    return std::ranges::none_of(reading.snapshot.gpus,
                                [&](const facts::GpuRecord& one) { return one.gpu.uuid == event.uuid; });
  });
  return reading;
}

std::vector<GpuReport> ReportBuilder::finish() const {
  std::vector<GpuReport> reports;
  for (const Track& track : tracks_) {
    GpuReport report = track.report;
    if (const auto history = collector_.history(report.uuid)) report.summary = recording::summarize(*history);
    report.summary.index = report.index;
    report.summary.uuid = report.uuid;
    report.summary.name = report.name;
    report.summary.readings = report.samples;
    // Without a reading meanwhile the counter's difference would be that of the time around the job.
    if (report.samples == 0) report.summary.energy.reset();
    // One that came back had trouble, but was not lost.
    if (!track.answers && !report.trouble.empty())
      report.summary.lost = telemetry::Happening{track.troubled, "lost", report.uuid, report.trouble};
    add_figures(report);
    reports.push_back(std::move(report));
  }
  return reports;
}

/// What goes over links takes each GPU a tenth of a second to tell.
constexpr auto kTrafficPeriod = std::chrono::seconds(10);

struct Sampler::Impl {
  Impl(probe::ReaderOptions options, const JobGpus& job_gpus, Hearer listener, Clock& c)
      : reader_options(std::move(options)),
        has_gpus(!job_gpus.gpus.empty()),
        watched_gpus(watched_for(job_gpus.gpus)),
        reader(reader_options),
        builder(job_gpus.gpus, job_gpus.places),
        processes(listener.hear != nullptr && listener.processes),
        traffic(listener.traffic),
        hear(std::move(listener.hear)),
        clock(c) {}

  /// Begins to watch for events; the child that waits for them is started from this thread, with which it ends.
  void watch() {
    if (has_gpus) inbox.emplace(reader_options, [] {}, watched_gpus);
  }

  void sample() {
    if (inbox) inbox->keep_watching(clock.now());
    telemetry::Reading reading{.snapshot = {}, .leases = {}, .events = {}, .when = clock.now(), .took = {}};
    // One GPU that hangs does not keep the others' readings waiting.
    const bool with_traffic = traffic && (!traffic_read || reading.when - *traffic_read >= kTrafficPeriod);
    if (with_traffic) traffic_read = reading.when;
    reading.snapshot = reader.read({.detail = with_traffic ? probe::Detail::slow : probe::Detail::basic,
                                    .processes = processes,
                                    .every = kPatience});
    reading.took = clock.now() - reading.when;
    if (inbox) reading.events = inbox->take();
    bool during = false;
    {
      const std::scoped_lock lock(mutex);
      during = job_runs_since && *job_runs_since <= reading.when;
      builder.add(reading.snapshot, clock.now(), during ? Moment::during_job : Moment::around_job);
    }
    note_happenings(reading);
    if (hear) hear(during ? std::move(reading) : beside_the_job(std::move(reading)));
  }

  void note_happenings(const telemetry::Reading& reading) {
    telemetry::Reading mine = builder.only_these(reading);
    watched.identify(mine.snapshot);
    const std::scoped_lock lock(mutex);
    for (telemetry::Happening& happening : watched.judge(mine)) {
      if (happening.kind != recording::kThrottleKind && happenings.size() < kMostHappenings)
        happenings.push_back(std::move(happening));
    }
  }

  const probe::ReaderOptions reader_options;
  const bool has_gpus;
  const std::vector<Uuid> watched_gpus;
  probe::MachineReader reader;
  std::optional<telemetry::EventInbox> inbox;
  recording::Watch watched;
  std::vector<telemetry::Happening> happenings;
  std::mutex mutex;
  ReportBuilder builder;
  const bool processes;
  const bool traffic;
  std::optional<Clock::SteadyTime> traffic_read;
  std::function<void(telemetry::Reading)> hear;
  std::optional<Clock::SteadyTime> job_runs_since;
  Clock& clock;
  std::jthread thread;
};

Sampler::Sampler(probe::ReaderOptions options, const JobGpus& gpus, std::chrono::milliseconds period, Clock& clock,
                 Hearer hearer)
    : impl_(std::make_unique<Impl>(std::move(options), gpus, std::move(hearer), clock)) {
  // The thread starts with all signals blocked: they are for the launcher's loop.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  impl_->thread = std::jthread([impl = impl_.get(), period](const std::stop_token& stop) {
    // Short jobs end before the first whole period: the first samples come quickly, then ever slower up to the period.
    auto pause = std::min(period, kFirstPause);
    impl->watch();
    do {
      impl->sample();
    } while (impl->clock.sleep_for(std::exchange(pause, std::min(period, pause * 2)), stop));
    // The last one too: the reader's process ends with the thread that started it.
    impl->sample();
    impl->inbox.reset();
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

std::vector<telemetry::Happening> Sampler::happenings() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->happenings;
}

std::vector<std::string> gpu_warnings(const RunReport& report) {
  std::vector<std::string> warnings;
  for (const GpuReport& gpu : report.gpus) {
    if (!gpu.trouble.empty())
      warnings.push_back(fmt::format("GPU {} failed during the run: {}", gpu.index.value, printable(gpu.trouble)));
  }
  return warnings;
}

recording::Summary summary_of(const RunReport& report) {
  recording::Summary summary;
  summary.info.simulated = report.simulated;
  summary.info.fleet = report.fleet;
  summary.info.host = report.host;
  summary.info.command = report.command;
  summary.info.exit_code = report.end.exit_code;
  summary.info.finished = true;
  summary.run_id = report.run_id;
  summary.held = true;
  summary.window = {report.started, report.started + report.end.wall_time};
  for (const GpuReport& gpu : report.gpus) summary.gpus.push_back(gpu.summary);
  summary.happenings = report.happenings;
  summary.waste = recording::judge_waste(summary);
  return summary;
}

namespace {

/// A list of what `one_json` makes of each.
template <class List, class ToJson>
Json list_json(const List& list, ToJson one_json) {
  Json json = Json::array();
  for (const auto& one : list) json.push_back(one_json(one));
  return json;
}

Json json_of_gpu(const GpuReport& gpu) {
  const auto number = [](const auto& value) { return value ? Json(value->value) : Json(); };
  Json json = recording::to_json(gpu.summary);
  json.update(
      {{"index", gpu.index.value},
       {"uuid", gpu.uuid.value},
       {"name", gpu.name},
       {"peak_memory_bytes", number(gpu.peak_memory)},
       {"memory_total_bytes", number(gpu.memory_total)},
       {"mean_utilization_percent", gpu.mean_utilization ? Json(*gpu.mean_utilization) : Json()},
       {"peak_temperature_celsius", number(gpu.peak_temperature)},
       {"energy_joules", gpu.energy_joules ? Json(*gpu.energy_joules) : Json()},
       {"energy_is_estimate", gpu.energy_is_estimate},
       {"throttling", list_json(gpu.throttling, [](auto why) { return Json(std::string(facts::to_string(why))); })},
       {"samples", gpu.samples},
       {"trouble", gpu.trouble}});
  return json;
}

Json json_of_rank(const RankEnd& rank) {
  return {{"rank", rank.rank},
          {"pid", rank.pid.value},
          {"exit_code", rank.exit_code ? Json(*rank.exit_code) : Json()},
          {"signal", rank.signal ? Json(*rank.signal) : Json()}};
}

Json json_of_finding(const SiteFinding& finding) {
  return {{"id", finding.id}, {"severity", finding.severity}, {"message", finding.message}, {"fix", finding.fix}};
}

Json json_of_straggler(const Straggler& one) {
  return {{"gpu", one.gpu.value}, {"uuid", one.uuid.value}, {"evidence", one.evidence}, {"reason", one.reason}};
}

Json json_of_early_end(const std::optional<EarlyEnd>& early) {
  return early ? Json{{"kind", std::string(to_string(early->kind))}, {"why", early->why}} : Json();
}

}  // namespace

std::string signal_text(const JobEnd& end) {
  if (!end.first_failure) return "";
  const auto rank = std::ranges::find(end.ranks, *end.first_failure, &RankEnd::rank);
  if (rank == end.ranks.end() || !rank->signal) return "";
  const char* name = sigabbrev_np(*rank->signal);
  return fmt::format(
      "{} was ended by signal {}{}{}{}", end.ranks.size() > 1 ? fmt::format("rank {}", rank->rank) : "it",
      *rank->signal, name == nullptr ? "" : ", SIG", name == nullptr ? "" : name,
      *rank->signal == SIGKILL ? ", as the kernel does where the machine is out of memory: sudo dmesg -T | tail" : "");
}

Json to_json(const RunReport& report) {
  std::vector<std::string> warnings = report.end.warnings;
  std::ranges::move(gpu_warnings(report), std::back_inserter(warnings));
  const JobEnd& end = report.end;
  return facts::answer(
      {{"fleet", report.fleet},
       {"host", report.host},
       {"run_id", report.run_id},
       {"command", report.command},
       {"started", format_utc(report.started)},
       {"wall_seconds", static_cast<double>(end.wall_time.count()) / 1000},
       {"exit_code", end.exit_code},
       {"interrupted_by", end.interrupted_by ? Json(*end.interrupted_by) : Json()},
       {"first_failure", end.first_failure ? Json(*end.first_failure) : Json()},
       {"ranks", list_json(end.ranks, json_of_rank)},
       {"gpus", list_json(report.gpus, json_of_gpu)},
       {"warnings", warnings},
       {"findings", list_json(report.findings, json_of_finding)},
       {"waste", list_json(report.waste, [](const recording::Waste& one) { return recording::to_json(one); })},
       {"happenings",
        list_json(report.happenings, [](const telemetry::Happening& one) { return recording::to_json(one); })},
       {"stragglers", list_json(report.stragglers, json_of_straggler)},
       {"ended_early", json_of_early_end(end.early)}},
      report.simulated);
}

Json refusal_to_json(const placement::Decision& refused, const Error& error, bool simulated, int exit_code) {
  using Kind = placement::Verdict::Kind;
  Json trouble = Json::array();
  for (const placement::Verdict& one : refused.verdicts) {
    if (one.kind != Kind::unhealthy && one.kind != Kind::disabled) continue;
    trouble.push_back({{"index", one.device.index.value}, {"uuid", one.device.uuid.value}, {"cause", one.reason}});
  }
  return facts::answer({{"exit_code", exit_code},
                        {"error", {{"code", to_string(error.code)}, {"message", error.message}, {"hint", error.hint}}},
                        {"gpus_in_trouble", std::move(trouble)}},
                       simulated);
}

}  // namespace gpuwarden::launch
