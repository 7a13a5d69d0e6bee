// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/burn_in/on_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/use.hpp"
#include "gpuwarden/machine/out_of_use.hpp"
#include "gpuwarden/machine/own_choice.hpp"
#include "gpuwarden/machine/past_load.hpp"
#include "gpuwarden/placement/select.hpp"
#include "gpuwarden/probe/machine_reader.hpp"

namespace gpuwarden::burn_in {
namespace {

const std::string* variable(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() || found->second.empty() ? nullptr : &found->second;
}

/// The GPUs of these names, whoever uses them.
Result<std::vector<Uuid>> named(const std::vector<placement::GpuName>& names, const facts::Snapshot& snapshot,
                                const Environment& environment) {
  if (names.empty()) return std::vector<Uuid>{};
  const placement::Request request{.gpu_ids = names, .shared = true, .allow_busy = true};
  GPUWARDEN_TRY(const auto decision,
                placement::select(request, {snapshot, {}, {}, placement::visibility_from(environment)}));
  if (!decision.satisfied) return fail(ErrorCode::unsatisfied, decision.missing);
  std::vector<Uuid> uuids;
  for (const placement::Device& device : decision.selected) uuids.push_back(device.uuid);
  return uuids;
}

std::string holder_of(const facts::Lease& lease) {
  if (lease.holders.empty()) return "it is reserved";
  const auto& holder = lease.holders.front();
  return printable(fmt::format("it is reserved by {} (pid {}): {}", holder.user, holder.pid.value, holder.command));
}

lease::Device device_named(const std::vector<lease::Device>& devices, const Uuid& uuid) {
  const auto found = std::ranges::find(devices, uuid, &lease::Device::uuid);
  return found == devices.end() ? lease::Device{uuid, {}} : *found;
}

/// What is held for the tests, and which devices were the caller's own before, since it was started within their lease.
struct Reserved {
  std::optional<lease::HeldLeases> held;
  std::vector<Uuid> own;
};

/// Locks the GPUs that are to be tested; those that others have locked go to options.reserved.
Reserved reserve(const machine::Machine& machine, const facts::Snapshot& snapshot, const MachineRequest& request,
                 Options& options) {
  Reserved reserved;
  const auto store = machine.open_leases(request.run_id, request.command);
  if (!store) return reserved;
  const auto wanted = [&](const Uuid& uuid) {
    return options.gpus.empty() || std::ranges::find(options.gpus, uuid) != options.gpus.end();
  };
  const auto is_left_out = [&](const Uuid& uuid) {
    return std::ranges::find(options.reserved, uuid, &std::pair<Uuid, std::string>::first) != options.reserved.end();
  };
  const auto devices = machine.lease_devices(snapshot);
  auto held = store->claim(devices, [&](const lease::Situation& situation) -> Result<lease::Choice> {
    lease::Choice choice;
    reserved.own = situation.own;
    const std::vector<facts::Lease> leases = situation.in_the_way();
    for (const auto& record : snapshot.gpus) {
      const Uuid& uuid = record.gpu.uuid;
      const auto taken = std::ranges::find(leases, uuid, &facts::Lease::uuid);
      if (taken != leases.end())
        options.reserved.emplace_back(uuid, holder_of(*taken));
      else if (wanted(uuid) && facts::is_usable(record) && !is_left_out(uuid))
        choice.devices.push_back(device_named(devices, uuid));
    }
    return choice;
  });
  if (held) reserved.held = std::move(*held);
  return reserved;
}

const facts::GpuRecord* find(const facts::Snapshot& snapshot, const Uuid& uuid) {
  const auto is_it = [&](const facts::GpuRecord& record) {
    return record.gpu.uuid == uuid ||
           std::ranges::any_of(record.mig_devices, [&](const auto& mig) { return mig.uuid == uuid; });
  };
  const auto found = std::ranges::find_if(snapshot.gpus, is_it);
  return found == snapshot.gpus.end() ? nullptr : &*found;
}

/// The snapshot a moment later, where load that may be past is all that speaks against a GPU.
facts::Snapshot without_what_has_ended(const machine::Machine& machine, facts::Snapshot snapshot, Clock& clock) {
  constexpr std::chrono::milliseconds kPause(100);
  const auto may_have_ended = [](const facts::GpuRecord& record) {
    return facts::has_load_alone(record) && in_use(record).has_value();
  };
  const auto start = clock.now();
  while (std::ranges::any_of(snapshot.gpus, may_have_ended) && clock.now() - start < machine::kPastLoad) {
    clock.sleep_for(kPause, {});
    const facts::Snapshot now = machine.read();
    for (facts::GpuRecord& record : snapshot.gpus) {
      const facts::GpuRecord* const again = find(now, record.gpu.uuid);
      if (again == nullptr) continue;
      record.processes = again->processes;
      record.processes_unreadable = again->processes_unreadable;
      record.sample.utilization_gpu = again->sample.utilization_gpu;
      record.sample.memory_used = again->sample.memory_used;
    }
  }
  return snapshot;
}

/// Those that are out of use go to options.reserved, and say why, unless they were named: whoever mends one wants to
/// know. What cannot be known is said of all.
void leave_out_disabled(const machine::Machine& machine, const facts::Snapshot& snapshot, Options& options) {
  const auto view = machine::out_of_use(machine.options().environment, machine.reader(), options.clock->wall_now());
  for (const auto& record : snapshot.gpus) {
    const Uuid uuid = facts::identity_of(record);
    if (view && std::ranges::find(options.gpus, uuid) != options.gpus.end()) continue;
    const auto* word = view ? facts::find_disabling(view->disabled, uuid) : nullptr;
    if (word != nullptr) options.reserved.emplace_back(uuid, facts::describe_disabling(*word, snapshot.taken_at));
    if (!view) options.reserved.emplace_back(uuid, view.error().message);
  }
}

Listener listener(const machine::Machine& machine, const std::function<void(std::string_view)>& progress) {
  // One reader for all moments: its connection to the driver stays open.
  const auto reader = std::make_shared<probe::MachineReader>(machine.reader());
  return {.observe = [reader](const Uuid& uuid) -> std::optional<facts::GpuRecord> {
            const auto now = reader->read({.detail = probe::Detail::full, .processes = false});
            const auto* record = find(now, uuid);
            return record == nullptr ? std::nullopt : std::optional(*record);
          },
          .progress = progress};
}

}  // namespace

Options options_from(const Environment& environment, const facts::Snapshot& snapshot) {
  Options options;
  if (snapshot.environment) {
    for (const auto& toolkit : snapshot.environment->toolkits) {
      if (!toolkit.path.empty()) options.cublas.push_back(std::filesystem::path(toolkit.path) / "lib64/libcublas.so");
    }
  }
  if (const auto* library = variable(environment, "GPUWARDEN_CUDA_LIBRARY")) {
    options.library = *library;
    options.stand_in = true;
    // The system's cuBLAS would go to the system's driver.
    options.cublas.clear();
  }
  if (const auto* library = variable(environment, "GPUWARDEN_CUBLAS_LIBRARY")) options.cublas = {*library};
  return options;
}

std::optional<std::string> not_possible(const machine::Machine& machine, const facts::Snapshot& snapshot,
                                        const Options& options) {
  if (machine.captured()) return "a capture is looked at, and only this machine's GPUs can be put to work";
  if (machine.simulated() && !options.stand_in) return "the fleet is simulated: it computes nothing";
  if (!snapshot.origin.empty())
    return fmt::format("{} is looked at, and only this machine's GPUs can be put to work", snapshot.origin);
  return std::nullopt;
}

Result<facts::BurnInRun> run_on(const machine::Machine& machine, const facts::Snapshot& snapshot,
                                const knowledge::Knowledge& knowledge, const MachineRequest& request, Options options) {
  if (auto why = not_possible(machine, snapshot, options)) {
    facts::BurnInRun run;
    run.not_possible = std::move(why);
    return run;
  }
  GPUWARDEN_TRY(options.gpus, named(request.gpus, snapshot, machine.options().environment));
  leave_out_disabled(machine, snapshot, options);
  const auto reserved = reserve(machine, snapshot, request, options);
  const facts::Snapshot settled = without_what_has_ended(machine, snapshot, *options.clock);
  return run(machine::as_seen_within(settled, reserved.own), knowledge, options, listener(machine, request.progress));
}

}  // namespace gpuwarden::burn_in
