// SPDX-License-Identifier: Apache-2.0
// What makes a GPU unfit for work, as one reading shows it: the one judge of monitors, of `list` and of `select`. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/facts/gpu_event.hpp"
#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::fitness {

/// What is wrong with a GPU in one reading: a row of the table of symptoms.
struct Symptom {
  std::string_view id;    ///< "fell_off_the_bus"
  bool at_once = true;    ///< false: only after it has lasted for a while (telemetry::HealthPolicy::patience)
  bool passes = true;     ///< false: only a reset of the GPU or the machine ends it (an Xid 79, a failed remapping)
  std::string_view help;  ///< what it is and where that is documented
};
/// All of them, worst first.
std::span<const Symptom> symptoms();
/// The row with this id; it must have one.
const Symptom& symptom_named(std::string_view id);
/// A GPU that was there and is not listed any more; no record shows it.
inline constexpr std::string_view kMissing = "missing";
/// No driver answers for the GPU.
inline constexpr std::string_view kNoDriver = "no_driver";

/// A symptom that was seen, in words.
struct Ailment {
  const Symptom* symptom = nullptr;
  std::string reason;
  std::string next_step;
};
/// Everything that is wrong with one GPU in a reading, worst first.
std::vector<Ailment> ailments_of(const facts::GpuRecord& record, std::span<const facts::GpuEvent> events);

/// As facts tell it.
facts::HealthCause cause_of(const Ailment& ailment);

/// What keeps a GPU that answers from being given work, judged by one look alone: what counts at once in its counters,
/// and the Xids that the kernel log tells of it. Worst first; empty for GPUs of other makers and for those that do not
/// answer, whose state says enough.
std::vector<facts::HealthCause> unfit_at_sight(const facts::GpuRecord& record, const facts::Snapshot& snapshot);

}  // namespace gpuwarden::fitness
