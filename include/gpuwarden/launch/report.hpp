// SPDX-License-Identifier: Apache-2.0
// Samples a job's GPUs while it runs and sums up what was seen.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/launch/job.hpp"
#include "gpuwarden/probe/machine_reader.hpp"

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
};

/// What a rule of the site says about the run (run_rules.hpp).
struct SiteFinding {
  std::string id;  ///< "site:idle-gpus"
  std::string severity;
  std::string message;
  std::string fix;
  bool operator==(const SiteFinding&) const = default;
};

struct RunReport {
  bool simulated = false;
  std::string run_id;
  std::vector<std::string> command;
  std::chrono::system_clock::time_point started{};
  JobEnd end;
  std::vector<GpuReport> gpus;
  std::vector<SiteFinding> findings;
};

/// When a reading was made. One that was not made while the job ran tells what the energy counter and the GPU's state
/// were, and nothing of what the job did.
enum class Moment { during_job, around_job };

/// Collects snapshots of the named GPUs; pure.
class ReportBuilder {
 public:
  explicit ReportBuilder(const std::vector<Uuid>& gpus);
  void add(const facts::Snapshot& snapshot, Clock::SteadyTime when, Moment moment = Moment::during_job);
  std::vector<GpuReport> finish() const;

 private:
  /// What is remembered of one GPU between samples.
  struct Track {
    GpuReport report;
    std::optional<GpuIndex> place;  ///< where it was when it was last seen
    double utilization_sum = 0;
    std::uint32_t utilization_samples = 0;
    std::optional<Millijoules> first_energy;
    std::optional<Millijoules> last_energy;
    double integrated_joules = 0;
    std::optional<Milliwatts> last_power;
    Clock::SteadyTime last_time{};
  };
  static void add_sample(Track& track, const facts::GpuRecord& record, Clock::SteadyTime when, Moment moment);
  static void add_load(Track& track, const facts::GpuSample& sample);
  std::vector<Track> tracks_;
};

/// Feeds a ReportBuilder every `period` from a thread of its own until stopped; a GPU that hangs delays only samples.
class Sampler {
 public:
  Sampler(probe::ReaderOptions options, const std::vector<Uuid>& gpus, std::chrono::milliseconds period, Clock& clock);
  ~Sampler();
  /// The job's ranks run from here; readings that were begun earlier say nothing about it. May be called for each rank.
  void job_started();
  /// No rank runs any more: what is read from here on says nothing about the job.
  void job_ended();
  /// Takes a last sample, ends the thread and gives the reports.
  std::vector<GpuReport> finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A sentence about each GPU that something happened to while the job ran; a job may have ended well all the same.
std::vector<std::string> gpu_warnings(const RunReport& report);

nlohmann::json to_json(const RunReport& report);

}  // namespace gpuwarden::launch
