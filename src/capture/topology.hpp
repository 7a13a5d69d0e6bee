// SPDX-License-Identifier: Apache-2.0
// nvidia-smi topo -m and topo -p2p: matrices whose columns may have run together.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capture/lines.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::capture {

struct TopologyRow {
  std::string name;                   ///< "GPU0", "NIC3", "mlx5_0"
  std::vector<std::string> cells;     ///< one for each device column
  std::vector<std::string> affinity;  ///< the words behind them
  std::string line;
};

struct Topology {
  std::vector<std::string> devices;  ///< column names
  std::vector<std::string> tail;     ///< "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"
  std::vector<TopologyRow> rows;
  std::vector<std::pair<std::string, std::string>> nic_names;  ///< NIC Legend: "NIC0" is "mlx5_0"
  std::string header;
  bool is_p2p = false;  ///< cells are OK, CNS, ... rather than NV18, PIX, ...

  std::size_t gpu_count() const;
  /// What stands where two devices meet, in `row`'s row; nothing where there is none.
  std::optional<std::string> cell(std::string_view row, std::string_view column) const;
};

bool is_topology_header(std::span<const Line> lines);
Topology read_topology(std::span<const Line> lines, std::size_t& end);
/// Links between GPUs (with GPUs that have only an index) and distances to NICs.
facts::Snapshot snapshot_of_topology(const Topology& topology);

}  // namespace gpuwarden::capture
