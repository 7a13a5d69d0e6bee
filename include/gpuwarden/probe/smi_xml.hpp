// SPDX-License-Identifier: Apache-2.0
// Reads what `nvidia-smi -q -x` prints, from any driver since 384.
#pragma once

#include <string_view>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::probe {

/// The machine in an nvidia-smi XML log; GPUs are numbered in the file's order. Unknown ("N/A", "[Unknown Error]",
/// absent) is empty. Fails with corrupt on text that is no such log.
Result<facts::Snapshot> snapshot_from_smi_xml(std::string_view xml);

}  // namespace gpuwarden::probe
