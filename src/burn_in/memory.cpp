// SPDX-License-Identifier: Apache-2.0
// The memory test: every pattern is written to all of the memory before any of it is read back, so that no cache
// answers in its place, and so that an address line that is stuck shows as somebody else's address.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "burn_in/bench.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::burn_in {

constexpr std::array<Pattern, 8> kPatterns{{{"address", ~0ULL, 0, false},
                                            {"inverted address", ~0ULL, ~0ULL, false},
                                            {"0x55", 0, 0x5555555555555555ULL, false},
                                            {"0xAA", 0, 0xAAAAAAAAAAAAAAAAULL, false},
                                            {"zeros", 0, 0, false},
                                            {"ones", 0, ~0ULL, false},
                                            {"random", ~0ULL, 0, true},
                                            {"inverted random", ~0ULL, ~0ULL, true}}};

namespace {

constexpr std::size_t kLargestPiece = std::size_t{1} << 30U;
constexpr std::size_t kSmallestPiece = std::size_t{1} << 20U;
/// Faults of one pattern that come back with their addresses, and those that are kept over all.
constexpr unsigned long long kRoom = 16;
constexpr std::size_t kKept = 16;
constexpr unsigned kCopyingBlocksPerMultiprocessor = 8;

/// As much of `wanted` bytes as can be had, in pieces that shrink when memory is fragmented.
Result<std::vector<Buffer>> allocate_pieces(const Bench& bench, std::size_t wanted) {
  std::vector<Buffer> pieces;
  std::size_t size = kLargestPiece;
  while (wanted >= kSmallestPiece && size >= kSmallestPiece && !bench.out_of_time()) {
    const std::size_t bytes = std::min(size, wanted / kSmallestPiece * kSmallestPiece);
    auto piece = Buffer::allocate(bench.cuda(), bytes);
    if (piece) {
      wanted -= bytes;
      pieces.push_back(std::move(*piece));
    } else if (piece.error().code == ErrorCode::unsatisfied) {
      size = bytes / 2;
    } else {
      return std::unexpected(piece.error());
    }
  }
  return pieces;
}

struct Kernels {
  cuda::Function fill = nullptr;
  cuda::Function check = nullptr;
};

Result<void> write_pattern(const Bench& bench, const Kernels& kernels, const std::vector<Buffer>& pieces,
                           Pattern pattern) {
  for (const Buffer& piece : pieces) {
    unsigned long long address = piece.address();
    unsigned long long words = piece.bytes() / sizeof(std::uint64_t);
    unsigned scramble = pattern.scramble ? 1 : 0;
    GPUWARDEN_CHECK(bench.launch(kernels.fill,
                                 static_cast<unsigned>(bench.multiprocessors()) * kCopyingBlocksPerMultiprocessor,
                                 {&address, &words, &pattern.keep, &pattern.flip, &scramble}));
    GPUWARDEN_CHECK(bench.finish());
    if (bench.out_of_time()) break;
  }
  return {};
}

Result<void> check_pattern(const Bench& bench, const Kernels& kernels, const std::vector<Buffer>& pieces,
                           Pattern pattern, const Buffer& report) {
  for (const Buffer& piece : pieces) {
    unsigned long long address = piece.address();
    unsigned long long words = piece.bytes() / sizeof(std::uint64_t);
    unsigned scramble = pattern.scramble ? 1 : 0;
    unsigned long long found = report.address();
    unsigned long long room = kRoom;
    GPUWARDEN_CHECK(bench.launch(kernels.check,
                                 static_cast<unsigned>(bench.multiprocessors()) * kCopyingBlocksPerMultiprocessor,
                                 {&address, &words, &pattern.keep, &pattern.flip, &scramble, &found, &room}));
    GPUWARDEN_CHECK(bench.finish());
    if (bench.out_of_time()) break;
  }
  return {};
}

Result<void> collect(const Bench& bench, const Buffer& report, std::string_view pattern, facts::BurnInMemory& memory) {
  std::vector<std::uint64_t> words(report.bytes() / sizeof(std::uint64_t));
  GPUWARDEN_CUDA(bench.cuda(), to_host, words.data(), report.address(), report.bytes(), bench.stream());
  GPUWARDEN_CHECK(bench.finish());
  memory.mismatches += words[0];
  const std::size_t told = std::min<std::size_t>(words[0], kRoom);
  for (std::size_t i = 0; i < told && memory.faults.size() < kKept; ++i)
    memory.faults.push_back({words[3 * i + 1], words[3 * i + 2], words[3 * i + 3], std::string(pattern)});
  return {};
}

}  // namespace

Result<void> test_memory(const Bench& bench, double share, facts::BurnInGpu& gpu) {
  const std::string ptx = memory_kernels();
  Kernels kernels;
  GPUWARDEN_TRY(kernels.fill, bench.compile(ptx, kFill));
  GPUWARDEN_TRY(kernels.check, bench.compile(ptx, kCheck));
  GPUWARDEN_TRY(const Bench::Memory free, bench.memory());
  GPUWARDEN_TRY(const Buffer report, Buffer::allocate(bench.cuda(), (1 + 3 * kRoom) * sizeof(std::uint64_t)));
  GPUWARDEN_TRY(const std::vector<Buffer> pieces,
                allocate_pieces(bench, static_cast<std::size_t>(static_cast<double>(free.free) * share)));
  facts::BurnInMemory& memory = gpu.memory.emplace();
  memory.free = Bytes(free.free);
  for (const Buffer& piece : pieces) memory.tested += Bytes(piece.bytes());
  if (pieces.empty()) {
    gpu.notes.push_back(fmt::format("memory: of {} free nothing could be allocated", format_size(memory.free)));
    gpu.memory.reset();
    return {};
  }
  for (const Pattern& pattern : kPatterns) {
    GPUWARDEN_CUDA(bench.cuda(), set_bytes, report.address(), 0, report.bytes(), bench.stream());
    GPUWARDEN_CHECK(write_pattern(bench, kernels, pieces, pattern));
    // What was not written in time is not looked at: it would look broken.
    if (bench.out_of_time()) break;
    GPUWARDEN_CHECK(check_pattern(bench, kernels, pieces, pattern, report));
    GPUWARDEN_CHECK(collect(bench, report, pattern.name, memory));
    if (bench.out_of_time()) break;
    memory.patterns.emplace_back(pattern.name);
  }
  memory.complete = memory.patterns.size() == kPatterns.size();
  if (!memory.complete)
    gpu.notes.push_back(
        fmt::format("memory: time ran out after {} of {} patterns", memory.patterns.size(), kPatterns.size()));
  return {};
}

}  // namespace gpuwarden::burn_in
