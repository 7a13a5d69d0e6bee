// SPDX-License-Identifier: Apache-2.0
#include "probe/nics.hpp"

#include <algorithm>
#include <string>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::probe {
namespace {

namespace fs = std::filesystem;

/// A PCI device's place: its path from the host bridge ("pci0000:16") on.
struct Place {
  fs::path path;
  int node = -1;
};

std::optional<Place> place_of(const fs::path& device) {
  std::error_code error;
  const fs::path real = fs::canonical(device, error);
  if (error) return std::nullopt;
  Place place;
  bool inside = false;
  for (const fs::path& part : real) {
    inside = inside || part.string().starts_with("pci");
    if (inside) place.path /= part;
  }
  if (place.path.empty()) return std::nullopt;
  place.node = static_cast<int>(parse_integer(read_line(real / "numa_node").value_or("")).value_or(-1));
  return place;
}

/// "00000000:17:00.0" as the kernel writes it: "0000:17:00.0".
std::string kernel_bus_id(const std::string& bus_id) {
  const std::string lower = to_lower(bus_id);
  return lower.starts_with("0000") && lower.size() == 16 ? lower.substr(4) : lower;
}

}  // namespace

facts::LinkLevel level_between(const fs::path& a, int node_a, const fs::path& b, int node_b) {
  const std::vector<fs::path> one(a.begin(), a.end());
  const std::vector<fs::path> two(b.begin(), b.end());
  const auto [end_one, end_two] = std::ranges::mismatch(one, two);
  const auto shared = end_one - one.begin();
  if (shared == 0) {
    // Under different host bridges: the node tells whether the way leads over the interconnect of the sockets.
    const bool same_node = node_a >= 0 && node_a == node_b;
    return same_node ? facts::LinkLevel::node : facts::LinkLevel::system;
  }
  if (shared == 1) return facts::LinkLevel::host_bridge;
  // Below a common bridge: a switch has one upstream and several downstream ports, so devices at its downstream ports
  // have two bridges between them and the common one.
  const auto bridges = std::max<std::ptrdiff_t>(one.end() - end_one, two.end() - end_two) - 1;
  return bridges <= 1 ? facts::LinkLevel::single_switch : facts::LinkLevel::multiple_switches;
}

std::vector<facts::Nic> read_nics(const fs::path& sys_root, const std::vector<facts::GpuRecord>& gpus) {
  std::vector<facts::Nic> nics;
  for (const fs::path& entry : list_directory(sys_root / "class/infiniband")) {
    const auto here = place_of(entry / "device");
    if (!here) continue;
    facts::Nic nic;
    nic.name = printable(entry.filename().string());
    nic.pci_bus_id = printable(here->path.filename().string());
    if (here->node >= 0) nic.numa_node = here->node;
    for (const facts::GpuRecord& record : gpus) {
      if (record.gpu.pci_bus_id.empty()) continue;
      const auto there = place_of(sys_root / "bus/pci/devices" / kernel_bus_id(record.gpu.pci_bus_id));
      if (there)
        nic.distances.push_back({record.gpu.index, level_between(here->path, here->node, there->path, there->node)});
    }
    nics.push_back(std::move(nic));
  }
  return nics;
}

}  // namespace gpuwarden::probe
