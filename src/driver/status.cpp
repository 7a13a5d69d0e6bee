// SPDX-License-Identifier: Apache-2.0
// The driver as it is, and what is wrong with it.
#include <fmt/format.h>

#include <algorithm>

#include "driver/words.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/driver/driver.hpp"

namespace gpuwarden::driver {

namespace {

using Strings = std::vector<std::string>;

bool differ(const std::optional<std::string>& a, const std::optional<std::string>& b) { return a && b && *a != *b; }

/// Loaded module, module on disk, library, firmware and fabric manager must be of one version.
void judge_versions(const DriverStatus& status, Strings& problems) {
  if (differ(status.loaded, status.on_disk))
    problems.push_back(fmt::format("driver {} is loaded, {} is on disk: reload the modules or reboot", *status.loaded,
                                   *status.on_disk));
  if (differ(status.loaded, status.library))
    problems.push_back(fmt::format("the libraries are of {}, the loaded module of {}: NVML refuses to work",
                                   *status.library, *status.loaded));
  const auto base = status.loaded ? status.loaded : status.on_disk;
  if (differ(base, status.firmware))
    problems.push_back(fmt::format("the GSP firmware on disk is of {}, the driver of {}", *status.firmware, *base));
  if (differ(base, status.fabric_manager))
    problems.push_back(fmt::format("the fabric manager is of {}, the driver of {}: they must be equal",
                                   *status.fabric_manager, *base));
  if (status.on_disk && !status.loaded) problems.emplace_back("the driver is installed, but not loaded");
}

void judge_modules(const DriverFacts& facts, const DriverStatus& status, Strings& problems) {
  const auto& environment = environment_of(facts);
  const auto& loaded = environment.driver.loaded_modules;
  if (std::ranges::find(loaded, "nouveau") != loaded.end())
    problems.emplace_back("nouveau is loaded and keeps NVIDIA's driver from the GPUs");
  if (!status.dkms_missing_for.empty())
    problems.push_back(fmt::format("DKMS has no module for {}: after a boot into it there is no driver",
                                   join(status.dkms_missing_for, ", ")));
  if (environment.host.secure_boot == true && environment.driver.signer == "")
    problems.emplace_back("Secure Boot is on and the module is not signed");
  if (facts.nvswitch == true && !status.fabric_manager)
    problems.emplace_back("the machine has NVSwitches, but no fabric manager is installed");
}

void judge_packages(const DriverFacts& facts, Strings& problems) {
  Strings broken;
  for (const auto& package : facts.packages) {
    if (package.broken) broken.push_back(package.name);
  }
  if (!broken.empty()) problems.push_back(fmt::format("half installed: {} (dpkg --configure -a)", join(broken, ", ")));
}

}  // namespace

DriverStatus driver_status(const DriverFacts& facts, const knowledge::Knowledge& knowledge,
                           std::chrono::system_clock::time_point now) {
  const auto& environment = environment_of(facts);
  const auto& driver = environment.driver;
  DriverStatus status;
  status.loaded = driver.loaded_version ? driver.loaded_version : facts.snapshot.kernel_module_version;
  if (!status.loaded) status.loaded = facts.snapshot.driver_version;
  status.on_disk = driver.on_disk_version;
  status.library = driver.library_version;
  status.firmware = driver.firmware_version;
  status.flavour = driver.flavour;
  status.package = driver.package;
  status.packaging = facts.packaging;
  status.secure_boot = environment.host.secure_boot;
  status.dkms_built_for = driver.dkms_built_for;
  if (const auto* const manager = facts::find_service(environment, "nvidia-fabricmanager"))
    status.fabric_manager = manager->version;
  if (driver.dkms_version) {
    for (const auto& kernel : environment.host.installed_kernels) {
      if (std::ranges::find(driver.dkms_built_for, kernel) == driver.dkms_built_for.end())
        status.dkms_missing_for.push_back(kernel);
    }
  }
  if (const auto version = present_version(facts)) {
    status.branch = knowledge::Version::parse(*version).value_or(knowledge::Version{}).major;
    if (const auto* const row = knowledge.branch(status.branch)) {
      status.branch_type = row->type;
      status.end_of_life = row->end_of_life;
      status.past_end_of_life = knowledge::is_over(row->end_of_life, now);
    }
  } else {
    status.problems.push_back(status.library
                                  ? fmt::format("no NVIDIA driver is installed, but libraries of {}", *status.library)
                                  : "no NVIDIA driver is installed");
  }
  judge_versions(status, status.problems);
  judge_modules(facts, status, status.problems);
  judge_packages(facts, status.problems);
  if (status.past_end_of_life)
    status.problems.push_back(fmt::format("R{} is past its end of life and gets no security fixes", status.branch));
  return status;
}

}  // namespace gpuwarden::driver
