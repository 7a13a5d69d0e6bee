// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/platform_steps.hpp"

namespace gpuwarden::diagnosis {
namespace {

using facts::GpuRecord;
using facts::Snapshot;

bool is_nvidia(const GpuRecord& record) { return record.gpu.vendor == "NVIDIA"; }

std::string name_of(const GpuRecord& record) { return fmt::format("GPU {}", record.gpu.index.value); }

/// "0000:17:00" of "00000000:17:00.0", "0000:17:00.0" and "17:00.0": what all spellings of a bus id share.
std::string bus_and_device(std::string_view pci) {
  std::string lower = to_lower(pci);
  const std::size_t end = lower.find('.') == std::string::npos ? lower.size() : lower.find('.');
  const std::size_t colon = lower.rfind(':', end);
  if (colon == std::string::npos || colon < 2) return lower;
  return lower.substr(colon - 2, end - colon + 2);
}

/// Whether a complaint may be about the GPU at a bus id: it names no other.
bool is_of(const Complaint& complaint, const std::string& pci) {
  const auto named = word(complaint.facts, "pci");
  return !named || pci.empty() || bus_and_device(*named) == bus_and_device(pci);
}

/// Whether a complaint may be about a GPU. The number in a message is CUDA's, which is NVML's unless GPUs are hidden.
bool is_of(const Complaint& complaint, const Snapshot& machine, const GpuRecord& record) {
  if (word(complaint.facts, "pci")) return is_of(complaint, record.gpu.pci_bus_id);
  const auto number_named = number(complaint.facts, "gpu");
  const bool is_known =
      number_named && *number_named >= 0 && *number_named < static_cast<std::int64_t>(machine.gpus.size());
  return !is_known || static_cast<std::int64_t>(record.gpu.index.value) == *number_named;
}

const facts::KernelFault* fault_with(const Complaint& complaint, const Snapshot& machine, std::string_view kind,
                                     std::initializer_list<std::uint32_t> codes) {
  if (!machine.kernel_faults) return nullptr;
  for (const facts::KernelFault& fault : *machine.kernel_faults) {
    const bool wanted = codes.size() == 0 || std::ranges::find(codes, fault.code) != codes.end();
    const bool harmless = contains_ignoring_case(fault.text, "non-fatal");
    if (fault.kind == kind && wanted && !harmless && is_of(complaint, fault.pci_bus_id.value_or(""))) return &fault;
  }
  return nullptr;
}

/// A kernel log may be older than the failure, which its facts do not tell: what rests on it is a little less sure.
std::string told(const facts::KernelFault& fault) {
  return fmt::format("the kernel log has {} {}{}", fault.kind == "xid" ? "Xid" : "SXid", fault.code,
                     fault.pci_bus_id ? " of " + *fault.pci_bus_id : "");
}

std::optional<Testimony> off_the_bus([[maybe_unused]] const Complaint& complaint, const Snapshot& machine) {
  for (const GpuRecord& record : machine.gpus) {
    if (!is_of(complaint, machine, record)) continue;
    if (record.state == facts::GpuState::lost)
      return Testimony{"fell_off_bus", name_of(record) + " does not answer any more: it is lost", 0.95};
  }
  if (const auto* fault = fault_with(complaint, machine, "xid", {79}))
    return Testimony{"fell_off_bus", told(*fault), 0.85};
  return std::nullopt;
}

std::optional<Testimony> memory_errors([[maybe_unused]] const Complaint& complaint, const Snapshot& machine) {
  if (const auto* fault = fault_with(complaint, machine, "xid", {48, 64, 94, 95}))
    return Testimony{"ecc_error", told(*fault), 0.82};
  for (const GpuRecord& record : machine.gpus) {
    if (!is_of(complaint, machine, record)) continue;
    const auto& errors = record.sample.ecc_uncorrected_volatile;
    if (errors && errors->value > 0)
      return Testimony{
          "ecc_error",
          fmt::format("{} has {} uncorrectable ECC errors since the driver was loaded", name_of(record), errors->value),
          0.9};
    for (const auto& pending : {record.sample.remapped_rows_pending, record.sample.retired_pages_pending}) {
      if (pending && pending->value > 0)
        return Testimony{"ecc_error", name_of(record) + " waits for a reset to set bad memory aside", 0.85};
    }
  }
  return std::nullopt;
}

std::optional<Testimony> gsp([[maybe_unused]] const Complaint& complaint, const Snapshot& machine) {
  if (const auto* fault = fault_with(complaint, machine, "xid", {119, 120}))
    return Testimony{"gsp_error", told(*fault), 0.85};
  return std::nullopt;
}

std::optional<Testimony> nvlink([[maybe_unused]] const Complaint& complaint, const Snapshot& machine) {
  if (const auto* fault = fault_with(complaint, machine, "xid", {74}))
    return Testimony{"nvlink_error", told(*fault), 0.82};
  if (const auto* fault = fault_with(complaint, machine, "sxid", {}))
    return Testimony{"nvlink_error", told(*fault), 0.8};
  return std::nullopt;
}

std::optional<Testimony> fabric([[maybe_unused]] const Complaint& complaint, const Snapshot& machine) {
  if (machine.environment) {
    const facts::Service* manager = facts::find_service(*machine.environment, "nvidia-fabricmanager");
    if (manager != nullptr && manager->state != "running")
      return Testimony{"fabric_manager_not_running", "nvidia-fabricmanager is " + manager->state, 0.93};
  }
  for (const GpuRecord& record : machine.gpus) {
    const auto& fabric = record.gpu.fabric;
    if (fabric && (fabric->state == "in_progress" || fabric->state == "not_started"))
      return Testimony{"fabric_manager_not_running", name_of(record) + " has not joined its NVLink fabric", 0.92};
  }
  return std::nullopt;
}

std::optional<Testimony> overheated([[maybe_unused]] const Complaint& complaint, const Snapshot& machine) {
  for (const GpuRecord& record : machine.gpus) {
    if (!is_of(complaint, machine, record)) continue;
    if (!record.sample.throttle_reasons) continue;
    for (const auto reason : *record.sample.throttle_reasons) {
      const std::string_view name = facts::to_string(reason);
      if (name.contains("thermal") || name.contains("brake"))
        return Testimony{"thermal_power", fmt::format("{} is slowed down: {}", name_of(record), name), 0.8};
    }
  }
  return std::nullopt;
}

std::optional<Testimony> others_in_memory([[maybe_unused]] const Complaint& complaint, const Snapshot& machine) {
  if (complaint.settled) return std::nullopt;
  const auto oneself = number(complaint.facts, "pid");
  for (const GpuRecord& record : machine.gpus) {
    if (!is_of(complaint, machine, record)) continue;
    if (!record.processes || !record.sample.memory_total) continue;
    for (const facts::GpuProcess& process : *record.processes) {
      if (oneself && process.pid.value == *oneself) continue;
      if (process.memory && process.memory->value * 3 > record.sample.memory_total->value)
        return Testimony{"oom_other_process",
                         fmt::format("process {} holds {} of {}'s {}", process.pid.value, format_size(*process.memory),
                                     name_of(record), format_size(*record.sample.memory_total)),
                         0.88};
    }
  }
  return std::nullopt;
}

std::optional<Testimony> exclusive([[maybe_unused]] const Complaint& complaint, const Snapshot& machine) {
  for (const GpuRecord& record : machine.gpus) {
    if (!is_of(complaint, machine, record)) continue;
    if (record.gpu.compute_mode == facts::ComputeMode::exclusive_process)
      return Testimony{"exclusive_compute_mode", name_of(record) + " is in compute mode EXCLUSIVE_PROCESS", 0.93};
  }
  return std::nullopt;
}

std::optional<Testimony> not_exclusive([[maybe_unused]] const Complaint& complaint, const Snapshot& machine) {
  const bool known = std::ranges::any_of(machine.gpus, [](const auto& r) { return r.gpu.compute_mode.has_value(); });
  if (!known || exclusive(complaint, machine)) return std::nullopt;
  return Testimony{"device_busy", "no GPU here is in an exclusive compute mode", 0.85};
}

/// CUDA_VISIBLE_DEVICES of which nothing is left.
std::optional<Testimony> hidden([[maybe_unused]] const Complaint& complaint, const Snapshot& machine) {
  if (machine.gpus.empty() || !machine.environment) return std::nullopt;
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}) {
    const std::string* value = facts::find_variable(*machine.environment, name);
    if (value == nullptr) continue;
    const std::string_view shown = trim(*value);
    if (shown.empty() || shown == "-1" || shown == "NoDevFiles" || shown == "void" || shown == "none")
      return Testimony{"visible_devices_empty",
                       fmt::format("the machine has {} GPUs, but {} is '{}'", machine.gpus.size(), name, shown), 0.95};
  }
  return std::nullopt;
}

std::optional<Testimony> mismatch([[maybe_unused]] const Complaint& complaint, const Snapshot& machine) {
  const auto& kernel = machine.kernel_module_version;
  std::optional<std::string> library = machine.nvml_version;
  std::optional<std::string> loaded = kernel;
  if (machine.environment) {
    if (machine.environment->driver.library_version) library = machine.environment->driver.library_version;
    if (machine.environment->driver.loaded_version) loaded = machine.environment->driver.loaded_version;
  }
  if (!library || !loaded || !library->contains('.')) return std::nullopt;
  // NVML puts CUDA's major version before the driver's: "12.550.54.15".
  if (*library == *loaded || library->ends_with('.' + *loaded)) return std::nullopt;
  return Testimony{"driver_library_mismatch",
                   fmt::format("the kernel module is {}, the libraries are {}", *loaded, *library), 0.95};
}

std::optional<Testimony> no_driver([[maybe_unused]] const Complaint& complaint, const Snapshot& machine) {
  using Kind = facts::DriverProblem::Kind;
  if (!machine.problem || machine.driver_version) return std::nullopt;
  const Kind kind = machine.problem->kind;
  // A driver that is there, but does not answer or does not fit, is another cause.
  if (!facts::is_absence(kind) && kind != Kind::wrong_library && kind != Kind::other) return std::nullopt;
  const bool has_gpu = std::ranges::any_of(machine.gpus, is_nvidia);
  if (has_gpu) return Testimony{"driver_not_loaded", machine.problem->message, 0.9};
  return Testimony{"no_device_detected", "the machine shows no GPU at all", 0.9};
}

std::optional<Testimony> no_gpu([[maybe_unused]] const Complaint& complaint, const Snapshot& machine) {
  // Only a live reading proves that there is none; a report may just not show them.
  if (!machine.gpus.empty() || machine.problem || !machine.origin.empty() || !machine.driver_version)
    return std::nullopt;
  return Testimony{"no_device_detected", "the driver answers, and lists no GPU", 0.92};
}

struct Question {
  std::initializer_list<std::string_view> of;  ///< causes that the answer may replace
  std::optional<Testimony> (*ask)(const Complaint&, const Snapshot&);
  bool of_reports = false;  ///< asked of what a report shows, too
};

/// In the order in which a broken machine explains more than a fault of the program.
const std::initializer_list<Question>& questions() {
  static const std::initializer_list<Question> all = {
      {{"nccl_timeout", "nccl_version_or_init", "peer_rank_died", "crash_secondary", "launch_failure",
        "cuda_unknown_error", "no_device_detected", "cgroup_device_lost", "illegal_memory_access", "driver_not_loaded",
        "device_busy", "xid_app_fault", "device_hw_fault", "kernel_timeout"},
       off_the_bus},
      {{"cuda_unknown_error", "driver_not_loaded", "no_device_detected", "libcuda_missing", "driver_too_old"},
       mismatch,
       true},
      {{"nccl_timeout", "peer_rank_died", "launch_failure", "illegal_memory_access", "xid_app_fault", "device_hw_fault",
        "cuda_unknown_error", "nccl_version_or_init"},
       memory_errors},
      {{"nccl_timeout", "cuda_unknown_error", "peer_rank_died", "launch_failure", "device_hw_fault"}, gsp},
      {{"nccl_timeout", "nccl_version_or_init", "p2p_unsupported", "device_hw_fault"}, nvlink},
      {{"cuda_unknown_error", "no_device_detected", "fabric_manager_not_running", "nccl_version_or_init"},
       fabric,
       true},
      {{"nccl_timeout"}, overheated},
      {{"oom_capacity", "kv_cache_too_small", "cublas_alloc_failed"}, others_in_memory},
      {{"device_busy", "exclusive_compute_mode"}, exclusive, true},
      {{"exclusive_compute_mode"}, not_exclusive},
      {{"no_device_detected", "cuda_unknown_error", "driver_not_loaded", "invalid_device_ordinal"}, hidden, true},
      {{"no_device_detected", "cuda_unknown_error", "libcuda_missing", "driver_too_old", "visible_devices_empty"},
       no_driver},
      {{"visible_devices_empty", "cuda_unknown_error", "invalid_device_ordinal"}, no_gpu},
  };
  return all;
}

}  // namespace

std::optional<Testimony> ask_machine(const Complaint& complaint, const Snapshot& machine, bool in_report) {
  for (const Question& question : questions()) {
    if (in_report && !question.of_reports) continue;
    if (std::ranges::find(question.of, complaint.cause) == question.of.end()) continue;
    if (auto testimony = question.ask(complaint, machine)) return testimony;
  }
  return std::nullopt;
}

std::set<std::string> tags_of(const Snapshot& machine) {
  std::set<std::string> tags;
  const bool amd = std::ranges::any_of(machine.gpus, [](const GpuRecord& r) { return r.gpu.vendor == "AMD"; });
  const bool nvidia = std::ranges::any_of(machine.gpus, is_nvidia);
  if (amd && !nvidia) tags.insert("rocm");
  if (!machine.environment) return tags;
  if (machine.environment->host.wsl.value_or(0) > 0) tags.insert("wsl");
  if (machine.environment->host.distribution == knowledge::kWindows) tags.insert("windows");
  if (machine.environment->host.distribution == knowledge::kMacos) tags.insert({"macos", "mac_machine"});
  if (!machine.environment->containers.inside.value_or("").empty()) tags.insert("container");
  for (const facts::PythonEnvironment& python : machine.environment->pythons) {
    if (python.torch_rocm && !python.torch_rocm->empty()) tags.insert("rocm");
  }
  return tags;
}

}  // namespace gpuwarden::diagnosis
