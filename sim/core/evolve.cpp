// SPDX-License-Identifier: Apache-2.0
#include "sim/core/evolve.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "sim/core/holdings.hpp"
#include "sim/core/mig.hpp"
#include "sim/core/process.hpp"
#include "sim/core/settings.hpp"

namespace gpuwarden::sim {
namespace {

constexpr std::int64_t kTickNs = 100'000'000;
/// A gap longer than this (about half an hour) is not integrated tick by tick: the state has settled long before.
constexpr std::uint64_t kMaxTicksAtOnce = 18000;

// nvmlEventType bits.
constexpr std::uint64_t kEventSingleBitEcc = 0x1;
constexpr std::uint64_t kEventDoubleBitEcc = 0x2;
constexpr std::uint64_t kEventXid = 0x8;

void add_event(Body& body, std::uint32_t gpu, std::uint64_t type, std::uint64_t data) {
  ++body.event_number;
  body.events[body.event_number % kMaxEvents] = {body.event_number, type, data, gpu, 0};
}

void add_fault(Body& body, FaultKind kind, std::uint32_t gpu) {
  if (body.fault_count < kMaxFaults)
    body.faults[body.fault_count++] = {kind, gpu, 1, body.tick, 1, ++body.fault_number};
}

/// What an Xid brings with it (source: NVIDIA's Xid catalogue): 79 the GPU fell off the bus; 48 and 63 uncorrectable
/// memory errors; 95, 119, 120 and 140 need a reset.
void apply_xid(Body& body, const SharedFault& fault) {
  add_event(body, fault.gpu, kEventXid, static_cast<std::uint64_t>(fault.value));
  GpuState& state = body.gpus[fault.gpu];
  switch (fault.value) {
    case 79:
      return add_fault(body, FaultKind::lost, fault.gpu);
    case 48:
    case 63:
      ++state.ecc_uncorrected;
      return;
    case 95:
      ++state.ecc_uncorrected;
      [[fallthrough]];
    case 119:
    case 120:
    case 140:
      return add_fault(body, FaultKind::reset_required, fault.gpu);
    default:
      return;
  }
}

/// The one-time effects of a fault.
void apply(Body& body, SharedFault& fault) {
  fault.applied = 1;
  const SharedFault copy = fault;  // apply_xid() appends to the list this one is in
  if (copy.gpu >= kMaxGpus) return;
  if (copy.kind == FaultKind::xid) apply_xid(body, copy);
  if (copy.kind == FaultKind::ecc_corrected) {
    body.gpus[copy.gpu].ecc_corrected += static_cast<std::uint64_t>(copy.value);
    add_event(body, copy.gpu, kEventSingleBitEcc, 0);
  }
  if (copy.kind == FaultKind::ecc_uncorrected) {
    body.gpus[copy.gpu].ecc_uncorrected += static_cast<std::uint64_t>(copy.value);
    add_event(body, copy.gpu, kEventDoubleBitEcc, 0);
  }
}

bool in_force(const Body& body, FaultKind kind, std::uint32_t gpu) {
  return std::any_of(body.faults, body.faults + body.fault_count, [&](const SharedFault& fault) {
    return fault.kind == kind && fault.tick <= body.tick && (fault.gpu == gpu || fault.gpu == kWholeFleet);
  });
}

/// Scripted, scripted processes' and declared load together, 0..1.
double load_of(const Body& body, const FleetSpec& spec, std::uint32_t gpu, std::uint64_t tick) {
  double load = scripted_load(spec.gpus[gpu], spec.seed, tick);
  for (const ProcessSpec& process : spec.gpus[gpu].processes) load += process.utilization / 100;
  for (std::uint32_t i = 0; i < body.process_count; ++i) {
    if (body.processes[i].gpu == gpu) load += body.processes[i].utilization / 100.0;
  }
  return std::min(load, 1.0);
}

void tick(Body& body, const FleetSpec& spec) {
  ++body.tick;
  for (std::uint32_t i = 0; i < body.fault_count; ++i) {
    if (body.faults[i].applied == 0 && body.faults[i].tick <= body.tick) apply(body, body.faults[i]);
  }
  for (std::uint32_t i = 0; i < spec.gpus.size(); ++i) {
    const Ailments ailments{in_force(body, FaultKind::thermal_runaway, i), in_force(body, FaultKind::fan_failure, i),
                            in_force(body, FaultKind::slow_clock, i)};
    step(body.gpus[i], spec.gpus[i], load_of(body, spec, i, body.tick), limits_of(body, spec, i), ailments);
  }
}

void schedule(Body& body, const Fault& fault, std::uint32_t gpu) {
  if (body.fault_count == kMaxFaults) return;
  const auto when = static_cast<std::uint64_t>(fault.at.count() / 100);
  body.faults[body.fault_count++] = {fault.kind, gpu, fault.value, body.tick + when, 0, ++body.fault_number};
  if (when == 0) apply(body, body.faults[body.fault_count - 1]);
}

/// Whole numbers as NVML gives them.
double whole(double value) { return std::floor(value + 0.5); }

void read_static(Readings& r, const GpuSpec& gpu, std::uint32_t index) {
  const Model& m = gpu.model;
  const auto put = [&](Field field, double value) { at(r, field) = value; };
  const auto put_if = [&](bool supported, Field field, double value) {
    if (supported) put(field, value);
  };
  put(Field::memory_total, m.memory_mib);
  put(Field::memory_reserved, m.reserved_mib);
  put(Field::temperature_slowdown, m.temperature_slowdown);
  put(Field::temperature_shutdown, m.temperature_shutdown);
  put(Field::temperature_max, m.temperature_slowdown - 2);
  put(Field::power_limit, m.power_default);
  put(Field::power_limit_default, m.power_default);
  put(Field::power_limit_min, m.power_min);
  put(Field::power_limit_max, m.power_max);
  put(Field::clock_graphics_max, m.clock_graphics_max);
  put(Field::clock_sm_max, m.clock_graphics_max);
  put(Field::clock_memory_max, m.clock_memory_max);
  put(Field::clock_video_max, m.clock_video_max);
  put(Field::pcie_generation_max, m.pcie_generation);
  put(Field::pcie_width_max, 16);
  put(Field::pcie_width, 16);
  put(Field::pcie_replays, 0);
  put(Field::bar1_total, m.ecc ? 2.0 * m.memory_mib : 256);
  put(Field::bar1_used, 3);
  put(Field::persistence, m.ecc ? 1 : 0);
  put(Field::compute_mode, 0);
  put(Field::display_mode, 0);
  put(Field::display_active, 0);
  put(Field::multiprocessors, m.multiprocessors);
  put(Field::cuda_cores, m.cuda_cores);
  put(Field::bus_width, m.bus_width);
  put(Field::minor_number, index);
  put_if(m.mig_instances > 0, Field::mig_enabled, gpu.mig ? 1 : 0);
  put_if(m.mig_instances > 0, Field::mig_pending, gpu.mig ? 1 : 0);
  put_if(m.ecc, Field::ecc_enabled, 1);
  put_if(m.ecc && m.capability_major >= 8, Field::remapped_corrected, 0);
  put_if(m.ecc && m.capability_major >= 8, Field::remapped_uncorrected, 0);
  put_if(m.ecc && m.capability_major >= 8, Field::remapped_pending, 0);
  put_if(m.ecc && m.capability_major >= 8, Field::remapped_failure, 0);
  put_if(m.ecc && m.capability_major < 8, Field::retired_pending, 0);
  put_if(m.nvlinks > 0, Field::nvlink_count, m.nvlinks);
  put_if(m.nvlinks > 0, Field::nvlink_version, m.nvlink_version);
  put_if(m.ecc && m.capability_major >= 8, Field::temperature_memory_max, 95);
}

/// What data center boards tell and GeForce boards do not.
void read_server_parts(Readings& r, const GpuSpec& gpu) {
  const Model& m = gpu.model;
  const auto zero = [&](std::initializer_list<Field> fields) {
    for (const Field field : fields) at(r, field) = 0;
  };
  zero({Field::slowdown_sync_boost, Field::slowdown_board_limit, Field::slowdown_low_utilization,
        Field::slowdown_reliability});
  at(r, Field::clock_graphics_application) = m.clock_graphics_max;
  at(r, Field::clock_memory_application) = m.clock_memory_max;
  if (m.capability_major < 8) zero({Field::retired_single_bit, Field::retired_double_bit});
  if (m.capability_major < 8) return;
  // Banks: 32 for each 4 GiB or so, as captures of A100 (640), H100 (2560) and A10 (192) differ by product.
  at(r, Field::remap_max) = m.capability_major == 8 ? 640 : 2560;
  zero({Field::remap_high, Field::remap_partial, Field::remap_low, Field::remap_none});
}

void read_more_static(Readings& r, const GpuSpec& gpu) {
  const Model& m = gpu.model;
  at(r, Field::accounting) = 0;
  at(r, Field::virtualization) = 0;
  if (m.capability_major * 10 + m.capability_minor >= 75) at(r, Field::addressing_mode) = 0;
  if (m.capability_major >= 9) at(r, Field::confidential) = 0;
  if (m.ecc) read_server_parts(r, gpu);
  if (!m.ecc) at(r, Field::temperature_acoustic) = m.temperature_slowdown - 10;
  for (const Field field : {Field::encoder_sessions, Field::encoder_fps, Field::encoder_latency, Field::fbc_sessions})
    at(r, field) = 0;
  if (m.capability_major >= 9 && m.nvlinks > 0) {
    at(r, Field::fabric_state) = 3;
    at(r, Field::fabric_clique) = 0;
  }
  if (m.nvlinks == 0) return;
  // One direction of a link: 20 GB/s (NVLink 1), 25 (2 to 3), 26.562 (4), 53.125 (5), as nvidia-smi nvlink -s prints.
  at(r, Field::nvlink_speed) = m.nvlink_version >= 5 ? 53125 : m.nvlink_version == 4 ? 26562 : 25781;
  for (const Field field :
       {Field::nvlink_replays, Field::nvlink_crc_errors, Field::nvlink_sent, Field::nvlink_received})
    at(r, field) = 0;
}

/// Profiling metrics (GPM), which Hopper and later have; the shares are those of a dense training step.
void read_profile(Readings& r, const GpuSpec& gpu, const GpuState& s, bool mig) {
  if (gpu.model.capability_major < 9 || mig) return;
  at(r, Field::sm_active) = s.load * 92;
  at(r, Field::sm_occupancy) = s.load * 21;
  at(r, Field::tensor_active) = s.load * 48;
  at(r, Field::dram_active) = s.load * 37;
  at(r, Field::fp64_active) = 0;
  at(r, Field::fp32_active) = s.load * 9;
  at(r, Field::fp16_active) = s.load * 4;
  if (gpu.model.nvlinks == 0) return;
  at(r, Field::nvlink_tx) = whole(s.load * 90e3);
  at(r, Field::nvlink_rx) = whole(s.load * 90e3);
}

void read_more_dynamic(Readings& r, const GpuSpec& gpu, const GpuState& s, bool mig) {
  const Model& m = gpu.model;
  if (!mig && m.capability_major * 10 + m.capability_minor >= 75) {
    at(r, Field::jpeg_utilization) = 0;
    at(r, Field::ofa_utilization) = 0;
  }
  if (m.capability_major * 10 + m.capability_minor >= 89)
    at(r, Field::temperature_margin) = whole(m.temperature_slowdown - s.temperature);
  if (m.ecc) {
    at(r, Field::slowdown_power) = whole(s.power_capped * 1e6);
    at(r, Field::slowdown_thermal) = whole(s.heat_slowed * 1e6);
  }
  if (m.ecc && m.capability_major >= 9) {
    at(r, Field::slowdown_hw_thermal) = whole(s.heat_stopped * 1e6);
    at(r, Field::slowdown_hw_power_brake) = 0;
  }
  read_profile(r, gpu, s, mig);
}

void read_dynamic(Readings& r, const GpuSpec& gpu, const GpuState& s, bool mig) {
  const Model& m = gpu.model;
  const bool idle = s.load < 0.005;
  const double share = idle ? static_cast<double>(m.clock_idle) / m.clock_graphics_max : s.clock;
  at(r, Field::temperature) = whole(s.temperature);
  at(r, Field::power) = s.power;
  if (m.capability_major >= 7) at(r, Field::energy) = s.energy;
  if (!mig) {
    at(r, Field::utilization) = whole(s.load * 100);
    at(r, Field::memory_utilization) = whole(s.load * 55);
    at(r, Field::encoder_utilization) = 0;
    at(r, Field::decoder_utilization) = 0;
  }
  at(r, Field::clock_graphics) = whole(share * m.clock_graphics_max);
  at(r, Field::clock_sm) = whole(share * m.clock_graphics_max);
  at(r, Field::clock_memory) = idle && !m.ecc ? 405 : m.clock_memory_max;
  at(r, Field::clock_video) = whole(share * m.clock_video_max);
  at(r, Field::performance_state) = idle && !m.ecc ? 8 : 0;
  at(r, Field::throttle_reasons) = static_cast<double>(s.throttle);
  at(r, Field::pcie_generation) = idle && !m.ecc ? 1 : m.pcie_generation;
  at(r, Field::pcie_tx) = whole(s.load * 1.2e6);
  at(r, Field::pcie_rx) = whole(s.load * 3.1e6);
  if (m.ecc && m.capability_major >= 7 && m.memory_mib > 30000)
    at(r, Field::memory_temperature) = whole(s.temperature + 8);
}

void read_ecc(Readings& r, const GpuState& s, const GpuSettings& settings) {
  const auto since = [](std::uint64_t count, std::uint64_t cleared) { return static_cast<double>(count - cleared); };
  at(r, Field::ecc_corrected_volatile) = since(s.ecc_corrected, settings.ecc_cleared[0][0]);
  at(r, Field::ecc_uncorrected_volatile) = since(s.ecc_uncorrected, settings.ecc_cleared[0][1]);
  at(r, Field::ecc_corrected_aggregate) = since(s.ecc_corrected, settings.ecc_cleared[1][0]);
  at(r, Field::ecc_uncorrected_aggregate) = since(s.ecc_uncorrected, settings.ecc_cleared[1][1]);
}

/// What follows from settings once everything pinned is in its place.
void settle(GpuView& gpu, bool ecc_is_switched_off) {
  Readings& r = gpu.readings;
  if (!at(r, Field::ecc_pending)) at(r, Field::ecc_pending) = at(r, Field::ecc_enabled);
  if (!ecc_is_switched_off) return;
  for (const Field field : {Field::ecc_corrected_volatile, Field::ecc_uncorrected_volatile,
                            Field::ecc_corrected_aggregate, Field::ecc_uncorrected_aggregate})
    at(r, field).reset();
}

void read_processes(const Body& body, const GpuSpec& gpu, std::uint32_t index, GpuView& view) {
  double used_mib = body.gpus[index].memory_mib;
  double scripted = 0;
  for (const ProcessSpec& process : gpu.processes) {
    ProcessView seen{
        process.pid,     process.command,  std::nullopt,         static_cast<std::uint32_t>(process.utilization),
        process.compute, process.graphics, process.gpu_instance, process.mps};
    if (process.memory_mib) seen.memory_bytes = static_cast<std::uint64_t>(*process.memory_mib * (1 << 20));
    scripted += process.memory_mib.value_or(0);
    view.processes.push_back(seen);
  }
  // A scripted workload's memory is what its processes hold, where it has any.
  used_mib = std::max(used_mib, scripted);
  for (std::uint32_t i = 0; i < body.process_count; ++i) {
    const DeclaredProcess& process = body.processes[i];
    if (process.gpu != index) continue;
    const bool on_instance = process.gpu_instance != kNoInstance;
    const std::uint64_t bytes = declared_bytes(body, process);
    view.processes.push_back({process.pid, "", bytes, process.utilization, process.graphics == 0, process.graphics != 0,
                              on_instance ? std::optional(process.gpu_instance) : std::nullopt});
    used_mib += static_cast<double>(bytes) / (1 << 20);
  }
  used_mib += static_cast<double>(add_holders(body, index, view)) / (1 << 20);
  const double room = gpu.model.memory_mib - gpu.model.reserved_mib;
  at(view.readings, Field::memory_used) = std::floor(std::min(used_mib, room));
}

void read_faults(const Body& body, std::uint32_t index, const GpuSpec& gpu, GpuView& view) {
  view.lost = in_force(body, FaultKind::lost, index);
  view.reset_required = in_force(body, FaultKind::reset_required, index);
  view.unknown_error = in_force(body, FaultKind::unknown_error, index);
  view.no_permission = in_force(body, FaultKind::no_permission, index);
  view.hang = in_force(body, FaultKind::hang, index);
  view.fault_number = body.fault_number;
  const bool fan_failed = in_force(body, FaultKind::fan_failure, index);
  if (gpu.model.fan) {
    const GpuSettings& settings = body.settings[index];
    const double wanted = settings.fan_is_manual != 0
                              ? settings.fan_percent
                              : std::clamp((body.gpus[index].temperature - 45) * 2.0, 0.0, 100.0);
    at(view.readings, Field::fan_speed) = fan_failed ? 0 : whole(wanted);
    at(view.readings, Field::fan_rpm) = fan_failed ? 0 : whole(wanted * 36);
  }
  for (std::uint32_t i = 0; i < body.fault_count; ++i) {
    const SharedFault& fault = body.faults[i];
    if (fault.gpu == index && fault.tick <= body.tick) view.faults.push_back({fault.kind, fault.value, fault.number});
    if (fault.kind == FaultKind::nvlink_down && fault.gpu == index && fault.tick <= body.tick && fault.value < 64) {
      view.nvlinks_down |= 1ULL << static_cast<std::uint64_t>(fault.value);
    }
  }
}

}  // namespace

std::int64_t fleet_time(const Body& body, std::int64_t now_ns) {
  const double speed = body.frozen != 0 ? 0 : body.speed;
  return body.sim_origin_ns + static_cast<std::int64_t>(static_cast<double>(now_ns - body.clock_origin_ns) * speed);
}

std::uint64_t tick_at(std::int64_t sim_origin_ns, std::int64_t clock_origin_ns, double speed, std::int64_t now_ns) {
  const auto passed = static_cast<std::int64_t>(static_cast<double>(now_ns - clock_origin_ns) * speed);
  return static_cast<std::uint64_t>(std::max<std::int64_t>(sim_origin_ns + passed, 0) / kTickNs);
}

void begin(Body& body, const FleetSpec& spec, std::int64_t now_ns) {
  body.clock_origin_ns = now_ns;
  body.speed = spec.speed;
  body.frozen = spec.frozen ? 1 : 0;
  for (const Fault& fault : spec.faults) schedule(body, fault, kWholeFleet);
  for (std::uint32_t i = 0; i < spec.gpus.size(); ++i) {
    body.gpus[i] = settled(spec.gpus[i]);
    body.mig[i] = described_instances(spec.gpus[i]);
    for (const Fault& fault : spec.gpus[i].faults) schedule(body, fault, i);
  }
}

bool advance(Body& body, const FleetSpec& spec, std::int64_t now_ns) {
  const std::uint64_t target =
      tick_at(body.sim_origin_ns, body.clock_origin_ns, body.frozen != 0 ? 0 : body.speed, now_ns);
  if (target <= body.tick) return false;
  if (target > body.tick + kMaxTicksAtOnce) {
    const double skipped = static_cast<double>(target - kMaxTicksAtOnce - body.tick) * kTickSeconds;
    for (std::uint32_t i = 0; i < spec.gpus.size(); ++i) body.gpus[i].energy += body.gpus[i].power * skipped;
    body.tick = target - kMaxTicksAtOnce;
  }
  while (body.tick < target) tick(body, spec);
  for (std::uint32_t i = 0; i < spec.gpus.size(); ++i)
    body.gpus[i].memory_mib = scripted_memory(spec.gpus[i], body.tick);
  return true;
}

void inject_now(Body& body, const Fault& fault, std::uint32_t gpu) { schedule(body, fault, gpu); }

bool drop_dead(Body& body) {
  auto* const end = std::remove_if(
      body.processes, body.processes + body.process_count,
      [](const DeclaredProcess& process) { return process_start_time(process.pid) != process.start_time; });
  const auto alive = static_cast<std::uint32_t>(end - body.processes);
  const bool dropped = std::exchange(body.process_count, alive) != alive;
  return drop_dead_holders(body) || dropped;
}

FleetView look(const Body& body, const FleetSpec& spec) {
  FleetView view;
  view.time = std::chrono::milliseconds(body.tick * 100);
  view.mismatch = in_force(body, FaultKind::mismatch, kWholeFleet);
  view.driver_not_loaded = in_force(body, FaultKind::driver_not_loaded, kWholeFleet);
  view.hang_init = in_force(body, FaultKind::hang_init, kWholeFleet);
  for (std::uint32_t i = 0; i < spec.gpus.size(); ++i) {
    GpuView& gpu = view.gpus.emplace_back();
    gpu.spec = &spec.gpus[i];
    gpu.mig = is_mig(body, spec, i);
    gpu.settings = body.settings[i];
    gpu.mig_state = body.mig[i];
    if (gpu.mig) gpu.instances = mig_devices(gpu.mig_state, *gpu.spec);
    read_static(gpu.readings, *gpu.spec, i);
    read_more_static(gpu.readings, *gpu.spec);
    read_dynamic(gpu.readings, *gpu.spec, body.gpus[i], gpu.mig);
    if (gpu.spec->model.ecc) read_ecc(gpu.readings, body.gpus[i], gpu.settings);
    read_more_dynamic(gpu.readings, *gpu.spec, body.gpus[i], gpu.mig);
    apply_locks(gpu.readings, gpu.settings);
    read_processes(body, *gpu.spec, i, gpu);
    read_faults(body, i, *gpu.spec, gpu);
    for (const auto& [field, value] : gpu.spec->readings) at(gpu.readings, field) = value;
  }
  for (std::uint32_t i = 0; i < body.override_count; ++i) {
    const Override& change = body.overrides[i];
    if (change.gpu >= view.gpus.size() || change.field >= kFieldCount) continue;
    view.gpus[change.gpu].readings[change.field] = change.supported != 0 ? std::optional(change.value) : std::nullopt;
  }
  for (std::uint32_t i = 0; i < spec.gpus.size(); ++i) {
    const bool off = setting(body, spec, i, Field::ecc_enabled, 1) == 0;
    settle(view.gpus[i], off);
  }
  const std::uint64_t first = body.event_number > kMaxEvents ? body.event_number - kMaxEvents : 0;
  for (std::uint64_t number = first + 1; number <= body.event_number; ++number) {
    const SharedEvent& event = body.events[number % kMaxEvents];
    view.events.push_back({event.number, event.gpu, event.type, event.data});
  }
  return view;
}

}  // namespace gpuwarden::sim
