// SPDX-License-Identifier: Apache-2.0
// Puts the GPUs to work to learn whether they are sound: memory patterns, transfers, bandwidth, arithmetic. Every GPU
// is tested in a process of its own, which may hang or crash without harm. Nothing stays behind.
//
//   burn_in::Options options;
//   const facts::BurnInRun run = burn_in::run(snapshot, knowledge::Knowledge::built_in(), options);
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/facts/burn_in.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::knowledge {
class Knowledge;
}

namespace gpuwarden::burn_in {

struct Options {
  /// CUDA's driver: a name for the loader's search, or a path.
  std::filesystem::path library = "libcuda.so.1";
  /// The library was named by the user: what it tells is not called measured.
  bool stand_in = false;
  /// Tried in this order for the matrix product; without any the kernels of our own are timed.
  std::vector<std::filesystem::path> cublas = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"};
  /// All that one GPU's tests may take; what is still running then is killed.
  std::chrono::milliseconds deadline = std::chrono::seconds(30);
  /// How long each rate is looked at, beside the usual 4 s for all: 0.1 is quick and rough.
  double pace = 1;
  /// Of the memory that is free; 0: only rates are measured.
  double memory_share = 0.9;
  /// Matrix products of every type that cuBLAS multiplies, not of one with 16 bits alone.
  bool all_types = false;
  /// Copies between every two of the GPUs that were tested, in both directions.
  bool pairs = false;
  /// Tests GPUs that others use, too.
  bool force = false;
  /// GPUs that are left alone without `force`, and why: those that others have reserved.
  std::vector<std::pair<Uuid, std::string>> reserved;
  Clock* clock = &system_clock();
  /// Only these, by UUID; empty: all that CUDA shows (it honours CUDA_VISIBLE_DEVICES itself).
  std::vector<Uuid> gpus;
};

/// Hooks for the caller; each may be empty.
struct Listener {
  /// Reads one GPU's facts again, while it works.
  std::function<std::optional<facts::GpuRecord>(const Uuid&)> observe;
  /// "GPU 0 (NVIDIA H200): memory": what begins now.
  std::function<void(std::string_view)> progress;
};

/// Why a GPU is left alone without Options::force: processes, load or memory of somebody; nothing where it is free.
std::optional<std::string> in_use(const facts::GpuRecord& record);

/// Tests the GPUs one after another and returns what they showed, beside what is published of them. Never fails as a
/// whole: what could not be done is said in the run and in each GPU. Takes at most about the deadline for each GPU.
facts::BurnInRun run(const facts::Snapshot& snapshot, const knowledge::Knowledge& knowledge, const Options& options,
                     const Listener& listener = {});

}  // namespace gpuwarden::burn_in
