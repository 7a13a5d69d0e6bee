// SPDX-License-Identifier: Apache-2.0
// A logical CPU and where it is in the machine: what binding a rank to CPUs near its GPU needs; lists of CPUs.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace gpuwarden::facts {

/// What the kernel tells of a logical CPU; what it does not tell is empty.
struct Cpu {
  unsigned number = 0;           ///< N of /sys/devices/system/cpu/cpuN
  std::optional<int> core;       ///< the same for all hardware threads of a core, and for no other CPU
  std::optional<int> package;    ///< the socket
  std::optional<int> numa_node;  ///< whose memory is near
  std::optional<int> cache;      ///< the same for all CPUs under one last-level cache, and for no other

  bool operator==(const Cpu&) const = default;
};

/// The numbers of a CPU list as the kernel writes it ("0-31,64-95"), ascending, each once; empty where the text is no
/// such list.
std::vector<unsigned> cpu_numbers(std::string_view list);

}  // namespace gpuwarden::facts
