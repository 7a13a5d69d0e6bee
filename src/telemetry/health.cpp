// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/health.hpp"

#include <algorithm>

#include "gpuwarden/facts/use.hpp"
#include "telemetry/symptoms.hpp"

namespace gpuwarden::telemetry {

using facts::GpuRecord;
using facts::GpuState;
using facts::Health;
using facts::HealthState;
using std::chrono::milliseconds;
using SteadyTime = Clock::SteadyTime;

struct HealthBook::Track {
  // What the GPU is.
  GpuRecord last;  ///< as it was last listed
  bool listed = false;
  bool was_missing = false;  ///< in the last reading, though a driver answered
  bool busy = false;
  // What is wrong with it.
  std::map<std::string_view, SteadyTime> seen_since;  ///< by symptom, without a break
  std::vector<Ailment> lasting;                       ///< told by events alone: until a reset is seen
  std::optional<Ailment> error;
  std::optional<SteadyTime> well_since;
  SteadyTime next_try{};
  milliseconds pause{0};
  unsigned failures = 0;
  std::optional<SteadyTime> recovered;
  // What was said of it.
  std::optional<Health> health;
  std::string_view told_symptom;
};

namespace {

using SymptomTimes = std::map<std::string_view, SteadyTime>;

bool count_fell(const std::optional<Count>& before, const std::optional<Count>& now) {
  return before && now && *now < *before;
}

/// Whether the GPU was reset, or its driver loaded anew, between two readings.
bool was_reset(const GpuRecord& before, const GpuRecord& now) {
  if (!facts::is_usable(now)) return false;
  const auto gone = {GpuState::lost, GpuState::needs_reset, GpuState::disabled};
  if (std::ranges::find(gone, before.state) != gone.end()) return true;
  const auto& old = before.sample;
  const auto& sample = now.sample;
  if (old.energy && sample.energy && *sample.energy < *old.energy) return true;
  return count_fell(old.ecc_corrected_volatile, sample.ecc_corrected_volatile) ||
         count_fell(old.ecc_uncorrected_volatile, sample.ecc_uncorrected_volatile);
}

std::vector<facts::GpuEvent> events_on(const Reading& reading, const Uuid& uuid) {
  std::vector<facts::GpuEvent> events;
  std::ranges::copy_if(reading.events, std::back_inserter(events),
                       [&](const facts::GpuEvent& event) { return event.uuid == uuid; });
  return events;
}

bool has_symptom(const std::vector<Ailment>& list, const Symptom* symptom) {
  return std::ranges::find(list, symptom, &Ailment::symptom) != list.end();
}

/// What the record shows, and what events told since the last reset; worst first.
std::vector<Ailment> all_ailments(const GpuRecord& record, const std::vector<facts::GpuEvent>& events,
                                  std::vector<Ailment>& lasting) {
  std::vector<Ailment> shown = ailments_of(record, {});
  for (Ailment& told : ailments_of(record, events)) {
    if (told.symptom->passes || has_symptom(shown, told.symptom) || has_symptom(lasting, told.symptom)) continue;
    lasting.push_back(std::move(told));
  }
  for (const Ailment& old : lasting) {
    if (!has_symptom(shown, old.symptom)) shown.push_back(old);
  }
  std::ranges::sort(shown, {}, &Ailment::symptom);  // in the table's order
  return shown;
}

/// The worst that has lasted long enough; nullptr where there is none.
const Ailment* first_that_counts(const std::vector<Ailment>& ailments, SymptomTimes& since, SteadyTime now,
                                 milliseconds patience) {
  std::erase_if(since, [&](const auto& entry) {
    return std::ranges::none_of(ailments, [&](const Ailment& one) { return one.symptom->id == entry.first; });
  });
  for (const Ailment& one : ailments) since.try_emplace(one.symptom->id, now);
  const auto counts = std::ranges::find_if(ailments, [&](const Ailment& one) {
    return one.symptom->at_once || now - since.at(one.symptom->id) >= patience;
  });
  return counts == ailments.end() ? nullptr : &*counts;
}

milliseconds with_jitter(milliseconds pause, std::minstd_rand& random) {
  constexpr double kJitter = 0.2;
  std::uniform_real_distribution<double> share(1 - kJitter, 1 + kJitter);
  return milliseconds(static_cast<std::int64_t>(static_cast<double>(pause.count()) * share(random)));
}

template <class Track>
void fall_ill(Track& track, const Ailment& worst, SteadyTime now, const HealthPolicy& policy,
              std::minstd_rand& random) {
  // Who relapses soon has not recovered: it goes on where it was.
  const bool relapse = track.recovered && now - *track.recovered < policy.last_retry;
  track.failures = relapse ? track.failures + 1 : 0;
  track.pause = relapse ? std::min(track.pause * 2, policy.last_retry) : policy.first_retry;
  track.next_try = now + with_jitter(track.pause, random);
  track.error = worst;
  track.well_since.reset();
}

template <class Track>
void stay_ill(Track& track, bool ill, SteadyTime now, const HealthPolicy& policy, std::minstd_rand& random) {
  if (ill) {
    track.well_since.reset();
    if (now < track.next_try) return;
    ++track.failures;
    track.pause = std::min(track.pause * 2, policy.last_retry);
    track.next_try = now + with_jitter(track.pause, random);
    return;
  }
  if (!track.well_since) track.well_since = now;
  if (now < track.next_try) return;
  if (now - *track.well_since < policy.probation) {
    track.next_try = *track.well_since + policy.probation;
    return;
  }
  track.error.reset();
  track.recovered = now;
}

template <class Track>
void judge_track(Track& track, const std::vector<Ailment>& ailments, SteadyTime now, const HealthPolicy& policy,
                 std::minstd_rand& random) {
  const Ailment* worst = first_that_counts(ailments, track.seen_since, now, policy.patience);
  if (!track.error) {
    if (worst != nullptr) fall_ill(track, *worst, now, policy, random);
    return;
  }
  if (worst != nullptr) track.error = *worst;
  stay_ill(track, !ailments.empty(), now, policy, random);
}

template <class Track>
Health health_of(const Track& track, const Reading& reading, std::span<const facts::Disabling> disabled) {
  Health health;
  health.uuid = facts::identity_of(track.last);
  health.index = track.last.gpu.index;
  health.state = track.error ? HealthState::error : track.busy ? HealthState::busy : HealthState::available;
  health.since = track.health && track.health->state == health.state ? track.health->since : reading.snapshot.taken_at;
  if (track.error) {
    health.reason = track.error->reason;
    health.next_step = track.error->next_step;
    health.failures = track.failures;
    health.next_try = reading.snapshot.taken_at +
                      std::chrono::duration_cast<std::chrono::system_clock::duration>(track.next_try - reading.when);
  }
  const auto word = std::ranges::find(disabled, health.uuid, &facts::Disabling::uuid);
  if (word == disabled.end()) return health;
  health.state = HealthState::disabled;
  health.reason = "disabled by " + word->by + ": " + word->reason;
  health.next_step = "gpuwarden enable " + std::to_string(health.index.value);
  health.since = word->since;
  return health;
}

/// Who was seen without its UUID (before the driver was loaded, or while it hung) is the one that now has it.
template <class Tracks>
void name_track(Tracks& tracks, const GpuRecord& record) {
  const std::string& uuid = record.gpu.uuid.value;
  if (uuid.empty() || tracks.contains(uuid)) return;
  const auto nameless = std::ranges::find_if(tracks, [&](const auto& entry) {
    const facts::Gpu& gpu = entry.second.last.gpu;
    if (!gpu.uuid.value.empty()) return false;
    return gpu.pci_bus_id.empty() ? gpu.index == record.gpu.index : gpu.pci_bus_id == record.gpu.pci_bus_id;
  });
  if (nameless == tracks.end()) return;
  auto track = tracks.extract(nameless);
  track.key() = uuid;
  tracks.insert(std::move(track));
}

/// What stands for the state before a GPU was first seen.
Health first_sight_of(const Health& now) {
  Health before;
  before.uuid = now.uuid;
  before.index = now.index;
  before.since = now.since;
  return before;
}

/// Whether the change is worth telling: which GPUs are fit at the first sight is not.
bool is_health_change(const std::optional<Health>& before, const Health& now, bool other_symptom) {
  if (before) return before->state != now.state || (now.state == HealthState::error && other_symptom);
  return now.state == HealthState::error || now.state == HealthState::disabled;
}

}  // namespace

HealthBook::HealthBook(HealthPolicy policy, unsigned seed) : policy_(policy), random_(seed) {}
HealthBook::HealthBook(HealthBook&&) noexcept = default;
HealthBook& HealthBook::operator=(HealthBook&&) noexcept = default;
HealthBook::~HealthBook() = default;

std::vector<HealthChange> HealthBook::judge(const Reading& reading, std::span<const facts::Disabling> disabled) {
  for (auto& [id, track] : tracks_) track.listed = false;
  for (const GpuRecord& record : reading.snapshot.gpus) {
    if (record.gpu.vendor != "NVIDIA") continue;
    name_track(tracks_, record);
    Track& track = tracks_[key_of(record)];
    look_at(track, record, reading);
  }
  std::vector<HealthChange> changes;
  for (auto& [id, track] : tracks_) {
    if (!track.listed) judge_track(track, {absence_in(reading.snapshot)}, reading.when, policy_, random_);
    if (!track.listed) track.busy = false;
    track.was_missing = !track.listed && !reading.snapshot.problem;
    Health now = health_of(track, reading, disabled);
    const std::string_view symptom = track.error ? track.error->symptom->id : "";
    if (is_health_change(track.health, now, symptom != track.told_symptom))
      changes.push_back({track.health.value_or(first_sight_of(now)), now});
    track.told_symptom = symptom;
    track.health = std::move(now);
  }
  return changes;
}

Ailment HealthBook::absence_in(const facts::Snapshot& snapshot) {
  if (snapshot.problem) return {&symptom_named(kNoDriver), snapshot.problem->message, snapshot.problem->hint};
  return {&symptom_named(kMissing), "the GPU was there before and is not listed any more",
          "look for its Xid in the kernel log (dmesg | grep -i xid)"};
}

std::string HealthBook::key_of(const GpuRecord& record) const {
  // Without a driver /sys names a GPU by its place alone.
  if (record.gpu.uuid.value.empty() && !record.gpu.pci_bus_id.empty()) {
    for (const auto& [id, track] : tracks_) {
      if (track.last.gpu.pci_bus_id == record.gpu.pci_bus_id) return id;
    }
  }
  return facts::identity_of(record).value;
}

void HealthBook::look_at(Track& track, const GpuRecord& record, const Reading& reading) {
  const auto events = events_on(reading, facts::identity_of(record));
  if (track.health && (track.was_missing || was_reset(track.last, record))) track.lasting.clear();
  GpuRecord now = record;
  if (now.gpu.uuid.value.empty() && !track.last.gpu.uuid.value.empty()) now.gpu.uuid = track.last.gpu.uuid;
  track.last = std::move(now);
  track.listed = true;
  track.busy = record.state == GpuState::busy || facts::find_lease(reading.leases, record) != nullptr;
  const auto ailments = all_ailments(record, events, track.lasting);
  if (record.state == GpuState::suspended && ailments.empty()) {
    // Who sleeps is not asked: it is neither worse than before nor well.
    track.seen_since.clear();
    track.well_since.reset();
    return;
  }
  judge_track(track, ailments, reading.when, policy_, random_);
}

std::vector<Health> HealthBook::all() const {
  std::vector<Health> list;
  for (const auto& [id, track] : tracks_) {
    if (track.health) list.push_back(*track.health);
  }
  std::ranges::sort(list, {}, &Health::index);
  return list;
}

}  // namespace gpuwarden::telemetry
