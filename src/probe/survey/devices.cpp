// SPDX-License-Identifier: Apache-2.0
// Device files of NVIDIA's driver, tried by opening them; the IOMMU and the PCIe bridges above GPUs.
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/base/users.hpp"
#include "probe/survey/probes.hpp"

namespace gpuwarden::probe {

namespace {

using facts::DeviceNode;
using facts::Environment;

constexpr const char* kPci = "/sys/bus/pci/devices/";

std::string owner_of(const struct stat& status) {
  group entry{};
  group* found = nullptr;
  std::array<char, 16384> buffer{};
  const bool named = ::getgrgid_r(status.st_gid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr;
  return fmt::format("{}:{}", name_of_user(status.st_uid),
                     named ? printable(found->gr_name) : std::to_string(status.st_gid));
}

/// Minor numbers of GPUs that sleep: opening /dev/nvidiaN would wake them.
std::vector<std::string> sleeping_minors(const Tree& tree) {
  constexpr std::string_view kLabel = "Device Minor:";
  std::vector<std::string> minors;
  for (const std::string& address : tree.names("/proc/driver/nvidia/gpus")) {
    if (tree.line(kPci + address + "/power/runtime_status") != "suspended") continue;
    const std::string text = tree.read("/proc/driver/nvidia/gpus/" + address + "/information", 4096).value_or("");
    const std::size_t at = text.find(kLabel);
    if (at == std::string::npos) continue;
    const std::string_view rest = std::string_view(text).substr(at + kLabel.size());
    minors.emplace_back(trim(rest.substr(0, rest.find('\n'))));
  }
  return minors;
}

/// Of these a plain user needs none: their modes are strict on purpose.
bool is_for_administrators(std::string_view path) {
  return path.contains("/nvidia-caps/") || path.contains("nvswitch");
}

/// "Permission denied" is told by the file's mode, "Operation not permitted" by the cgroup, and only to who opens it.
void try_to_open(const std::string& path, bool asleep, DeviceNode& node) {
  const auto say = [&] {
    node.openable = false;
    node.refusal = errno == EACCES  ? DeviceNode::Refusal::file_mode
                   : errno == EPERM ? DeviceNode::Refusal::cgroup
                                    : DeviceNode::Refusal::other;
    node.problem = std::strerror(errno);  // NOLINT(concurrency-mt-unsafe): the probe has one thread
  };
  if (::faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK, AT_EACCESS) != 0) return say();
  if (asleep) return;
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!file) return say();
  node.openable = true;
}

DeviceNode look_at_node(const Tree& tree, const std::string& path, bool asleep) {
  DeviceNode node;
  node.path = path;
  struct stat status{};
  const auto real = tree.resolve(path);
  node.exists = real && ::stat(tree.outside(*real).c_str(), &status) == 0;
  if (!node.exists) return node;
  node.owner = owner_of(status);
  node.mode = status.st_mode & 07777U;
  if (tree.is_live() && !is_for_administrators(path)) try_to_open(path, asleep, node);
  return node;
}

/// The number of /dev/nvidia3; empty for nvidiactl and others.
std::string number_of(std::string_view name) {
  if (!name.starts_with("nvidia")) return "";
  const std::string_view number = name.substr(6);
  return parse_integer(number).value_or(-1) >= 0 ? std::string(number) : "";
}

/// The ACS capability (id 0x000D) among the extended capabilities, and whether it redirects requests: bits 2 and 3 of
/// its control register (source: PCI Express base specification, ACS extended capability).
bool redirects_peers(std::string_view config) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(config[at]); };
  std::size_t at = 0x100;
  for (int hops = 0; hops < 64 && at != 0 && at + 8 <= config.size(); ++hops) {
    const unsigned id = byte(at) | static_cast<unsigned>(byte(at + 1)) << 8U;
    if (id == 0x000D) return (byte(at + 6) & 0x0CU) != 0;
    at = static_cast<std::size_t>(byte(at + 2) >> 4U) | static_cast<std::size_t>(byte(at + 3)) << 4U;
  }
  return false;
}

/// PCI addresses of NVIDIA's display and 3D controllers.
std::vector<std::string> gpus_on_the_bus(const Tree& tree) {
  std::vector<std::string> gpus;
  for (const std::string& name : tree.names("/sys/bus/pci/devices")) {
    const std::string folder = kPci + name;
    if (tree.line(folder + "/vendor") == "0x10de" && tree.line(folder + "/class").value_or("").starts_with("0x03"))
      gpus.push_back(name);
  }
  return gpus;
}

/// The bridges on the way from the root complex to a device: its real path names them.
std::vector<std::string> bridges_above(const Tree& tree, const std::string& device) {
  std::vector<std::string> bridges;
  const auto real = tree.resolve(kPci + device);
  if (!real) return bridges;
  for (auto folder = real->parent_path(); folder.has_filename() && folder != "/"; folder = folder.parent_path()) {
    if (tree.line(folder / "class").value_or("").starts_with("0x0604")) bridges.push_back(folder.filename());
  }
  return bridges;
}

void read_acs(const Tree& tree, const std::vector<std::string>& gpus, Environment& environment) {
  constexpr std::size_t kPlainConfiguration = 256;  // what others than root may read
  std::vector<std::string> seen;
  for (const std::string& gpu : gpus) {
    for (const std::string& bridge : bridges_above(tree, gpu)) {
      if (std::ranges::find(seen, bridge) != seen.end()) continue;
      seen.push_back(bridge);
      const std::string config = tree.read(kPci + bridge + "/config", 4096).value_or("");
      if (config.size() <= kPlainConfiguration) note(environment, "ACS of PCIe bridges", "not permitted");
      if (redirects_peers(config)) environment.host.acs_bridges.push_back(bridge);
    }
  }
}

/// Whether DMA of the GPUs (of any device, where there are none) goes through the IOMMU's tables.
void read_iommu(const Tree& tree, const std::vector<std::string>& gpus, facts::Host& host) {
  if (!tree.exists("/sys/class/iommu")) return;
  const auto translates = [&](const std::string& group) {
    return tree.line(group + "/type").value_or("").starts_with("DMA");
  };
  bool translated = false;
  for (const std::string& gpu : gpus) translated = translated || translates(kPci + gpu + "/iommu_group");
  if (gpus.empty()) {
    for (const std::string& group : tree.names("/sys/kernel/iommu_groups"))
      translated = translated || translates("/sys/kernel/iommu_groups/" + group);
  }
  host.iommu = translated && !tree.names("/sys/class/iommu").empty();
}

}  // namespace

void survey_pci(const Scene& scene, Environment& environment) {
  const auto gpus = gpus_on_the_bus(scene.tree);
  read_iommu(scene.tree, gpus, environment.host);
  read_acs(scene.tree, gpus, environment);
}

void survey_device_nodes(const Scene& scene, Environment& environment) {
  const Tree& tree = scene.tree;
  std::vector<std::string> paths{"/dev/nvidiactl", "/dev/nvidia-uvm"};
  bool any = false;
  for (const std::string& name : tree.names("/dev")) {
    any = any || name.starts_with("nvidia");
    const bool other = name == "nvidia-modeset" || name == "nvidia-uvm-tools" || name == "nvidia-nvswitchctl" ||
                       name.starts_with("nvidia-nvswitch") || name == "dxg";
    if (!number_of(name).empty() || other) paths.push_back("/dev/" + name);
  }
  for (const std::string& name : tree.names("/dev/nvidia-caps")) paths.push_back("/dev/nvidia-caps/" + name);
  const bool wsl = environment.host.wsl.value_or(0) != 0;
  // Without a driver their absence is no news; in WSL there are none but /dev/dxg.
  if (!any && !environment.driver.loaded_version && !wsl) return;
  if (!any) std::erase_if(paths, [&](const std::string& path) { return wsl && path != "/dev/dxg"; });
  const auto asleep = sleeping_minors(tree);
  for (const std::string& path : paths) {
    const std::string number = number_of(path.substr(5));
    const bool sleeps = !number.empty() && std::ranges::find(asleep, number) != asleep.end();
    environment.device_nodes.push_back(look_at_node(tree, path, sleeps));
  }
}

}  // namespace gpuwarden::probe
