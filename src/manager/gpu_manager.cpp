// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/gpu_manager.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/machine/at_sight.hpp"
#include "gpuwarden/machine/out_of_use.hpp"
#include "manager/parts.hpp"

namespace gpuwarden::manager {
namespace {

constexpr const char* kDevices = "CUDA_VISIBLE_DEVICES";
constexpr const char* kOrder = "CUDA_DEVICE_ORDER";

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

void restore(const char* name, const std::optional<std::string>& value) {
  if (value)
    ::setenv(name, value->c_str(), 1);
  else
    ::unsetenv(name);
}

/// The one named GPU, whatever uses it.
placement::Request request_for(const std::string& name) {
  placement::Request request;
  request.gpu_ids = {{name}};
  request.allow_busy = true;
  return request;
}

}  // namespace

facts::Snapshot GpuManager::read(const probe::ReadRequest& request) { return reader_->read(request); }

std::vector<facts::GpuRecord> GpuManager::available_gpus() {
  facts::Snapshot snapshot = read();
  std::erase_if(snapshot.gpus, [](const facts::GpuRecord& record) { return !facts::is_usable(record); });
  return snapshot.gpus;
}

Result<facts::GpuRecord> GpuManager::gpu_info(const std::string& name) {
  const facts::Snapshot snapshot = read();
  GPUWARDEN_TRY(const auto decision, placement::select(request_for(name), {snapshot, {}, {}, {}}));
  for (const auto& record : snapshot.gpus) {
    if (!decision.selected.empty() && record.gpu.index == decision.selected[0].index) return record;
  }
  return fail(ErrorCode::unsatisfied, decision.missing);
}

Result<MemoryUsage> GpuManager::memory_usage(const std::string& name, double warn_above_percent) {
  GPUWARDEN_TRY(const facts::GpuRecord record, gpu_info(name));
  const auto& sample = record.sample;
  if (!sample.memory_total || !sample.memory_used || sample.memory_total->value == 0) {
    return fail(ErrorCode::unavailable, fmt::format("GPU {} does not report its memory", record.gpu.index.value));
  }
  MemoryUsage usage{*sample.memory_total, *sample.memory_used, sample.memory_free.value_or(Bytes(0)), 0, std::nullopt};
  usage.used_percent = 100 * ratio(usage.used, usage.total);
  if (usage.used_percent > warn_above_percent) {
    usage.warning = fmt::format("GPU {} uses {:.0f} % of its memory ({} of {})", record.gpu.index.value,
                                usage.used_percent, format_size(usage.used), format_size(usage.total));
  }
  return usage;
}

Result<machine::Reservation> GpuManager::choose(const machine::ReservationRequest& request,
                                                const std::stop_token& stop) {
  lease::StoreOptions options = options_.leases;
  if (options.self.pid.value == 0) options.self = lease::this_process(*options_.clock);
  GPUWARDEN_TRY(const lease::LeaseStore leases, lease::LeaseStore::open(std::move(options), *options_.clock));
  const auto disabled = [this](const facts::Snapshot& snapshot) -> Result<std::vector<facts::Disabling>> {
    GPUWARDEN_TRY(lease::Disablings::View view,
                  machine::out_of_use(options_.environment, options_.reader, options_.clock->wall_now()));
    machine::add_unfit_at_sight(view, snapshot);
    return std::move(view.disabled);
  };
  const machine::GpuSource source{.read = [this](const probe::ReadRequest& what) { return read(what); },
                                  .leases = &leases,
                                  .disabled = disabled,
                                  .simulated = options_.reader.simulated,
                                  .sys_root = options_.reader.sys_root,
                                  .proc_root = options_.reader.driver_proc_root};
  return machine::Reservation::make(request, source, *options_.clock, stop);
}

Result<placement::Decision> GpuManager::select(const placement::Request& request) {
  GPUWARDEN_TRY(const auto asked, choose({request, placement::visibility_from(options_.environment), false, {}}, {}));
  return asked.decision();
}

Result<machine::Reservation> GpuManager::reserve(const placement::Request& request,
                                                 std::optional<std::chrono::milliseconds> wait,
                                                 const std::stop_token& stop) {
  return choose({request, placement::visibility_from(options_.environment), true, wait}, stop);
}

Result<planning::PlanAnswer> GpuManager::plan(planning::PlanRequest request) {
  if (request.gpus.usable == Bytes{}) {
    GPUWARDEN_TRY(request.gpus, planning::gpus_of(read()));
  }
  return planning::answer(std::move(request));
}

Result<placement::Device> GpuManager::optimal_device() {
  placement::Request all;
  all.all = true;
  GPUWARDEN_TRY(const auto asked, choose({all, placement::visibility_from(options_.environment), false, {}}, {}));
  const placement::Decision& decision = asked.decision();
  const facts::Snapshot& snapshot = asked.snapshot();
  if (!decision.satisfied) return fail(ErrorCode::unsatisfied, decision.missing);
  const auto score = [&](const placement::Device& device) {
    const auto found = std::ranges::find_if(
        snapshot.gpus, [&](const facts::GpuRecord& record) { return record.gpu.index == device.index; });
    return capability_score(*found).value_or(0);
  };
  return *std::ranges::max_element(decision.selected, {}, score);
}

std::optional<double> capability_score(const facts::GpuRecord& record) {
  const auto& sample = record.sample;
  if (!facts::is_usable(record) || !sample.memory_free) return std::nullopt;
  const double free_gib = static_cast<double>(sample.memory_free->value) / (1 << 30);
  const auto multiprocessors = static_cast<double>(record.gpu.multiprocessors.value_or(Count(0)).value);
  const double idle = 1 - static_cast<double>(sample.utilization_gpu.value_or(Percent(0)).value) / 100;
  return (free_gib + multiprocessors) * idle;
}

Environment environment_for(const placement::Decision& decision) {
  return {{kDevices, placement::cuda_visible_devices(decision)}, {kOrder, "PCI_BUS_ID"}};
}

void set_visible(const placement::Decision& decision) {
  for (const auto& [name, value] : environment_for(decision)) ::setenv(name.c_str(), value.c_str(), 1);
}

ScopedVisibleDevices::ScopedVisibleDevices(const placement::Decision& decision)
    : devices_before_(variable(kDevices)), order_before_(variable(kOrder)) {
  set_visible(decision);
}

ScopedVisibleDevices::~ScopedVisibleDevices() {
  restore(kDevices, devices_before_);
  restore(kOrder, order_before_);
}

}  // namespace gpuwarden::manager
