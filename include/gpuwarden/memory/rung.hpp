// SPDX-License-Identifier: Apache-2.0
// The rungs of the ladder that a pool climbs when no free block fits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpuwarden::memory {

/// What a rung needs in order to do anything at all.
enum class RungNeeds : std::uint8_t {
  nothing,
  other_streams,   ///< memory of theirs may be free
  foreign_blocks,  ///< some that another stream gave back wait for it
};

/// The rungs, in the order in which they are climbed: name, what it needs. A new rung is a row here and the member
/// function of that name of Pool::Core, which ends with a search of what it has made free. A strategy without
/// remap_above_permille climbs neither grow_near nor remap.
#define GPUWARDEN_POOL_RUNGS(row)                                                                              \
  row(grow_near, nothing)               /* new pages as long as reserved memory stays near the peak of live */ \
      row(coalesce, nothing)            /* merge the stream's quick lists and what came back from others */    \
      row(steal_done, other_streams)    /* a free block of another stream whose work on it is done */          \
      row(remap, nothing)               /* move idle pages to where they are needed; new ones for the rest */  \
      row(wait_foreign, foreign_blocks) /* let the stream wait for others that gave its memory back */         \
      row(grow, nothing)                /* new pages */                                                        \
      row(steal_wait, other_streams)    /* a free block of another stream, which this one waits for */         \
      row(flush_all, nothing)           /* merge the quick lists of all streams, then move idle pages */       \
      row(synchronize, nothing)         /* block until all streams are done with what they gave back */        \
      row(callbacks, nothing)           /* ask the registered callbacks to give memory back */                 \
      row(wait_others, nothing)         /* wait for other processes, if allowed */

enum class Rung : std::uint8_t {
#define GPUWARDEN_RUNG(name, needs) name,
  GPUWARDEN_POOL_RUNGS(GPUWARDEN_RUNG)
#undef GPUWARDEN_RUNG
};

struct RungRow {
  Rung id;
  std::string_view name;
  RungNeeds needs;
};

/// The table as values; a rung's number is its place in it.
inline constexpr auto kRungTable = std::to_array<RungRow>({
#define GPUWARDEN_RUNG(name, needs) {Rung::name, #name, RungNeeds::needs},
    GPUWARDEN_POOL_RUNGS(GPUWARDEN_RUNG)
#undef GPUWARDEN_RUNG
});
inline constexpr std::size_t kRungs = kRungTable.size();

constexpr std::string_view to_string(Rung rung) { return kRungTable[static_cast<std::size_t>(rung)].name; }

struct RungCount {
  std::uint64_t tried = 0;
  std::uint64_t helped = 0;
  std::uint64_t nanoseconds = 0;
};

}  // namespace gpuwarden::memory
