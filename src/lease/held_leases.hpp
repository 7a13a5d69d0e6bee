// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "gpuwarden/lease/lease_store.hpp"
#include "lease/device_locks.hpp"
#include "lease/tickets.hpp"

namespace gpuwarden::lease {

struct HeldLeases::Impl {
  StoreOptions options;
  Clock* clock = nullptr;
  bool exclusive = true;
  std::vector<DeviceLock> locks;
  std::vector<Uuid> devices;
  std::vector<std::string> warnings;
  pid_t owner = ::getpid();

  std::string record_of(const DeviceLock& lock) const {
    return record_prefix(lock.options, lock.device.uuid) + options.self.run_id;
  }
  void write_records() const;
  /// Opens these locks, and takes back what was written about them.
  void give_back(std::vector<DeviceLock> given);
};

struct Ticket::Impl {
  NewTicket file;
  pid_t owner = ::getpid();
};

}  // namespace gpuwarden::lease
