// SPDX-License-Identifier: Apache-2.0
// Race-free reservation of GPUs between all users of a machine, without a daemon. A lease is two kernel locks (flock):
// on the kernel's own file of the device, which no user can remove, and on a file in a folder that all share, which
// decides between containers too. The kernel frees both when the last holder is gone, however it ended.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/lease.hpp"

namespace gpuwarden::lease {

/// A GPU or MIG instance that can be leased.
struct Device {
  Uuid uuid;
  /// The kernel's file of it, as "/sys/bus/pci/devices/0000:17:00.0/vendor"; empty where it has none.
  std::filesystem::path kernel_file;

  bool operator==(const Device&) const = default;
};

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
  /// What these leases do not guarantee, a sentence each; usually none.
  const std::vector<std::string>& warnings() const;
  /// Locks anew in the folder what somebody removed from it; how many files that were. What another container took in
  /// the meantime stays taken: the sentence says so.
  std::vector<std::string> repair();
  /// Gives one of them back; nothing where it is not held.
  void give_back(const Uuid& device);
  /// Holds from here on what the other holds, too.
  void join(HeldLeases other);
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
  /// Its id in Situation::waiting; empty for none.
  const std::string& id() const;
  explicit operator bool() const;

 private:
  friend class LeaseStore;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What is leased and who waits, first come first.
struct Situation {
  std::vector<facts::Lease> leases;
  std::vector<facts::LeaseTicket> waiting;
  /// Leased devices that the caller holds itself, since it was started within their lease (it inherited the locks).
  std::vector<Uuid> own;
  /// What other commands that were started within the same lease hold of these.
  std::vector<facts::Lease> within;
  /// Why this was seen without shutting others out meanwhile, so that it may already be out of date: usually nothing.
  std::optional<Error> problem;

  /// The leases that keep the caller from a device: all but those of `own`, and those `within`.
  std::vector<facts::Lease> in_the_way() const;
};

/// Whether who holds and who waits is looked up, which costs a walk through /proc for each; without it holders are
/// empty and tickets have only number and id.
enum class Names { told, left_out };

/// What the chooser answers: which devices to lock (empty: none now), shared or not.
struct Choice {
  std::vector<Device> devices;
  bool shared = false;
};

/// The greatest priority of a ticket, and with a minus sign the least.
inline constexpr std::int32_t kMostPriority = 1000000;

/// How the file names of simulated fleets begin, so that they never meet real GPUs.
inline constexpr const char* kSimulatedPrefix = "sim-";

struct StoreOptions {
  std::filesystem::path directory = "/run/lock/gpuwarden";
  std::string prefix;       ///< of file names: empty, or kSimulatedPrefix
  facts::LeaseHolder self;  ///< what others see about this holder
  /// Fail where the directory cannot be used, rather than go on with the kernel's files alone.
  bool directory_required = false;
  std::filesystem::path proc_root = "/proc";  ///< where holders are looked up
  /// How long a claim waits for somebody else's to be finished.
  std::chrono::milliseconds gate_patience = std::chrono::seconds(5);
};

/// What this process writes about itself: its own pid, user and command, and a run id that no other has.
facts::LeaseHolder this_process(const Clock& clock);

class LeaseStore {
 public:
  /// Makes the directory (01777) where it is missing. Fails with permission_denied and a hint when it is not usable and
  /// is required.
  static Result<LeaseStore> open(StoreOptions options, Clock& clock);

  /// Who holds what now, of `known` devices and of all that have a lock in the directory. Waits at most a second, and
  /// never makes a claim of somebody else fail for good.
  Situation inspect(const std::vector<Device>& known, Names names = Names::told,
                    const std::stop_token& stop = {}) const;

  /// Who holds and who waits for GPUs of simulated fleets that have a lock in the same directory; nobody where this
  /// store is of such a fleet.
  Situation simulated() const;

  /// One atomic step: shows the situation to `choose`, then locks what it chose. Returns no value when `choose` chose
  /// nothing or a chosen lock was taken meanwhile. Fails with timed_out where somebody else's claim does not end (it is
  /// named), interrupted on `stop`, unavailable for one device chosen twice, and permission_denied where a device can
  /// be locked nowhere.
  Result<std::optional<HeldLeases>> claim(const std::vector<Device>& known,
                                          const std::function<Result<Choice>(const Situation&)>& choose,
                                          const std::stop_token& stop = {}) const;

  /// Gets in line, behind all who are in it but for those of the same user with a lower `priority`: these change places
  /// with it, and nobody else's place does. Fails like claim(), and where the directory cannot be used.
  Result<Ticket> queue(std::uint32_t wants, const std::vector<Uuid>& candidates, const std::stop_token& stop = {},
                       std::int32_t priority = 0) const;

 private:
  explicit LeaseStore(StoreOptions options, Clock& clock);
  StoreOptions options_;
  Clock* clock_;
  std::optional<Error> directory_problem_;  ///< why the directory cannot be used, where it cannot
};

/// The processes that the caller can see holding a lock (flock) of this file, as the kernel tells: those that took it,
/// and where these have ended, those that inherited it.
std::vector<Pid> processes_locking(const std::filesystem::path& file);

/// The processes that this one was started by, its parent first, as far as they are seen: its parents but for init,
/// and those that took the locks of devices which it inherited, once a store has looked at these (init too, where it
/// holds one: that of a container may be the program itself), though something else adopted this process since.
std::vector<Pid> own_ancestors();

/// Whether this process seems to run in a container whose lease directory is not the host's; a sentence for people.
std::optional<std::string> container_warning(const std::filesystem::path& lease_directory);

}  // namespace gpuwarden::lease
