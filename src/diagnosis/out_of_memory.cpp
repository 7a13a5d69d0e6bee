// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/out_of_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::diagnosis {
namespace {

using std::int64_t;

constexpr int64_t kGiB = int64_t{1} << 30;

std::string size(int64_t bytes) { return format_size(Bytes(static_cast<std::uint64_t>(std::max<int64_t>(bytes, 0)))); }

/// The numbers of one message, as far as it has them.
struct Numbers {
  std::optional<int64_t> tried;
  std::optional<int64_t> total;
  std::optional<int64_t> free;
  std::optional<int64_t> unallocated;  ///< reserved by the framework's cache, in no tensor
  std::optional<int64_t> held;         ///< by this process
  int64_t foreign = 0;                 ///< by processes that the message names and that are not this one
  int64_t foreign_pid = 0;             ///< the largest of them
};

/// Inside a container a process does not know its own pid: the message then names it like a foreign one. It is the
/// process itself if it holds what the framework has reserved and no more than a CUDA context and libraries besides.
bool is_oneself(int64_t bytes, int64_t reserved) {
  constexpr int64_t kMostBesides = 6 * kGiB;  // contexts, cuBLAS and NCCL buffers, CUDA graphs
  return bytes >= reserved - kGiB / 16 && bytes <= reserved + kMostBesides;
}

void read_processes(const Facts& facts, std::optional<int64_t> reserved, Numbers& numbers) {
  const auto found = facts.find("processes");
  const auto* processes = found == facts.end() ? nullptr : std::get_if<std::vector<ProcessMemory>>(&found->second);
  if (processes == nullptr) return;
  const bool found_oneself = number(facts, "this_process_bytes").has_value();
  int64_t largest = 0;
  // The nearest to what is reserved is the process itself, where the message does not name it apart.
  const ProcessMemory* oneself = nullptr;
  for (const ProcessMemory& process : *processes) {
    if (found_oneself || !reserved || !is_oneself(process.bytes, *reserved)) continue;
    if (oneself == nullptr || process.bytes < oneself->bytes) oneself = &process;
  }
  for (const ProcessMemory& process : *processes) {
    if (&process == oneself) {
      numbers.held = process.bytes;
      continue;
    }
    numbers.foreign += process.bytes;
    if (process.bytes > largest) numbers.foreign_pid = process.pid;
    largest = std::max(largest, process.bytes);
  }
}

Numbers numbers_of(const Facts& facts) {
  Numbers numbers{.tried = number(facts, "tried_bytes"),
                  .total = number(facts, "total_bytes"),
                  .free = number(facts, "free_bytes"),
                  .unallocated = number(facts, "reserved_unallocated_bytes"),
                  .held = number(facts, "this_process_bytes")};
  const auto allocated = number(facts, "allocated_bytes");
  auto reserved = number(facts, "reserved_bytes");
  if (!numbers.unallocated && reserved && allocated) numbers.unallocated = std::max<int64_t>(*reserved - *allocated, 0);
  if (!reserved && allocated) reserved = *allocated + numbers.unallocated.value_or(0);
  read_processes(facts, reserved, numbers);
  if (!numbers.held) numbers.held = reserved;
  return numbers;
}

/// Others hold so much that with their share this request would have been met.
std::optional<MemoryVerdict> others_fill_it(const Numbers& n) {
  if (!n.total || !n.free || !n.held) return std::nullopt;
  int64_t others = n.foreign;
  const bool named = others > 0;
  // What nobody is named for: less a CUDA context and libraries of this process itself.
  constexpr int64_t kOwnBesides = kGiB / 2;
  if (!named) others = *n.total - *n.free - *n.held - kOwnBesides;
  const bool much = others > *n.total / 5 || others > *n.held;
  const bool would_help = !n.tried || *n.free + others >= *n.tried;
  if (!much || others < kGiB / 2 || !would_help) return std::nullopt;
  const std::string who = named ? fmt::format("process {} holds {}", n.foreign_pid, size(n.foreign))
                                : fmt::format("{} are not held by any process in this message", size(others));
  const std::string asked = n.tried ? fmt::format("asked for {}, {} free", size(*n.tried), size(*n.free))
                                    : fmt::format("{} free", size(*n.free));
  return MemoryVerdict{
      "oom_other_process", fmt::format("this process holds {} of {}, {}", size(*n.held), size(*n.total), who),
      fmt::format("{}; this process holds only {} of {}: others hold the rest", asked, size(*n.held), size(*n.total)),
      named ? 0.93 : 0.75};
}

/// A few MiB more than was asked for are lost to rounding, since a small request becomes a segment.
bool is_enough_free(const Numbers& n) {
  if (!n.tried || !n.free || *n.tried <= 0 || *n.free < *n.tried) return false;
  return *n.tried >= kGiB || *n.free - *n.tried >= kGiB / 4;
}

/// The cache holds enough for the request, but in pieces; or there is enough free memory altogether.
std::optional<MemoryVerdict> in_pieces(const Numbers& n) {
  if (!n.tried) return std::nullopt;
  // Small leftovers are normal in every cache: they count once they are a tenth of the GPU, or many times the request.
  const bool large =
      n.unallocated && *n.unallocated >= *n.tried &&
      ((n.total && *n.unallocated * 12 >= *n.total) || (*n.unallocated >= 4 * *n.tried && *n.unallocated >= 2 * kGiB));
  if (large)
    return MemoryVerdict{
        "oom_fragmentation",
        fmt::format("{} were asked for, {} are reserved but unallocated", size(*n.tried), size(*n.unallocated)),
        fmt::format("asked for {}{}, {} reserved but unallocated: fragmentation", size(*n.tried),
                    n.free ? ", " + size(*n.free) + " free" : "", size(*n.unallocated)),
        0.9};
  if (is_enough_free(n))
    return MemoryVerdict{
        "oom_fragmentation", fmt::format("{} were asked for and {} were free", size(*n.tried), size(*n.free)),
        fmt::format("asked for {} with {} free: not in one piece, or a limit is set", size(*n.tried), size(*n.free)),
        0.75};
  return std::nullopt;
}

std::string why_too_small(const Numbers& n) {
  if (n.tried && n.total && *n.tried > *n.total)
    return fmt::format("{} in one request is more than the whole GPU has ({})", size(*n.tried), size(*n.total));
  if (n.held && n.total && *n.held > *n.total)
    return fmt::format("{} are allocated on a GPU of {}: the driver has moved the rest to host memory", size(*n.held),
                       size(*n.total));
  if (n.held && n.total) return fmt::format("this process itself holds {} of {}", size(*n.held), size(*n.total));
  return "";
}

}  // namespace

std::optional<MemoryVerdict> judge_memory(const Facts& facts) {
  const Numbers numbers = numbers_of(facts);
  const bool impossible = numbers.tried && numbers.total && *numbers.tried > *numbers.total;
  const bool spilled = numbers.held && numbers.total && *numbers.held > *numbers.total;
  if (!impossible && !spilled) {
    // Where enough is free, it does not matter who holds the rest.
    auto others = is_enough_free(numbers) ? std::nullopt : others_fill_it(numbers);
    if (others) return others;
    if (auto verdict = in_pieces(numbers)) return verdict;
  }
  const std::string reason = why_too_small(numbers);
  if (reason.empty()) return std::nullopt;
  return MemoryVerdict{"oom_capacity", reason, "", 0.95};
}

}  // namespace gpuwarden::diagnosis
