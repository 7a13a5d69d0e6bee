// SPDX-License-Identifier: Apache-2.0
// Kinds for facts that were written down as words only, by versions of this program that knew no kinds.
#pragma once

#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::capture {

/// Gives the driver's problem and the device nodes their kinds where these are missing and the words tell them.
void supply_kinds(facts::Snapshot& snapshot);

}  // namespace gpuwarden::capture
