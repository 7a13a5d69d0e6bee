// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::memtrace {

/// Whether a pool refused to allocate for want of memory: there was none left, or the device never had so much.
/// Requests of traces have at least one byte and no alignment, so that nothing else about them is invalid.
inline bool is_out_of_memory(const Error& error) {
  return error.code == ErrorCode::unsatisfied || error.code == ErrorCode::invalid_argument;
}

}  // namespace gpuwarden::memtrace
