// SPDX-License-Identifier: Apache-2.0
// What the GPUs themselves showed when they were put to work (doctor --deep). Plain values; unknown is empty.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/facts/gpu_sample.hpp"

namespace gpuwarden::facts {

/// A rate that a test found, beside what it was held against.
struct BurnInFigure {
  std::string id;  ///< "pcie_to_device", "pcie_to_host", "memory_bandwidth", "fp32", "tensor_*" (bf16, f16),
                   ///< "matrix_*" (bf16, f16, tf32, int8, fp32), "peer_copy"
  double value = 0;
  std::string unit;    ///< "GB/s" (10^9 bytes per second), "TFLOPS"
  std::string method;  ///< how it was found: "cublasGemmEx of libcublas.so.12, 8192^3", "mma.sync in registers"
  std::optional<double> expected;  ///< what is published for the model or the link, in the same unit
  std::optional<double> least;     ///< below this something is wrong
  std::string expected_from;       ///< the source of `expected` and why `least` is less; empty without them

  bool operator==(const BurnInFigure&) const = default;
};

/// A word of memory that did not hold what was written.
struct MemoryFault {
  std::uint64_t address = 0;  ///< in the address space of the testing process
  std::uint64_t expected = 0;
  std::uint64_t found = 0;
  std::string pattern;

  bool operator==(const MemoryFault&) const = default;
};
/// How many bits of the word are wrong.
constexpr int wrong_bits(const MemoryFault& fault) { return std::popcount(fault.expected ^ fault.found); }

/// The test of the memory: every pattern was written to all of `tested`, then read back.
struct BurnInMemory {
  Bytes free;                         ///< before the test
  Bytes tested;                       ///< of it, in pieces
  std::vector<std::string> patterns;  ///< those that were carried through
  bool complete = false;              ///< all patterns were
  std::uint64_t mismatches = 0;       ///< words of 8 bytes, over all patterns
  std::vector<MemoryFault> faults;    ///< the first of them

  bool operator==(const BurnInMemory&) const = default;
};

/// The GPU's own readings at a moment of the test.
struct BurnInMoment {
  std::string when;  ///< "before", "pcie", "load", "after"
  std::optional<Celsius> temperature;
  std::optional<Megahertz> clock_sm;
  std::optional<Milliwatts> power;
  std::optional<Count> pcie_generation;
  std::optional<Count> pcie_width;
  std::optional<std::vector<ThrottleReason>> throttle_reasons;

  bool operator==(const BurnInMoment&) const = default;
};

/// One GPU, or one MIG instance, as CUDA shows it.
struct BurnInGpu {
  Uuid uuid;
  std::optional<GpuIndex> index;  ///< of the GPU in the snapshot; empty where the snapshot has no such GPU
  std::string name;
  std::optional<std::string> not_possible;  ///< why nothing was tested
  std::optional<std::string> failed;        ///< what CUDA or the driver broke off with, and in which test
  std::optional<BurnInMemory> memory;
  std::vector<BurnInFigure> figures;
  std::uint64_t wrong_results = 0;  ///< arithmetic whose result is known and came out otherwise
  std::vector<std::string> notes;   ///< tests that were left out, and why
  std::vector<BurnInMoment> moments;
  std::int64_t milliseconds = 0;  ///< what it took

  bool operator==(const BurnInGpu&) const = default;
};

/// Copies from one GPU's memory to another's.
struct BurnInPair {
  Uuid from;
  Uuid to;
  std::optional<GpuIndex> from_index;  ///< as BurnInGpu::index
  std::optional<GpuIndex> to_index;
  std::optional<bool> direct;          ///< over NVLink or PCIe; else the driver copies through the host's memory
  std::optional<BurnInFigure> figure;  ///< "peer_copy", one direction
  std::optional<std::string> failed;   ///< what CUDA or the driver broke off with

  bool operator==(const BurnInPair&) const = default;
};

/// A run over the GPUs that CUDA showed.
struct BurnInRun {
  std::string library;    ///< the CUDA driver that was opened
  bool stand_in = false;  ///< the library was named by the user: its figures are not NVIDIA's driver's
  std::optional<std::string> cuda_version;  ///< "13.0", as that driver tells it
  std::optional<std::string> not_possible;  ///< no CUDA, no device: why no GPU was tested
  std::optional<std::string> failed;        ///< CUDA is there and does not start
  std::vector<std::string> next_steps;      ///< what to do about that
  std::vector<BurnInGpu> gpus;
  std::vector<BurnInPair> pairs;  ///< both directions of each two; empty where they were not asked for

  bool operator==(const BurnInRun&) const = default;
};

}  // namespace gpuwarden::facts
