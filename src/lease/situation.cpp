// SPDX-License-Identifier: Apache-2.0
#include "lease/situation.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/lease/run_record.hpp"
#include "lease/device_locks.hpp"
#include "lease/inherited.hpp"
#include "lease/kernel_locks.hpp"
#include "lease/records.hpp"
#include "lease/tickets.hpp"

namespace gpuwarden::lease {
namespace {

namespace fs = std::filesystem;

/// The devices that a caller knows and those that have a lock in the directory, by UUID.
std::map<Uuid, fs::path> devices_of(const StoreOptions& options, const std::vector<fs::path>& files,
                                    const std::vector<Device>& known) {
  std::map<Uuid, fs::path> devices;
  for (const Device& device : known) devices.emplace(device.uuid, device.kernel_file);
  for (const fs::path& path : files) {
    const std::string name = path.filename();
    if (!name.starts_with(options.prefix) || !name.ends_with(".lock")) continue;
    const Uuid uuid(name.substr(options.prefix.size(), name.size() - options.prefix.size() - 5));
    // "index-0": a GPU without a UUID, as that of a Jetson.
    if (uuid.value.starts_with("GPU-") || uuid.value.starts_with("MIG-") || uuid.value.starts_with("index-"))
      devices.emplace(uuid, fs::path());
  }
  return devices;
}

/// Whether anybody is seen to hold a lock of the device's files.
bool is_seen_locked(const StoreOptions& options, const LockTable& locks, const Device& device) {
  return std::ranges::any_of(lock_files(options, device), [&](const fs::path& path) {
    const auto fd = open_existing_lock_file(path);
    return fd && !locks.on(*fd).empty();
  });
}

/// Of a shared lease nobody can tell which of its runs a process has it from: none of its holders is called orphaned.
std::vector<facts::LeaseHolder> holders_of(const StoreOptions& options, const LockTable& locks, const Device& device,
                                           bool shared) {
  std::vector<facts::LeaseHolder> holders;
  for (const fs::path& path : lock_files(options, device)) {
    const auto fd = open_existing_lock_file(path);
    const auto processes = fd ? locks.holders_of(*fd) : std::vector<Process>{};
    if (processes.empty()) continue;
    const auto records = read_records(options.directory, record_prefix(options, device.uuid));
    for (const Process& process : processes) {
      holders.push_back(describe(process, records));
      holders.back().orphaned = !shared && is_unsupervised(options.directory, holders.back().run_id, process.uid);
    }
    // Who holds the first of its files holds the device; the second tells of other containers.
    return holders;
  }
  return holders;
}

}  // namespace

LockState state_of(const StoreOptions& options, const Device& device, Care care) {
  LockState state = LockState::free;
  for (const fs::path& path : lock_files(options, device)) {
    const auto one = care == Care::under_gate ? state_of(path) : glance_at(path);
    state = std::max(state, one.value_or(LockState::free));
  }
  return state;
}

namespace {

/// What is looked at of one device at one level.
struct Seen {
  Level level;
  LockState state = LockState::free;
  std::vector<facts::Lease> Situation::* list = &Situation::leases;
};

/// The device, and what is held within the lease on it that is the caller's own.
std::vector<Seen> seen_of(const StoreOptions& options, const Device& device, Care care, std::vector<Uuid>& own) {
  std::vector<Seen> seen{{{options, device, {}}, state_of(options, device, care), &Situation::leases}};
  if (seen.front().state != LockState::exclusive) return seen;
  Level level = level_of(options, device);
  if (level.inherited.empty()) return seen;
  own.push_back(device.uuid);
  const LockState state = state_of(level.options, level.device, care);
  seen.push_back({std::move(level), state, &Situation::within});
  return seen;
}

}  // namespace

Situation look(const StoreOptions& options, const std::vector<Device>& known, Care care, Names names) {
  Situation situation;
  std::vector<Seen> taken;
  const auto files = list_directory(options.directory);
  for (const auto& [uuid, file] : devices_of(options, files, known)) {
    for (Seen& seen : seen_of(options, {uuid, file}, care, situation.own)) {
      if (seen.state == LockState::free && care == Care::under_gate)
        remove_records(files, record_prefix(seen.level.options, uuid));
      if (seen.state != LockState::free || care == Care::without_gate) taken.push_back(std::move(seen));
    }
  }
  // Read once, after all locks that were only tried are open again.
  std::optional<LockTable> locks;
  if (!taken.empty() && (names == Names::told || care == Care::without_gate)) locks.emplace(options.proc_root);
  for (const Seen& seen : taken) {
    const auto& [at, device, inherited] = seen.level;
    // Without the gate a shared lock is not felt, only seen.
    if (seen.state == LockState::free && !is_seen_locked(at, *locks, device)) continue;
    auto& list = situation.*seen.list;
    list.push_back({device.uuid, seen.state != LockState::exclusive, {}});
    if (names == Names::told) list.back().holders = holders_of(at, *locks, device, list.back().shared);
  }
  situation.waiting = live_tickets(options, names, care == Care::under_gate);
  return situation;
}

}  // namespace gpuwarden::lease
