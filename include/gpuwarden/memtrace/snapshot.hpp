// SPDX-License-Identifier: Apache-2.0
// Snapshots of a pool in the shape of PyTorch's, which its viewer (pytorch.org/memory_viz) and its tools read. The
// viewer opens pickles only. Source of the keys: torch/csrc/cuda/memory_snapshot.cpp and torch/utils/viz/MemoryViz.js.
//
//   snapshot_json({.segments = pool.layout()});
#pragma once

#include <string>
#include <string_view>

#include "gpuwarden/memtrace/record.hpp"

namespace gpuwarden::memtrace {

/// Segments with their blocks, and the events as history of device 0. Pages that are side by side are one segment, as
/// expandable segments are; mapping and unmapping them are its history.
std::string snapshot_json(const Recording& recording);
/// The same as a pickle of protocol 4 that holds plain data only.
std::string snapshot_pickle(const Recording& recording);

/// Fails with invalid_argument where the ending of a file's name is none of .pickle, .pkl and .json.
Result<void> check_snapshot_name(std::string_view file);
/// The snapshot that such a file is to hold; nothing is written.
std::string snapshot_for(std::string_view file, const Recording& recording);

}  // namespace gpuwarden::memtrace
