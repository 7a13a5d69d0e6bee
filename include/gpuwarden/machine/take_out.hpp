// SPDX-License-Identifier: Apache-2.0
// GPUs by the names that people have for them, taken out of use and put back.
//
//     const auto out = machine::take_out(*machine, {"0-1"}, "fan is loud", system_clock());
//     const auto back = machine::put_back(*machine, {"all"}, "", system_clock());
#pragma once

#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/lease/disablings.hpp"
#include "gpuwarden/machine/machine.hpp"
#include "gpuwarden/machine/out_of_use.hpp"

namespace gpuwarden::machine {

struct TakenOut {
  facts::Snapshot gpus;         ///< those that were named
  lease::Disablings::View now;  ///< what is out of use
};
/// Disables the GPUs of these names ("all" alone: all that are there), as Disablings::disable() does; by whom the
/// machine's environment says ("ada with sudo"), else by the caller. Fails with invalid_argument where none is named,
/// not_found where there is none, as placement::keep_named() and disable().
Result<TakenOut> take_out(const Machine& machine, const std::vector<std::string>& names, const std::string& reason,
                          const Clock& clock);

struct PutBack {
  std::vector<Uuid> gpus;                ///< those that were meant
  facts::Snapshot machine;               ///< as it was looked at: it may lack GPUs that were taken out of the machine
  std::vector<facts::Disabling> before;  ///< what was out of use, and by whose word
  EnabledGpus enabled;
  lease::Disablings::View now;
};
/// Puts GPUs back into use, "all" alone those that the caller may; what the GPUs show to be wrong with them is accepted
/// for `reason` (may be empty). Fails as take_out() and enable().
Result<PutBack> put_back(const Machine& machine, const std::vector<std::string>& names, const std::string& reason,
                         const Clock& clock);

}  // namespace gpuwarden::machine
