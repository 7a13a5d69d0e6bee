// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/lease_watch.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace gpuwarden::machine {
namespace {

bool are_the_same_gpus(const std::vector<facts::Lease>& a, const std::vector<facts::Lease>& b) {
  return std::ranges::equal(a, b, [](const facts::Lease& one, const facts::Lease& other) {
    return one.uuid == other.uuid && one.shared == other.shared;
  });
}

class LeaseWatch {
 public:
  LeaseWatch(const Machine& machine, std::chrono::milliseconds pace, Clock& clock,
             std::function<void(const std::optional<Error>&)> unknown)
      : machine_(machine), pace_(pace), clock_(clock), unknown_(std::move(unknown)) {}

  std::vector<facts::Lease> look(const facts::Snapshot& snapshot) {
    std::optional<Error> problem;
    std::vector<facts::Lease> leases = look_for(snapshot, problem);
    if (unknown_) unknown_(problem);
    return leases;
  }

 private:
  std::vector<facts::Lease> look_for(const facts::Snapshot& snapshot, std::optional<Error>& problem) {
    if (machine_.captured() || !open(problem)) return {};
    const auto devices = machine_.lease_devices(snapshot);
    const auto now = clock_.now();
    if (named_at_ && now - *named_at_ < pace_) {
      const lease::Situation glance = store_->inspect(devices, lease::Names::left_out);
      if (!glance.problem && are_the_same_gpus(glance.leases, named_)) return named_;
    }
    lease::Situation situation = store_->inspect(devices);
    // Its directory may be another by the next time.
    problem = situation.problem;
    if (situation.problem) store_.reset();
    named_at_ = now;
    named_ = std::move(situation.leases);
    return named_;
  }

  bool open(std::optional<Error>& problem) {
    if (store_) return true;
    auto opened = machine_.open_leases("", "");
    if (opened)
      store_.emplace(std::move(*opened));
    else
      problem = opened.error();
    return store_.has_value();
  }

  const Machine& machine_;
  const std::chrono::milliseconds pace_;
  Clock& clock_;
  const std::function<void(const std::optional<Error>&)> unknown_;
  std::optional<lease::LeaseStore> store_;
  std::optional<Clock::SteadyTime> named_at_;
  std::vector<facts::Lease> named_;
};

}  // namespace

std::function<std::vector<facts::Lease>(const facts::Snapshot&)> watch_leases(
    const Machine& machine, std::chrono::milliseconds pace, Clock& clock,
    std::function<void(const std::optional<Error>&)> unknown) {
  return [watch = std::make_shared<LeaseWatch>(machine, pace, clock, std::move(unknown))](
             const facts::Snapshot& snapshot) { return watch->look(snapshot); };
}

}  // namespace gpuwarden::machine
