// SPDX-License-Identifier: Apache-2.0
#include "driver/machines.hpp"

#include <algorithm>

namespace gpuwarden::testing {

using driver::DriverFacts;

std::chrono::system_clock::time_point autumn_2026() {
  return std::chrono::sys_days(std::chrono::year(2026) / std::chrono::October / 1);
}

facts::GpuRecord gpu(std::string_view name, std::uint32_t index) {
  facts::GpuRecord record;
  record.gpu.index = GpuIndex(index);
  record.gpu.name = name;
  record.processes.emplace();
  return record;
}

facts::Environment& software(DriverFacts& facts) {
  if (!facts.snapshot.environment) facts.snapshot.environment.emplace();
  return *facts.snapshot.environment;
}

DriverFacts bare_machine(std::string_view distribution, std::string_view version, driver::PackageManager manager,
                         std::string_view gpu_name) {
  DriverFacts facts;
  facts.snapshot.gpus.push_back(gpu(gpu_name));
  facts.manager = manager;
  facts.cuda_repository = false;
  facts.display_manager = "";
  facts::Environment& environment = software(facts);
  environment.containers.inside = "";
  environment.compilers.push_back({"gcc", "12.2.0", "/usr/bin/gcc"});
  facts::Host& host = environment.host;
  host.distribution = distribution;
  host.distribution_version = version;
  host.kernel = "6.1.0-28-amd64";
  host.installed_kernels = {"6.1.0-28-amd64"};
  host.kernel_headers = true;
  host.machine = "x86_64";
  host.root = true;
  host.secure_boot = false;
  host.wsl = 0;
  for (const char* mount : {"/", "/boot", "/var"})
    host.file_systems.push_back({mount, Bytes(std::uint64_t{100} << 30U), Bytes(std::uint64_t{50} << 30U)});
  return facts;
}

DriverFacts debian_machine() {
  DriverFacts facts = bare_machine("debian", "12", driver::PackageManager::apt);
  facts.packaging = driver::Packaging::distribution;
  facts.packages = {{.name = "libcuda1", .version = "535.183.01-1~deb12u1"},
                    {.name = "nvidia-driver", .version = "535.183.01-1~deb12u1"},
                    {.name = "nvidia-kernel-dkms", .version = "535.183.01-1~deb12u1"}};
  facts.display_manager = "gdm3";
  facts::KernelDriver& driver = software(facts).driver;
  driver.loaded_version = "535.183.01";
  driver.on_disk_version = "535.183.01";
  driver.library_version = "535.183.01";
  driver.flavour = facts::ModuleFlavour::proprietary;
  driver.loaded_modules = {"nvidia_uvm", "nvidia"};
  driver.dkms_version = "535.183.01";
  driver.dkms_built_for = {"6.1.0-28-amd64"};
  software(facts).services.push_back({"nvidia-persistenced", "running", std::nullopt});
  return facts;
}

DriverFacts ubuntu_machine() {
  DriverFacts facts = debian_machine();
  software(facts).host.distribution = "ubuntu";
  software(facts).host.distribution_version = "22.04";
  facts.display_manager = "";
  facts.packages = {{.name = "nvidia-driver-535", .version = "535.183.01-0ubuntu0.22.04.1"},
                    {.name = "nvidia-dkms-535", .version = "535.183.01-0ubuntu0.22.04.1"}};
  return facts;
}

void add_fabric(DriverFacts& facts) {
  facts.nvswitch = true;
  software(facts).services.push_back(
      {"nvidia-fabricmanager", "running", software(facts).driver.loaded_version.value_or("535.183.01")});
}

std::vector<std::string> ids_of(const driver::Plan& plan) {
  std::vector<std::string> ids;
  for (const driver::Step& step : plan.steps) ids.push_back(step.id);
  return ids;
}

const driver::Step* step_of(const driver::Plan& plan, std::string_view id) {
  const auto found = std::ranges::find(plan.steps, id, &driver::Step::id);
  return found == plan.steps.end() ? nullptr : &*found;
}

Result<driver::Plan> plan_for(const DriverFacts& facts, const driver::DriverRequest& request) {
  return driver::plan_driver(facts, request, knowledge::Knowledge::built_in(), autumn_2026(), "test");
}

Result<driver::Recommendation> recommendation_for(const DriverFacts& facts, const driver::DriverRequest& request) {
  return driver::recommend_driver(facts, request, knowledge::Knowledge::built_in(), autumn_2026());
}

}  // namespace gpuwarden::testing
