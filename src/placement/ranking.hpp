// SPDX-License-Identifier: Apache-2.0
// Which of the fitting devices are taken, and in which order.
#pragma once

#include <vector>

#include "placement/candidates.hpp"

namespace gpuwarden::placement {

/// Sorts: named and preferred ones in the user's order, then most free memory (in steps of 1 GiB, so that noise decides
/// nothing), least load, index.
void rank(std::vector<Candidate>& fitting, const Wanted& wanted);

/// The `count` best of ranked candidates. Among those that rank the same the best connected set is taken: the slowest
/// link of the best ring through them first (what NCCL's rings run at), then that ring's sum, then what is left for the
/// next job, then fewer NUMA nodes, nearer network adapters, cooler GPUs. So a single GPU, too, is taken where it
/// is missed least. Exact among up to 16; of more, their neighbourhoods are tried.
std::vector<Candidate> pick(const std::vector<Candidate>& ranked, std::size_t count, const Wanted& wanted);

/// A link's worth in relative units: NVLinks count by number, PCIe by how far apart (nvidia-smi topo's levels).
double worth(const facts::Link& link);

}  // namespace gpuwarden::placement
