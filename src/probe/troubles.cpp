// SPDX-License-Identifier: Apache-2.0
#include "probe/troubles.hpp"

#include <algorithm>

#include "gpuwarden/probe/nvml_reader.hpp"

namespace gpuwarden::probe {
namespace {

constexpr std::chrono::seconds kFirstRest{30};
constexpr std::chrono::seconds kLongestRest{600};

}  // namespace

std::shared_ptr<Troubles> no_troubles() { return std::make_shared<Troubles>(); }

void TroubleRest::begin(Clock::SteadyTime now) {
  pause = pause.count() == 0 ? kFirstRest : std::min(pause * 2, kLongestRest);
  until = now + pause;
}

Troubles::View Troubles::look(Clock::SteadyTime now) {
  const std::scoped_lock lock(mutex_);
  View view;
  for (auto& [index, gpu] : gpus_) {
    if (now < gpu.rest.until) {
      view.resting.emplace(index, gpu.what);
      continue;
    }
    view.due.emplace(index, gpu.what);
    // Readers on other threads need not ask at the same time.
    gpu.rest.until = now + kFirstRest;
  }
  return view;
}

void Troubles::remember(const facts::GpuRecord& record, Clock::SteadyTime now) {
  const std::scoped_lock lock(mutex_);
  auto& gpu = gpus_[record.gpu.index.value];
  gpu.what = record;
  gpu.rest.begin(now);
}

void Troubles::forget(GpuIndex index) {
  const std::scoped_lock lock(mutex_);
  gpus_.erase(index.value);
}

std::optional<facts::DriverProblem> Troubles::resting_driver(Clock::SteadyTime now) {
  const std::scoped_lock lock(mutex_);
  if (!driver_ || now >= driver_->rest.until) return std::nullopt;
  return driver_->what;
}

void Troubles::remember_driver(const facts::DriverProblem& problem, Clock::SteadyTime now) {
  const std::scoped_lock lock(mutex_);
  if (!driver_) driver_.emplace();
  driver_->what = problem;
  driver_->rest.begin(now);
}

void Troubles::forget_driver() {
  const std::scoped_lock lock(mutex_);
  driver_.reset();
}

void Troubles::forget_all() {
  const std::scoped_lock lock(mutex_);
  gpus_.clear();
  driver_.reset();
}

}  // namespace gpuwarden::probe
