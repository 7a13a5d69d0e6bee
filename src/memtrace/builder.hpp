// SPDX-License-Identifier: Apache-2.0
// Makes a trace of what the readers find, and keeps the books of what is live.
#pragma once

#include <string_view>
#include <unordered_map>
#include <utility>

#include "gpuwarden/memtrace/trace.hpp"

namespace gpuwarden::memtrace {

/// A free of something that was never allocated: what it means depends on the format.
enum class Unknown {
  is_wrong,
  was_live_before,
};

/// Keys are ids or addresses. Functions that add give an empty text, or what is wrong with the event.
class TraceBuilder {
 public:
  TraceBuilder(std::string format, Unknown unknown) : unknown_(unknown) { trace_.format = std::move(format); }

  std::string_view live_before(std::uint64_t key, std::uint64_t size, std::uint64_t stream);
  std::string_view allocate(std::uint64_t key, std::uint64_t size, std::uint64_t stream, std::int64_t time_us);
  /// `size` counts only where the block was live before.
  std::string_view free(std::uint64_t key, std::uint64_t size, std::uint64_t stream, std::int64_t time_us);

  bool is_live(std::uint64_t key) const {
    const auto found = blocks_.find(key);
    return found != blocks_.end() && found->second.live;
  }
  /// The formula of the block that was added last.
  void formula(const SizeFormula& formula) { trace_.formulas.push_back(formula); }
  Trace& trace() { return trace_; }
  /// The trace; what was live before stands in the order of keys if `by_key`.
  Trace finish(bool by_key);

 private:
  struct Block {
    std::uint32_t number = 0;
    bool live = false;
  };

  std::string_view add(std::uint64_t key, std::uint64_t size, std::uint64_t stream);
  std::optional<std::uint16_t> position_of(std::uint64_t stream);
  std::int64_t since_start(std::int64_t time_us);

  Unknown unknown_;
  Trace trace_;
  Event next_;  ///< what add() has found out
  std::unordered_map<std::uint64_t, Block> blocks_;
  std::unordered_map<std::uint64_t, std::uint16_t> streams_{{0, 0}};
  std::vector<std::uint64_t> keys_before_;
  std::optional<std::int64_t> start_;
};

}  // namespace gpuwarden::memtrace
