// SPDX-License-Identifier: Apache-2.0
// NVIDIA's kernel driver: what is loaded, how it is configured, who packaged it.
#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/version.hpp"
#include "probe/survey/probes.hpp"

namespace gpuwarden::probe {

namespace {

using facts::Environment;
using facts::KernelDriver;
using facts::ModuleFlavour;

constexpr auto kModules = std::to_array<std::string_view>(
    {"nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia_peermem", "nouveau", "amdgpu", "vfio_pci"});

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

void add_once(std::vector<std::string>& list, std::string_view entry) {
  if (std::ranges::find(list, entry) == list.end()) list.push_back(printable(entry));
}

/// "nvidia", and what Debian calls it.
bool is_nvidia(std::string_view module) {
  return module == "nvidia" || module.starts_with("nvidia-current") || module.starts_with("nvidia-tesla");
}

void read_modprobe_line(std::string_view line, KernelDriver& driver) {
  const auto words = split_words(line.substr(0, line.find('#')));
  if (words.size() >= 2 && words[0] == "blacklist" && (is_nvidia(words[1]) || words[1] == "nouveau"))
    add_once(driver.blacklisted, words[1]);
  if (words.size() < 3) return;
  const bool nothing = words[2] == "/bin/false" || words[2] == "/bin/true" || words[2] == "/usr/bin/false";
  if (words[0] == "install" && nothing && (is_nvidia(words[1]) || words[1] == "nouveau"))
    add_once(driver.blacklisted, words[1]);
  if (words[0] != "options" || !is_nvidia(words[1])) return;
  for (std::size_t i = 2; i < words.size(); ++i) add_once(driver.parameters, words[i]);
}

/// A file in /etc hides one of the same name in /run and /lib (source: modprobe.d(5)).
void read_modprobe(const Tree& tree, KernelDriver& driver) {
  std::vector<std::string> seen;
  for (const std::string folder :
       {"/etc/modprobe.d", "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/lib/modprobe.d", "/usr/lib/modprobe.d"}) {
    for (const std::string& name : tree.names(folder)) {
      if (!name.ends_with(".conf") || std::ranges::find(seen, name) != seen.end()) continue;
      seen.push_back(name);
      const std::string text = tree.read(folder + "/" + name).value_or("");
      for (const auto line : split(text, '\n')) read_modprobe_line(line, driver);
    }
  }
}

/// What keeps modules away on the kernel's command line: "modprobe.blacklist=nouveau,nvidia", "nouveau.modeset=0".
void read_command_line(std::string_view command_line, KernelDriver& driver) {
  for (const auto word : split_words(command_line)) {
    if (word == "nouveau.modeset=0") add_once(driver.blacklisted, "nouveau");
    const bool list = word.starts_with("modprobe.blacklist=") || word.starts_with("module_blacklist=") ||
                      word.starts_with("rd.driver.blacklist=");
    if (!list) continue;
    for (const auto name : split(word.substr(word.find('=') + 1), ','))
      if (is_nvidia(name) || name == "nouveau") add_once(driver.blacklisted, name);
  }
}

bool is_newer(std::string_view version, const std::optional<std::string>& than) {
  const auto left = knowledge::Version::parse(version);
  const auto right = than ? knowledge::Version::parse(*than) : std::nullopt;
  return left && (!right || *right < *left);
}

/// /var/lib/dkms/nvidia/550.54.15/6.1.0-28-amd64/x86_64/module: built for that kernel.
std::vector<std::string> kernels_built_for(const Tree& tree, const std::string& folder) {
  std::vector<std::string> kernels;
  for (const std::string& kernel : tree.names(folder)) {
    if (kernel == "build" || kernel == "source") continue;
    const std::string of_kernel = folder + "/" + kernel;
    const bool built = std::ranges::any_of(tree.names(of_kernel), [&](const std::string& machine) {
      return tree.is_folder(of_kernel + "/" + machine + "/module");
    });
    if (built) kernels.push_back(kernel);
  }
  return kernels;
}

void read_dkms(const Tree& tree, KernelDriver& driver) {
  for (const std::string& package : tree.names("/var/lib/dkms")) {
    if (!package.starts_with("nvidia") || package.contains("fs")) continue;
    const std::string folder = "/var/lib/dkms/" + package;
    for (const std::string& version : tree.names(folder)) {
      if (version.empty() || version[0] < '0' || version[0] > '9' || !is_newer(version, driver.dkms_version)) continue;
      driver.dkms_version = version;
      driver.dkms_built_for = kernels_built_for(tree, folder + "/" + version);
    }
  }
}

/// /lib/firmware/nvidia/550.54.15/gsp_ga10x.bin.
void read_firmware(const Tree& tree, KernelDriver& driver) {
  for (const std::string& name : tree.names("/lib/firmware/nvidia")) {
    if (!version_in(name)) continue;
    const auto files = tree.names("/lib/firmware/nvidia/" + name);
    if (std::ranges::none_of(files, [](const std::string& file) { return file.starts_with("gsp"); })) continue;
    if (driver.loaded_version == name) {
      driver.firmware_version = name;
      return;
    }
    if (is_newer(name, driver.firmware_version)) driver.firmware_version = name;
  }
}

/// Who put the driver there: a package, or NVIDIA's installer, whose log tells its version.
void read_package(const Scene& scene, KernelDriver& driver) {
  const auto package =
      scene.package({"nvidia-driver", "nvidia-driver-3*", "nvidia-driver-4*", "nvidia-driver-5*", "nvidia-driver-6*",
                     "nvidia-headless-*", "nvidia-open", "cuda-drivers", "nvidia-kernel-dkms",
                     "nvidia-kernel-open-dkms", "kmod-nvidia-latest-dkms", "kmod-nvidia-open-dkms", "akmod-nvidia",
                     "nvidia-driver-G06*", "nvidia-open-driver-G06*", "nvidia-utils"});
  if (package) {
    driver.package = package->name + " " + package->version;
    return;
  }
  const auto log = scene.tree.read("/var/log/nvidia-installer.log", 16384);
  if (!log || !log->contains("nvidia-installer log file")) return;
  const std::size_t at = log->find("installer version:");
  const auto version = at == std::string::npos ? std::nullopt : version_in(log->substr(at, log->find('\n', at) - at));
  driver.package = "runfile" + (version ? " " + *version : "");
}

}  // namespace

void survey_driver(const Scene& scene, Environment& environment) {
  KernelDriver& driver = environment.driver;
  read_loaded(scene, driver);
  read_module_on_disk(scene, environment);
  read_modprobe(scene.tree, driver);
  read_command_line(environment.host.kernel_command_line.value_or(""), driver);
  read_dkms(scene.tree, driver);
  read_firmware(scene.tree, driver);
  read_package(scene, driver);
}

}  // namespace gpuwarden::probe
