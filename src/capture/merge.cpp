// SPDX-License-Identifier: Apache-2.0
#include "capture/merge.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "capture/merge_environment.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::capture {
namespace {

using facts::GpuRecord;
using facts::Snapshot;
using Json = nlohmann::json;

/// More GPUs than any machine has are a hostile file's.
constexpr std::size_t kMostGpus = 1024;

bool is_masked(const Uuid& uuid) {
  return uuid.value.empty() || uuid.value.find_first_not_of("GPU-0MIXx.*") == std::string::npos;
}

bool is_same(const GpuRecord& a, const GpuRecord& b) {
  if (!is_masked(a.gpu.uuid) && !is_masked(b.gpu.uuid)) return a.gpu.uuid == b.gpu.uuid;
  if (!a.gpu.pci_bus_id.empty() && !b.gpu.pci_bus_id.empty()) return a.gpu.pci_bus_id == b.gpu.pci_bus_id;
  return a.gpu.index == b.gpu.index;
}

bool is_told_by_index(const GpuRecord& a, const GpuRecord& b) {
  const bool uuids = !is_masked(a.gpu.uuid) && !is_masked(b.gpu.uuid);
  return !uuids && (a.gpu.pci_bus_id.empty() || b.gpu.pci_bus_id.empty());
}

/// "a6000" of "NVIDIA RTX A6000", "v100" and "sxm2" of "Tesla V100-SXM2-16GB": the words that tell models apart.
std::vector<std::string> models_in(const std::string& name) {
  std::string words = to_lower(name);
  std::ranges::replace_if(words, [](char c) { return c == '-' || c == '[' || c == ']' || c == '(' || c == ')'; }, ' ');
  std::vector<std::string> models;
  for (const std::string_view word : split_words(words)) {
    const bool size = word.ends_with("gb") || word.ends_with("gib");
    if (!size && word.find_first_of("0123456789") != std::string_view::npos) models.emplace_back(word);
  }
  return models;
}

/// Whether two names cannot be one GPU's, however tools shorten them.
bool are_of_two_models(const GpuRecord& a, const GpuRecord& b) {
  const auto ours = models_in(a.gpu.name);
  const auto theirs = models_in(b.gpu.name);
  if (ours.empty() || theirs.empty()) return false;
  return std::ranges::none_of(ours, [&](const std::string& one) {
    return std::ranges::any_of(
        theirs, [&](const std::string& other) { return one.starts_with(other) || other.starts_with(one); });
  });
}

bool says_nothing(const Json& value) {
  return value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty()) ||
         (value.is_array() && value.empty());
}

/// Lays `over` upon `under`: what says nothing leaves what was there.
void overlay(Json& under, const Json& over) {
  if (!under.is_object() || !over.is_object()) {
    if (!says_nothing(over)) under = over;
    return;
  }
  for (const auto& [key, value] : over.items()) overlay(under[key], value);
}

/// A table cuts long names: "NVIDIA GeForce RTX 2080 ..." keeps the whole one.
bool is_cut(const std::string& name, const std::string& whole) {
  return name.ends_with("...") && whole.starts_with(std::string_view(name).substr(0, name.size() - 3));
}

void merge_record(GpuRecord& record, const GpuRecord& part) {
  const std::string name = record.gpu.name;
  const bool trouble = !is_usable(record);
  Json under = facts::to_json(record);
  const Json over = facts::to_json(part);
  overlay(under, over);
  under["index"] = record.gpu.index.value;
  if (is_cut(part.gpu.name, name) || part.gpu.name == "unknown GPU")
    under["name"] = name.empty() ? part.gpu.name : name;
  // Lists that know less do not say that a GPU is free.
  if (part.state == facts::GpuState::available || trouble) under["state"] = std::string(to_string(record.state));
  if (auto merged = facts::gpu_record_from_json(under)) record = std::move(*merged);
  // A later list of processes replaces an earlier one, an empty one too.
  if (!part.processes || !is_usable(record)) return;
  record.processes = part.processes;
  const bool computes = std::ranges::any_of(*record.processes, &facts::GpuProcess::compute);
  record.state = computes ? facts::GpuState::busy : facts::GpuState::available;
}

template <class T>
void take(std::optional<T>& whole, std::optional<T>& part) {
  if (part) whole = std::move(part);
}

std::string with_domain(std::string_view bus) {
  const std::string text = to_upper(bus);
  const std::size_t colon = text.find(':');
  return colon < 8 ? std::string(8 - colon, '0') + text : text;
}

}  // namespace

bool is_another_machine(const Snapshot& whole, const Snapshot& part) {
  const auto is_in = [&](const GpuRecord& record) {
    return std::ranges::any_of(whole.gpus, [&](const GpuRecord& other) {
      // Where only the number tells, programs may count otherwise: the same model anywhere will do.
      return is_told_by_index(other, record) ? !are_of_two_models(other, record) : is_same(other, record);
    });
  };
  // One GPU in common, and it is the same machine told in another order.
  return !whole.gpus.empty() && !part.gpus.empty() && std::ranges::none_of(part.gpus, is_in) &&
         std::ranges::any_of(part.gpus, [&](const GpuRecord& record) {
           return std::ranges::any_of(whole.gpus, [&](const GpuRecord& other) {
             return record.gpu.index == other.gpu.index && !record.gpu.name.empty() && !other.gpu.name.empty();
           });
         });
}

void merge(Snapshot& whole, Snapshot part) {
  const bool first = whole.gpus.empty();
  for (GpuRecord& record : part.gpus) {
    if (first) {
      if (whole.gpus.size() < kMostGpus) whole.gpus.push_back(std::move(record));
      continue;
    }
    const auto known = std::ranges::find_if(whole.gpus, [&](const GpuRecord& other) { return is_same(other, record); });
    if (known != whole.gpus.end()) {
      merge_record(*known, record);
    } else if (whole.gpus.size() < kMostGpus) {
      whole.gpus.push_back(std::move(record));
    }
  }
  if (first && !part.gpus.empty()) whole.source = part.source;
  take(whole.driver_version, part.driver_version);
  take(whole.cuda_driver_version, part.cuda_driver_version);
  take(whole.nvml_version, part.nvml_version);
  take(whole.kernel_module_version, part.kernel_module_version);
  take(whole.problem, part.problem);
  take(whole.links, part.links);
  if (part.kernel_faults && whole.kernel_faults)
    std::ranges::move(*part.kernel_faults, std::back_inserter(*whole.kernel_faults));
  else
    take(whole.kernel_faults, part.kernel_faults);
  take(whole.cuda_order, part.cuda_order);
  if (part.environment && whole.environment)
    merge(*whole.environment, std::move(*part.environment));
  else
    take(whole.environment, part.environment);
  if (!part.nics.empty()) whole.nics = std::move(part.nics);
  if (part.taken_at != std::chrono::system_clock::time_point{}) whole.taken_at = part.taken_at;
  if (!part.host.empty()) whole.host = std::move(part.host);
}

void merge(Snapshot& whole, const KernelLog& log) {
  auto& faults = whole.kernel_faults ? *whole.kernel_faults : whole.kernel_faults.emplace();
  faults.insert(faults.end(), log.faults.begin(), log.faults.end());
  if (whole.host.empty()) whole.host = log.host;
  if (log.module_version) whole.kernel_module_version = log.module_version;
  if (log.client_version && log.module_version && !whole.problem) {
    whole.problem = {facts::DriverProblem::Kind::mismatch,
                     {ErrorCode::unavailable,
                      "the driver's libraries are version " + *log.client_version + ", the loaded kernel module is " +
                          *log.module_version,
                      "reboot, or unload and load the nvidia modules: the driver was replaced while it ran"}};
  }
  for (const KernelLog::Board& board : log.boards) {
    for (GpuRecord& record : whole.gpus) {
      const bool here = record.gpu.uuid.value == board.uuid ||
                        (!board.pci_bus_id.empty() && record.gpu.pci_bus_id.starts_with(with_domain(board.pci_bus_id)));
      if (here && !record.gpu.serial) record.gpu.serial = board.serial;
    }
  }
}

}  // namespace gpuwarden::capture
