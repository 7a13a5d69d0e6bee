// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/use.hpp"

#include <algorithm>
#include <string>

namespace gpuwarden::facts {
namespace {

/// Below this a holder has not even a CUDA context on the GPU (those take about 300 MiB and more).
constexpr Bytes kContextMemory = 64_MiB;

}  // namespace

Uuid identity_of(const GpuRecord& record) {
  return record.gpu.uuid.value.empty() ? Uuid("index-" + std::to_string(record.gpu.index.value)) : record.gpu.uuid;
}

const Lease* find_lease(const std::vector<Lease>& leases, const GpuRecord& record) {
  const Uuid own = identity_of(record);
  const auto found = std::ranges::find_if(leases, [&](const Lease& lease) {
    return lease.uuid == own ||
           std::ranges::find(record.mig_devices, lease.uuid, &MigDevice::uuid) != record.mig_devices.end();
  });
  return found == leases.end() ? nullptr : &*found;
}

bool is_idle_lease(const GpuRecord& record, const Lease* lease) {
  if (lease == nullptr || !is_usable(record)) return false;
  const bool no_load = record.sample.utilization_gpu == Percent(0);
  return no_load && record.sample.memory_used && *record.sample.memory_used < kContextMemory;
}

bool is_loaded(const GpuSample& sample) {
  constexpr double kShare = 0.1;
  const bool busy = sample.utilization_gpu && static_cast<double>(sample.utilization_gpu->value) > kShare * 100;
  const bool filled = sample.memory_used && sample.memory_total && sample.memory_total->value > 0 &&
                      ratio(*sample.memory_used, *sample.memory_total) > kShare;
  return busy || filled;
}

bool has_unlisted_user(const GpuRecord& record) {
  if (!record.sample.memory_used) return true;
  Bytes listed(0);
  for (const GpuProcess& process : record.processes.value_or(std::vector<GpuProcess>{})) {
    if (process.listed) listed += process.memory.value_or(Bytes(0));
  }
  return *record.sample.memory_used > listed + kContextMemory;
}

}  // namespace gpuwarden::facts
