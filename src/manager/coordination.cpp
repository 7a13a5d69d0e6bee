// SPDX-License-Identifier: Apache-2.0
// How a GpuManager makes its parts from one configuration, and asks them.
#include <dlfcn.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "gpuwarden/lease/disablings.hpp"
#include "gpuwarden/machine/out_of_use.hpp"
#include "manager/parts.hpp"

namespace gpuwarden::manager {
namespace {

CudaConfig cuda_part(const Options& options) {
  CudaConfig config = options.cuda;
  config.device_ids = options.config.device_ids;
  // The monitor reads anyway.
  if (options.config.enable_monitoring && !options.read) config.enable_health_check = false;
  return config;
}

MemoryConfig memory_part(const Options& options) {
  MemoryConfig config = options.memory;
  config.allocation_strategy = options.config.allocation_strategy;
  config.enable_pooling = options.config.enable_memory_pooling;
  config.memory_fraction = options.config.memory_fraction.value_or(1);
  config.max_memory_cache_ratio = options.config.max_memory_cache_ratio;
  return config;
}

MonitorConfig monitor_part(const Options& options) {
  MonitorConfig config = options.monitor;
  config.enable_profiling = options.config.enable_profiling;
  return config;
}

Result<std::vector<facts::Disabling>> read_disablings(const Environment& environment) {
  GPUWARDEN_TRY(auto view, lease::Disablings(lease::disabling_places(environment)).read());
  return std::move(view.disabled);
}

/// What `choose()` leaves out, too: by people's word, and by what monitors have judged.
Result<std::vector<facts::Disabling>> read_out_of_use(const Environment& environment,
                                                      const probe::ReaderOptions& reader) {
  GPUWARDEN_TRY(auto view, machine::out_of_use(environment, reader, system_clock().wall_now()));
  return std::move(view.disabled);
}

telemetry::MonitorOptions monitoring(const Options& options) {
  telemetry::MonitorOptions monitor;
  monitor.reader = options.reader;
  // What cannot be read now is as it was.
  monitor.disabled = [environment = options.environment, last = std::make_shared<std::vector<facts::Disabling>>()] {
    if (auto now = read_disablings(environment)) *last = std::move(*now);
    return *last;
  };
  monitor.clock = options.clock;
  return monitor;
}

/// Whether the library can be loaded; CUDA is not started.
bool can_load(const std::filesystem::path& library) {
  if (library.empty()) return false;
  void* const handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return false;
  ::dlclose(handle);
  return true;
}

std::vector<Device> fit_devices(const std::vector<DeviceStatus>& all) {
  std::vector<Device> fit;
  for (const DeviceStatus& status : all) {
    if (status.health.state == facts::HealthState::available || status.health.state == facts::HealthState::busy)
      fit.push_back(status.device);
  }
  return fit;
}

}  // namespace

GpuManager::GpuManager(Options options)
    : options_(std::move(options)), reader_(std::make_shared<Reader>(options_.read, options_.reader)) {}
GpuManager::GpuManager(GpuManager&&) noexcept = default;
GpuManager::~GpuManager() = default;

Result<void> GpuManager::initialize(const std::stop_token& stop) {
  if (parts_) return {};
  GPUWARDEN_CHECK(validate(options_.config));
  GPUWARDEN_CHECK(memory_config_from_json(to_json(memory_part(options_))));
  auto parts = std::make_unique<Parts>();
  CudaSources sources;
  sources.read = [reader = reader_](const probe::ReadRequest& what) { return reader->read(what); };
  sources.visibility = placement::visibility_from(options_.environment);
  sources.disabled = [environment = options_.environment, reader = options_.reader] {
    return read_out_of_use(environment, reader);
  };
  sources.cuda_library = options_.cuda_library;
  sources.clock = options_.clock;
  sources.out_of_memory = [releases = parts->releases](const Device& device) { releases->release({}, &device); };
  parts->cuda = std::make_unique<CudaManager>(cuda_part(options_), std::move(sources));
  GPUWARDEN_TRY(parts->monitor, PerformanceMonitor::make(monitor_part(options_), monitoring(options_)));
  GPUWARDEN_CHECK(parts->cuda->initialize(stop));
  if (options_.config.enable_distributed) {
    GPUWARDEN_TRY(parts->distributed, manager::set_up_distributed(options_.config, options_.environment,
                                                                  fit_devices(parts->cuda->devices())));
  }
  if (options_.config.enable_monitoring && !options_.read) {
    CudaManager* const devices = parts->cuda.get();
    parts->observer = parts->monitor->telemetry().add_reading_callback(
        [devices](const telemetry::Reading& reading) { devices->observe(reading); });
    GPUWARDEN_CHECK(parts->monitor->telemetry().start());
  }
  parts_ = std::move(parts);
  return {};
}

void GpuManager::shutdown() { parts_.reset(); }

CudaManager& GpuManager::cuda() { return *parts_->cuda; }
PerformanceMonitor& GpuManager::monitor() { return *parts_->monitor; }
ReleaseBook& GpuManager::releases() { return *parts_->releases; }

MemoryManager& GpuManager::memory(std::optional<GpuIndex> gpu) {
  MemoryPlace place;
  const auto all = parts_->cuda->devices();
  const auto wanted = gpu ? gpu : parts_->cuda->best_device().gpu;
  const auto found =
      std::ranges::find_if(all, [&](const DeviceStatus& status) { return wanted && status.device.gpu == wanted; });
  if (found != all.end()) {
    place.device = found->device;
    place.host_capacity = found->memory_total;
    place.cuda_library = options_.cuda_library;
  }
  auto& memory = parts_->memory[place.device.gpu];
  if (!memory) {
    memory = std::make_unique<MemoryManager>(memory_part(options_), place, *options_.clock);
    memory->share_releases(parts_->releases);
  }
  return *memory;
}

Result<DeviceContext> GpuManager::device_context(std::optional<GpuIndex> gpu) { return parts_->cuda->enter(gpu); }

OptimizationPlan GpuManager::optimization(std::optional<GpuIndex> gpu) {
  const auto wanted = gpu ? gpu : parts_->cuda->best_device().gpu;
  for (const DeviceStatus& status : parts_->cuda->devices()) {
    if (wanted && status.device.gpu == wanted) return plan_optimization(options_.config, status.compute_capability);
  }
  return plan_optimization(options_.config, std::nullopt);
}

Result<DistributedSetup> GpuManager::set_up_distributed() {
  if (!parts_->distributed) {
    GPUWARDEN_TRY(parts_->distributed, manager::set_up_distributed(options_.config, options_.environment,
                                                                   fit_devices(parts_->cuda->devices())));
  }
  return *parts_->distributed;
}

ReleaseReport GpuManager::emergency_release(std::optional<Bytes> needed) { return parts_->releases->release(needed); }

ManagerStatus GpuManager::status() {
  ManagerStatus status;
  status.config = options_.config;
  if (!parts_) return status;
  const CudaManager& cuda = *parts_->cuda;
  status.initialized = true;
  status.current = cuda.best_device();
  status.cuda_available = !status.current.is_cpu() && can_load(options_.cuda_library);
  status.simulated = cuda.simulated();
  status.driver_version = cuda.driver_version();
  status.problem = cuda.problem();
  status.gpus = cuda.devices();
  for (const auto& [gpu, memory] : parts_->memory) status.memory.push_back(memory->status());
  status.monitoring = parts_->monitor->telemetry().running();
  status.alerts = parts_->monitor->telemetry().alerts();
  status.operations = parts_->monitor->profiler().results();
  status.optimization = optimization();
  status.distributed = parts_->distributed;
  status.releasable = parts_->releases->names();
  return status;
}

Options options_for(const machine::Machine& machine) {
  Options options;
  options.reader = machine.reader();
  options.environment = machine.options().environment;
  options.leases.directory_required = !machine.options().lease_directory.empty();
  if (options.leases.directory_required) options.leases.directory = machine.options().lease_directory;
  if (machine.captured()) {
    options.read = [snapshot = *machine.captured()](const probe::ReadRequest&) { return snapshot; };
    options.cuda_library.clear();
  }
  if (!machine.simulated()) return options;
  options.leases.prefix = lease::kSimulatedPrefix;
  const auto fleet = options.environment.find("GPUWARDEN_SIM_FLEET");
  const bool within = fleet != options.environment.end() && fleet->second == machine.fleet_folder();
  options.cuda_library =
      within ? machine.reader().nvml_library.parent_path() / "libcuda.so.1" : std::filesystem::path();
  return options;
}

}  // namespace gpuwarden::manager
