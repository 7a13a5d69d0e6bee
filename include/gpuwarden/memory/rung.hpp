// SPDX-License-Identifier: Apache-2.0
// The rungs of the ladder that a pool climbs when no free block fits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpuwarden::memory {

/// What is tried when no free block fits, grow_near first and the others in this order. A rung ends with a search of
/// what it has made free; a strategy without remap_above_permille has neither grow_near nor remap.
enum class Rung : std::uint8_t {
  tidy,          ///< merge the stream's quick lists and what other streams gave back and are done with
  steal_done,    ///< take a free block of another stream whose work on it is done
  grow_near,     ///< new pages as long as reserved memory stays near the peak of live memory
  remap,         ///< move idle pages to where they are needed; new pages for the rest
  wait_foreign,  ///< let the stream wait for others that gave its memory back
  grow,          ///< new pages
  steal_wait,    ///< take a free block of another stream and let this one wait for it
  flush_all,     ///< merge the quick lists of all streams, then move idle pages
  synchronize,   ///< block until all streams are done with what they gave back, then all of it again
  callbacks,     ///< ask the registered callbacks to give memory back
  wait_others,   ///< wait for other processes, if allowed
};
inline constexpr std::size_t kRungs = 11;

std::string_view to_string(Rung rung);

struct RungCount {
  std::uint64_t tried = 0;
  std::uint64_t helped = 0;
  std::uint64_t nanoseconds = 0;
};

}  // namespace gpuwarden::memory
