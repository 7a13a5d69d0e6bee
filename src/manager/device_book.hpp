// SPDX-License-Identifier: Apache-2.0
// The managed GPUs and their states: what readings say, and what the program itself has found. No I/O, no locks.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/manager/cuda_manager.hpp"
#include "gpuwarden/telemetry/health.hpp"

namespace gpuwarden::manager {

class DeviceBook {
 public:
  using SteadyTime = Clock::SteadyTime;

  DeviceBook(const CudaConfig& config, placement::Visibility visibility, unsigned seed);

  /// Decides which GPUs are managed. Fails with invalid_argument as CudaManager::initialize().
  Result<void> choose(const facts::Snapshot& snapshot);
  /// Judges a reading; marks whose time has come are taken off fit GPUs.
  void observe(const telemetry::Reading& reading, const std::vector<facts::Disabling>& disabled);

  std::vector<DeviceStatus> all() const;
  const std::string& problem() const { return problem_; }
  const facts::Snapshot& snapshot() const { return snapshot_; }
  std::optional<Device> find(GpuIndex gpu) const;
  Device best(const std::vector<GpuIndex>& except) const;
  Result<Device> fit_device(GpuIndex gpu) const;

  void mark_error(GpuIndex gpu, const std::string& reason, SteadyTime now, Clock::WallTime wall);
  void disable(GpuIndex gpu, const std::string& reason, Clock::WallTime wall);
  void enable(GpuIndex gpu);
  void use(GpuIndex gpu, int by);
  Result<void> check_managed(GpuIndex gpu) const;

 private:
  /// What the program itself says of a GPU.
  struct Mark {
    unsigned failures = 0;
    std::string reason;
    std::string disabled;
    SteadyTime next_try{};
    Clock::WallTime since{};
    Clock::WallTime next_try_wall{};
    unsigned in_use = 0;
  };

  DeviceStatus status_of(const Device& device) const;
  facts::Health health_of(const Device& device) const;
  const facts::GpuRecord* record_of(const Device& device) const;
  std::string known_gpus() const;
  Result<void> keep_named(const std::vector<std::uint32_t>& ids, const facts::Snapshot& snapshot);
  std::string why_not(std::uint32_t id, const facts::Snapshot& snapshot) const;

  const CudaConfig& config_;
  const placement::Visibility visibility_;
  telemetry::HealthBook health_;
  facts::Snapshot snapshot_;
  std::vector<Device> devices_;
  std::map<GpuIndex, Mark> marks_;
  std::string problem_;
};

}  // namespace gpuwarden::manager
