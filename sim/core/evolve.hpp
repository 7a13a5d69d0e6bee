// SPDX-License-Identifier: Apache-2.0
// How a fleet's shared state moves with time, and what it looks like: pure functions over Body and FleetSpec.
#pragma once

#include "sim/core/fleet.hpp"

namespace gpuwarden::sim {

/// The state at fleet time 0, the clock starting at `now_ns` (CLOCK_MONOTONIC).
void begin(Body& body, const FleetSpec& spec, std::int64_t now_ns);
/// Fleet time in nanoseconds.
std::int64_t fleet_time(const Body& body, std::int64_t now_ns);
/// The tick of a moment; speed 0 means frozen.
std::uint64_t tick_at(std::int64_t sim_origin_ns, std::int64_t clock_origin_ns, double speed, std::int64_t now_ns);
/// Integrates up to now; faults whose time has come take effect. True when time has moved.
bool advance(Body& body, const FleetSpec& spec, std::int64_t now_ns);
/// Drops processes that have ended; true when there were any.
bool drop_dead(Body& body);
/// A fault strikes `gpu` (or kWholeFleet), now or after fault.at.
void inject_now(Body& body, const Fault& fault, std::uint32_t gpu);
FleetView look(const Body& body, const FleetSpec& spec);

}  // namespace gpuwarden::sim
