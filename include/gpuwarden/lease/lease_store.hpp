// SPDX-License-Identifier: Apache-2.0
// Race-free reservation of GPUs between all users of a machine: one kernel lock (flock) per GPU, freed by the kernel
// when its last holder is gone, however it ended. No daemon.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/facts/lease.hpp"

namespace gpuwarden::lease {

/// Locks that are held. Children that inherit the descriptors (they are not close-on-exec) hold them too; the GPU is
/// free when the last copy is closed.
class HeldLeases {
 public:
  HeldLeases();
  HeldLeases(HeldLeases&&) noexcept;
  HeldLeases& operator=(HeldLeases&&) noexcept;
  ~HeldLeases();  ///< gives them back and removes this holder's records
  const std::vector<Uuid>& devices() const;
  /// The lock descriptors, for a child that is to hold them too.
  std::vector<int> descriptors() const;
  /// Drops this process's copies without touching records: other holders go on.
  void abandon();

 private:
  friend class LeaseStore;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A place in the line of waiting requests; leaving the scope, or dying, gives it up.
class Ticket {
 public:
  Ticket();
  Ticket(Ticket&&) noexcept;
  Ticket& operator=(Ticket&&) noexcept;
  ~Ticket();
  std::uint64_t number() const;
  explicit operator bool() const;

 private:
  friend class LeaseStore;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What is leased and who waits, seen under the gate. `spoken_for`: candidates of requests that came before the
/// asking ticket (all waiting requests, for one without a ticket).
struct Situation {
  std::vector<facts::Lease> leases;
  std::vector<facts::LeaseTicket> waiting;
  std::vector<Uuid> spoken_for;
};

/// What the chooser answers: which devices to lock (empty: none now), shared or not.
struct Choice {
  std::vector<Uuid> devices;
  bool shared = false;
};

struct StoreOptions {
  std::filesystem::path directory = "/run/lock/gpuwarden";
  /// File name prefix, "sim-" for simulated fleets, so that they never meet real GPUs.
  std::string prefix;
  facts::LeaseHolder self;  ///< what others see about this holder
};

class LeaseStore {
 public:
  /// Makes the directory (01777) where it is missing. Fails with permission_denied and a hint when it is not usable.
  static Result<LeaseStore> open(StoreOptions options, Clock& clock);

  /// Who holds what now. Never makes a claim of somebody else fail.
  Result<Situation> inspect() const;

  /// One atomic step under the gate: shows the situation to `choose`, then locks what it chose. Returns no value when
  /// `choose` chose nothing or a chosen lock was taken meanwhile by somebody outside the gate.
  Result<std::optional<HeldLeases>> claim(const Ticket* ticket,
                                          const std::function<Result<Choice>(const Situation&)>& choose) const;

  /// Gets in line. First come, first served among requests whose candidates overlap.
  Result<Ticket> queue(std::uint32_t wants, const std::vector<Uuid>& candidates) const;

 private:
  explicit LeaseStore(StoreOptions options, Clock& clock);
  StoreOptions options_;
  Clock* clock_;
};

/// Whether this process seems to run in a container whose lease directory is not the host's; a sentence for people.
std::optional<std::string> container_warning(const std::filesystem::path& lease_directory);

}  // namespace gpuwarden::lease
