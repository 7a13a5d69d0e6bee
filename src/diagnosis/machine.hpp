// SPDX-License-Identifier: Apache-2.0
// What facts of the machine add to a log: they decide between causes that print the same words.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "gpuwarden/diagnosis/event.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::diagnosis {

/// The machine's word on a cause: the cause that it is instead (or the same, strengthened), and the fact behind it.
struct Testimony {
  std::string cause;
  std::string fact;  ///< "GPU 3 reported Xid 79 (0000:91:00)"
  double confidence = 0.9;
};

/// What a log complains of.
struct Complaint {
  std::string cause;
  Facts facts;           ///< of its message: the GPU, the process
  bool settled = false;  ///< its own numbers tell it from its neighbours
};

/// What the machine says about a complaint; nothing where it has no say. `in_report`: the facts stand in the log
/// itself: a process that holds memory there may be the one that failed, and what is not shown may still be there.
std::optional<Testimony> ask_machine(const Complaint& complaint, const facts::Snapshot& machine, bool in_report);

/// Tags that follow from the machine: "rocm", "wsl", "container".
std::set<std::string> tags_of(const facts::Snapshot& machine);

}  // namespace gpuwarden::diagnosis
