// SPDX-License-Identifier: Apache-2.0
// Who holds how much GPU memory through the simulated CUDA driver: pure functions over the shared state.
#pragma once

#include "sim/core/fleet.hpp"

namespace gpuwarden::sim {

/// Bytes that programs can have at all: a GPU's memory less what the driver reserves, or an instance's.
std::uint64_t capacity(const Body& body, const FleetSpec& spec, const Fleet::Place& place);
/// Bytes that scripted, declared and CUDA processes hold together.
std::uint64_t used_bytes(const Body& body, const FleetSpec& spec, const Fleet::Place& place);
/// Bytes taken through CUDA on a GPU, or (with an instance) on that instance alone.
std::uint64_t held_bytes(const Body& body, const Fleet::Place& place);

/// What a declared process pretends to hold; nothing once it really takes memory through CUDA on that GPU.
std::uint64_t declared_bytes(const Body& body, const DeclaredProcess& process);

Fleet::Taken take(Body& body, const FleetSpec& spec, const Holding& wanted);
void give(Body& body, const Holding& given);
/// Turns a process's own bytes into an object's.
Fleet::Taken share(Body& body, const Holding& object);

/// Drops what ended processes held; true when there were any.
bool drop_dead_holders(Body& body);
/// Adds the holders to a GPU's processes; the bytes they hold.
std::uint64_t add_holders(const Body& body, std::uint32_t gpu, GpuView& view);

}  // namespace gpuwarden::sim
