// SPDX-License-Identifier: Apache-2.0
#include "doctor/machines.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/knowledge/torch_pins.hpp"

namespace gpuwarden::testing {

namespace {

facts::GpuRecord healthy_gpu(std::uint32_t index) {
  facts::GpuRecord record;
  facts::Gpu& gpu = record.gpu;
  gpu.index = GpuIndex{index};
  gpu.uuid = Uuid(fmt::format("GPU-00000000-0000-0000-0000-00000000000{}", index));
  gpu.name = "NVIDIA H100 80GB HBM3";
  gpu.pci_bus_id = fmt::format("00000000:{}7:00.0", index + 1);
  gpu.pci_device_id = 0x233010DE;
  gpu.vbios_version = "96.00.74.00.01";
  gpu.architecture = "Hopper";
  gpu.compute_capability = {9, 0};
  gpu.power_limit_default = Milliwatts(700'000);
  gpu.pcie_generation_max = Count(5);
  gpu.pcie_width_max = Count(16);
  gpu.temperature_slowdown = Celsius(87);
  gpu.temperature_memory_max = Celsius(95);
  gpu.mig_enabled = false;
  gpu.mig_pending = false;
  gpu.compute_mode = facts::ComputeMode::shared;
  gpu.persistence = true;
  gpu.ecc_enabled = true;
  gpu.numa_node = index < 2 ? 0 : 1;
  gpu.gsp_firmware_version = "580.105.08";
  gpu.display_active = false;
  gpu.fabric = facts::Fabric{"completed", "success", std::nullopt, std::nullopt};
  facts::GpuSample& sample = record.sample;
  sample.memory_total = Bytes(81559ULL << 20U);
  sample.memory_used = Bytes(4ULL << 20U);
  sample.memory_free = Bytes(81555ULL << 20U);
  sample.temperature = Celsius(34);
  sample.temperature_memory = Celsius(45);
  sample.power = Milliwatts(70'000);
  sample.power_limit = Milliwatts(700'000);
  sample.utilization_gpu = Percent(0);
  sample.pcie_generation = Count(5);
  sample.pcie_width = Count(16);
  sample.pcie_replays = Count(0);
  sample.ecc_corrected_volatile = Count(0);
  sample.ecc_uncorrected_volatile = Count(0);
  sample.ecc_corrected_aggregate = Count(0);
  sample.ecc_uncorrected_aggregate = Count(0);
  sample.remapped_rows_pending = Count(0);
  sample.remapped_rows_failed = Count(0);
  sample.remapped_rows_uncorrected = Count(0);
  sample.remap_availability = facts::RemapAvailability{Count(2560), Count(0), Count(0), Count(0), Count(0)};
  sample.throttle_reasons = std::vector{facts::ThrottleReason::gpu_idle};
  for (std::uint32_t link = 0; link < 18; ++link) {
    facts::NvLink nvlink;
    nvlink.link = link;
    nvlink.active = true;
    nvlink.replay_errors = Count(0);
    nvlink.recovery_errors = Count(0);
    nvlink.crc_flit_errors = Count(0);
    sample.nvlinks.push_back(nvlink);
  }
  record.processes.emplace();
  return record;
}

facts::PythonEnvironment healthy_python() {
  facts::PythonEnvironment python;
  python.path = "/srv/venv";
  python.kind = "venv";
  python.version = "3.12.3";
  python.active = true;
  for (const auto& [name, version] :
       std::vector<std::pair<std::string, std::string>>{{"torch", "2.9.1+cu130"},
                                                        {"torchvision", "0.24.1+cu130"},
                                                        {"triton", "3.5.1"},
                                                        {"numpy", "2.2.6"},
                                                        {"nvidia-cuda-runtime", "13.0.88"},
                                                        {"nvidia-cudnn-cu13", "9.13.0.50"},
                                                        {"nvidia-nccl-cu13", "2.27.7"}})
    python.packages.push_back({name, version, "pip"});
  python.torch_cuda = "13.0";
  python.torch_architectures = {"sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"};
  python.cuda_available = true;
  return python;
}

facts::Host healthy_host() {
  facts::Host host;
  host.distribution = "ubuntu";
  host.distribution_version = "24.04";
  host.distribution_name = "Ubuntu 24.04.1 LTS";
  host.kernel = "6.8.0-45-generic";
  host.installed_kernels = {"6.8.0-45-generic"};
  host.kernel_headers = true;
  host.machine = "x86_64";
  host.libc = "2.39";
  host.cpus = 128;
  host.cpus_allowed = 128;
  host.sockets = 2;
  host.numa_nodes = 2;
  host.numa_balancing = false;
  host.memory_total = Bytes(1024ULL << 30U);
  host.memory_available = Bytes(980ULL << 30U);
  host.memlock_limit = Bytes(~0ULL);
  host.open_files_limit = 1048576;
  host.transparent_hugepages = "madvise";
  host.secure_boot = false;
  host.iommu = false;
  host.hypervisor = "";
  host.wsl = 0;
  host.groups = {"users", "video", "render"};
  host.root = false;
  host.file_systems = {{"/", Bytes(1000ULL << 30U), Bytes(600ULL << 30U)},
                       {"/tmp", Bytes(100ULL << 30U), Bytes(90ULL << 30U)},
                       {"/dev/shm", Bytes(512ULL << 30U), Bytes(512ULL << 30U)}};
  return host;
}

facts::Environment healthy_environment() {
  facts::Environment environment;
  facts::KernelDriver& driver = environment.driver;
  driver.loaded_version = driver.on_disk_version = driver.library_version = "580.105.08";
  driver.flavour = facts::ModuleFlavour::open;
  driver.signer = "Canonical Ltd. Kernel Module Signing";
  driver.loaded_modules = {"nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia_peermem"};
  driver.firmware_version = "580.105.08";
  for (const char* path :
       {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2", "/dev/nvidia3"})
    environment.device_nodes.push_back({path, true, true, "", "root:root", 0666});
  environment.libraries = {
      {"libcuda.so.1", "580.105.08", "/usr/lib/x86_64-linux-gnu/libcuda.so.580.105.08", "ldconfig"},
      {"libnvidia-ml.so.1", "580.105.08", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.105.08", "ldconfig"}};
  environment.toolkits = {{"13.0.88",
                           "/usr/local/cuda-13.0",
                           "/usr/local",
                           "/usr/local/cuda-13.0/bin/nvcc",
                           {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"},
                           true}};
  environment.compilers = {{"gcc", "13.2.0", "/usr/bin/gcc-13"}, {"g++", "13.2.0", "/usr/bin/g++-13"}};
  environment.pythons = {healthy_python()};
  environment.containers.inside = "";
  environment.services = {{"nvidia-persistenced", "running", std::nullopt},
                          {"nvidia-fabricmanager", "running", "580.105.08"}};
  environment.variables = {{"CUDA_HOME", "/usr/local/cuda-13.0"}, {"PATH", "/usr/local/cuda-13.0/bin:/usr/bin:/bin"}};
  environment.host = healthy_host();
  return environment;
}

std::vector<std::string> ids(const doctor::Examination& examination) {
  std::vector<std::string> result;
  for (const auto& finding : examination.findings) result.push_back(finding.id + ": " + finding.title);
  return result;
}

/// Many a case needs an old driver, of which its age is told beside.
void leave_out_age(std::string_view id, std::vector<doctor::Finding>& findings) {
  constexpr std::string_view kAge = "driver-end-of-life";
  if (id != kAge) std::erase_if(findings, [&](const doctor::Finding& each) { return each.id == kAge; });
}

void expect_case(const Case& test) {
  facts::Snapshot sick = healthy_machine();
  test.sick(sick);
  auto found = examined(sick, test.purpose);
  leave_out_age(test.id, found.findings);
  ASSERT_EQ(found.findings.size(), 1U) << test.id << " should speak alone: " << ::testing::PrintToString(ids(found));
  const doctor::Finding& finding = found.findings[0];
  EXPECT_EQ(finding.id, test.id) << finding.title;
  EXPECT_THAT(finding.title, ::testing::HasSubstr(test.says));
  EXPECT_TRUE(finding.severity < doctor::Severity::warning || !finding.fix.empty()) << test.id << " has no fix";
  EXPECT_EQ(printable(finding.title), finding.title) << test.id;
  facts::Snapshot well = healthy_machine();
  test.near_miss(well);
  const std::string_view purpose = test.near_purpose.empty() ? test.purpose : test.near_purpose;
  auto left = examined(well, purpose);
  leave_out_age(test.id, left.findings);
  // A near miss may be a machine without any GPU, which is always told.
  if (well.gpus.empty() && test.id != "no-gpu")
    std::erase_if(left.findings, [](const doctor::Finding& each) { return each.id == "no-gpu"; });
  EXPECT_THAT(ids(left), ::testing::IsEmpty()) << "near miss of " << test.id;
}

}  // namespace

facts::Environment& software(facts::Snapshot& machine) { return *machine.environment; }
facts::Host& host(facts::Snapshot& machine) { return machine.environment->host; }

void set_variable(facts::Snapshot& machine, std::string_view name, std::string_view value) {
  auto& variables = machine.environment->variables;
  std::erase_if(variables, [&](const facts::Variable& variable) { return variable.name == name; });
  variables.push_back({std::string(name), std::string(value)});
}

void use_driver(facts::Snapshot& machine, std::string_view version) {
  const std::string text(version);
  facts::KernelDriver& driver = machine.environment->driver;
  machine.driver_version = machine.kernel_module_version = text;
  machine.cuda_driver_version.reset();
  driver.loaded_version = driver.on_disk_version = driver.library_version = driver.firmware_version = text;
  for (auto& library : machine.environment->libraries) library.version = text;
  for (auto& service : machine.environment->services) {
    if (service.version) service.version = text;
  }
}

void use_gpus(facts::Snapshot& machine, std::string_view name, facts::ComputeCapability capability) {
  for (auto& record : machine.gpus) {
    record.gpu.name = name;
    record.gpu.compute_capability = capability;
    record.gpu.pci_device_id.reset();
    record.gpu.architecture.reset();
  }
}

void remove_gpus(facts::Snapshot& machine) {
  machine.gpus.clear();
  machine.links.reset();
  forget_driver(machine);
  machine.environment->device_nodes.clear();
  machine.environment->libraries.clear();
}

void forget_driver(facts::Snapshot& machine) {
  machine.driver_version.reset();
  machine.cuda_driver_version.reset();
  machine.kernel_module_version.reset();
  machine.environment->driver = {};
}

void use_module(facts::Snapshot& machine, facts::ModuleFlavour flavour) {
  machine.environment->driver.flavour = flavour;
}

void remove_cuda_software(facts::Snapshot& machine) {
  machine.environment->toolkits.clear();
  machine.environment->pythons.clear();
  machine.environment->variables.clear();
}

void move_into_container(facts::Snapshot& machine, std::string_view kind) {
  machine.environment->containers.inside = std::string(kind);
}

void move_into_wsl(facts::Snapshot& machine) {
  machine.environment->host.wsl = 2;
  machine.environment->host.hypervisor = "microsoft";
  machine.environment->host.kernel = "5.15.167.4-microsoft-standard-WSL2";
  machine.environment->driver = {};
  for (auto& library : machine.environment->libraries) library.origin = "wsl";
}

void add_package(facts::Snapshot& machine, std::string_view name, std::string_view version) {
  machine.environment->pythons.front().packages.push_back({std::string(name), std::string(version), "pip"});
}

void remove_package(facts::Snapshot& machine, std::string_view name) {
  std::erase_if(machine.environment->pythons.front().packages,
                [&](const facts::PythonPackage& package) { return package.name == name; });
}

void set_package(facts::Snapshot& machine, std::string_view name, std::string_view version) {
  remove_package(machine, name);
  add_package(machine, name, version);
}

void use_torch(facts::Snapshot& machine, std::string_view version, std::string_view cuda, std::string_view vision) {
  set_package(machine, "torch", version);
  set_package(machine, "torchvision", vision);
  machine.environment->pythons.front().torch_cuda = cuda;
  // Of PyPI's Requires-Dist of these releases; tests of Triton set another.
  constexpr std::pair<std::string_view, std::string_view> kTritons[] = {
      {"2.0.", "2.0.0"}, {"2.2.", "2.2.0"}, {"2.4.", "3.0.0"}, {"2.6.", "3.2.0"},
      {"2.7.", "3.3.1"}, {"2.9.", "3.5.1"}, {"2.11.", "3.6.0"}};
  remove_package(machine, "triton");
  for (const auto& [torch, triton] : kTritons) {
    if (version.starts_with(torch)) set_package(machine, "triton", triton);
  }
}

facts::Library& library(facts::Snapshot& machine, std::string_view name) {
  return *std::ranges::find(machine.environment->libraries, name, &facts::Library::name);
}

void set_service(facts::Snapshot& machine, std::string_view name, std::string_view state) {
  for (auto& service : machine.environment->services) {
    if (service.name == name) service.state = state;
  }
}

facts::Snapshot healthy_machine() {
  facts::Snapshot machine;
  machine.source = "nvml";
  machine.host = "node1";
  machine.driver_version = "580.105.08";
  machine.cuda_driver_version = "13.0";
  machine.kernel_module_version = "580.105.08";
  for (std::uint32_t i = 0; i < 4; ++i) machine.gpus.push_back(healthy_gpu(i));
  machine.links.emplace();
  for (std::uint32_t a = 0; a < 4; ++a) {
    for (std::uint32_t b = a + 1; b < 4; ++b) {
      facts::Link link;
      link.a = GpuIndex{a};
      link.b = GpuIndex{b};
      link.level = facts::LinkLevel::node;
      link.nvlinks = 18;
      link.p2p_read = link.p2p_write = "OK";
      machine.links->push_back(link);
    }
  }
  machine.kernel_faults.emplace();
  machine.environment = healthy_environment();
  return machine;
}

doctor::Examination examined(const facts::Snapshot& machine, std::string_view purpose) {
  const auto wanted = purpose.empty() ? Result<doctor::Purpose>() : doctor::parse_purpose(purpose);
  EXPECT_TRUE(wanted.has_value()) << purpose;
  return doctor::examine(machine, knowledge::Knowledge::built_in(), wanted.value_or(doctor::Purpose{}));
}

std::string found_in(const facts::Snapshot& machine, std::string_view purpose) {
  std::vector<std::string> found;
  for (const auto& finding : examined(machine, purpose).findings) found.push_back(finding.id);
  return join(found, " ");
}

std::string fixes_of(const facts::Snapshot& machine, std::string_view purpose) {
  std::vector<std::string> steps;
  for (const auto& finding : examined(machine, purpose).findings)
    steps.insert(steps.end(), finding.fix.begin(), finding.fix.end());
  return join(steps, "\n");
}

std::string titles_of(const facts::Snapshot& machine, std::string_view purpose) {
  std::vector<std::string> titles;
  for (const auto& finding : examined(machine, purpose).findings) titles.push_back(finding.title);
  return join(titles, "\n");
}

void use_distribution(facts::Snapshot& machine, std::string_view id, std::string_view version) {
  machine.environment->host.distribution = id;
  machine.environment->host.distribution_version = version;
}

void expect_cases(std::span<const Case> cases) {
  for (const Case& test : cases) expect_case(test);
}

void remove_toolkits(facts::Snapshot& machine) {
  software(machine).toolkits.clear();
  software(machine).variables.clear();
}

void use_v100(facts::Snapshot& machine) {
  remove_toolkits(machine);
  use_gpus(machine, "Tesla V100-SXM2-32GB", {7, 0});
  use_module(machine, facts::ModuleFlavour::proprietary);
}

void add_amd_gpu(facts::Snapshot& machine, std::string_view architecture) {
  facts::GpuRecord record;
  record.gpu.index = GpuIndex{4};
  record.gpu.vendor = "AMD";
  record.gpu.name = "AMD Radeon";
  record.gpu.architecture = architecture;
  machine.gpus.push_back(record);
}

}  // namespace gpuwarden::testing
