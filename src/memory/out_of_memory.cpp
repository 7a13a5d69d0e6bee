// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memory/out_of_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/memory/fragmentation.hpp"

namespace gpuwarden::memory {
namespace {

constexpr std::array<std::string_view, 9> kAdvice{"ask_for_less", "raise_limit",    "lower_keep_free",
                                                  "end_capture",  "release_graphs", "end_others",
                                                  "try_again",    "move_buffers",   "use_less"};

/// What must come from somewhere so that the request could be met.
Bytes missing(const OutOfMemoryReport& report) {
  return report.rounded - std::min(report.rounded, report.largest_obtainable);
}

/// What may still be taken from the device, by what forbids more.
struct Room {
  Bytes device;  ///< free and not kept for others
  Bytes limit;
  Bytes budget;

  Bytes left() const { return std::min({device, limit, budget}); }
};

Room room_of(const OutOfMemoryReport& report) {
  constexpr Bytes kNoLimit(~std::uint64_t{0});
  const Bytes free = report.device_free.value_or(Bytes{});
  return Room{.device = free - std::min(free, report.keep_free),
              .limit = report.limit ? *report.limit - std::min(*report.limit, report.reserved) : kNoLimit,
              .budget = report.budget_left.value_or(kNoLimit)};
}

/// What the device has in use beside this pool; 0 where it does not tell.
Bytes held_by_others(const OutOfMemoryReport& report) {
  if (!report.device_total || !report.device_free) return {};
  const Bytes used = *report.device_total - std::min(*report.device_free, *report.device_total);
  return used - std::min(used, report.reserved);
}

Bytes most_ever(const OutOfMemoryReport& report) {
  Bytes most = report.device_total.value_or(Bytes(~std::uint64_t{0}));
  if (report.limit) most = std::min(most, *report.limit);
  return most;
}

std::string size(Bytes bytes) { return format_size(bytes); }

std::string row(const StreamMemory& stream) {
  return fmt::format("  stream {:#x}{}: {} live in {} blocks, {} kept for reuse, {} free\n", stream.stream.value,
                     stream.captured ? " (for a captured graph)" : "", size(stream.live), stream.live_blocks,
                     size(stream.cached), size(stream.free));
}

}  // namespace

std::string_view to_string(Advice advice) { return kAdvice[static_cast<std::size_t>(advice)]; }

double OutOfMemoryReport::external_fragmentation() const { return memory::external_fragmentation(free, largest_free); }

Advice advice_for(const OutOfMemoryReport& report) {
  if (report.rounded > most_ever(report)) return Advice::ask_for_less;
  const Bytes needed = missing(report);
  if (needed.value == 0) return Advice::try_again;
  if (const Room room = room_of(report); report.device_free && *report.device_free >= room.left() + needed)
    return room.left() < room.device ? Advice::raise_limit : Advice::lower_keep_free;
  const Bytes idle = report.free + report.cached;
  if (report.capturing && idle >= report.rounded) return Advice::end_capture;
  if (report.captured >= needed) return Advice::release_graphs;
  if (idle - std::min(report.captured, idle) >= report.rounded) return Advice::move_buffers;
  if (held_by_others(report) >= needed) return Advice::end_others;
  return Advice::use_less;
}

std::string OutOfMemoryReport::help() const {
  switch (advice) {
    case Advice::ask_for_less:
      return fmt::format("the request alone is more than the {} that there can ever be: split it",
                         size(most_ever(*this)));
    case Advice::raise_limit:
      return fmt::format("the device has {} free: raise the {}", size(device_free.value_or(Bytes{})),
                         limit && room_of(*this).limit <= room_of(*this).budget
                             ? fmt::format("pool's limit of {}", size(*limit))
                             : std::string("process's limit"));
    case Advice::lower_keep_free:
      return fmt::format("the device has {} free, but {} of it are kept for others: keep less",
                         size(device_free.value_or(Bytes{})), size(keep_free));
    case Advice::end_capture:
      return "a stream is being captured into a graph, so that pages cannot move and nobody can wait: allocate before "
             "the capture, or after it";
    case Advice::release_graphs:
      return fmt::format("{} are kept for captured graphs: release graphs that are no longer replayed", size(captured));
    case Advice::end_others:
      return fmt::format(
          "{} of the device are held outside this pool (by other processes, or elsewhere in this one): free "
          "them there, or choose another GPU",
          size(held_by_others(*this)));
    case Advice::try_again:
      return "the pool has enough memory, but a call of the driver failed: try again";
    case Advice::move_buffers:
      return fmt::format(
          "{} are free, but in pieces on pages that also hold live blocks: allocate lasting small blocks first, or as "
          "movable buffers, and defragment",
          size(free));
    case Advice::use_less:
      break;
  }
  return fmt::format("the {} in use are really needed: smaller batches, recomputation, or a GPU with more memory",
                     size(live));
}

std::string OutOfMemoryReport::sentence() const {
  std::string text =
      fmt::format("CUDA out of memory. Tried to allocate {} ({} bytes).", size(requested), requested.value);
  if (device_total)
    text += fmt::format(" The GPU has a total capacity of {} of which {} is free.", size(*device_total),
                        size(device_free.value_or(Bytes{})));
  text += fmt::format(
      " Of the {} reserved by this pool {} is allocated and {} is reserved but unallocated: the largest free block has "
      "{}, moving pages makes at most {}.",
      size(reserved), size(live), size(cached + free), size(largest_free), size(largest_obtainable));
  if (limit) text += fmt::format(" The pool's limit is {}.", size(*limit));
  if (!reason.empty()) text += fmt::format(" The last refusal: {}.", reason);
  if (!who_holds_what.empty()) text += fmt::format(" On this GPU: {}.", who_holds_what);
  return text;
}

std::string OutOfMemoryReport::to_text() const {
  std::string text = sentence() + "\n";
  text += fmt::format("held: {} live, {} kept for reuse, {} free, external fragmentation {:.0f} %\n", size(live),
                      size(cached), size(free), external_fragmentation() * 100);
  if (captured.value != 0) text += fmt::format("kept for captured graphs: {}\n", size(captured));
  if (keep_free.value != 0) text += fmt::format("kept free for others: {}\n", size(keep_free));
  if (budget_left) text += fmt::format("left of the process's limit: {}\n", size(*budget_left));
  text += "by stream:\n";
  for (const StreamMemory& held : streams) text += row(held);
  if (more_streams != 0) text += fmt::format("  and {} more\n", more_streams);
  text += "tried:";
  for (std::size_t i = 0; i < kRungs; ++i) {
    if (rungs[i].tried == 0) continue;
    text += fmt::format(" {} ({} us, helped {} times before)", to_string(static_cast<Rung>(i)),
                        rungs[i].nanoseconds / 1000, rungs[i].helped);
  }
  return text + "\nwhat helps: " + help() + "\n";
}

}  // namespace gpuwarden::memory
