// SPDX-License-Identifier: Apache-2.0
// The one thing that gpuwarden sets on a GPU, and only where somebody asks for it: its power limit.
#pragma once

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/probe/nvml_reader.hpp"

namespace gpuwarden::probe {

/// Sets the limit through NVML, in a child process that is killed after `options.timeout`; gives the limit that the
/// GPU says it has then. Fails with not_found for an unknown GPU, invalid_argument outside of the range that the GPU
/// itself names, permission_denied where the driver wants root, unavailable where the GPU has no such limit or does not
/// answer.
Result<Milliwatts> set_power_limit(const ReaderOptions& options, const Uuid& gpu, Milliwatts limit);

}  // namespace gpuwarden::probe
