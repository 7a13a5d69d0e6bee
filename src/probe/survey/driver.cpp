// SPDX-License-Identifier: Apache-2.0
// NVIDIA's kernel driver: what is loaded, what lies on disk, who packaged it; its device files; PCIe bridges.
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "probe/survey/probes.hpp"

namespace gpuwarden::probe {

namespace {

using facts::Environment;
using facts::KernelDriver;
using facts::ModuleFlavour;

constexpr auto kModules = std::to_array<std::string_view>(
    {"nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia_peermem", "nouveau", "amdgpu", "vfio_pci"});

/// A number like 550.54.15 in a text: the first word that is one.
std::optional<std::string> version_in(std::string_view text) {
  for (const auto word : split_words(text)) {
    const bool digits = word.find_first_not_of("0123456789.") == std::string_view::npos;
    if (digits && word.contains('.') && word.size() >= 5 && word.front() != '.' && word.back() != '.')
      return std::string(word);
  }
  return std::nullopt;
}

void read_loaded(const Scene& scene, KernelDriver& driver) {
  const Tree& tree = scene.tree;
  if (const auto version = tree.line("/sys/module/nvidia/version"); version && !version->empty())
    driver.loaded_version = *version;
  if (const auto line = tree.line("/proc/driver/nvidia/version")) {
    if (!driver.loaded_version) driver.loaded_version = version_in(*line);
    driver.flavour = line->contains("Open Kernel Module") ? ModuleFlavour::open : ModuleFlavour::proprietary;
  }
  const std::string modules = tree.read("/proc/modules").value_or("");
  for (const auto line : split(modules, '\n')) {
    const std::string_view name = line.substr(0, line.find(' '));
    if (std::ranges::find(kModules, name) != kModules.end()) driver.loaded_modules.emplace_back(name);
  }
  const std::string parameters = tree.read("/proc/driver/nvidia/params").value_or("");
  // "EnableGpuFirmware: 18"; only what was set by hand to off matters.
  if (parameters.contains("EnableGpuFirmware: 0\n")) driver.parameters.emplace_back("NVreg_EnableGpuFirmware=0");
}

/// "version=550.54.15" between zero bytes, as modules carry it.
std::optional<std::string> modinfo_field(std::string_view module, std::string_view key) {
  const std::string needle = std::string(1, '\0') + std::string(key) + "=";
  std::size_t at = module.find(needle);
  if (at == std::string_view::npos) return std::nullopt;
  at += needle.size();
  return printable(module.substr(at, std::min(module.find('\0', at), at + 200) - at));
}

void set_flavour(std::string_view license, KernelDriver& driver) {
  if (driver.flavour || license.empty()) return;
  driver.flavour =
      license.contains("MIT") || license.contains("GPL") ? ModuleFlavour::open : ModuleFlavour::proprietary;
}

/// The module that the next load would take: modinfo's word, else the file itself where it is not compressed.
void read_on_disk(const Scene& scene, const std::string& kernel, KernelDriver& driver) {
  if (const auto text = scene.run({"modinfo", "nvidia"}, scene.request.deadline)) {
    for (const auto line : split(*text, '\n')) {
      const std::size_t colon = line.find(':');
      if (colon == std::string_view::npos) continue;
      const std::string_view key = line.substr(0, colon);
      const std::string value = printable(trim(line.substr(colon + 1)));
      if (key == "version") driver.on_disk_version = value;
      if (key == "license") set_flavour(value, driver);
      if (key == "signer") driver.signer = value;
    }
    if (driver.on_disk_version && !driver.signer) driver.signer = "";
    return;
  }
  for (const char* place : {"updates/dkms", "updates", "extra", "kernel/drivers/video", "kernel/nvidia", "nvidia"}) {
    const auto module =
        scene.tree.read(fmt::format("/lib/modules/{}/{}/nvidia.ko", kernel, place), std::size_t{128} << 20U);
    if (!module) continue;
    driver.on_disk_version = modinfo_field(*module, "version");
    set_flavour(modinfo_field(*module, "license").value_or(""), driver);
    driver.signer = module->ends_with("~Module signature appended~\n") ? "signed" : "";
    return;
  }
}

void read_modprobe(const Tree& tree, KernelDriver& driver) {
  for (const std::string folder : {"/etc/modprobe.d", "/lib/modprobe.d", "/usr/lib/modprobe.d"}) {
    for (const std::string& name : tree.names(folder)) {
      if (!name.ends_with(".conf")) continue;
      const std::string text = tree.read(folder + "/" + name).value_or("");
      for (const auto line : split(text, '\n')) {
        const auto words = split_words(line);
        if (words.size() >= 2 && words[0] == "blacklist" && (words[1] == "nvidia" || words[1] == "nouveau"))
          driver.blacklisted.emplace_back(words[1]);
        if (words.size() < 3 || words[0] != "options" || words[1] != "nvidia") continue;
        for (std::size_t i = 2; i < words.size(); ++i) {
          if (std::ranges::find(driver.parameters, words[i]) == driver.parameters.end())
            driver.parameters.emplace_back(words[i]);
        }
      }
    }
  }
}

/// /var/lib/dkms/nvidia/550.54.15/6.1.0-28-amd64/x86_64/module: built for that kernel.
void read_dkms(const Tree& tree, KernelDriver& driver) {
  for (const std::string& package : tree.names("/var/lib/dkms")) {
    if (!package.starts_with("nvidia")) continue;
    for (const std::string& version : tree.names("/var/lib/dkms/" + package)) {
      if (version.empty() || version[0] < '0' || version[0] > '9') continue;
      if (driver.dkms_version && *driver.dkms_version > version) continue;
      driver.dkms_version = version;
      driver.dkms_built_for.clear();
      const std::string folder = "/var/lib/dkms/" + package + "/" + version;
      for (const std::string& kernel : tree.names(folder)) {
        if (kernel != "build" && kernel != "source" && tree.is_folder(folder + "/" + kernel))
          driver.dkms_built_for.push_back(kernel);
      }
    }
  }
}

/// /lib/firmware/nvidia/550.54.15/gsp_ga10x.bin.
void read_firmware(const Tree& tree, KernelDriver& driver) {
  for (const std::string& name : tree.names("/lib/firmware/nvidia")) {
    if (!version_in(name)) continue;
    const auto files = tree.names("/lib/firmware/nvidia/" + name);
    if (std::ranges::none_of(files, [](const std::string& file) { return file.starts_with("gsp"); })) continue;
    driver.firmware_version = name;
    if (driver.loaded_version == name) return;
  }
}

/// The stanza of an installed package in dpkg's list.
void read_package(const Tree& tree, KernelDriver& driver) {
  constexpr auto kPackages = std::to_array<std::string_view>(
      {"nvidia-driver", "nvidia-kernel-dkms", "nvidia-open", "cuda-drivers", "nvidia-kernel-open-dkms"});
  const std::string text = tree.read("/var/lib/dpkg/status", std::size_t{64} << 20U).value_or("");
  std::string package;
  bool installed = false;
  for (const auto line : split(text, '\n')) {
    if (line.starts_with("Package: ")) {
      package = line.substr(9);
      installed = false;
    }
    if (line.starts_with("Status: ")) installed = line.ends_with(" installed");
    if (!line.starts_with("Version: ") || !installed) continue;
    const bool exact = std::ranges::find(kPackages, package) != kPackages.end();
    const bool numbered = package.starts_with("nvidia-driver-") && package.find_first_of("0123456789") == 14;
    if (exact || numbered) {
      driver.package = printable(package + " " + std::string(line.substr(9)));
      return;
    }
  }
  const auto log = tree.read("/var/log/nvidia-installer.log", 4096);
  const auto version = log ? version_in(log->substr(0, log->find('\n', log->find("driver version")))) : std::nullopt;
  if (log && log->contains("nvidia-installer log file")) driver.package = "runfile" + (version ? " " + *version : "");
}

std::string owner_of(const struct stat& status) {
  const passwd* user = ::getpwuid(status.st_uid);
  const group* entry = ::getgrgid(status.st_gid);
  return fmt::format("{}:{}", user != nullptr ? user->pw_name : std::to_string(status.st_uid),
                     entry != nullptr ? entry->gr_name : std::to_string(status.st_gid));
}

facts::DeviceNode try_node(const Tree& tree, const std::string& path) {
  facts::DeviceNode node;
  node.path = path;
  struct stat status{};
  node.exists = ::stat(tree.outside(path).c_str(), &status) == 0;
  if (!node.exists) return node;
  node.owner = owner_of(status);
  node.mode = status.st_mode & 07777U;
  if (!tree.is_live()) return node;
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  node.openable = static_cast<bool>(file);
  if (!file) node.problem = std::strerror(errno);  // NOLINT(concurrency-mt-unsafe): the probe has one thread
  return node;
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

}  // namespace

void survey_pci(const Scene& scene, Environment& environment) {
  const Tree& tree = scene.tree;
  facts::Host& host = environment.host;
  const bool present = !tree.names("/sys/class/iommu").empty();
  const std::string command_line = host.kernel_command_line.value_or("");
  if (tree.exists("/sys/class/iommu")) {
    const bool through = command_line.contains("iommu=pt") || command_line.contains("iommu.passthrough=1");
    bool translated = false;
    for (const std::string& group : tree.names("/sys/kernel/iommu_groups")) {
      const auto type = tree.line("/sys/kernel/iommu_groups/" + group + "/type");
      translated = translated || (type && type->starts_with("DMA"));
    }
    host.iommu = present && !through && translated;
  }
  for (const std::string& name : tree.names("/sys/bus/pci/devices")) {
    const std::string folder = "/sys/bus/pci/devices/" + name;
    if (tree.line(folder + "/class").value_or("").substr(0, 6) != "0x0604") continue;
    // The extended configuration space can be read by root alone.
    const auto config = tree.read(folder + "/config", 4096);
    if (config && redirects_peers(*config)) host.acs_bridges.push_back(name);
  }
}

void survey_driver(const Scene& scene, Environment& environment) {
  KernelDriver& driver = environment.driver;
  read_loaded(scene, driver);
  read_on_disk(scene, environment.host.kernel.value_or(""), driver);
  read_modprobe(scene.tree, driver);
  read_dkms(scene.tree, driver);
  read_firmware(scene.tree, driver);
  read_package(scene.tree, driver);
}

void survey_device_nodes(const Scene& scene, Environment& environment) {
  std::vector<std::string> paths{"/dev/nvidiactl", "/dev/nvidia-uvm"};
  bool any = false;
  for (const std::string& name : scene.tree.names("/dev")) {
    const bool numbered = name.starts_with("nvidia") && parse_integer(name.substr(6)).value_or(-1) >= 0;
    if (numbered) paths.push_back("/dev/" + name);
    any = any || name.starts_with("nvidia");
  }
  // Without a driver their absence is no news.
  if (!any && !environment.driver.loaded_version) return;
  for (const std::string& path : paths) environment.device_nodes.push_back(try_node(scene.tree, path));
}

}  // namespace gpuwarden::probe
