// SPDX-License-Identifier: Apache-2.0
// Which GPUs are not to be given work, and where running monitors tell of those that they judge unfit.
#pragma once

#include <chrono>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/lease/disablings.hpp"
#include "gpuwarden/lease/health_notices.hpp"
#include "gpuwarden/probe/nvml_reader.hpp"

namespace gpuwarden::machine {

/// Beside what is disabled; a simulated fleet's in its own folder, so that it speaks of that fleet alone.
lease::HealthPlaces health_places(const Environment& environment, const probe::ReaderOptions& reader);

/// What people have disabled, and what monitors judge unfit: who, why and what would help stand in each; `accepted` is
/// what may not be held against a GPU. Fails as lease::Disablings::read and lease::read_verdicts do: what is unknown is
/// not free.
Result<lease::Disablings::View> out_of_use(const Environment& environment, const probe::ReaderOptions& reader,
                                           std::chrono::system_clock::time_point now);

struct EnableRequest {
  std::vector<Uuid> gpus;
  std::string reason;  ///< why those that were judged unfit are given work all the same; may be empty
  std::string by;      ///< who says so; empty: the caller
  /// What a look shows to be wrong with them (unfit_in()), of other GPUs too: it is accepted as well.
  std::vector<facts::Health> seen = {};
  /// The counters of the GPUs now: a reset ends what is accepted.
  std::vector<lease::ResetMark> marks = {};
};
struct EnabledGpus {
  std::vector<Uuid> disabled;               ///< those that a person had disabled
  std::vector<lease::Acceptance> accepted;  ///< those that were judged unfit, and by what
};
/// Puts GPUs back into use: ends what disables them, and accepts what monitors hold against them now, until the driver
/// is loaded anew. Fails with permission_denied where root's word, or that of a monitor of root's, is in the way;
/// nothing is changed then.
Result<EnabledGpus> enable(const Environment& environment, const probe::ReaderOptions& reader,
                           const EnableRequest& request, const Clock& clock);

}  // namespace gpuwarden::machine
