// SPDX-License-Identifier: Apache-2.0
// How fit a GPU is for work, as judged over time, and who has taken it out of use.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/ids.hpp"

namespace gpuwarden::facts {

/// The state of a device that is watched. Only `available` and `busy` devices are given work.
enum class HealthState {
  available,  ///< fit, and nobody computes on it
  busy,       ///< fit; processes or a lease hold it
  error,      ///< judged unfit; it is tried again, ever more seldom
  disabled,   ///< taken out of use by a person (Disabling), until that person puts it back
};
std::string_view to_string(HealthState state);
std::optional<HealthState> health_state_from(std::string_view name);

/// One thing that is wrong with a device.
struct HealthCause {
  std::string id;            ///< of the symptom: "xid", "ecc_uncorrected"
  std::string reason;        ///< a sentence
  std::string next_step;     ///< what to do about it; may be empty
  bool until_reset = false;  ///< it cannot pass by itself: only a reset of the device or a restart ends it

  bool operator==(const HealthCause&) const = default;
};

/// The health of one device at one moment.
struct Health {
  Uuid uuid;
  GpuIndex index;
  HealthState state = HealthState::available;
  std::string reason;     ///< a sentence; empty for fit devices
  std::string next_step;  ///< what to do about it; may be empty
  std::chrono::system_clock::time_point since{};
  unsigned failures = 0;  ///< how often in a row recovery was tried in vain
  /// When an unfit device is looked at again for recovery.
  std::optional<std::chrono::system_clock::time_point> next_try;
  std::vector<HealthCause> causes;  ///< of an unfit device: all that is wrong with it, worst first

  bool operator==(const Health&) const = default;
};
/// Whether something is wrong with it that cannot pass by itself.
bool lasts_until_reset(const Health& health);

/// A device that is out of use: somebody disabled it, or a monitor judged it unfit.
struct Disabling {
  Uuid uuid;
  std::string reason;
  std::string by;             ///< the user's name
  bool for_everybody = true;  ///< root's word counts for all, another user's for his own jobs
  std::chrono::system_clock::time_point since{};
  bool judged = false;    ///< by a monitor, not by a person; `reason` begins with "judged unfit"
  std::string next_step;  ///< what would help; empty: nothing but `gpuwarden enable`

  bool operator==(const Disabling&) const = default;
};
/// What disables a GPU or one of its instances; nullptr where nothing does.
const Disabling* find_disabling(std::span<const Disabling> disabled, const Uuid& uuid);
/// "just now", "5 min ago", "3 h ago", "2 d ago".
std::string how_long_ago(std::chrono::system_clock::duration age);
/// "disabled: fan is loud (by root, 3 d ago)", "judged unfit: Xid 79 (by root's gpuwarden serve, 3 h ago)".
std::string describe_disabling(const Disabling& disabling, std::chrono::system_clock::time_point now);

}  // namespace gpuwarden::facts
