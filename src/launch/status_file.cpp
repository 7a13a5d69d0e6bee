// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/status_file.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::launch {

namespace {

bool is_of(const facts::GpuRecord& record, const Uuid& uuid) {
  return uuid == record.gpu.uuid ||
         std::ranges::find(record.mig_devices, uuid, &facts::MigDevice::uuid) != record.mig_devices.end();
}

/// The records of these GPUs, each once, in the snapshot's order.
std::vector<const facts::GpuRecord*> own_records(const facts::Snapshot& snapshot, const std::vector<StatusGpu>& gpus) {
  std::vector<const facts::GpuRecord*> own;
  for (const facts::GpuRecord& record : snapshot.gpus) {
    const bool is_own = std::ranges::any_of(gpus, [&](const StatusGpu& gpu) {
      if (is_of(record, gpu.uuid)) return true;
      // One that is lost does not tell its UUID any more.
      const auto tells = [&](const facts::GpuRecord& one) { return is_of(one, gpu.uuid); };
      return record.gpu.index == gpu.place && !facts::is_usable(record) && std::ranges::none_of(snapshot.gpus, tells);
    });
    if (is_own) own.push_back(&record);
  }
  return own;
}

}  // namespace

std::string status_json(const facts::Snapshot& snapshot, const std::vector<StatusGpu>& gpus) {
  using nlohmann::json;
  const auto number = [](const auto& value) { return value ? json(value->value) : json(); };
  json rows = json::array();
  for (const facts::GpuRecord* record : own_records(snapshot, gpus)) {
    const facts::GpuSample& sample = record->sample;
    rows.push_back({{"index", record->gpu.index.value},
                    {"name", record->gpu.name},
                    {"state", std::string(facts::to_string(record->state))},
                    {"usable", facts::is_usable(*record)},
                    {"utilization_percent", number(sample.utilization_gpu)},
                    {"memory_used_bytes", number(sample.memory_used)},
                    {"memory_total_bytes", number(sample.memory_total)},
                    {"temperature_celsius", number(sample.temperature)},
                    {"power_watts", sample.power ? json(static_cast<double>(sample.power->value) / 1000) : json()}});
  }
  const json document =
      facts::answer({{"time", format_utc(snapshot.taken_at)}, {"gpus", std::move(rows)}}, snapshot.simulated);
  return document.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

void StatusFile::hold(std::vector<StatusGpu> gpus) {
  const std::scoped_lock lock(mutex_);
  gpus_ = std::move(gpus);
}

void StatusFile::hear(const telemetry::Reading& reading) {
  std::vector<StatusGpu> gpus;
  {
    const std::scoped_lock lock(mutex_);
    if (problem_ || (written_ && reading.when - *written_ < kStatusPeriod)) return;
    written_ = reading.when;
    gpus = gpus_;
  }
  // A slow disk keeps nobody waiting who only asks or changes the GPUs.
  auto done = write_file_atomically(file_, status_json(reading.snapshot, gpus));
  if (done) return;
  const std::scoped_lock lock(mutex_);
  problem_ = std::move(done.error());
}

std::optional<Error> StatusFile::problem() const {
  const std::scoped_lock lock(mutex_);
  return problem_;
}

}  // namespace gpuwarden::launch
