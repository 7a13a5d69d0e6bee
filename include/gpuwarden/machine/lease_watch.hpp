// SPDX-License-Identifier: Apache-2.0
// Who has leased a machine's GPUs, for those who ask with every reading.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/lease.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/machine/machine.hpp"

namespace gpuwarden::machine {

/// How often the holders' names are looked up where nothing else asks for it.
inline constexpr std::chrono::seconds kHolderPace{10};

/// Answers with the leases of a snapshot's GPUs; none where nothing can be known of them, nor of a capture. Whether a
/// GPU is leased is looked at each time; by whom, which goes through all of /proc, when another GPU is leased than
/// before, and every `pace`. `unknown` is told each time why nothing is known of leases, or that it is known. The
/// machine must outlive it; one caller at a time.
std::function<std::vector<facts::Lease>(const facts::Snapshot&)> watch_leases(
    const Machine& machine, std::chrono::milliseconds pace = kHolderPace, Clock& clock = system_clock(),
    std::function<void(const std::optional<Error>&)> unknown = {});

}  // namespace gpuwarden::machine
