// SPDX-License-Identifier: Apache-2.0
// Who has reserved and who has disabled a machine's GPUs, for a monitor that asks with every reading.
//
//     machine::UseWatch use(machine);
//     options.leases = [&use](const facts::Snapshot& snapshot) { return use.leases(snapshot); };
//     options.disabled = [&use] { return use.disabled(); };
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/facts/lease.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/lease/disablings.hpp"
#include "gpuwarden/machine/machine.hpp"

namespace gpuwarden::machine {

/// Who has reserved GPUs and which are out of use, at one look, and why that is not known.
struct UseNow {
  std::vector<facts::Lease> leases;  ///< none where `leases_problem` is set, nor of a capture
  std::optional<Error> leases_problem;
  lease::Disablings::View out_of_use;  ///< where `out_of_use_problem` is set, what the look itself shows
  std::optional<Error> out_of_use_problem;
};
UseNow use_now(const Machine& machine, const facts::Snapshot& snapshot, std::chrono::system_clock::time_point now);

/// Both stand in files, which may be unreadable: that is kept, so that what is unknown is told and not taken for none.
/// One thread asks, any may look at what was found. `machine` and `clock` must outlive it.
class UseWatch {
 public:
  explicit UseWatch(const Machine& machine, Clock& clock = system_clock());
  UseWatch(const UseWatch&) = delete;
  UseWatch& operator=(const UseWatch&) = delete;

  /// As watch_leases(): none where they are not known.
  std::vector<facts::Lease> leases(const facts::Snapshot& snapshot);
  /// What people have disabled. Where that is not known now, as it was known last: nothing is enabled by a file that
  /// cannot be read.
  std::vector<facts::Disabling> disabled();

  /// As disabled() found it last, with the GPUs that monitors judge unfit.
  std::vector<facts::Disabling> out_of_use() const;
  /// Why it is not known who has reserved what, or what is disabled; nothing where it is known, or was not asked yet.
  std::optional<Error> leases_problem() const;
  std::optional<Error> disablings_problem() const;

 private:
  const Machine& machine_;
  Clock& clock_;
  std::function<std::vector<facts::Lease>(const facts::Snapshot&)> watch_;
  std::vector<facts::Disabling> known_;  ///< the asking thread's own
  mutable std::mutex mutex_;
  std::vector<facts::Disabling> out_of_use_;
  std::optional<Error> leases_problem_;
  std::optional<Error> disablings_problem_;
};

}  // namespace gpuwarden::machine
