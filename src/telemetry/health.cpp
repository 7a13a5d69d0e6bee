// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/health.hpp"

#include <algorithm>

#include "gpuwarden/facts/use.hpp"

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
  std::vector<Ailment> seen;                          ///< all that is wrong now
  bool recalled = false;                              ///< judged by an earlier monitor, and not seen since
  std::chrono::system_clock::time_point accepted{};   ///< when somebody last enabled it all the same
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

/// Those that nobody has accepted already.
std::vector<facts::GpuEvent> events_on(const Reading& reading, const Uuid& uuid,
                                       std::chrono::system_clock::time_point accepted) {
  std::vector<facts::GpuEvent> events;
  const bool any = accepted != std::chrono::system_clock::time_point{};
  std::ranges::copy_if(reading.events, std::back_inserter(events), [&](const facts::GpuEvent& event) {
    return event.uuid == uuid && !(any && event.time <= accepted);
  });
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
    for (const Ailment& one : track.seen) health.causes.push_back(cause_of(one));
    if (health.causes.empty()) health.causes.push_back(cause_of(*track.error));
    health.reason = track.error->reason;
    health.next_step = track.error->next_step;
    health.failures = track.failures;
    health.next_try = reading.snapshot.taken_at +
                      std::chrono::duration_cast<std::chrono::system_clock::duration>(track.next_try - reading.when);
  }
  const auto word = std::ranges::find(disabled, health.uuid, &facts::Disabling::uuid);
  if (word == disabled.end()) return health;
  // What is wrong with it stays known: it is as ill while nobody uses it.
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
  if (uuid.empty()) return;
  const auto known = tracks.find(uuid);
  if (known != tracks.end() && !known->second.recalled) return;
  const auto nameless = std::ranges::find_if(tracks, [&](const auto& entry) {
    const facts::Gpu& gpu = entry.second.last.gpu;
    if (!gpu.uuid.value.empty()) return false;
    return gpu.pci_bus_id.empty() ? gpu.index == record.gpu.index : gpu.pci_bus_id == record.gpu.pci_bus_id;
  });
  if (nameless == tracks.end()) return;
  auto track = tracks.extract(nameless);
  track.key() = uuid;
  if (known != tracks.end()) {
    // What an earlier monitor judged still counts, unless a reset is seen.
    for (Ailment& one : known->second.lasting) {
      if (!has_symptom(track.mapped().lasting, one.symptom)) track.mapped().lasting.push_back(std::move(one));
    }
    tracks.erase(known);
  }
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

void HealthBook::recall(std::span<const lease::Verdict> verdicts) {
  for (const lease::Verdict& verdict : verdicts) {
    if (tracks_.contains(verdict.health.uuid.value)) continue;
    std::vector<Ailment> lasting;
    for (const facts::HealthCause& cause : verdict.health.causes) {
      const auto row = std::ranges::find(symptoms(), std::string_view(cause.id), &Symptom::id);
      if (row != symptoms().end() && !row->passes) lasting.push_back({&*row, cause.reason, cause.next_step});
    }
    if (lasting.empty()) continue;
    Track track;
    track.recalled = true;
    track.lasting = std::move(lasting);
    track.last.gpu.uuid = verdict.health.uuid;
    track.last.gpu.index = verdict.health.index;
    const auto count = [](const auto& value) { return value ? std::optional(Count(*value)) : std::nullopt; };
    if (verdict.mark.energy_millijoules) track.last.sample.energy = Millijoules(*verdict.mark.energy_millijoules);
    track.last.sample.ecc_corrected_volatile = count(verdict.mark.ecc_corrected);
    track.last.sample.ecc_uncorrected_volatile = count(verdict.mark.ecc_uncorrected);
    // It told nothing when it was judged: once it answers, it was reset.
    const bool gone = std::ranges::any_of(track.lasting, [](const Ailment& one) {
      return one.symptom->id == "fell_off_the_bus" || one.symptom->id == "needs_reset";
    });
    if (gone && !verdict.mark.energy_millijoules) track.last.state = GpuState::lost;
    tracks_.emplace(verdict.health.uuid.value, std::move(track));
  }
}

std::vector<HealthChange> HealthBook::judge(const Reading& reading, std::span<const facts::Disabling> disabled,
                                            std::span<const lease::Acceptance> accepted) {
  for (auto& [id, track] : tracks_) track.listed = false;
  for (const GpuRecord& record : reading.snapshot.gpus) {
    if (record.gpu.vendor != "NVIDIA") continue;
    name_track(tracks_, record);
    Track& track = tracks_[key_of(record)];
    look_at(track, record, reading, accepted);
  }
  // Whom an earlier monitor knew, and who has not been seen since, is nobody that could be missing.
  std::vector<HealthChange> changes;
  for (auto& [id, track] : tracks_) {
    if (!track.listed && track.recalled) continue;
    if (!track.listed) {
      track.seen = track.lasting;
      track.seen.insert(track.seen.begin(), absence_in(reading.snapshot));
      judge_track(track, track.seen, reading.when, policy_, random_);
    }
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
  if (snapshot.problem)
    return {&fitness::symptom_named(fitness::kNoDriver), snapshot.problem->message, snapshot.problem->hint};
  return {&fitness::symptom_named(fitness::kMissing), "the GPU was there before and is not listed any more",
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

namespace {

/// Somebody enabled it in spite of what is known: that is over, and what was accepted counts no more while it is the
/// same. A GPU that does not answer is not fit by anybody's word.
template <class Track>
void heed(Track& track, const GpuRecord& record, const lease::Acceptance* acceptance) {
  if (acceptance == nullptr || acceptance->since <= track.accepted) return;
  track.accepted = acceptance->since;
  if (track.recalled) return;
  track.lasting.clear();
  if (facts::is_usable(record)) track.error.reset();
}

template <class Track>
void leave_out_accepted(Track& track, const GpuRecord& record, const lease::Acceptance* acceptance) {
  if (acceptance == nullptr || !facts::is_usable(record)) return;
  std::erase_if(track.seen, [&](const Ailment& one) {
    const bool told_later = has_symptom(track.lasting, one.symptom);
    return !told_later && lease::accepts(*acceptance, cause_of(one));
  });
}

}  // namespace

void HealthBook::look_at(Track& track, const GpuRecord& record, const Reading& reading,
                         std::span<const lease::Acceptance> accepted) {
  const auto* acceptance = lease::find_acceptance(accepted, record);
  heed(track, record, acceptance);
  const auto events = events_on(reading, facts::identity_of(record), track.accepted);
  const bool known = track.health || track.recalled;
  if (known && (track.was_missing || was_reset(track.last, record))) track.lasting.clear();
  track.recalled = false;
  GpuRecord now = record;
  if (now.gpu.uuid.value.empty() && !track.last.gpu.uuid.value.empty()) now.gpu.uuid = track.last.gpu.uuid;
  // Counters that are not told now are compared with what they were last.
  const facts::GpuSample& before = track.last.sample;
  if (!now.sample.energy) now.sample.energy = before.energy;
  if (!now.sample.ecc_corrected_volatile) now.sample.ecc_corrected_volatile = before.ecc_corrected_volatile;
  if (!now.sample.ecc_uncorrected_volatile) now.sample.ecc_uncorrected_volatile = before.ecc_uncorrected_volatile;
  track.last = std::move(now);
  track.listed = true;
  // As who chooses GPUs judges it: memory or work of somebody who is not seen counts.
  const facts::Use use = facts::use_of(record);
  track.busy =
      use == facts::Use::busy || use == facts::Use::in_use || facts::find_lease(reading.leases, record) != nullptr;
  track.seen = all_ailments(record, events, track.lasting);
  leave_out_accepted(track, record, acceptance);
  if (record.state == GpuState::suspended && track.seen.empty()) {
    // Who sleeps is not asked: it is neither worse than before nor well.
    track.seen_since.clear();
    track.well_since.reset();
    return;
  }
  judge_track(track, track.seen, reading.when, policy_, random_);
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
