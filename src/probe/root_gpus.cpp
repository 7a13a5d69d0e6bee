// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/probe/root_gpus.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "probe/sysfs.hpp"

namespace gpuwarden::probe {
namespace {

std::string cause_of(const PciGpu& gpu) {
  if (!gpu.driver) return "no driver loaded";
  return fmt::format("the kernel driver {} serves it; CUDA needs NVIDIA's own", *gpu.driver);
}

/// The tree of /proc/modules may be missing where that of /sys is there.
void note_module(const std::string& driver, facts::Snapshot& snapshot) {
  if (!snapshot.environment || driver != "nouveau") return;
  auto& modules = snapshot.environment->driver.loaded_modules;
  if (std::ranges::find(modules, driver) == modules.end()) modules.push_back(driver);
}

}  // namespace

void list_root_gpus(const std::filesystem::path& root, facts::Snapshot& snapshot) {
  auto gpus = scan_pci(root / "sys");
  complete_from_driver(root / "proc", gpus);
  const auto module = kernel_module_version(root / "proc");
  if (module) snapshot.kernel_module_version = module;
  for (const PciGpu& gpu : gpus) {
    const GpuIndex index{static_cast<std::uint32_t>(snapshot.gpus.size())};
    const bool served = gpu.driver ? *gpu.driver == "nvidia" : module.has_value();
    snapshot.gpus.push_back(served ? record_of(gpu, index, facts::GpuState::available, "", "")
                                   : record_of(gpu, index, facts::GpuState::disabled, cause_of(gpu), ""));
    if (gpu.driver) note_module(*gpu.driver, snapshot);
  }
  if (!gpus.empty()) snapshot.source = "sysfs";
}

}  // namespace gpuwarden::probe
