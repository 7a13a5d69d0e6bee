// SPDX-License-Identifier: Apache-2.0
// Network interfaces, and adapters for InfiniBand and RoCE, from the kernel's trees.
#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "probe/survey/probes.hpp"

namespace gpuwarden::probe {

namespace {

using facts::NetworkInterface;
using facts::RdmaAdapter;

/// The interfaces of the IPv4 default route: lines "eth0 00000000 GATEWAY ..." (Iface, Destination), mask 00000000.
std::vector<std::string> default_routes(const Tree& tree) {
  constexpr std::size_t kMask = 7;
  std::vector<std::string> names;
  const std::string table = tree.read("/proc/net/route").value_or("");
  for (const auto line : split(table, '\n')) {
    const auto words = split_words(line);
    if (words.size() > kMask && words[1] == "00000000" && words[kMask] == "00000000") names.emplace_back(words[0]);
  }
  return names;
}

void read_ports(const Tree& tree, const std::string& folder, RdmaAdapter& adapter) {
  for (const std::string& port : tree.names(folder + "/ports")) {
    const std::string path = fmt::format("{}/ports/{}", folder, port);
    // "4: ACTIVE", "1: DOWN"; "InfiniBand"; "200 Gb/sec (4X HDR)".
    const bool active = tree.line(path + "/state").value_or("").contains("ACTIVE");
    if (adapter.active && !active) continue;
    adapter.active = active;
    adapter.link_layer = printable(tree.line(path + "/link_layer").value_or(""));
    const std::string rate = tree.line(path + "/rate").value_or("");
    const auto gigabits = parse_number(std::string_view(rate).substr(0, rate.find(' ')));
    if (gigabits && *gigabits > 0 && *gigabits < 1e6) adapter.gigabits = static_cast<int>(*gigabits);
  }
}

}  // namespace

void survey_network(const Scene& scene, facts::Environment& environment) {
  const Tree& tree = scene.tree;
  const auto routes = default_routes(tree);
  for (const std::string& name : tree.names("/sys/class/net")) {
    const std::string folder = "/sys/class/net/" + name;
    if (name == "lo" || !tree.exists(folder + "/operstate")) continue;  // "bonding_masters" is a file
    NetworkInterface interface;
    interface.name = printable(name);
    const std::string state = tree.line(folder + "/operstate").value_or("");
    interface.up = state == "up" || state == "unknown";
    interface.physical = tree.exists(folder + "/device");
    interface.default_route = std::ranges::find(routes, name) != routes.end();
    // -1 and errors where there is no link.
    const auto speed = parse_integer(tree.line(folder + "/speed").value_or(""));
    if (speed && *speed > 0 && *speed < 10'000'000) interface.megabits = static_cast<int>(*speed);
    environment.interfaces.push_back(std::move(interface));
  }
  for (const std::string& name : tree.names("/sys/class/infiniband")) {
    RdmaAdapter adapter;
    adapter.name = printable(name);
    read_ports(tree, "/sys/class/infiniband/" + name, adapter);
    environment.rdma_adapters.push_back(std::move(adapter));
  }
}

}  // namespace gpuwarden::probe
