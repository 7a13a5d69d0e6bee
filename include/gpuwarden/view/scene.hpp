// SPDX-License-Identifier: Apache-2.0
// What there is to see at one moment, and the rows that follow from it under a state.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/cluster/node.hpp"
#include "gpuwarden/view/host_processes.hpp"
#include "gpuwarden/view/state.hpp"
#include "gpuwarden/view/trail.hpp"

namespace gpuwarden::view {

struct Scene {
  std::vector<cluster::Node> nodes;
  const Trail* trail = nullptr;  ///< nullptr: there are no graphs
  std::int64_t slot = 0;         ///< the newest one that is shown
  std::chrono::milliseconds interval = std::chrono::seconds(1);
  Clock::WallTime now{};
  bool captured = false;                            ///< facts of a file, which do not grow old
  std::optional<std::chrono::milliseconds> behind;  ///< paused: how long ago this was
  HostTable host;
};

/// A GPU to show. Pointers are into the scene.
struct GpuRow {
  const cluster::Node* node = nullptr;
  const facts::GpuRecord* record = nullptr;  ///< nullptr: the node has not told of any GPU
  const facts::Lease* lease = nullptr;
  const facts::Health* health = nullptr;
  const telemetry::Alert* alert = nullptr;  ///< the worst that nobody has acknowledged
  std::string key;
  std::string label;  ///< "3", or "n12:3" where there are several nodes
};

/// A process to show; one on several GPUs has several.
struct ProcessRow {
  std::size_t gpu = 0;                         ///< place in the list of GPUs
  const facts::GpuProcess* process = nullptr;  ///< nullptr: memory that no listed process holds
  Bytes memory_left;                           ///< how much of that
  const HostProcess* host = nullptr;
  int depth = 0;  ///< below its ancestors, in a tree
  ProcessId id;
};

/// What is shown, in order, under the state's filter and sorting.
struct Rows {
  std::vector<GpuRow> all_gpus;   ///< of every node, unfiltered, for sums and processes
  std::vector<std::size_t> gpus;  ///< those that are shown: places in all_gpus
  std::vector<ProcessRow> processes;
};
Rows rows_of(const ViewState& state, const Scene& scene);

/// The place of the selected GPU among those shown; 0 where it is not among them.
std::size_t selected_gpu(const ViewState& state, const Rows& rows);
/// The same of the process; nothing where there are none.
std::optional<std::size_t> selected_process(const ViewState& state, const Rows& rows);

/// A column by which processes are sorted.
struct SortColumn {
  SortBy by = SortBy::gpu;
  char letter = ' ';  ///< behind `o`
  const char* title = "";
  bool descending = false;  ///< the way that is wanted first
};
const std::vector<SortColumn>& sort_columns();

/// How long a node has been silent beyond what its interval explains; nothing while it is not.
std::optional<std::chrono::seconds> staleness(const cluster::Node& node, const Scene& scene);

}  // namespace gpuwarden::view
