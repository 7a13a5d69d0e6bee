// SPDX-License-Identifier: Apache-2.0
// Samples a job's GPUs while it runs and sums up what was seen.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/launch/job.hpp"
#include "gpuwarden/placement/select.hpp"
#include "gpuwarden/probe/machine_reader.hpp"
#include "gpuwarden/recording/collector.hpp"
#include "gpuwarden/recording/summary.hpp"
#include "gpuwarden/telemetry/reading.hpp"

namespace gpuwarden::launch {

/// What one GPU did during the job. Unknown stays empty: where it was not read once while the job ran, all figures are.
struct GpuReport {
  GpuIndex index;
  Uuid uuid;
  std::string name;
  std::optional<Bytes> peak_memory;
  std::optional<Bytes> memory_total;
  std::optional<double> mean_utilization;  ///< percent
  std::optional<Celsius> peak_temperature;
  std::optional<double> energy_joules;  ///< counter difference, else power integrated over time
  bool energy_is_estimate = false;
  std::vector<facts::ThrottleReason> throttling;  ///< slowdown reasons seen
  std::uint32_t samples = 0;                      ///< readings while the job ran
  std::string trouble;                            ///< what went wrong with the GPU meanwhile
  recording::GpuSummary summary;                  ///< its figures in full; what is above is taken from them
};

/// What a rule of the site says about the run (run_rules.hpp).
struct SiteFinding {
  std::string id;  ///< "site:idle-gpus"
  std::string severity;
  std::string message;
  std::string fix;
  bool operator==(const SiteFinding&) const = default;
};

/// A GPU that was clearly slower, or did clearly less, than the others of its job.
struct Straggler {
  GpuIndex gpu;
  Uuid uuid;
  std::string evidence;    ///< "SM clock 345 MHz, the others' median 1980 MHz, for 1 min 0 s"
  std::string reason;      ///< what the machine tells of it: "heat (hw_thermal_slowdown)"; empty: nothing
  bool ended_job = false;  ///< the job was ended for its sake (EarlyEnd::Kind::straggler)
  /// "GPU 3 is far behind the job's other GPUs: ...".
  std::string sentence() const;
};

/// What a GPU read at one moment of a job's last minute. Unknown is empty.
struct LateReading {
  std::chrono::system_clock::time_point time{};
  GpuIndex gpu;
  facts::GpuState state{};
  std::optional<Percent> utilization;
  std::optional<Percent> memory_utilization;
  std::optional<Bytes> memory_used;
  std::optional<Milliwatts> power;
  std::optional<Celsius> temperature;
  std::optional<Megahertz> sm_clock;
  std::vector<facts::ThrottleReason> throttling;
};

struct RunReport {
  bool simulated = false;
  std::string fleet;  ///< the simulated one's name
  std::string host;
  std::string run_id;
  std::vector<std::string> command;
  std::chrono::system_clock::time_point started{};
  JobEnd end;
  std::vector<GpuReport> gpus;
  std::vector<SiteFinding> findings;
  std::vector<recording::Waste> waste;  ///< what was wasted, by the checks that need no site
  /// Xids, losses, memory errors, alerts of the job's GPUs; oldest first.
  std::vector<telemetry::Happening> happenings;
  std::vector<Straggler> stragglers;
  std::vector<LateReading> last_minute;  ///< of the job's GPUs, oldest first
  /// The job's GPUs as they were last read while it ran, for a diagnosis; empty where they were not.
  std::optional<facts::Snapshot> last_seen;
};

using recording::Moment;

/// Collects snapshots of the named GPUs; pure.
class ReportBuilder {
 public:
  /// `places`: where the GPUs were when they were chosen, so that one that is lost before it is read is known by its
  /// place; may be empty.
  explicit ReportBuilder(const std::vector<Uuid>& gpus, const std::vector<GpuIndex>& places = {});
  void add(const facts::Snapshot& snapshot, Clock::SteadyTime when, Moment moment = Moment::during_job);
  std::vector<GpuReport> finish() const;
  /// The reading with these GPUs alone, each as the GPU that it is (of a MIG instance the one that it is on).
  telemetry::Reading only_these(telemetry::Reading reading) const;

 private:
  /// What is remembered of one GPU between samples.
  struct Track {
    GpuReport report;
    std::optional<GpuIndex> place;   ///< where it was when it was last seen
    telemetry::WallTime troubled{};  ///< when its last trouble was first seen
    bool answers = true;             ///< at the last reading
  };
  static void note_trouble(Track& track, const std::string& cause, telemetry::WallTime time);
  void add_sample(Track& track, const facts::GpuRecord& record, telemetry::WallTime time, Moment moment);
  /// The time of day of a reading, counted from the first one, so that a clock that is set does not matter.
  telemetry::WallTime time_of(const facts::Snapshot& snapshot, Clock::SteadyTime when);

  std::vector<Track> tracks_;
  recording::Collector collector_;
  std::optional<std::pair<telemetry::WallTime, Clock::SteadyTime>> first_;
};

/// The GPUs of a job; `places` as ReportBuilder's.
struct JobGpus {
  std::vector<Uuid> gpus;
  std::vector<GpuIndex> places = {};
};

/// Who is told of a sampler's readings.
struct Hearer {
  std::function<void(telemetry::Reading)> hear;  ///< from the sampler's thread; may be empty
  bool processes = true;                         ///< the readings have the processes, too, which costs more
  bool traffic = false;                          ///< and what goes over PCIe and NVLink, which costs more still
};

/// Feeds a ReportBuilder every `period` from a thread of its own until stopped, and hears of Xids and the like
/// meanwhile; a GPU that hangs delays only samples.
class Sampler {
 public:
  Sampler(probe::ReaderOptions options, const JobGpus& gpus, std::chrono::milliseconds period, Clock& clock,
          Hearer hearer = {});
  ~Sampler();
  /// The job's ranks run from here; readings that were begun earlier say nothing about it. May be called for each rank.
  void job_started();
  /// No rank runs any more: what is read from here on says nothing about the job.
  void job_ended();
  /// Takes a last sample, ends the thread and gives the reports.
  std::vector<GpuReport> finish();
  /// What happened to the GPUs, oldest first; after finish().
  std::vector<telemetry::Happening> happenings() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// "rank 1 was ended by signal 9, SIGKILL, ..." where the first rank that failed ended so; empty elsewhere.
std::string signal_text(const JobEnd& end);

/// A sentence about each GPU that something happened to while the job ran; a job may have ended well all the same.
std::vector<std::string> gpu_warnings(const RunReport& report);

/// The run as recordings are summed up: what the waste checks judge.
recording::Summary summary_of(const RunReport& report);

nlohmann::json to_json(const RunReport& report);
/// What stands in place of a run's report where the job could not get its GPUs: {"schema", "simulated", "exit_code",
/// "error": {"code", "message", "hint"}, "gpus_in_trouble": [{"index", "uuid", "cause"}]}; the latter are those that
/// `refused` leaves out as unfit or disabled.
nlohmann::json refusal_to_json(const placement::Decision& refused, const Error& error, bool simulated, int exit_code);

}  // namespace gpuwarden::launch
