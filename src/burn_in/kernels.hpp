// SPDX-License-Identifier: Apache-2.0
// The GPU's side of the tests, as PTX: the driver compiles it for whatever GPU is there.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace gpuwarden::burn_in {

/// A module of PTX, with the functions in it.
struct Kernel {
  std::string_view name;      ///< "memory"
  int least_capability = 50;  ///< 80: from compute capability 8.0 on
  std::string (*text)();
};

/// gpuwarden_fill(u64 address, u64 words, u64 keep, u64 flip, u32 scramble) writes to each word of 8 bytes
/// (source & keep) ^ flip, where source is the word's own address, scrambled or not.
/// gpuwarden_check(the same, u64 report, u64 room) counts at `report` the words that hold something else, and
/// writes address, expected and found of the first `room` of them behind the count.
inline constexpr std::string_view kFill = "gpuwarden_fill";
inline constexpr std::string_view kCheck = "gpuwarden_check";
/// FUNCTION(u64 wrong, u32 rounds, f32 or u32 one, f32 expected): every thread adds up ones with its multipliers and
/// counts at `wrong` the sums that are not `expected`.
inline constexpr std::string_view kFma = "gpuwarden_fma";
inline constexpr std::string_view kMmaBf16 = "gpuwarden_mma_bf16";
inline constexpr std::string_view kMmaF16 = "gpuwarden_mma_f16";
inline constexpr std::string_view kMmaVolta = "gpuwarden_mma_f16_volta";

std::string memory_kernels();
std::string fma_kernel();
std::string mma_bf16_kernel();
std::string mma_f16_kernel();
std::string mma_volta_kernel();

inline constexpr std::array<Kernel, 5> kKernels{{{"memory", 50, memory_kernels},
                                                 {"fma", 50, fma_kernel},
                                                 {"mma_bf16", 80, mma_bf16_kernel},
                                                 {"mma_f16", 75, mma_f16_kernel},
                                                 {"mma_volta", 70, mma_volta_kernel}}};

/// The arithmetic of a round: chains of sums in each thread, steps of each chain in a round.
inline constexpr unsigned kChains = 8;
inline constexpr unsigned kSteps = 16;

/// What gpuwarden_fill writes; the host's own word for it, for tests and stand-ins.
constexpr unsigned long long scrambled(unsigned long long address) {
  unsigned long long x = address * 0x9E3779B97F4A7C15ULL;
  x ^= x >> 29U;
  x *= 0xBF58476D1CE4E5B9ULL;
  return x ^ (x >> 32U);
}
constexpr unsigned long long pattern_word(unsigned long long address, unsigned long long keep, unsigned long long flip,
                                          bool scramble) {
  return ((scramble ? scrambled(address) : address) & keep) ^ flip;
}

}  // namespace gpuwarden::burn_in
