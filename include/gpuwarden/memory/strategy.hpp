// SPDX-License-Identifier: Apache-2.0
// How a pool trades speed against footprint: each strategy is one row with a stated rule.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"

namespace gpuwarden::memory {

/// Which of several fitting free blocks is taken.
enum class FitOrder {
  first,     ///< the first that is found
  smallest,  ///< the smallest, of equal ones the lowest
  lowest,    ///< the one at the lowest address
};

/// How far the search for a free block goes: blocks looked at in the request's own size class (1/32 of a power of two),
/// then in the next class that has any.
struct FitRule {
  unsigned own_class_scan = 4;
  unsigned next_class_scan = 1;
  FitOrder order = FitOrder::first;
};

/// What is done first when no free block fits, and what a pool keeps.
struct Strategy {
  std::string_view name;
  std::string_view rule;  ///< one sentence for people
  FitRule fit;
  /// The rest of a block is split off if it has at least so many bytes, or more than this share of the request (1/n).
  Bytes split_from = 512_B;
  unsigned split_share = 0;
  /// Blocks of repeated sizes kept unmerged for each stream, at most so many thousandths of reserved memory.
  unsigned quick_permille = 0;
  /// Requests below this size come from pages of their own; 0: all from the same.
  Bytes small_below;
  /// Free pages are moved to where they are needed before new ones are made, once reserved memory exceeds the peak of
  /// live memory by this many thousandths; empty: only when the device or the limit leaves no more.
  std::optional<unsigned> remap_above_permille;
  /// Grows further, rather than move pages again and again, once steps repeat themselves or random requests would have
  /// pages moved every few allocations.
  bool learns = false;
  /// Once a stream repeats its operations in the same order, the step is planned as a whole, and the next ones get
  /// their memory by the plan.
  bool learns_steps = false;
  /// Memory is made in pieces as large as they are wanted, and a little more of it is made ahead and kept, rather than
  /// moved.
  bool in_pieces = false;
  /// Sizes from `small_below` on whose blocks have lived briefly are cut from the upper end of free blocks, all others
  /// from the lower one, so that what lasts lies together.
  bool two_ends = false;
  /// Free pages go back to the device after so many merging frees, but for as much as was live at the crests of recent
  /// steps; 0: only when asked for.
  unsigned trim_every = 0;
};

/// All strategies; the first is the default.
std::span<const Strategy> strategies();

/// The strategy of that name; nullptr if there is none.
const Strategy* find_strategy(std::string_view name);

/// The strategy of that name, or all for "all". Fails with invalid_argument; the hint has the names.
Result<std::vector<const Strategy*>> strategies_named(std::string_view name);

}  // namespace gpuwarden::memory
