// SPDX-License-Identifier: Apache-2.0
#include "manager/device_book.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/manager/gpu_manager.hpp"
#include "gpuwarden/placement/visible_devices.hpp"

namespace gpuwarden::manager {
namespace {

using facts::HealthState;

telemetry::HealthPolicy policy_of(const CudaConfig& config) {
  telemetry::HealthPolicy policy;
  policy.first_retry = config.recovery_delay;
  policy.last_retry = config.recovery_max_delay;
  return policy;
}

/// The GPUs that CUDA shows this process, by its ordinals.
Result<std::vector<Uuid>> visible_uuids(const placement::Visibility& visibility, const facts::Snapshot& snapshot,
                                        std::string& problem) {
  GPUWARDEN_TRY(const placement::VisibleDevices visible, placement::read_visible_devices(visibility, snapshot));
  if (!visible.warnings.empty()) problem = join(visible.warnings, "; ");
  if (visible.cpu_only) problem = "CUDA_VISIBLE_DEVICES hides every GPU";
  if (visible.restricted) return visible.uuids;
  if (const auto order = placement::cuda_order(visibility, snapshot)) return *order;
  std::vector<Uuid> all;
  for (const auto& record : snapshot.gpus) all.push_back(record.gpu.uuid);
  return all;
}

/// Ordinals count what is visible, which may be other than GPUs that are listed.
std::vector<Device> devices_among(const std::vector<Uuid>& visible, const facts::Snapshot& snapshot, bool order_known) {
  std::vector<Device> all;
  for (std::uint32_t ordinal = 0; ordinal < visible.size(); ++ordinal) {
    const auto found = std::ranges::find_if(
        snapshot.gpus, [&](const facts::GpuRecord& record) { return record.gpu.uuid == visible[ordinal]; });
    if (found == snapshot.gpus.end() || found->gpu.vendor != "NVIDIA") continue;
    all.push_back({found->gpu.index, found->gpu.uuid, found->gpu.name, std::nullopt});
    if (order_known) all.back().ordinal = CudaOrdinal{ordinal};
  }
  return all;
}

bool is_fit(HealthState state) { return state == HealthState::available || state == HealthState::busy; }

}  // namespace

DeviceBook::DeviceBook(const CudaConfig& config, placement::Visibility visibility, unsigned seed)
    : config_(config), visibility_(std::move(visibility)), health_(policy_of(config), seed) {}

Result<void> DeviceBook::choose(const facts::Snapshot& snapshot) {
  problem_ = snapshot.problem ? snapshot.problem->message : "";
  devices_.clear();
  if (snapshot.problem) return {};
  GPUWARDEN_TRY(const std::vector<Uuid> visible, visible_uuids(visibility_, snapshot, problem_));
  const bool order_known = visibility_.cuda_visible_devices || placement::cuda_order(visibility_, snapshot).has_value();
  devices_ = devices_among(visible, snapshot, order_known);
  if (config_.device_ids) return keep_named(*config_.device_ids, snapshot);
  if (devices_.empty() && problem_.empty()) problem_ = "this machine has no NVIDIA GPU that CUDA shows";
  return {};
}

Result<void> DeviceBook::keep_named(const std::vector<std::uint32_t>& ids, const facts::Snapshot& snapshot) {
  std::vector<Device> named;
  for (const std::uint32_t id : ids) {
    const auto found = find(GpuIndex{id});
    if (!found) return fail(ErrorCode::invalid_argument, why_not(id, snapshot), known_gpus());
    named.push_back(*found);
  }
  devices_ = std::move(named);
  return {};
}

std::string DeviceBook::why_not(std::uint32_t id, const facts::Snapshot& snapshot) const {
  const bool exists =
      std::ranges::any_of(snapshot.gpus, [&](const facts::GpuRecord& record) { return record.gpu.index.value == id; });
  return exists ? fmt::format("device_ids: GPU {} is hidden by CUDA_VISIBLE_DEVICES={}", id,
                              printable(visibility_.cuda_visible_devices.value_or("")))
                : fmt::format("device_ids: there is no GPU {}", id);
}

void DeviceBook::observe(const telemetry::Reading& reading, const std::vector<facts::Disabling>& disabled) {
  snapshot_ = reading.snapshot;
  health_.judge(reading, disabled);
  const auto all = health_.all();
  for (auto& [gpu, mark] : marks_) {
    if (mark.failures == 0 || reading.when < mark.next_try) continue;
    const auto found = std::ranges::find(all, gpu, &facts::Health::index);
    if (found != all.end() && is_fit(found->state)) mark.failures = 0;
  }
}

const facts::GpuRecord* DeviceBook::record_of(const Device& device) const {
  const auto found = std::ranges::find_if(
      snapshot_.gpus, [&](const facts::GpuRecord& record) { return record.gpu.uuid == device.uuid; });
  return found == snapshot_.gpus.end() ? nullptr : &*found;
}

facts::Health DeviceBook::health_of(const Device& device) const {
  const auto all = health_.all();
  const auto found = std::ranges::find(all, device.uuid, &facts::Health::uuid);
  facts::Health health;
  if (found != all.end()) {
    health = *found;
  } else {
    health.state = HealthState::error;
    health.reason = "it was not in the last reading";
  }
  health.uuid = device.uuid;
  health.index = *device.gpu;
  const auto at = marks_.find(*device.gpu);
  if (at == marks_.end()) return health;
  const Mark& mark = at->second;
  if (health.state == HealthState::available && mark.in_use > 0) health.state = HealthState::busy;
  if (!mark.disabled.empty()) {
    health.state = HealthState::disabled;
    health.reason = mark.disabled;
    health.since = mark.since;
  } else if (is_fit(health.state) && mark.failures > 0) {
    health.state = HealthState::error;
    health.reason = mark.reason;
    health.failures = mark.failures;
    health.since = mark.since;
    health.next_try = mark.next_try_wall;
  }
  return health;
}

DeviceStatus DeviceBook::status_of(const Device& device) const {
  DeviceStatus status{device, health_of(device), std::nullopt, 0, std::nullopt, std::nullopt, std::nullopt};
  if (const auto at = marks_.find(*device.gpu); at != marks_.end()) status.in_use = at->second.in_use;
  const facts::GpuRecord* const record = record_of(device);
  if (record == nullptr) return status;
  status.score = capability_score(*record);
  status.compute_capability = record->gpu.compute_capability;
  status.memory_total = record->sample.memory_total;
  status.memory_used = record->sample.memory_used;
  return status;
}

std::vector<DeviceStatus> DeviceBook::all() const {
  std::vector<DeviceStatus> all;
  for (const Device& device : devices_) all.push_back(status_of(device));
  return all;
}

std::optional<Device> DeviceBook::find(GpuIndex gpu) const {
  const auto found = std::ranges::find(devices_, std::optional(gpu), &Device::gpu);
  return found == devices_.end() ? std::nullopt : std::optional(*found);
}

Device DeviceBook::best(const std::vector<GpuIndex>& except) const {
  std::optional<DeviceStatus> best;
  const auto rank = [](const DeviceStatus& status) {
    return std::pair(status.health.state == HealthState::available, status.score.value_or(-1));
  };
  for (const DeviceStatus& status : all()) {
    if (!is_fit(status.health.state) || std::ranges::find(except, *status.device.gpu) != except.end()) continue;
    if (!best || rank(status) > rank(*best)) best = status;
  }
  return best ? best->device : Device{};
}

std::string DeviceBook::known_gpus() const {
  if (devices_.empty()) return "no GPU is visible here: leave it out, and the CPU is used";
  std::vector<std::string> names;
  for (const Device& device : devices_) names.push_back(std::to_string(device.gpu->value));
  return "visible GPUs: " + join(names, ", ");
}

Result<void> DeviceBook::check_managed(GpuIndex gpu) const {
  if (find(gpu)) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("GPU {} is not managed", gpu.value), known_gpus());
}

Result<Device> DeviceBook::fit_device(GpuIndex gpu) const {
  GPUWARDEN_CHECK(check_managed(gpu));
  Device device = *find(gpu);
  const facts::Health health = health_of(device);
  if (is_fit(health.state)) return device;
  return fail(ErrorCode::unavailable,
              fmt::format("GPU {} is {}: {}", gpu.value, health.state == HealthState::error ? "in error" : "disabled",
                          health.reason),
              health.next_step);
}

void DeviceBook::mark_error(GpuIndex gpu, const std::string& reason, SteadyTime now, Clock::WallTime wall) {
  Mark& mark = marks_[gpu];
  if (mark.failures++ == 0) mark.since = wall;
  mark.reason = reason;
  const RetryPolicy recovery{1, config_.recovery_delay, 2, config_.recovery_max_delay, 0};
  const auto pause = pause_after(recovery, mark.failures, 0.5);
  mark.next_try = now + pause;
  mark.next_try_wall = wall + pause;
}

void DeviceBook::disable(GpuIndex gpu, const std::string& reason, Clock::WallTime wall) {
  Mark& mark = marks_[gpu];
  mark.disabled = reason.empty() ? "disabled by the program" : reason;
  mark.since = wall;
}

void DeviceBook::enable(GpuIndex gpu) {
  Mark& mark = marks_[gpu];
  mark.disabled.clear();
  mark.failures = 0;
}

void DeviceBook::use(GpuIndex gpu, int by) {
  Mark& mark = marks_[gpu];
  mark.in_use = static_cast<unsigned>(static_cast<int>(mark.in_use) + by);
}

}  // namespace gpuwarden::manager
