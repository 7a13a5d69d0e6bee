// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/use.hpp"

#include <algorithm>
#include <string>

#include "facts/names.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::facts {
namespace {

/// Below this a holder has not even a CUDA context on the GPU (those take about 300 MiB and more).
constexpr Bytes kContextMemory = 64_MiB;

/// Beyond this share of it a GPU's time or memory is taken by somebody.
constexpr double kIdleShare = 0.1;
/// Memory that is taken by somebody, where it is not known of how much.
constexpr Bytes kIdleMemory = 4_GiB;

bool is_filled(const GpuSample& sample) {
  if (!sample.memory_used) return false;
  const Bytes total = sample.memory_total.value_or(Bytes(0));
  return total.value > 0 ? ratio(*sample.memory_used, total) > kIdleShare : *sample.memory_used > kIdleMemory;
}

/// Whether the facts at hand would show a user. A capture may name a GPU and tell nothing of its use.
bool shows_use(const GpuRecord& record) {
  if (record.processes_unreadable) return false;
  // Who has which instance is not told where the instances are not.
  if (record.gpu.mig_enabled == true && record.mig_listed == false) return false;
  if (record.processes) return true;
  return record.sample.memory_used && (record.sample.memory_total || !has_unlisted_user(record));
}

}  // namespace

Uuid identity_of(const GpuRecord& record) {
  return record.gpu.uuid.value.empty() ? Uuid("index-" + std::to_string(record.gpu.index.value)) : record.gpu.uuid;
}

const Lease* find_lease(std::span<const Lease> leases, const GpuRecord& record) {
  const Uuid own = identity_of(record);
  const auto found = std::ranges::find_if(leases, [&](const Lease& lease) {
    return lease.uuid == own ||
           std::ranges::find(record.mig_devices, lease.uuid, &MigDevice::uuid) != record.mig_devices.end();
  });
  return found == leases.end() ? nullptr : &*found;
}

bool is_in_trouble(const GpuRecord& record, bool unfit) {
  const bool unusable = !is_usable(record) && record.state != GpuState::suspended;
  return record.gpu.vendor == "NVIDIA" && (unfit || unusable);
}

std::string_view out_of_use_word(const GpuRecord& record, const Disabling* word) {
  if (word == nullptr || !is_usable(record)) return "";
  return word->judged ? "unfit" : "disabled";
}

std::string describe_trouble(const GpuRecord& record) {
  std::string state = spaced(to_string(record.state));
  if (record.cause.empty()) return state;
  return contains_ignoring_case(record.cause, state) ? record.cause : state + ": " + record.cause;
}

bool is_idle_lease(const GpuRecord& record, const Lease* lease) {
  if (lease == nullptr || !is_usable(record)) return false;
  const bool no_load = record.sample.utilization_gpu == Percent(0);
  return no_load && record.sample.memory_used && *record.sample.memory_used < kContextMemory;
}

Load load_of(const GpuSample& sample) {
  if (sample.utilization_gpu && static_cast<double>(sample.utilization_gpu->value) > kIdleShare * 100)
    return Load::work;
  return is_filled(sample) ? Load::memory : Load::none;
}

bool is_loaded(const GpuSample& sample) { return load_of(sample) != Load::none; }

bool has_load_alone(const GpuRecord& record) {
  return record.processes && !record.processes_unreadable && record.sample.utilization_gpu > Percent(0) &&
         !is_filled(record.sample) && std::ranges::none_of(*record.processes, &GpuProcess::compute);
}

bool lacks_instances(const GpuRecord& record) {
  return record.gpu.mig_enabled == true && record.mig_devices.empty() && record.mig_listed.value_or(true);
}

Use use_of(const GpuRecord& record) {
  if (!is_usable(record)) return Use::unusable;
  if (lacks_instances(record)) return Use::no_instance;
  if (record.state == GpuState::busy) return Use::busy;
  if (is_loaded(record.sample)) return Use::in_use;
  return shows_use(record) ? Use::free : Use::unknown;
}

std::string_view to_string(Use use) {
  static constexpr Names<Use, 6> kWords{{{Use::unusable, "unusable"},
                                         {Use::no_instance, "MIG, no instance"},
                                         {Use::busy, "busy"},
                                         {Use::in_use, "in use"},
                                         {Use::unknown, "unknown"},
                                         {Use::free, "free"}}};
  return name_of(kWords, use);
}

std::string_view key_of(Use use) {
  static constexpr Names<Use, 6> kKeys{{{Use::unusable, "unusable"},
                                        {Use::no_instance, "mig_without_instances"},
                                        {Use::busy, "busy"},
                                        {Use::in_use, "in_use"},
                                        {Use::unknown, "unknown"},
                                        {Use::free, "free"}}};
  return name_of(kKeys, use);
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
