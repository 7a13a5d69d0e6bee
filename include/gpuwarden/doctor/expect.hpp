// SPDX-License-Identifier: Apache-2.0
// The inventory that a site expects of a machine, and how the machine differs from it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/knowledge/version.hpp"

namespace gpuwarden::doctor {

/// GPUs of one model. What is empty may be anything.
struct ExpectedGpus {
  std::optional<int> count;
  std::string model;                   ///< words of the name: "H100", "RTX 4090"; empty: every GPU is meant
  std::optional<double> memory_gb;     ///< of each, as marketed; a tenth more or less counts as the same
  std::optional<int> pcie_width;       ///< lanes in use, at least
  std::optional<int> pcie_generation;  ///< that card and slot can do, at least
};

/// What is expected of a machine.
struct Expected {
  std::vector<ExpectedGpus> gpus;
  std::optional<knowledge::Version> driver;          ///< exactly this one
  std::optional<knowledge::Version> driver_minimum;  ///< this one or a newer one
  std::string source;                                ///< who says so: the file's name
};

/// Reads the YAML of docs/knowledge.md. Fails with invalid_argument, "NAME:LINE:COLUMN: what", on mistakes.
Result<Expected> parse_expected(std::string_view text, std::string_view name);

/// Adds each difference to the verdict as an error "expected:WHAT"; what was expected and is not told as an info.
void add_expected(Examination& examination, const facts::Snapshot& snapshot, const Expected& expected);

}  // namespace gpuwarden::doctor
