// SPDX-License-Identifier: Apache-2.0
#include "telemetry/told_health.hpp"

#include <utility>

namespace gpuwarden::telemetry {
namespace {

std::vector<lease::ResetMark> reset_marks(const Reading& reading) {
  std::vector<lease::ResetMark> marks;
  for (const facts::GpuRecord& record : reading.snapshot.gpus) marks.push_back(lease::reset_mark_of(record));
  return marks;
}

}  // namespace

ToldHealth::ToldHealth(std::optional<lease::HealthPlaces> places, std::string program,
                       std::chrono::milliseconds interval, Log log)
    : places_(std::move(places)), program_(std::move(program)), interval_(interval), log_(std::move(log)) {}

void ToldHealth::begin() {
  if (places_) publisher_.emplace(*places_, program_, interval_);
}

std::vector<lease::Verdict> ToldHealth::hear() {
  if (!places_) return {};
  auto view = lease::read_verdicts(*places_);
  if (!view) {
    if (!std::exchange(hearing_failed_, true)) log_(view.error().message);
    return {};
  }
  hearing_failed_ = false;
  accepted_ = std::move(view->accepted);
  return std::exchange(heard_, true) ? std::vector<lease::Verdict>{} : std::move(view->verdicts);
}

void ToldHealth::tell(std::span<const facts::Health> health, const Reading& reading) {
  if (!publisher_) return;
  const auto told = publisher_->publish(health, reading.snapshot.taken_at, reading.when, reset_marks(reading));
  if (!told && !std::exchange(telling_failed_, true))
    log_("other processes cannot be told of unfit GPUs: " + told.error().message);
  if (told) telling_failed_ = false;
}

}  // namespace gpuwarden::telemetry
