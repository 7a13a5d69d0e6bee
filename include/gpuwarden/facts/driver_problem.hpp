// SPDX-License-Identifier: Apache-2.0
// Why the driver as a whole, or a part of what it was asked for, did not answer: a kind for judges, words for people.
#pragma once

#include <optional>
#include <string_view>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::facts {

/// A failure of the driver or its library. Judges decide by `kind`; the sentence and the hint are for people alone.
struct DriverProblem : Error {
  enum class Kind {
    no_library,     ///< NVML's library (or nvidia-smi) is not there
    wrong_library,  ///< it is there, but is not NVML or lacks what is needed
    crashed,        ///< it ended the process that used it
    timed_out,      ///< no answer within the deadline
    mismatch,       ///< library and loaded kernel module are of different versions
    not_loaded,     ///< no kernel module serves the GPUs
    no_permission,  ///< the caller may not use the driver
    unknown_error,  ///< NVML's "Unknown Error": a container without its device rules, mostly
    no_devices,     ///< the driver is loaded, but answers for no GPU
    impossible,     ///< it answers what cannot be true (4294967295 GPUs)
    other,          ///< the words say what
  };
  Kind kind = Kind::other;

  DriverProblem() = default;
  DriverProblem(Kind what, Error error) : Error(std::move(error)), kind(what) {}
  bool operator==(const DriverProblem&) const = default;
};
std::string_view to_string(DriverProblem::Kind kind);
std::optional<DriverProblem::Kind> driver_problem_kind_from(std::string_view name);

/// Whether the kind only says that NVIDIA's software is not installed or not started, as on a machine without its GPUs.
bool is_absence(DriverProblem::Kind kind);

/// A part of a reading that is missing though the driver answers for its GPUs.
struct ReadingGap {
  enum class Part {
    links,         ///< how the GPUs are joined
    cuda_order,    ///< CUDA's own order of them
    slow_metrics,  ///< PCIe throughput, NVLink counters, profiling
    holders,       ///< processes that have a GPU open without being listed by NVML
  };
  Part part = Part::links;
  DriverProblem problem;

  bool operator==(const ReadingGap&) const = default;
};
std::string_view to_string(ReadingGap::Part part);
std::optional<ReadingGap::Part> reading_gap_part_from(std::string_view name);

}  // namespace gpuwarden::facts
