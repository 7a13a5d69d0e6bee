// SPDX-License-Identifier: Apache-2.0
// What a server counts over the readings: Xids, GPUs that were there before, and which job runs where.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/telemetry/reading.hpp"

namespace gpuwarden::serve {

/// How often a GPU had an Xid since the server was started.
struct XidCount {
  Uuid gpu;
  std::optional<GpuIndex> index;  ///< as it was listed last; empty where it never was
  std::uint64_t xid = 0;
  std::uint64_t count = 0;
  std::chrono::system_clock::time_point last{};
};

/// What was counted up to one reading.
struct Counts {
  std::vector<XidCount> xids;  ///< by GPU and code
  /// GPUs that there should be: as many as were told to the server, else all that it has ever seen.
  std::size_t expected = 0;
  std::size_t present = 0;  ///< those that the last reading lists, and that have not fallen off the bus
  std::size_t lost = 0;     ///< expected and not present
  /// Ids of batch jobs by the GPU's index or UUID.
  std::map<std::string, std::vector<std::string>> jobs;
};

/// Reads a directory as dcgm-exporter's --hpc-job-mapping-dir: a file for each GPU, named by its index (or UUID), with
/// a job's id on each line (its README, and internal/pkg/transformation/hpc.go of 4.8). Empty where there is none. At
/// most 1024 files, 64 jobs each.
std::map<std::string, std::vector<std::string>> read_job_mapping(const std::filesystem::path& directory);

/// Thread-safe.
class Tally {
 public:
  /// `expected` empty: as many as were ever seen; `job_mapping` empty: no jobs are looked up.
  explicit Tally(std::optional<std::size_t> expected = {}, std::filesystem::path job_mapping = {});
  void add(const telemetry::Reading& reading);
  std::shared_ptr<const Counts> latest() const;

 private:
  mutable std::mutex mutex_;
  std::optional<std::size_t> expected_;
  std::filesystem::path job_mapping_;
  std::set<std::string> seen_;
  /// As listed last: a driver that hangs gives no UUIDs, and its events come all the same.
  std::map<std::string, GpuIndex> indices_;
  std::map<std::pair<std::string, std::uint64_t>, XidCount> xids_;
  std::shared_ptr<const Counts> latest_ = std::make_shared<Counts>();
};

}  // namespace gpuwarden::serve
