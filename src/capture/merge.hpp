// SPDX-License-Identifier: Apache-2.0
// Several views of one machine become one.
#pragma once

#include "gpuwarden/capture/kernel_log.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::capture {

/// Whether the GPUs of `part` are others than those of `whole` at the same indices: two hosts in one file.
bool is_another_machine(const facts::Snapshot& whole, const facts::Snapshot& part);

/// Adds what `part` tells to `whole`: GPUs meet by UUID, bus id or index. A later reading replaces an earlier one; what
/// only one side knows stays.
void merge(facts::Snapshot& whole, facts::Snapshot part);
void merge(facts::Snapshot& whole, const KernelLog& log);

}  // namespace gpuwarden::capture
