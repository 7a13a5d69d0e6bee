// SPDX-License-Identifier: Apache-2.0
// What outlives the monitor that judged: GPUs unfit by what cannot pass by itself (an Xid 79, uncorrectable memory
// errors), and what an administrator has accepted all the same. Both hold until the driver is loaded anew.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::lease {

/// The folders of the files. A monitor of root's writes to the first one, another user's to his own.
struct HealthPlaces {
  std::filesystem::path everybody;
  std::filesystem::path own;  ///< empty: the first one
  /// Which loading of the driver this is (driver_epoch()); what was judged or accepted in another is over.
  std::string epoch = {};
  /// Asked each time, for programs that outlive a loading of the driver; empty: `epoch`.
  std::function<std::string()> epoch_now = {};
  std::string current_epoch() const { return epoch_now ? epoch_now() : epoch; }
};
/// The machine's boot and the loading of NVIDIA's kernel module: another text after a reboot or a reload.
std::string driver_epoch(const std::filesystem::path& sys_root, const std::filesystem::path& proc_root);

/// Counters that begin anew with a reset, as they were when a GPU was judged.
struct ResetMark {
  Uuid uuid;
  std::optional<std::int64_t> energy_millijoules;
  std::optional<std::int64_t> ecc_corrected;
  std::optional<std::int64_t> ecc_uncorrected;
};
ResetMark reset_mark_of(const facts::GpuRecord& record);
/// Whether a counter has fallen since `before`. What is not told on either side says nothing.
bool was_reset_since(const ResetMark& before, const ResetMark& now);

/// A GPU that was judged unfit by something that lasts.
struct Verdict {
  facts::Health health;
  std::string by;  ///< whose program judged
  bool for_everybody = true;
  ResetMark mark;
};

/// A GPU that was enabled in spite of what it was judged by.
struct Acceptance {
  Uuid uuid;
  std::string reason;
  std::string by;
  std::chrono::system_clock::time_point since{};
  std::vector<facts::HealthCause> causes;  ///< what is not held against it any more
  bool for_everybody = true;
  ResetMark mark = {};  ///< as the GPU's counters were then: a reset ends the acceptance
};
/// Whether this cause, which is the case at `seen`, is not held against the GPU: it is the same as then. One that lasts
/// has to be the same to the letter (another Xid, more errors are new), one that passes may differ in its figures.
bool accepts(const Acceptance& acceptance, const facts::HealthCause& cause);
/// Whether all that is wrong with it was accepted after it was judged.
bool is_accepted(std::span<const Acceptance> accepted, const facts::Health& health);
/// The last word about a GPU; nullptr where there is none, or the GPU was reset since.
const Acceptance* find_acceptance(std::span<const Acceptance> accepted, const facts::GpuRecord& record);

/// "enabled in spite of: Xid 48: ... (by ann, 3 h ago: ticket 4711)".
std::string describe_acceptance(const Acceptance& acceptance, std::chrono::system_clock::time_point now);

struct VerdictView {
  std::vector<Verdict> verdicts;     ///< root's before the caller's own; each GPU once
  std::vector<Acceptance> accepted;  ///< likewise
  std::vector<std::string> warnings;
};
/// What holds for the caller. Fails where a file that counts cannot be read (permission_denied) or is damaged
/// (corrupt): no GPU may be taken for fit then.
Result<VerdictView> read_verdicts(const HealthPlaces& places);

/// Keeps these verdicts (in place of older ones of the same GPUs), and drops those of `fit` GPUs, in the caller's file.
/// Fails as read_verdicts() does, and with permission_denied or failed where the file cannot be written.
Result<void> keep_verdicts(const HealthPlaces& places, std::span<const Verdict> unfit, std::span<const Uuid> fit);
/// Drops the verdicts of these GPUs and notes that they were accepted. Not root: in his own file, for his own monitors.
/// Fails as keep_verdicts() does.
Result<void> accept(const HealthPlaces& places, std::span<const Acceptance> accepted);

}  // namespace gpuwarden::lease
