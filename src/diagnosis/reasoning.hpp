// SPDX-License-Identifier: Apache-2.0
// From events to causes: which cause each event names, which of them merely follow from others, and how sure that is.
#pragma once

#include <string>
#include <vector>

#include "gpuwarden/diagnosis/event.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/knowledge/diagnosis.hpp"

namespace gpuwarden::diagnosis {

/// A cause that some events speak for.
struct Suspect {
  const knowledge::DiagnosisCause* cause = nullptr;
  knowledge::Role role = knowledge::Role::weak;  ///< the strongest of its events
  std::vector<const Event*> events;              ///< most telling first
  double strength = 0;                           ///< how sure it would be if nothing else were there
  double weight = 0;                             ///< how sure it is among the others, before calibration
  std::uint64_t first = 0;                       ///< order of its first event
  bool quoted = false;                           ///< only sentences speak for it
  std::string summary;                           ///< with the numbers that decided; empty: the cause's own words
  bool settled = false;                          ///< numbers of the message tell it from its neighbours
  std::vector<std::string> reasons;
  std::vector<std::string> machine_evidence;  ///< facts of the machine that speak for it
  Facts facts;
  std::string explained_by;  ///< id of the cause that it follows from; empty: none
};

/// The first error that has nothing to do with GPUs and ended work; nullptr where there is none.
const Event* plain_failure(const Reading& reading);

/// All suspects: the causes first, likeliest first, then those that follow from others. The pointers go into
/// `reading`.
std::vector<Suspect> reason(const Reading& reading, const facts::Snapshot* machine, const facts::Snapshot* report);

}  // namespace gpuwarden::diagnosis
