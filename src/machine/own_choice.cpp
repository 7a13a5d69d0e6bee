// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/own_choice.hpp"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "gpuwarden/facts/use.hpp"
#include "gpuwarden/lease/line.hpp"
#include "gpuwarden/machine/at_sight.hpp"
#include "gpuwarden/machine/past_load.hpp"
#include "gpuwarden/placement/visible_devices.hpp"
#include "gpuwarden/probe/machine_reader.hpp"

namespace gpuwarden::machine {
namespace {

bool is_one_of(Pid process, const std::vector<Pid>& processes) {
  return std::ranges::find(processes, process) != processes.end();
}

/// Whether the process of this GPU is on one of the devices: the GPU itself, or an instance of it.
bool is_on(const facts::GpuProcess& process, const facts::GpuRecord& record, const std::vector<Uuid>& devices) {
  const auto is_meant = [&](const Uuid& uuid) { return std::ranges::find(devices, uuid) != devices.end(); };
  return is_meant(record.gpu.uuid) || std::ranges::any_of(record.mig_devices, [&](const facts::MigDevice& mig) {
           return is_meant(mig.uuid) && (!process.gpu_instance || process.gpu_instance == mig.gpu_instance);
         });
}

/// Whether its holders are of the chooser's job, or have started it: a program takes no locks when it chooses for
/// itself, and need not have inherited those that it runs under.
bool holds(const facts::Lease& lease, const Chooser& chooser, const std::vector<Pid>& line) {
  return std::ranges::any_of(lease.holders, [&](const auto& holder) {
    return is_one_of(holder.pid, chooser.pids) || is_one_of(holder.pid, line);
  });
}

/// Devices that nobody leases and nobody is seen to use: what those who wait could take now.
std::set<Uuid> free_devices(const facts::Snapshot& snapshot, const std::vector<facts::Lease>& leases) {
  std::set<Uuid> found;
  for (const facts::GpuRecord& record : snapshot.gpus) {
    const bool leased = std::ranges::find(leases, record.gpu.uuid, &facts::Lease::uuid) != leases.end();
    if (facts::is_usable(record) && record.processes && record.processes->empty() && !leased)
      found.insert(record.gpu.uuid);
  }
  return found;
}

/// What is told of leases, line and devices that are out of use; of a capture the last alone.
struct Others {
  std::vector<facts::Lease> leases;
  std::vector<Uuid> spoken_for;
  std::vector<facts::Disabling> disabled;
};

Result<Others> others_on(const Machine& machine, const facts::Snapshot& snapshot, const Chooser& chooser,
                         Clock& clock) {
  Others others;
  GPUWARDEN_TRY(lease::Disablings::View view, out_of_use_in(machine, snapshot, clock.wall_now()));
  others.disabled = std::move(view.disabled);
  if (machine.captured()) return others;
  GPUWARDEN_TRY(const lease::LeaseStore store, machine.open_leases("", ""));
  lease::Situation situation = store.inspect(machine.lease_devices(snapshot));
  lease::Line line;
  others.spoken_for = line.look(situation, "", free_devices(snapshot, situation.leases), clock.now()).spoken_for;
  std::erase_if(others.spoken_for,
                [&](const Uuid& uuid) { return std::ranges::find(situation.own, uuid) != situation.own.end(); });
  others.leases = situation.in_the_way();
  const std::vector<Pid> ancestors = lease::own_ancestors();
  std::erase_if(others.leases, [&](const facts::Lease& lease) { return holds(lease, chooser, ancestors); });
  return others;
}

/// CUDA has the same prefix for all UUIDs, NVML another one for MIG instances.
std::string_view bare(const Uuid& uuid) { return std::string_view(uuid.value).substr(uuid.value.find('-') + 1); }

std::optional<std::uint32_t> place_in(const std::vector<Uuid>& order, const Uuid& device) {
  const auto found = std::ranges::find(order, bare(device), bare);
  if (found == order.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - order.begin());
}

}  // namespace

std::vector<Pid> own_line() {
  std::vector<Pid> line = lease::own_ancestors();
  line.emplace_back(::getpid());
  return line;
}

facts::Snapshot as_seen_within(facts::Snapshot snapshot, const std::vector<Uuid>& own) {
  return without_past_load(without_processes(std::move(snapshot), own_line(), own), own);
}

facts::Snapshot without_processes(facts::Snapshot snapshot, const std::vector<Pid>& processes,
                                  const std::optional<std::vector<Uuid>>& devices) {
  for (facts::GpuRecord& record : snapshot.gpus) {
    if (!record.processes) continue;
    std::optional<Bytes> held(0);
    const auto erased = std::erase_if(*record.processes, [&](const facts::GpuProcess& process) {
      if (!is_one_of(process.pid, processes) || (devices && !is_on(process, record, *devices))) return false;
      held = held && process.memory ? std::optional(*held + *process.memory) : std::nullopt;
      return true;
    });
    if (erased == 0 || !record.processes->empty()) continue;
    auto& sample = record.sample;
    if (sample.utilization_gpu) sample.utilization_gpu = Percent(0);
    if (held && sample.memory_used && *held <= *sample.memory_used)
      sample.memory_used = *sample.memory_used - *held;
    else
      sample.memory_used.reset();
  }
  return snapshot;
}

Result<OwnChoice> choose_for(const Machine& machine, const placement::Request& request, const Chooser& chooser,
                             const placement::Visibility& visibility, Clock& clock) {
  constexpr std::chrono::milliseconds kPause(100);
  OwnChoice choice{.decision = {}, .snapshot = {}, .request = request, .others = {}};
  const bool several = request.all || request.count.value_or(1) > 1 || request.work || request.model_size;
  const auto select = [&](const placement::Inputs& inputs) { return placement::select(request, inputs); };
  for (const auto start = clock.now();; clock.sleep_for(kPause, {})) {
    choice.snapshot = machine.read(
        {.links = several,
         .cuda_order = visibility.cuda_visible_devices.has_value() && !machine.simulated() && !machine.captured()});
    GPUWARDEN_TRY(Others others, others_on(machine, choice.snapshot, chooser, clock));
    const facts::Snapshot seen = without_processes(choice.snapshot, chooser.pids);
    const placement::Inputs inputs{seen, others.leases, others.spoken_for, visibility, others.disabled};
    GPUWARDEN_TRY(choice.decision, select(inputs));
    choice.others = std::move(others.leases);
    const bool is_final = machine.captured() || clock.now() - start >= kPastLoad;
    if (is_final || !past_load_counts(choice.decision, inputs, select)) return choice;
  }
}

std::optional<std::uint32_t> cuda_ordinal(const Uuid& device, const placement::Visibility& visibility,
                                          const facts::Snapshot& snapshot,
                                          const std::optional<std::vector<Uuid>>& started) {
  if (started) return place_in(*started, device);
  const auto visible = placement::read_visible_devices(visibility, snapshot);
  if (!visible) return std::nullopt;
  if (visible->restricted) return place_in(visible->uuids, device);
  const auto order = placement::cuda_order(visibility, snapshot);
  return order ? place_in(*order, device) : std::nullopt;
}

}  // namespace gpuwarden::machine
