// SPDX-License-Identifier: Apache-2.0
// GPUs that are chosen and, if wanted, held: waits in line for them and frees itself.
//
//     auto store = lease::LeaseStore::open({.self = me}, system_clock());
//     probe::MachineReader reader({});
//     const machine::GpuSource source{.read = [&](const auto& what) { return reader.read(what); }, .leases = &*store};
//     auto gpus = machine::Reservation::make({.gpus = {.count = 2}, .wait = std::chrono::minutes(5)}, source,
//                                            system_clock(), stop);
//     if (gpus) start(placement::cuda_visible_devices(gpus->decision()));   // held until `gpus` leaves its scope
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/lease/lease_store.hpp"
#include "gpuwarden/placement/select.hpp"
#include "gpuwarden/probe/machine_reader.hpp"

namespace gpuwarden::machine {

/// What is wanted, and how.
struct ReservationRequest {
  placement::Request gpus;
  placement::Visibility visibility;
  bool hold = true;  ///< false: only asks which GPUs it would be
  /// How long to wait in line for them; max(): without end; none: does not wait.
  std::optional<std::chrono::milliseconds> wait;
  /// Whether GPUs that only load which may be past keeps out are looked at again (past_load.hpp), up to two seconds;
  /// false for somebody who has other things to see to meanwhile.
  bool looks_again = true;
  /// With gpus.count and without a model: so many will do where not all of them are available, and as many are taken as
  /// are.
  std::optional<std::uint32_t> least;
  /// For reserve(): never these GPUs or instances, whether or not they still tell their UUIDs.
  std::vector<Uuid> without;
  std::int32_t priority = 0;  ///< among the waiting requests of the same user: the highest goes first
  /// Hears the last decision where its end is an error that says what is missing: why other GPUs would not do, and its
  /// warnings, for example of an invalid CUDA_VISIBLE_DEVICES.
  std::function<void(const placement::Decision&)> refused;
};

/// The GPUs to choose from, and who has them.
struct GpuSource {
  std::function<facts::Snapshot(const probe::ReadRequest&)> read;
  /// nullptr: a machine whose leases are not known, as a captured one's; nothing of it can be held.
  const lease::LeaseStore* leases = nullptr;
  /// Which of those that were read are out of use for the caller; empty: none. Where it fails nothing is chosen.
  std::function<Result<std::vector<facts::Disabling>>(const facts::Snapshot&)> disabled;
  bool captured = false;   ///< the past does not change: nothing is waited for
  bool simulated = false;  ///< no CUDA to ask for its order
  std::filesystem::path sys_root = "/sys";
  std::filesystem::path proc_root = "/proc";
  /// What to advise where the request is not met; empty: nothing.
  std::function<std::string(const placement::Decision&, const facts::Snapshot&)> advise;
};

/// The devices of a snapshot with the kernel's files that are locked for them: a GPU's in /sys, a MIG instance's in
/// /proc/driver/nvidia/capabilities.
std::vector<lease::Device> lease_devices(const facts::Snapshot& snapshot, const std::filesystem::path& sys_root,
                                         const std::filesystem::path& proc_root);

/// A decision and, where it was to be held, the leases on what it chose. Gives them back at the end of its scope, but
/// for those that processes hold which inherited descriptors().
class Reservation {
 public:
  /// Asks or claims until it is satisfied or its time is over. Fails with unsatisfied (what is missing), timed_out
  /// after `wait`, interrupted at once on `stop`, and with what placement::select() and lease::LeaseStore fail with.
  /// Where it only asks and does not wait, an unsatisfied decision is an answer.
  static Result<Reservation> make(const ReservationRequest& request, const GpuSource& source, Clock& clock,
                                  const std::stop_token& stop = {});
  /// For the CPU: nothing is held.
  static Reservation of_cpu();

  const placement::Decision& decision() const { return decision_; }
  const facts::Snapshot& snapshot() const { return snapshot_; }
  /// What was chosen from, without leases: for the decision's JSON, and for what would help where it is not satisfied.
  /// Refers to this object.
  placement::Inputs inputs() const;
  const std::vector<Uuid>& devices() const { return leases_.devices(); }
  /// To be inherited by every process that is to hold the GPUs.
  std::vector<int> descriptors() const { return leases_.descriptors(); }
  /// What the leases do not guarantee, a sentence each; usually none.
  const std::vector<std::string>& warnings() const { return leases_.warnings(); }
  /// Gives one of the devices back.
  void give_back(const Uuid& device);
  /// Has the other's devices from here on, too, and its snapshot; both are of one machine and one run.
  void join(Reservation other);
  /// As lease::HeldLeases::repair().
  std::vector<std::string> repair() { return leases_.repair(); }
  /// Holds them until `stop`, and repairs their locks every ten seconds; `warning` hears what repair() says.
  void keep(Clock& clock, const std::stop_token& stop, const std::function<void(const std::string&)>& warning);

 private:
  friend class Acquisition;
  Reservation() = default;
  facts::Snapshot snapshot_;
  placement::Visibility visibility_;
  placement::Decision decision_;
  lease::HeldLeases leases_;
};

}  // namespace gpuwarden::machine
