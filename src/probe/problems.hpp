// SPDX-License-Identifier: Apache-2.0
// What the reader says of a driver or a GPU that fails: the kind decides, the words are for people.
#pragma once

#include <chrono>
#include <optional>

#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/probe/child_process.hpp"
#include "gpuwarden/probe/nvml_reader.hpp"
#include "probe/nvml_library.hpp"

namespace gpuwarden::probe {

/// More GPUs than any machine has.
inline constexpr unsigned kMostGpus = 256;

/// How a reader's process fell silent: over its time, or ended.
struct Silence {
  bool timed_out = false;
  ChildEnd end;
};

/// An NVML that does not come up: `code` is nvmlInit's.
facts::DriverProblem explain_init(nvml::Return code, const nvml::Functions& nvml, const ReaderOptions& options);
/// An NVML that came up and does not say how many GPUs there are.
facts::DriverProblem explain_count(nvml::Return code, const nvml::Functions& nvml, const ReaderOptions& options);
/// A number of GPUs that no machine has.
facts::DriverProblem explain_impossible_count(unsigned count);
/// A driver that was replaced or unloaded twice while it was asked.
facts::DriverProblem explain_unsteady_driver();
/// The driver as a whole fell silent.
facts::DriverProblem explain_silent_driver(const Silence& silence, std::chrono::milliseconds timeout);
/// A part of the reading fell silent, after all GPUs had answered.
facts::ReadingGap explain_gap(facts::ReadingGap::Part part, const Silence& silence, std::chrono::milliseconds timeout);
/// A GPU fell silent while it was read; `known` is what it is, as far as that is known.
facts::GpuRecord explain_silent_gpu(facts::Gpu known, const Silence& silence, std::chrono::milliseconds timeout);

/// The state of GPUs that are listed without a driver that answers.
facts::GpuState state_of_gpus(facts::DriverProblem::Kind kind);
/// Whether NVML's library is at fault, so that another tool may do better.
bool is_librarys_fault(facts::DriverProblem::Kind kind);

/// A UUID that an earlier GPU has, too, is taken from the later one, which is faulty.
void mark_duplicates(std::vector<facts::GpuRecord>& records);

}  // namespace gpuwarden::probe
