// SPDX-License-Identifier: Apache-2.0
#include "sim/core/holdings.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/core/accounting.hpp"
#include "sim/core/evolve.hpp"
#include "sim/core/mig.hpp"
#include "sim/core/process.hpp"

namespace gpuwarden::sim {
namespace {

constexpr double kMebibyte = 1 << 20;

bool is_at(const Holding& holding, const Fleet::Place& place) {
  return holding.gpu == place.gpu && (place.gpu_instance == kNoInstance || holding.gpu_instance == place.gpu_instance);
}

/// Whether an earlier row stands for the same object: shared memory counts once.
bool is_counted_before(const Body& body, std::uint32_t row) {
  const std::uint64_t object = body.holdings[row].object;
  return object != 0 &&
         std::any_of(body.holdings, body.holdings + row, [&](const Holding& other) { return other.object == object; });
}

Holding* find(Body& body, const Holding& like) {
  auto* const end = body.holdings + body.holding_count;
  auto* const found = std::find_if(body.holdings, end, [&](const Holding& row) {
    return row.pid == like.pid && row.start_time == like.start_time && row.gpu == like.gpu &&
           row.gpu_instance == like.gpu_instance && row.object == like.object;
  });
  return found == end ? nullptr : found;
}

std::optional<MigInstance> instance_of(const Body& body, const FleetSpec& spec, const Fleet::Place& place) {
  if (place.gpu_instance == kNoInstance) return std::nullopt;
  const auto devices = mig_devices(body.mig[place.gpu], spec.gpus[place.gpu]);
  const auto found = std::ranges::find(devices, place.gpu_instance, &MigInstance::gpu_instance);
  return found == devices.end() ? std::nullopt : std::optional(*found);
}

/// What the fleet's script says is in use.
double scripted_mib(const Body& body, const GpuSpec& gpu, const Fleet::Place& place) {
  const bool whole = place.gpu_instance == kNoInstance;
  double processes = 0;
  for (const ProcessSpec& process : gpu.processes) {
    if (whole || process.gpu_instance == place.gpu_instance) processes += process.memory_mib.value_or(0);
  }
  return whole ? std::max(body.gpus[place.gpu].memory_mib, processes) : processes;
}

Fleet::Taken add(Body& body, const Holding& wanted) {
  if (Holding* row = find(body, wanted)) {
    row->bytes = wanted.object != 0 ? wanted.bytes : row->bytes + wanted.bytes;
    row->contexts += wanted.contexts;
    return Fleet::Taken::done;
  }
  if (body.holding_count == kMaxHoldings) return Fleet::Taken::table_full;
  body.holdings[body.holding_count++] = wanted;
  return Fleet::Taken::done;
}

bool is_held(const Body& body, std::uint64_t object) {
  return object != 0 && std::any_of(body.holdings, body.holdings + body.holding_count,
                                    [&](const Holding& row) { return row.object == object; });
}

}  // namespace

std::uint64_t capacity(const Body& body, const FleetSpec& spec, const Fleet::Place& place) {
  if (const auto instance = instance_of(body, spec, place))
    return static_cast<std::uint64_t>(instance->memory_mib) << 20U;
  const Model& model = spec.gpus[place.gpu].model;
  return static_cast<std::uint64_t>(std::max(model.memory_mib - model.reserved_mib, 0)) << 20U;
}

std::uint64_t held_bytes(const Body& body, const Fleet::Place& place) {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < body.holding_count; ++i) {
    if (is_at(body.holdings[i], place) && !is_counted_before(body, i)) bytes += body.holdings[i].bytes;
  }
  return bytes;
}

std::uint64_t used_bytes(const Body& body, const FleetSpec& spec, const Fleet::Place& place) {
  double mib = scripted_mib(body, spec.gpus[place.gpu], place);
  if (const auto instance = instance_of(body, spec, place)) mib += instance->memory_used_mib;
  std::uint64_t declared = 0;
  for (std::uint32_t i = 0; i < body.process_count; ++i) {
    const DeclaredProcess& process = body.processes[i];
    const bool here = place.gpu_instance == kNoInstance || process.gpu_instance == place.gpu_instance;
    if (process.gpu == place.gpu && here) declared += declared_bytes(body, process);
  }
  return static_cast<std::uint64_t>(mib * kMebibyte) + declared + held_bytes(body, place);
}

std::uint64_t declared_bytes(const Body& body, const DeclaredProcess& process) {
  const bool holds = std::any_of(body.holdings, body.holdings + body.holding_count, [&](const Holding& row) {
    return row.pid == process.pid && row.start_time == process.start_time && row.gpu == process.gpu;
  });
  return holds ? 0 : process.memory_bytes;
}

Fleet::Taken take(Body& body, const FleetSpec& spec, const Holding& wanted) {
  if (is_held(body, wanted.object)) return add(body, wanted);
  const Fleet::Place place{wanted.gpu, wanted.gpu_instance};
  const std::uint64_t all = capacity(body, spec, place);
  const auto fits = [&] {
    const std::uint64_t used = used_bytes(body, spec, place);
    return used <= all && wanted.bytes <= all - used;
  };
  // Whether a holder has died shows only in /proc: looking there is worth it before anybody is refused.
  if (!fits() && !(drop_dead(body) && fits())) return Fleet::Taken::out_of_memory;
  return add(body, wanted);
}

void give(Body& body, const Holding& given) {
  Holding* row = find(body, given);
  if (row == nullptr) return;
  row->bytes -= std::min(row->bytes, given.bytes);
  row->contexts -= std::min(row->contexts, given.contexts);
  if (row->contexts == 0 && (row->bytes == 0 || row->object != 0)) {
    std::move(row + 1, body.holdings + body.holding_count, row);
    --body.holding_count;
  }
}

Fleet::Taken share(Body& body, const Holding& object) {
  if (body.holding_count == kMaxHoldings) return Fleet::Taken::table_full;
  Holding own = object;
  own.object = 0;
  give(body, own);
  return add(body, object);
}

bool drop_dead_holders(Body& body) {
  std::map<std::int32_t, std::uint64_t> started;
  const auto is_dead = [&](const Holding& row) {
    const auto [at, is_new] = started.try_emplace(row.pid, 0);
    if (is_new) at->second = process_start_time(row.pid);
    return at->second != row.start_time;
  };
  auto* const end = std::remove_if(body.holdings, body.holdings + body.holding_count, is_dead);
  const auto alive = static_cast<std::uint32_t>(end - body.holdings);
  return std::exchange(body.holding_count, alive) != alive;
}

std::uint64_t add_holders(const Body& body, std::uint32_t gpu, GpuView& view) {
  for (std::uint32_t i = 0; i < body.holding_count; ++i) {
    const Holding& row = body.holdings[i];
    if (row.gpu != gpu) continue;
    const auto instance =
        row.gpu_instance == kNoInstance ? std::nullopt : std::optional<std::uint32_t>(row.gpu_instance);
    const std::uint64_t bytes = is_counted_before(body, i) ? 0 : row.bytes;
    const auto found = std::ranges::find_if(view.processes, [&](const ProcessView& process) {
      return process.pid == row.pid && process.gpu_instance == instance && process.compute;
    });
    if (found == view.processes.end())
      view.processes.push_back({.pid = row.pid, .memory_bytes = bytes, .gpu_instance = instance});
    else
      found->memory_bytes = found->memory_bytes.value_or(0) + bytes;
    view.held_bytes += bytes;
  }
  return view.held_bytes;
}

namespace {

Holding holding_of(const Fleet::Owner& owner, const Fleet::Place& place, std::uint64_t bytes, std::uint64_t object,
                   bool context) {
  return {owner.pid, place.gpu, owner.start_time, bytes, object, place.gpu_instance, context ? 1U : 0U};
}

}  // namespace

Result<Fleet::Taken> Fleet::take(const Owner& owner, const Place& place, std::uint64_t bytes, std::uint64_t object,
                                 bool context) {
  Taken taken = Taken::done;
  GPUWARDEN_CHECK(state_.update([&](Body& body) {
    taken = sim::take(body, spec_, holding_of(owner, place, bytes, object, context));
    if (context) record_processes(body, spec_);
    return taken == Taken::done;
  }));
  return taken;
}

Result<void> Fleet::give(const Owner& owner, const Place& place, std::uint64_t bytes, std::uint64_t object,
                         bool context) {
  return state_.update([&](Body& body) {
    sim::give(body, holding_of(owner, place, bytes, object, context));
    return true;
  });
}

Result<Fleet::Taken> Fleet::share(const Owner& owner, const Place& place, std::uint64_t bytes, std::uint64_t object) {
  Taken taken = Taken::done;
  GPUWARDEN_CHECK(state_.update([&](Body& body) {
    taken = sim::share(body, holding_of(owner, place, bytes, object, false));
    return taken == Taken::done;
  }));
  return taken;
}

Result<Fleet::Memory> Fleet::memory(const Place& place) {
  Memory memory;
  GPUWARDEN_CHECK(state_.update([&](Body& body) {
    const bool dropped = drop_dead(body);
    const std::uint64_t used = used_bytes(body, spec_, place);
    memory.total = capacity(body, spec_, place);
    memory.free = memory.total - std::min(memory.total, used);
    return dropped;
  }));
  return memory;
}

Result<std::optional<std::int64_t>> Fleet::use_up(std::uint32_t gpu, FaultKind kind) {
  std::optional<std::int64_t> value;
  GPUWARDEN_CHECK(state_.update([&](Body& body) {
    auto* const end = body.faults + body.fault_count;
    auto* const found = std::find_if(body.faults, end, [&](const SharedFault& fault) {
      return fault.kind == kind && fault.gpu == gpu && fault.tick <= body.tick;
    });
    if (found == end) return false;
    value = found->value;
    if (kind != FaultKind::cuda_out_of_memory || --found->value <= 0) {
      std::move(found + 1, end, found);
      --body.fault_count;
    }
    return true;
  }));
  return value;
}

}  // namespace gpuwarden::sim
