// SPDX-License-Identifier: Apache-2.0
// Variables of a GPU itself: its thresholds and highest values, what it is, how it stands, what happened to it.
#include <algorithm>

#include "telemetry/variables_table.hpp"

namespace gpuwarden::telemetry {
namespace {

using facts::Gpu;

template <class Unit>
std::function<Value(const Subject&)> number_of_gpu(std::optional<Unit> Gpu::* field) {
  return [field](const Subject& subject) -> Value {
    if (subject.gpu == nullptr || !(subject.gpu->gpu.*field)) return {};
    return static_cast<double>((subject.gpu->gpu.*field)->value) / kStepsPerShownUnit<Unit>;
  };
}

Value one_text(std::string text) { return Texts{{std::move(text)}, true}; }

std::function<Value(const Subject&)> text_of_gpu(std::string Gpu::* field) {
  return [field](const Subject& subject) -> Value {
    if (subject.gpu == nullptr || (subject.gpu->gpu.*field).empty()) return {};
    return one_text(subject.gpu->gpu.*field);
  };
}

std::function<Value(const Subject&)> text_of_gpu(std::optional<std::string> Gpu::* field) {
  return [field](const Subject& subject) -> Value {
    if (subject.gpu == nullptr || !(subject.gpu->gpu.*field)) return {};
    return one_text(*(subject.gpu->gpu.*field));
  };
}

std::function<Value(const Subject&)> flag_of_gpu(std::optional<bool> Gpu::* field) {
  return [field](const Subject& subject) -> Value {
    if (subject.gpu == nullptr || !(subject.gpu->gpu.*field)) return {};
    return *(subject.gpu->gpu.*field) ? 1.0 : 0.0;
  };
}

template <class Enum>
std::vector<std::string_view> names_up_to(Enum last) {
  std::vector<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(last); ++i) names.push_back(to_string(static_cast<Enum>(i)));
  return names;
}

Value read_index(const Subject& subject) {
  if (subject.gpu == nullptr) return {};
  return static_cast<double>(subject.gpu->gpu.index.value);
}

Value read_uuid(const Subject& subject) {
  if (subject.gpu == nullptr || subject.gpu->gpu.uuid.value.empty()) return {};
  return one_text(subject.gpu->gpu.uuid.value);
}

Value read_compute_capability(const Subject& subject) {
  if (subject.gpu == nullptr || !subject.gpu->gpu.compute_capability) return {};
  const auto [major, minor] = *subject.gpu->gpu.compute_capability;
  return (major * 10 + minor) / 10.0;
}

Value read_host(const Subject& subject) { return subject.host.empty() ? Value() : one_text(std::string(subject.host)); }

Value read_state(const Subject& subject) {
  return subject.gpu == nullptr ? Value() : one_text(std::string(to_string(subject.gpu->state)));
}

Value read_health_reason(const Subject& subject) {
  const bool told = subject.health != nullptr && !subject.health->reason.empty();
  return told ? one_text(subject.health->reason) : Value();
}

Value read_health_next_step(const Subject& subject) {
  const bool told = subject.health != nullptr && !subject.health->next_step.empty();
  return told ? one_text(subject.health->next_step) : Value();
}

Value read_health(const Subject& subject) {
  return subject.health == nullptr ? Value() : one_text(std::string(facts::to_string(subject.health->state)));
}

Value read_throttle(const Subject& subject) {
  if (subject.gpu == nullptr || !subject.gpu->sample.throttle_reasons) return {};
  Texts reasons;
  for (const auto reason : *subject.gpu->sample.throttle_reasons) reasons.known.emplace_back(to_string(reason));
  return reasons;
}

Value read_xids(const Subject& subject) {
  Numbers codes;
  for (const auto& event : subject.events) {
    if (event.kind == facts::GpuEventKind::xid) codes.known.push_back(static_cast<double>(event.data));
  }
  return codes;
}

Value read_events(const Subject& subject) {
  Texts kinds;
  for (const auto& event : subject.events) kinds.known.emplace_back(to_string(event.kind));
  return kinds;
}

std::vector<Variable> threshold_variables() {
  return {
      {.name = "slowdown",
       .unit = "°C",
       .help = "Temperature at which the GPU slows down.",
       .read = number_of_gpu(&Gpu::temperature_slowdown)},
      {.name = "shutdown",
       .unit = "°C",
       .help = "Temperature at which the GPU switches itself off.",
       .read = number_of_gpu(&Gpu::temperature_shutdown)},
      {.name = "temperature_max",
       .unit = "°C",
       .help = "Highest temperature for full performance.",
       .read = number_of_gpu(&Gpu::temperature_max)},
      {.name = "memory_temperature_max",
       .unit = "°C",
       .help = "Highest memory temperature for full performance.",
       .read = number_of_gpu(&Gpu::temperature_memory_max)},
      {.name = "power_limit_min",
       .unit = "W",
       .help = "Lowest power limit that can be set.",
       .read = number_of_gpu(&Gpu::power_limit_min)},
      {.name = "power_limit_max",
       .unit = "W",
       .help = "Highest power limit that can be set.",
       .read = number_of_gpu(&Gpu::power_limit_max)},
      {.name = "power_limit_default",
       .unit = "W",
       .help = "Power limit that the GPU starts with.",
       .read = number_of_gpu(&Gpu::power_limit_default)},
      {.name = "clock_graphics_max",
       .unit = "MHz",
       .help = "Highest graphics clock.",
       .read = number_of_gpu(&Gpu::clock_graphics_max)},
      {.name = "clock_sm_max",
       .unit = "MHz",
       .help = "Highest multiprocessor clock.",
       .read = number_of_gpu(&Gpu::clock_sm_max)},
      {.name = "clock_memory_max",
       .unit = "MHz",
       .help = "Highest memory clock.",
       .read = number_of_gpu(&Gpu::clock_memory_max)},
      {.name = "clock_video_max",
       .unit = "MHz",
       .help = "Highest video clock.",
       .read = number_of_gpu(&Gpu::clock_video_max)},
      {.name = "pcie_generation_max",
       .help = "Highest PCIe generation of GPU and slot.",
       .read = number_of_gpu(&Gpu::pcie_generation_max)},
      {.name = "pcie_width_max",
       .help = "Most PCIe lanes of GPU and slot.",
       .read = number_of_gpu(&Gpu::pcie_width_max)},
  };
}

std::vector<Variable> identity_variables() {
  return {
      {.name = "gpu", .help = "Index of the GPU, as nvidia-smi shows it.", .read = read_index},
      {.name = "uuid", .kind = VariableKind::texts, .help = "UUID of the GPU.", .read = read_uuid},
      {.name = "name", .kind = VariableKind::texts, .help = "Product name.", .read = text_of_gpu(&Gpu::name)},
      {.name = "bus_id",
       .kind = VariableKind::texts,
       .help = "PCI bus id (00000000:17:00.0).",
       .read = text_of_gpu(&Gpu::pci_bus_id)},
      {.name = "serial",
       .kind = VariableKind::texts,
       .help = "Serial number of the board.",
       .read = text_of_gpu(&Gpu::serial)},
      {.name = "vendor",
       .kind = VariableKind::texts,
       .help = "NVIDIA, AMD or Intel.",
       .read = text_of_gpu(&Gpu::vendor)},
      {.name = "architecture",
       .kind = VariableKind::texts,
       .help = "Hopper, Ampere, ...",
       .read = text_of_gpu(&Gpu::architecture)},
      {.name = "compute_capability", .help = "Compute capability (9.0).", .read = read_compute_capability},
      {.name = "ecc_enabled",
       .help = "1 if memory errors are corrected (ECC).",
       .read = flag_of_gpu(&Gpu::ecc_enabled)},
      {.name = "mig_enabled",
       .help = "1 if the GPU is divided into MIG instances.",
       .read = flag_of_gpu(&Gpu::mig_enabled)},
      {.name = "persistence",
       .help = "1 if the driver stays loaded without a user.",
       .read = flag_of_gpu(&Gpu::persistence)},
      {.name = "host", .kind = VariableKind::texts, .help = "Name of the machine.", .read = read_host},
  };
}

std::vector<Variable> condition_variables() {
  return {
      {.name = "state",
       .kind = VariableKind::texts,
       .help = "What can be done with the GPU; `lost` also where it is missing from the driver's list.",
       .values = names_up_to(facts::GpuState::faulty),
       .read = read_state},
      {.name = "health",
       .kind = VariableKind::texts,
       .help = "Whether the GPU is fit for work, as judged over time.",
       .values = names_up_to(facts::HealthState::disabled),
       .read = read_health},
      {.name = "health_reason",
       .kind = VariableKind::texts,
       .help = "Why the GPU is judged unfit or disabled.",
       .read = read_health_reason},
      {.name = "health_next_step",
       .kind = VariableKind::texts,
       .help = "What to do about a GPU that is judged unfit.",
       .read = read_health_next_step},
      {.name = "throttle",
       .kind = VariableKind::texts,
       .help = "Why clocks are below their maximum. Alone: held back by power, heat or a fault. `throttle thermal`, "
               "`power`, "
               "`hw`, `sync_boost` or one of the reasons.",
       .values = names_up_to(facts::ThrottleReason::display_clock_setting),
       .read = read_throttle},
      {.name = "xid",
       .kind = VariableKind::numbers,
       .help = "Errors that the driver reported since the reading before, by their number.",
       .of_events = true,
       .read = read_xids},
      {.name = "event",
       .kind = VariableKind::texts,
       .help = "Kinds of what happened since the reading before.",
       .values = names_up_to(facts::GpuEventKind::lost),
       .of_events = true,
       .read = read_events},
  };
}

}  // namespace

std::vector<Variable> gpu_variables() {
  std::vector<Variable> all = threshold_variables();
  for (Variable& variable : identity_variables()) all.push_back(std::move(variable));
  for (Variable& variable : condition_variables()) all.push_back(std::move(variable));
  return all;
}

const std::vector<ThrottleGroup>& throttle_groups() {
  static const std::vector<ThrottleGroup> kGroups{
      {"thermal", {"sw_thermal_slowdown", "hw_thermal_slowdown"}},
      {"power", {"sw_power_cap", "hw_power_brake"}},
      {"hw", {"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake"}},
  };
  return kGroups;
}

}  // namespace gpuwarden::telemetry
