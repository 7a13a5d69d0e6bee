// SPDX-License-Identifier: Apache-2.0
#include "healing/holding.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gpuwarden::healing {
namespace {

/// A GPU that looks free and is not to be had, as others' leases or the request have it, is not asked for every second.
constexpr auto kBetweenAsks = std::chrono::seconds(10);

}  // namespace

Holding::Holding(machine::Reservation gpus, const Options& options, Clock& clock)
    : gpus_(std::move(gpus)),
      options_(options),
      clock_(clock),
      outcasts_(options.probation),
      most_(options.elastic ? options.elastic->most : 0),
      wanted_(count()) {}

void Holding::shrink(std::uint32_t count) {
  most_ = count;
  std::vector<placement::Device> held = gpus_.decision().selected;
  while (held.size() > count) {
    gpus_.give_back(held.back().uuid);
    held.pop_back();
  }
}

bool Holding::can_spare(const Uuid& gpu) {
  if (is_elastic() && count() > options_.elastic->least) return true;
  if (substitute_) return true;
  const auto now = clock_.now();
  if (!options_.one_more || !has_spare() || (asked_ && now - *asked_ < kBetweenAsks)) return false;
  asked_ = now;
  std::vector<Uuid> without = outcasts();
  for (const placement::Device& device : gpus_.decision().selected) without.push_back(device.uuid);
  const auto& there = gpus_.snapshot().gpus;
  const auto record = std::ranges::find(there, gpu, [](const facts::GpuRecord& one) { return one.gpu.uuid; });
  auto one = options_.one_more(without, record == there.end() ? std::nullopt : record->sample.memory_total);
  if (!one) return false;
  gpus_.join(std::move(*one));
  return substitute_ = true;
}

void Holding::blame(const std::vector<Uuid>& gpus) {
  for (const Uuid& uuid : gpus) outcasts_.add(uuid);
}

std::optional<Error> Holding::replace(const std::vector<Uuid>& at_fault) {
  const bool substitute = std::exchange(substitute_, false);
  if (!is_elastic()) {
    if (substitute) {
      for (const Uuid& uuid : at_fault) gpus_.give_back(uuid);
      if (count() >= wanted_) return std::nullopt;
    }
    if (!options_.other_gpus) return Error{ErrorCode::unsatisfied, "there are no other GPUs", ""};
    gpus_ = machine::Reservation::of_cpu();  // gives the old ones back
    auto others = options_.other_gpus(outcasts());
    if (!others) return std::move(others).error();
    gpus_ = std::move(*others);
    return std::nullopt;
  }
  for (const Uuid& uuid : at_fault) gpus_.give_back(uuid);
  const Elastic& elastic = *options_.elastic;
  if (count() >= most_) return std::nullopt;
  if (auto more = elastic.more(0, most_ - count(), outcasts())) gpus_.join(std::move(*more));
  if (count() >= elastic.least) return std::nullopt;
  // Two jobs that keep what they have while they wait for what the other one has would wait for ever.
  gpus_ = machine::Reservation::of_cpu();
  auto anew = elastic.more(elastic.least, most_, outcasts());
  if (!anew) return std::move(anew).error();
  gpus_ = std::move(*anew);
  return std::nullopt;
}

void Holding::grow() {
  if (is_elastic()) [[maybe_unused]]
    const auto error = replace({});
}

void Holding::begin() {
  const std::scoped_lock lock(mutex_);
  mine_.clear();
  for (const placement::Device& device : gpus_.decision().selected) mine_.push_back(device.uuid);
  spare_ = false;
}

void Holding::hear(const telemetry::Reading& reading) {
  outcasts_.hear(reading);
  const std::vector<Uuid> out = outcasts();
  const std::scoped_lock lock(mutex_);
  spare_ = std::ranges::any_of(reading.snapshot.gpus, [&](const facts::GpuRecord& record) {
    const auto is_in = [&](const std::vector<Uuid>& list) {
      const auto names = [&](const Uuid& uuid) {
        return uuid == record.gpu.uuid ||
               std::ranges::find(record.mig_devices, uuid, &facts::MigDevice::uuid) != record.mig_devices.end();
      };
      return std::ranges::any_of(list, names);
    };
    // Instances beside the job's own are on GPUs of its own.
    const bool instances = !record.mig_devices.empty();
    return facts::is_usable(record) && !is_in(out) && (instances || !is_in(mine_));
  });
}

bool Holding::has_spare() const {
  const std::scoped_lock lock(mutex_);
  return spare_;
}

std::string Holding::regroup() {
  if (!is_elastic() || count() >= most_ || !has_spare()) return "";
  const std::uint32_t before = count();
  auto more = options_.elastic->more(0, most_ - before, outcasts());
  if (!more) return "";
  gpus_.join(std::move(*more));
  return fmt::format("a checkpoint was written and more GPUs are available: starting again with {} instead of {}",
                     count(), before);
}

}  // namespace gpuwarden::healing
