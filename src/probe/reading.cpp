// SPDX-License-Identifier: Apache-2.0
#include "probe/reading.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/facts/packed.hpp"

namespace gpuwarden::probe {

using Json = nlohmann::json;
using Stage = Progress::Stage;

namespace {

std::optional<facts::GpuRecord> unpacked(const Json& json) {
  if (!json.is_binary()) return std::nullopt;
  const auto& bytes = json.get_binary();
  auto record = facts::unpack_gpu_record({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return record ? std::optional(std::move(*record)) : std::nullopt;
}

}  // namespace

Silence silence_of(ChildProcess& child) {
  Silence silence;
  silence.timed_out = !child.closed();
  silence.end = child.end();
  return silence;
}

bool Reading::take_message(const Json& message, Progress& progress) {
  if (message.contains("problem")) {
    progress.stage = Stage::refused;
    if (auto problem = facts::driver_problem_from_json(message["problem"])) progress.problem = std::move(*problem);
    return false;
  }
  if (message.contains("stale")) {
    progress.stage = Stage::stale;
    return false;
  }
  if (message.contains("count")) count = message["count"].get<std::uint32_t>();
  if (message.contains("known")) {
    if (auto record = unpacked(message["known"])) known_[progress.index] = std::move(record->gpu);
  }
  if (message.contains("gpu")) {
    if (auto record = unpacked(message["gpu"])) {
      const std::uint32_t index = record->gpu.index.value;
      records[index] = std::move(*record);
    }
  }
  if (message.contains("reading")) {
    progress.stage = Stage::gpu;
    progress.index = message["reading"].get<std::uint32_t>();
  }
  if (message.contains("part")) {
    progress.stage = Stage::part;
    progress.part = facts::reading_gap_part_from(message["part"].get<std::string>()).value_or(progress.part);
  }
  if (message.contains("links") || message.contains("cuda_order")) take_order(message);
  if (message.contains("holders")) holders = holders_from_json(message["holders"]);
  if (message.contains("done")) progress.stage = Stage::done;
  return true;
}

void Reading::take_order(const Json& message) {
  auto carrier = facts::snapshot_from_json(message);
  if (!carrier) return;
  if (carrier->links) links = std::move(carrier->links);
  if (carrier->cuda_order) cuda_order = std::move(carrier->cuda_order);
}

std::vector<std::uint32_t> Reading::missing() const {
  std::vector<std::uint32_t> indices;
  for (std::uint32_t index = 0; index < count; ++index) {
    if (!records.contains(index)) indices.push_back(index);
  }
  return indices;
}

facts::Gpu Reading::known(std::uint32_t index) const {
  const auto found = known_.find(index);
  facts::Gpu gpu = found == known_.end() ? facts::Gpu() : found->second;
  gpu.index = GpuIndex{index};
  return gpu;
}

}  // namespace gpuwarden::probe
