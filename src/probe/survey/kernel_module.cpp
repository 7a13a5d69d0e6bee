// SPDX-License-Identifier: Apache-2.0
// NVIDIA's kernel module as it lies on disk: modinfo's word, else the file's own.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "probe/survey/probes.hpp"

namespace gpuwarden::probe {

namespace {

using facts::KernelDriver;
using facts::ModuleFlavour;

/// A module with its debugging symbols stays below this.
constexpr std::size_t kMostBytes = std::size_t{192} << 20U;

struct Compression {
  std::string_view suffix;
  const char* program;
};
constexpr auto kCompressions = std::to_array<Compression>({{".xz", "xz"}, {".zst", "zstd"}, {".gz", "gzip"}});

/// "NVIDIA" or "Dual MIT/GPL" (source: NVIDIA's driver installation guide, kernel modules).
void set_flavour(std::string_view license, KernelDriver& driver) {
  if (driver.flavour || license.empty()) return;
  driver.flavour =
      license.contains("MIT") || license.contains("GPL") ? ModuleFlavour::open : ModuleFlavour::proprietary;
}

/// "nvidia", "nvidia-current" (Debian), "nvidia-current-open"; not its companions.
bool is_main_module(std::string_view name) {
  const std::size_t end = name.find(".ko");
  const std::string_view stem = name.substr(0, end);
  if (end == std::string_view::npos || (stem != "nvidia" && !stem.starts_with("nvidia-"))) return false;
  const auto companions = std::to_array<std::string_view>({"uvm", "drm", "modeset", "peermem", "vgpu-vfio", "fs"});
  return std::ranges::none_of(companions, [&](std::string_view end_of) { return stem.ends_with(end_of); });
}

/// In the order in which depmod prefers them: updates before the kernel's own folders.
std::optional<std::string> find_module(const Tree& tree, const std::string& kernel) {
  const std::string base = "/lib/modules/" + kernel + "/";
  std::vector<std::string> folders;
  for (const char* folder : {"updates/dkms", "updates", "extra", "extra/nvidia", "weak-updates/nvidia", "nvidia",
                             "kernel/drivers/video", "kernel/drivers/char/drm"})
    folders.push_back(base + folder);
  // Ubuntu's signed modules: kernel/nvidia-550srv/nvidia.ko.
  for (const std::string& name : tree.names(base + "kernel")) {
    if (name.starts_with("nvidia")) folders.push_back(fmt::format("{}kernel/{}", base, name));
  }
  for (const std::string& folder : folders) {
    for (const std::string& name : tree.names(folder)) {
      if (is_main_module(name)) return fmt::format("{}/{}", folder, name);
    }
  }
  return std::nullopt;
}

bool read_modinfo(const Scene& scene, facts::Environment& environment) {
  KernelDriver& driver = environment.driver;
  const auto text = scene.run({.argv = {"modinfo", "nvidia"}, .deadline = scene.request.deadline});
  if (!text) {
    if (text.error().code == ErrorCode::timed_out) note_failure(environment, "modinfo nvidia", text.error());
    return false;
  }
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
  return driver.on_disk_version.has_value();
}

constexpr std::string_view kSignature = "~Module signature appended~\n";

/// What the module says of itself, gathered from its bytes in the order of the file.
struct ModuleFacts {
  std::optional<std::string> version;
  std::optional<std::string> license;
  bool is_signed = false;

  void look(std::string_view bytes) {
    if (!version) version = modinfo_field(bytes, "version");
    if (!license) license = modinfo_field(bytes, "license");
    is_signed = bytes.ends_with(kSignature);
  }
};

/// Reads the file, or what the program that compressed it makes of it.
bool read_file(const Scene& scene, const std::string& path, ModuleFacts& module, facts::Environment& environment) {
  constexpr std::size_t kLongestField = 512;
  const auto* const found = std::ranges::find_if(
      kCompressions, [&](const Compression& compression) { return path.ends_with(compression.suffix); });
  if (found == kCompressions.end()) {
    const bool readable = scene.tree.scan(path, kLongestField, [&](std::string_view bytes) {
      module.look(bytes);
      return true;  // the signature stands at the end
    });
    if (!readable) note(environment, "kernel module on disk", path + " cannot be read");
    return readable;
  }
  const auto real = scene.tree.resolve(path);
  const auto bytes = scene.run({.argv = {found->program, "-dc", real ? real->string() : path},
                                .deadline = scene.request.deadline,
                                .output_cap = kMostBytes});
  if (bytes)
    module.look(*bytes);
  else
    note(environment, "kernel module on disk",
         fmt::format("{} is compressed; {}: {}", path, found->program, bytes.error().message));
  return bytes.has_value();
}

}  // namespace

void read_module_on_disk(const Scene& scene, facts::Environment& environment) {
  if (read_modinfo(scene, environment)) return;
  const auto path = find_module(scene.tree, environment.host.kernel.value_or(""));
  ModuleFacts module;
  if (!path || !read_file(scene, *path, module, environment) || !module.version) return;
  environment.driver.on_disk_version = module.version;
  environment.driver.signer = module.is_signed ? "signed" : "";
  set_flavour(module.license.value_or(""), environment.driver);
}

}  // namespace gpuwarden::probe
