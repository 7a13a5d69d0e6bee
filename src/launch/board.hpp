// SPDX-License-Identifier: Apache-2.0
// What the guardians tell the launcher of the ranks, in memory that all of them share: what was told is not lost with
// the one that told it.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::launch {

/// One rank. Written by the guardian that is its parent.
struct Seat {
  std::atomic<pid_t> pid;
  std::atomic<int> exec_error;  ///< errno, where the program could not be started
  std::atomic<int> ended;       ///< as the how-manieth rank, from 1; set after `status`, before the process is reaped
  std::atomic<int> status;      ///< as waitpid gives it
};

inline constexpr std::size_t kMostLeft = 16;

struct BoardHead {
  std::atomic<int> ends;                               ///< of ranks so far
  std::array<std::atomic<pid_t>, 2> guardians;         ///< outer, inner
  std::array<std::atomic<pid_t>, kMostLeft> leftover;  ///< what could not be ended
};

/// Owns the shared mapping; children that are forked see the same memory, programs that are executed do not.
class Board {
 public:
  static Result<Board> make(std::uint32_t ranks);
  Board(Board&& other) noexcept;
  Board& operator=(Board&&) = delete;
  ~Board();

  BoardHead& head() const { return *static_cast<BoardHead*>(memory_); }
  Seat& seat(std::uint32_t rank) const;
  std::uint32_t ranks() const { return ranks_; }
  std::optional<int> status(std::uint32_t rank) const;
  /// How many ranks had ended when this one did; only of one that has.
  int order(std::uint32_t rank) const { return seat(rank).ended.load(); }
  /// Notes down how a rank ended; a pid that is no rank's is ignored. True where it is one.
  bool note_end(pid_t pid, int status) const;

 private:
  Board(void* memory, std::uint32_t ranks) : memory_(memory), ranks_(ranks) {}
  void* memory_;
  std::uint32_t ranks_;
};

}  // namespace gpuwarden::launch
