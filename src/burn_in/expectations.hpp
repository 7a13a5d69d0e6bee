// SPDX-License-Identifier: Apache-2.0
// What a sound GPU reaches: published figures, and how much less is still no fault. Pure.
#pragma once

#include <span>

#include "gpuwarden/facts/burn_in.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::burn_in {

/// Raw rate of a PCIe link in one direction, 10^9 bytes per second; nothing for generations unknown.
std::optional<double> pcie_rate(std::int64_t generation, std::int64_t width);

/// Writes into each figure what it is to be held against. `record` is the GPU as the snapshot has it.
void expect(facts::BurnInGpu& gpu, const facts::GpuRecord& record, const knowledge::Knowledge& knowledge);

/// Likewise for copies between two GPUs: the NVLinks between them, as the driver tells their number and speed. Of
/// copies over PCIe nothing is expected: they share links and bridges that the snapshot does not have.
void expect(facts::BurnInPair& pair, const facts::Snapshot& snapshot);

}  // namespace gpuwarden::burn_in
