// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/lease/lease_store.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "lease/gate.hpp"
#include "lease/held_leases.hpp"
#include "lease/inherited.hpp"
#include "lease/kernel_locks.hpp"
#include "lease/lock_file.hpp"
#include "lease/situation.hpp"
#include "lease/tickets.hpp"

namespace gpuwarden::lease {
namespace {

/// A listing does not wait long for somebody who is stopped in the middle of a claim.
constexpr auto kLookPatience = std::chrono::milliseconds(1000);

Result<void> refuse_twins(const std::vector<Device>& devices) {
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto same = std::ranges::count(devices, devices[i].uuid, &Device::uuid);
    if (same > 1)
      return fail(ErrorCode::unavailable, fmt::format("{} GPUs have the same UUID {}", same, devices[i].uuid.value),
                  "they cannot be told apart: reload the driver; name one of them alone with --gpu-ids");
  }
  return {};
}

}  // namespace

std::vector<facts::Lease> Situation::in_the_way() const {
  std::vector<facts::Lease> others = leases;
  std::erase_if(others, [&](const facts::Lease& lease) { return std::ranges::find(own, lease.uuid) != own.end(); });
  others.insert(others.end(), within.begin(), within.end());
  return others;
}

std::vector<Pid> own_ancestors() {
  std::vector<Pid> line = ancestors_of("/proc", Pid{::getpid()});
  for (const Pid pid : holders_above()) {
    if (std::ranges::find(line, pid) == line.end()) line.push_back(pid);
  }
  return line;
}

std::vector<Pid> processes_locking(const std::filesystem::path& file) {
  std::vector<Pid> pids;
  const auto fd = open_existing_lock_file(file);
  if (!fd) return pids;
  for (const Process& process : LockTable("/proc").holders_of(*fd)) pids.push_back(process.pid);
  return pids;
}

facts::LeaseHolder this_process(const Clock& clock) {
  static std::atomic<unsigned> count{0};
  const Pid pid{::getpid()};
  const auto process = find_process("/proc", pid);
  const auto now = clock.wall_now();
  return {pid, user_name(::geteuid()), fmt::format("{:x}-{}-{}", now.time_since_epoch().count(), pid.value, ++count),
          process ? process->command : "", now};
}

LeaseStore::LeaseStore(StoreOptions options, Clock& clock) : options_(std::move(options)), clock_(&clock) {}

Result<LeaseStore> LeaseStore::open(StoreOptions options, Clock& clock) {
  note_inherited_locks();
  LeaseStore store(std::move(options), clock);
  if (auto prepared = prepare_directory(store.options_.directory); !prepared) {
    if (store.options_.directory_required) return std::unexpected(std::move(prepared.error()));
    store.directory_problem_ = std::move(prepared.error());
  }
  return store;
}

Situation LeaseStore::inspect(const std::vector<Device>& known, Names names, const std::stop_token& stop) const {
  if (directory_problem_) {
    Situation situation = look(options_, known, Care::without_gate, names);
    situation.problem = directory_problem_;
    return situation;
  }
  const auto gate = Gate::pass(options_, *clock_, std::min(kLookPatience, options_.gate_patience), stop);
  Situation situation = look(options_, known, gate ? Care::under_gate : Care::without_gate, names);
  if (!gate) situation.problem = gate.error();
  return situation;
}

Situation LeaseStore::simulated() const {
  if (!options_.prefix.empty() || directory_problem_) return {};
  StoreOptions options = options_;
  options.prefix = kSimulatedPrefix;
  return look(options, {}, Care::without_gate, Names::told);
}

Result<std::optional<HeldLeases>> LeaseStore::claim(const std::vector<Device>& known,
                                                    const std::function<Result<Choice>(const Situation&)>& choose,
                                                    const std::stop_token& stop) const {
  std::optional<Gate> gate;
  if (!directory_problem_) {
    GPUWARDEN_TRY(Gate passed, Gate::pass(options_, *clock_, options_.gate_patience, stop));
    gate.emplace(std::move(passed));
  }
  const Care care = gate ? Care::under_gate : Care::without_gate;
  GPUWARDEN_TRY(const Choice choice, choose(look(options_, known, care, Names::told)));
  if (choice.devices.empty()) return std::nullopt;
  GPUWARDEN_CHECK(refuse_twins(choice.devices));
  // Not a HeldLeases before it is whole: that would pass the gate to give its part back, and the gate is ours.
  auto impl = std::make_unique<HeldLeases::Impl>();
  impl->options = options_;
  impl->clock = clock_;
  impl->exclusive = !choice.shared;
  for (const Device& device : choice.devices) {
    GPUWARDEN_TRY(auto lock, lock_device(options_, directory_problem_, device, impl->exclusive));
    if (!lock) return std::nullopt;
    impl->devices.push_back(device.uuid);
    impl->locks.push_back(std::move(*lock));
  }
  impl->warnings = gaps_of(options_, impl->locks);
  if (gate) impl->write_records();
  HeldLeases held;
  held.impl_ = std::move(impl);
  return held;
}

Result<Ticket> LeaseStore::queue(std::uint32_t wants, const std::vector<Uuid>& candidates, const std::stop_token& stop,
                                 std::int32_t priority) const {
  if (directory_problem_) return std::unexpected(*directory_problem_);
  GPUWARDEN_TRY(const Gate gate, Gate::pass(options_, *clock_, options_.gate_patience, stop));
  Ticket ticket;
  ticket.impl_ = std::make_unique<Ticket::Impl>();
  GPUWARDEN_TRY(ticket.impl_->file, make_ticket(options_, wants, candidates, priority));
  return ticket;
}

}  // namespace gpuwarden::lease
