// SPDX-License-Identifier: Apache-2.0
// The control calls of gpuwarden's own command line: JSON in, JSON out.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "sim/core/fleet.hpp"

namespace gpuwarden::sim {

/// {"op": NAME, ...}. `fleet` is the fleet this process is attached to, if any; "attach" and "start" set it, "detach"
/// drops it. The answer is an object; a failure is {"error": sentence, "hint": what to do, "code": error code}.
/// Ops: attach {spec}, start {name, spec}, detach, bequeath (programs that this process becomes keep the fleet), list,
/// presets, parse {yaml, name}, show, declare {pid, gpus: [uuid], memory_bytes, utilization_percent, type},
/// undeclare {pid}, fault {gpu, fault}, clear_faults {gpu}, set {gpu, field, value}, clock {frozen, speed,
/// advance_seconds}.
std::string control(std::string_view request, std::shared_ptr<Fleet>& fleet);

}  // namespace gpuwarden::sim
