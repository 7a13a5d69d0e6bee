// SPDX-License-Identifier: Apache-2.0
// A GPU's record as bytes between two processes of one program, where JSON would cost more than what it tells.
#pragma once

#include <string>
#include <string_view>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::facts {

/// For unpack_gpu_record() of the same program: not to be kept, nor sent elsewhere.
std::string pack(const GpuRecord& record);
/// Fails with corrupt for bytes that are no record.
Result<GpuRecord> unpack_gpu_record(std::string_view bytes);

}  // namespace gpuwarden::facts
