// SPDX-License-Identifier: Apache-2.0
#include "launch/board.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

namespace gpuwarden::launch {
namespace {

std::size_t bytes_for(std::uint32_t ranks) { return sizeof(BoardHead) + ranks * sizeof(Seat); }

}  // namespace

Result<Board> Board::make(std::uint32_t ranks) {
  void* memory = ::mmap(nullptr, bytes_for(ranks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return std::unexpected(error_from_errno(errno, "cannot share memory with the guardians"));
  return Board(memory, ranks);
}

Board::Board(Board&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)), ranks_(other.ranks_) {}

Board::~Board() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_for(ranks_));
}

Seat& Board::seat(std::uint32_t rank) const {
  // Fresh pages are zeros, which is what these lock-free atomics start from.
  static_assert(std::atomic<pid_t>::is_always_lock_free);
  return reinterpret_cast<Seat*>(static_cast<char*>(memory_) + sizeof(BoardHead))[rank];
}

std::optional<int> Board::status(std::uint32_t rank) const {
  const Seat& one = seat(rank);
  return one.ended.load() != 0 ? std::optional(one.status.load()) : std::nullopt;
}

bool Board::note_end(pid_t pid, int status) const {
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    Seat& one = seat(rank);
    if (one.pid.load() != pid || one.ended.load() != 0) continue;
    one.status.store(status);
    one.ended.store(++head().ends);
    return true;
  }
  return false;
}

}  // namespace gpuwarden::launch
