// SPDX-License-Identifier: Apache-2.0
// Whether somebody uses a GPU, as far as its facts and the leases tell.
#pragma once

#include <span>
#include <string_view>

#include "gpuwarden/facts/lease.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::facts {

/// What stands for a GPU's UUID where it could not be read: "index-3".
Uuid identity_of(const GpuRecord& record);

/// Whether something is wrong with the state of a GPU of NVIDIA's: it cannot be used, and is not asleep.
bool is_in_trouble(const GpuRecord& record);

/// The lease on a GPU or on one of its instances; nullptr where there is none.
const Lease* find_lease(std::span<const Lease> leases, const GpuRecord& record);

/// Whether a GPU that is leased does nothing: no load, and less memory than a CUDA context takes.
bool is_idle_lease(const GpuRecord& record, const Lease* lease);

/// What of a GPU's figures shows that somebody uses it.
enum class Load {
  none,    ///< no more than an idle desktop takes; unknown figures count as none
  work,    ///< its multiprocessors are busy
  memory,  ///< its memory is taken
};
Load load_of(const GpuSample& sample);

/// Whether a GPU has more load or memory in use than an idle desktop takes.
bool is_loaded(const GpuSample& sample);

/// Whether its utilization is all that speaks of a user of the GPU: no process computes on it, and its memory is not
/// taken. It may be what has just ended, since drivers report the past; of processes that could not be read it is not
/// known.
bool has_load_alone(const GpuRecord& record);

/// Whether MIG is on and no instance is made: CUDA finds no device on the GPU.
bool lacks_instances(const GpuRecord& record);

/// How a GPU stands for somebody who wants one, leases aside. Its state alone does not tell of users who are not seen.
enum class Use {
  unusable,     ///< its state says why
  no_instance,  ///< MIG is on, without an instance
  busy,         ///< processes are seen on it
  in_use,       ///< it is loaded, by nobody who is seen
  unknown,      ///< what would tell could not be read, or was not captured
  free,
};
Use use_of(const GpuRecord& record);
/// In words for people: "in use"; "?" where it is unknown.
std::string_view to_string(Use use);

/// Whether a GPU's memory has somebody behind it whom the driver does not list: the listed processes (which must be
/// known) account for less than is used by more than a CUDA context. Unknown use counts as such.
bool has_unlisted_user(const GpuRecord& record);

}  // namespace gpuwarden::facts
