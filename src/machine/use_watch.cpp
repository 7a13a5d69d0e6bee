// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/use_watch.hpp"

#include <utility>

#include "gpuwarden/machine/at_sight.hpp"
#include "gpuwarden/machine/lease_watch.hpp"
#include "gpuwarden/machine/out_of_use.hpp"

namespace gpuwarden::machine {

UseNow use_now(const Machine& machine, const facts::Snapshot& snapshot, std::chrono::system_clock::time_point now) {
  UseNow use;
  use.leases = watch_leases(machine, kHolderPace, system_clock(),
                            [&](const std::optional<Error>& problem) { use.leases_problem = problem; })(snapshot);
  auto view = out_of_use_in(machine, snapshot, now);
  if (view) {
    use.out_of_use = std::move(*view);
  } else {
    use.out_of_use_problem = view.error();
    add_unfit_at_sight(use.out_of_use, snapshot);
  }
  return use;
}

UseWatch::UseWatch(const Machine& machine, Clock& clock)
    : machine_(machine),
      clock_(clock),
      watch_(watch_leases(machine, kHolderPace, clock, [this](const std::optional<Error>& problem) {
        const std::scoped_lock lock(mutex_);
        leases_problem_ = problem;
      })) {}

std::vector<facts::Lease> UseWatch::leases(const facts::Snapshot& snapshot) { return watch_(snapshot); }

std::vector<facts::Disabling> UseWatch::disabled() {
  auto view = machine::out_of_use(machine_.options().environment, machine_.reader(), clock_.wall_now());
  {
    const std::scoped_lock lock(mutex_);
    disablings_problem_ = view ? std::nullopt : std::optional(view.error());
    if (view) out_of_use_ = view->disabled;
  }
  if (!view) return known_;
  // What monitors judge is no word of a person's: the monitor that asks judges for itself.
  std::erase_if(view->disabled, [](const facts::Disabling& one) { return one.judged; });
  known_ = std::move(view->disabled);
  return known_;
}

std::vector<facts::Disabling> UseWatch::out_of_use() const {
  const std::scoped_lock lock(mutex_);
  return out_of_use_;
}

std::optional<Error> UseWatch::leases_problem() const {
  const std::scoped_lock lock(mutex_);
  return leases_problem_;
}

std::optional<Error> UseWatch::disablings_problem() const {
  const std::scoped_lock lock(mutex_);
  return disablings_problem_;
}

}  // namespace gpuwarden::machine
