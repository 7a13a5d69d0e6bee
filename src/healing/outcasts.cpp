// SPDX-License-Identifier: Apache-2.0
#include "healing/outcasts.hpp"

#include <algorithm>

#include "gpuwarden/fitness/symptoms.hpp"

namespace gpuwarden::healing {
namespace {

constexpr std::chrono::hours kLongestProbation{1};
constexpr unsigned kMostDoublings = 12;

bool is_well(const Uuid& gpu, const telemetry::Reading& reading) {
  const auto record = std::ranges::find_if(reading.snapshot.gpus, [&](const facts::GpuRecord& one) {
    return one.gpu.uuid == gpu ||
           std::ranges::find(one.mig_devices, gpu, &facts::MigDevice::uuid) != one.mig_devices.end();
  });
  if (record == reading.snapshot.gpus.end() || !facts::is_usable(*record)) return false;
  std::vector<facts::GpuEvent> events;
  std::ranges::copy_if(reading.events, std::back_inserter(events),
                       [&](const facts::GpuEvent& event) { return event.uuid == record->gpu.uuid; });
  return fitness::ailments_of(*record, events).empty();
}

}  // namespace

void Outcasts::add(const Uuid& gpu) {
  const std::scoped_lock lock(mutex_);
  Record& record = records_[gpu];
  ++record.times;
  record.well_since.reset();
}

void Outcasts::hear(const telemetry::Reading& reading) {
  const std::scoped_lock lock(mutex_);
  for (auto& [gpu, record] : records_) {
    if (!is_well(gpu, reading))
      record.well_since.reset();
    else if (!record.well_since)
      record.well_since = reading.when;
  }
}

std::chrono::milliseconds Outcasts::probation_of(const Record& record) const {
  const unsigned doublings = std::min(record.times - 1, kMostDoublings);
  const std::chrono::milliseconds whole = probation_ * (1U << doublings);
  return std::clamp<std::chrono::milliseconds>(whole, probation_,
                                               std::max<std::chrono::milliseconds>(probation_, kLongestProbation));
}

std::vector<Uuid> Outcasts::at(Clock::SteadyTime now) const {
  const std::scoped_lock lock(mutex_);
  std::vector<Uuid> out;
  for (const auto& [gpu, record] : records_) {
    if (!record.well_since || now - *record.well_since < probation_of(record)) out.push_back(gpu);
  }
  return out;
}

}  // namespace gpuwarden::healing
