// SPDX-License-Identifier: Apache-2.0
// gpuwarden._core: GpuManager and its parts.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/machine/out_of_use.hpp"
#include "gpuwarden/manager/gpu_manager.hpp"
#include "support/attentive.hpp"
#include "support/held.hpp"
#include "support/open_machine.hpp"
#include "support/own_profiler.hpp"

namespace gpuwarden::python {

void bind_manager(nb::module_& module);

namespace {

using nlohmann::json;
using namespace gpuwarden::manager;

using MaybeGpu = std::optional<std::uint32_t>;

std::optional<GpuIndex> index_of(MaybeGpu gpu) { return gpu ? std::optional(GpuIndex{*gpu}) : std::nullopt; }
std::optional<Bytes> bytes_of(std::optional<std::uint64_t> bytes) {
  return bytes ? std::optional(Bytes(*bytes)) : std::nullopt;
}

/// A GpuManager with the lock that its own calls need; nothing that calls Python is done within it.
struct SharedManager {
  explicit SharedManager(Options options) : manager(std::move(options)) {}
  std::mutex mutex;
  GpuManager manager;
};

using HeldManager = Held<SharedManager>;
using HeldCuda = Held<CudaManager>;
using HeldMemory = Held<MemoryManager>;
using HeldMonitor = Held<PerformanceMonitor>;
using HeldContext = Held<DeviceContext>;

Options options_with(const OpenMachine& machine, const std::string& config, const std::string& parts) {
  Options options = options_for(machine.get());
  options.clock = &attentive_clock();
  const json given = read_options(parts);
  options.config = unwrap(gpu_config_from_json(read_options(config)));
  options.cuda = unwrap(cuda_config_from_json(given.value("cuda", json::object())));
  options.memory = unwrap(memory_config_from_json(given.value("memory", json::object())));
  options.monitor = unwrap(monitor_config_from_json(given.value("monitor", json::object())));
  return options;
}

/// Of an initialised manager; the part keeps it alive.
template <class T, class Get>
std::unique_ptr<Held<T>> part(const HeldManager& self, const char* what, Get get) {
  const auto shared = self.share();
  T* const found = without_gil([&] {
    const std::scoped_lock lock(shared->mutex);
    return shared->manager.initialized() ? get(shared->manager) : nullptr;
  });
  if (found == nullptr) raise({ErrorCode::unavailable, "this GPUManager is not initialised", "call initialize()"});
  return std::make_unique<Held<T>>(std::shared_ptr<T>(shared, found), what);
}

/// A call of an initialised manager, which gives JSON.
template <class Work>
std::string ask(const HeldManager& self, Work work) {
  const auto shared = self.share();
  return json_text(unwrap(without_gil([&]() -> Result<json> {
    const std::scoped_lock lock(shared->mutex);
    if (!shared->manager.initialized())
      return fail(ErrorCode::unavailable, "this GPUManager is not initialised", "call initialize()");
    return work(shared->manager);
  })));
}

std::string initialize(const HeldManager& self) {
  const auto shared = self.share();
  unwrap(interruptible([&](const std::stop_token& stop) {
    const std::scoped_lock lock(shared->mutex);
    return shared->manager.initialize(stop);
  }));
  return ask(self, [](GpuManager& manager) { return to_json(manager.status()); });
}

/// What does not say counts as on that device.
bool holds(const PythonFunction& asked, const Device& device) {
  const nb::gil_scoped_acquire locked;
  try {
    return nb::cast<bool>(asked.function()(json_text(to_json(device))));
  } catch (const std::exception&) {
    return true;
  }
}

void add_releasable(const HeldManager& self, const std::string& name, const std::string& kind, nb::callable size,
                    nb::callable release, std::optional<nb::callable> is_on) {
  const auto shared = self.share();
  if (!shared->manager.initialized()) raise({ErrorCode::unavailable, "this GPUManager is not initialised", ""});
  const PythonFunction measure(std::move(size));
  const PythonFunction let_go(std::move(release));
  Releasable one;
  one.name = name;
  one.kind = kind == "model" ? ReleaseKind::model : kind == "pool" ? ReleaseKind::pool : ReleaseKind::cache;
  one.size = [measure]() -> std::optional<Bytes> {
    const nb::gil_scoped_acquire locked;
    try {
      const nb::object told = measure.function()();
      return told.is_none() ? std::nullopt : std::optional(Bytes(nb::cast<std::uint64_t>(told)));
    } catch (const std::exception&) {
      return std::nullopt;
    }
  };
  one.release = [let_go, name]() -> Result<Bytes> {
    const nb::gil_scoped_acquire locked;
    try {
      return Bytes(nb::cast<std::uint64_t>(let_go.function()()));
    } catch (const std::exception& error) {
      return fail(ErrorCode::failed, name + ": " + error.what());
    }
  };
  if (is_on)
    one.is_on = [asked = PythonFunction(std::move(*is_on))](const Device& device) { return holds(asked, device); };
  shared->manager.releases().add(std::move(one));
}

void bind_gpu_manager(nb::module_& module) {
  nb::class_<HeldManager>(module, "GpuManager", nb::is_weak_referenceable())
      .def_static(
          "make",
          [](const OpenMachine& machine, const std::string& config, const std::string& parts) {
            return std::make_unique<HeldManager>(std::make_shared<SharedManager>(options_with(machine, config, parts)),
                                                 "GPUManager");
          },
          nb::arg("machine"), nb::arg("config"), nb::arg("parts"))
      .def("close", &HeldManager::close)
      .def_prop_ro("closed", &HeldManager::closed)
      .def("initialize", &initialize)
      .def("status",
           [](const HeldManager& self) {
             return ask(self, [](GpuManager& manager) { return to_json(manager.status()); });
           })
      .def(
          "optimization",
          [](const HeldManager& self, MaybeGpu gpu) {
            return ask(self, [&](GpuManager& manager) { return to_json(manager.optimization(index_of(gpu))); });
          },
          nb::arg("gpu").none())
      .def("set_up_distributed",
           [](const HeldManager& self) {
             return ask(self, [](GpuManager& manager) -> Result<json> {
               GPUWARDEN_TRY(const DistributedSetup setup, manager.set_up_distributed());
               return to_json(setup);
             });
           })
      .def(
          "emergency_release",
          [](const HeldManager& self, std::optional<std::uint64_t> needed) {
            // What is let go of is Python's, and may ask this manager.
            const auto book = part<ReleaseBook>(self, "GPUManager", [](GpuManager& all) { return &all.releases(); });
            const auto releases = book->share();
            return json_text(without_gil([&] { return to_json(releases->release(bytes_of(needed))); }));
          },
          nb::arg("needed").none())
      .def("add_releasable", &add_releasable, nb::arg("name"), nb::arg("kind"), nb::arg("size"), nb::arg("release"),
           nb::arg("is_on").none() = nb::none())
      .def("remove_releasable", [](const HeldManager& self,
                                   const std::string& name) { return self.share()->manager.releases().remove(name); })
      .def("cuda",
           [](const HeldManager& self) {
             return part<CudaManager>(self, "CUDAManager", [](GpuManager& manager) { return &manager.cuda(); });
           })
      .def(
          "memory",
          [](const HeldManager& self, MaybeGpu gpu) {
            return part<MemoryManager>(self, "MemoryManager",
                                       [&](GpuManager& manager) { return &manager.memory(index_of(gpu)); });
          },
          nb::arg("gpu").none())
      .def("monitor", [](const HeldManager& self) {
        return part<PerformanceMonitor>(self, "PerformanceMonitor",
                                        [](GpuManager& manager) { return &manager.monitor(); });
      });
  module.def("gpu_config", [](const std::string& config) {
    return json_text(to_json(unwrap(gpu_config_from_json(read_options(config)))));
  });
}

std::string devices_of(const HeldCuda& self) {
  const auto cuda = self.share();
  return json_text(without_gil([&] {
    json all = json::array();
    for (const DeviceStatus& status : cuda->devices()) all.push_back(to_json(status));
    return all;
  }));
}

/// `work` is called with a device's JSON, and gives None or (code, message).
std::string run(const HeldCuda& self, const std::string& operation, nb::callable work, MaybeGpu first) {
  const auto cuda = self.share();
  const PythonFunction function(std::move(work));
  const auto once = [&](const Device& device) -> Result<void> {
    const nb::gil_scoped_acquire locked;
    const nb::object failed = function.function()(json_text(to_json(device)));
    if (failed.is_none()) return {};
    const std::string code = nb::cast<std::string>(failed[nb::int_(0)]);
    for (const ErrorCode known : {ErrorCode::unsatisfied, ErrorCode::unavailable, ErrorCode::timed_out}) {
      if (to_string(known) == code) return fail(known, nb::cast<std::string>(failed[nb::int_(1)]));
    }
    return fail(ErrorCode::invalid_argument, nb::cast<std::string>(failed[nb::int_(1)]));
  };
  // In this thread: PyTorch's modes are a thread's own. Ctrl-C is heard in `work`, and while it waits to try again.
  const WorkDone done = unwrap(attentive([&](const std::stop_token& stop) {
    const nb::gil_scoped_release without_gil;
    return cuda->run(operation, once, index_of(first), stop);
  }));
  json failures = json::array();
  for (const DeviceError& failure : done.failures) failures.push_back(to_json(failure));
  return json_text({{"device", to_json(done.device)}, {"failures", std::move(failures)}});
}

Result<void> report_error(CudaManager& cuda, std::uint32_t gpu, const std::string& operation,
                          const std::string& message) {
  return cuda.report_error(GpuIndex{gpu}, operation, {ErrorCode::failed, message, ""});
}

std::unique_ptr<HeldCuda> make_cuda(const OpenMachine& machine, const std::string& config) {
  const Options options = options_for(machine.get());
  const auto machine_kept = machine.share();
  CudaSources sources;
  sources.read = [machine_kept](const probe::ReadRequest& what) { return machine_kept->read(what); };
  sources.visibility = placement::visibility_from(options.environment);
  sources.disabled = [machine_kept]() -> Result<std::vector<facts::Disabling>> {
    if (machine_kept->captured()) return std::vector<facts::Disabling>{};
    GPUWARDEN_TRY(auto view, machine::out_of_use(machine_kept->options().environment, machine_kept->reader(),
                                                 system_clock().wall_now()));
    return std::move(view.disabled);
  };
  sources.clock = &attentive_clock();
  sources.cuda_library = options.cuda_library;
  const CudaConfig checked = unwrap(cuda_config_from_json(read_options(config)));
  return std::make_unique<HeldCuda>(std::make_shared<CudaManager>(checked, std::move(sources)), "CUDAManager");
}

void bind_device_context(nb::module_& module) {
  nb::class_<HeldContext>(module, "DeviceContext")
      .def("close", &HeldContext::close)
      .def_prop_ro("device", [](const HeldContext& self) { return json_text(to_json(self.share()->device())); })
      .def_prop_ro("fallback", [](const HeldContext& self) { return self.share()->fallback(); });
}

/// What changes something, and who hears of it.
void bind_cuda_changes(nb::class_<HeldCuda>& type) {
  type.def("run", &run, nb::arg("operation"), nb::arg("work"), nb::arg("first").none())
      .def("report_error",
           [](const HeldCuda& self, std::uint32_t gpu, const std::string& operation, const std::string& message) {
             const auto cuda = self.share();
             unwrap(without_gil([&] { return report_error(*cuda, gpu, operation, message); }));
           })
      .def("disable",
           [](const HeldCuda& self, std::uint32_t gpu, const std::string& reason) {
             const auto cuda = self.share();
             unwrap(without_gil([&] { return cuda->disable(GpuIndex{gpu}, reason); }));
           })
      .def("enable",
           [](const HeldCuda& self, std::uint32_t gpu) {
             const auto cuda = self.share();
             unwrap(without_gil([&] { return cuda->enable(GpuIndex{gpu}); }));
           })
      .def("check",
           [](const HeldCuda& self) {
             const auto cuda = self.share();
             without_gil([&] { cuda->check(); });
           })
      .def("add_error_callback",
           [](const HeldCuda& self, nb::callable function) {
             self.share()->add_error_callback([tell = PythonFunction(std::move(function))](const DeviceError& error) {
               tell(json_text(to_json(error)));
             });
           })
      .def("add_state_callback", [](const HeldCuda& self, nb::callable function) {
        self.share()->add_state_callback(
            [tell = PythonFunction(std::move(function))](const DeviceStatus& before, const DeviceStatus& now) {
              tell(json_text(to_json(before)), json_text(to_json(now)));
            });
      });
}

void bind_cuda_manager(nb::module_& module) {
  nb::class_<HeldCuda> type(module, "CudaManager", nb::is_weak_referenceable());
  type.def_static("make", &make_cuda, nb::arg("machine"), nb::arg("config"))
      .def("close", &HeldCuda::close)
      .def_prop_ro("initialized", [](const HeldCuda& self) { return self.share()->initialized(); })
      .def_prop_ro("problem", [](const HeldCuda& self) { return self.share()->problem(); })
      .def_prop_ro("simulated", [](const HeldCuda& self) { return self.share()->simulated(); })
      .def_prop_ro("driver_version", [](const HeldCuda& self) { return self.share()->driver_version(); })
      .def("initialize",
           [](const HeldCuda& self) {
             const auto cuda = self.share();
             unwrap(interruptible([&](const std::stop_token& stop) { return cuda->initialize(stop); }));
           })
      .def("devices", &devices_of)
      .def("best_device", [](const HeldCuda& self) { return json_text(to_json(self.share()->best_device())); })
      .def("device", [](const HeldCuda& self,
                        std::uint32_t gpu) { return json_text(to_json(unwrap(self.share()->device(GpuIndex{gpu})))); })
      .def(
          "enter",
          [](const HeldCuda& self, MaybeGpu gpu) {
            const auto cuda = self.share();
            auto context = unwrap(without_gil([&] { return cuda->enter(index_of(gpu)); }));
            return std::make_unique<HeldContext>(std::make_shared<DeviceContext>(std::move(context)), "device context");
          },
          nb::arg("gpu").none());
  bind_cuda_changes(type);
}

std::unique_ptr<HeldMemory> make_memory(const OpenMachine& machine, const std::string& config,
                                        const std::string& device) {
  const json on = read_options(device);
  const MemoryConfig checked = unwrap(memory_config_from_json(read_options(config)));
  MemoryPlace place;
  if (on.contains("gpu") && on["gpu"].is_number()) {
    place.device = {GpuIndex{on["gpu"].get<std::uint32_t>()}, Uuid(on.value("uuid", "")), on.value("name", ""),
                    std::nullopt};
    place.cuda_library = options_for(machine.get()).cuda_library;
    if (on.contains("memory_total_bytes") && on["memory_total_bytes"].is_number())
      place.host_capacity = Bytes(on["memory_total_bytes"].get<std::uint64_t>());
  }
  return std::make_unique<HeldMemory>(std::make_shared<MemoryManager>(checked, std::move(place), system_clock()),
                                      "MemoryManager");
}

void bind_memory_manager(nb::module_& module) {
  nb::class_<HeldMemory>(module, "MemoryManager", nb::is_weak_referenceable())
      .def_static("make", &make_memory, nb::arg("machine"), nb::arg("config"), nb::arg("device"))
      .def("close", &HeldMemory::close)
      .def("config", [](const HeldMemory& self) { return json_text(to_json(self.share()->config())); })
      .def("status", [](const HeldMemory& self) { return json_text(to_json(self.share()->status())); })
      .def("allocate",
           [](const HeldMemory& self, std::uint64_t size, std::uint64_t stream) {
             const auto memory = self.share();
             return unwrap(without_gil([&] { return memory->allocate(Bytes(size), {stream}); })).value;
           })
      .def("deallocate",
           [](const HeldMemory& self, std::uint64_t address, std::uint64_t stream) {
             const auto memory = self.share();
             unwrap(without_gil([&] { return memory->deallocate({address}, {stream}); }));
           })
      .def("trim",
           [](const HeldMemory& self, std::uint64_t keep) {
             const auto memory = self.share();
             return unwrap(without_gil([&] { return memory->trim(Bytes(keep)); })).value;
           })
      .def("defragment",
           [](const HeldMemory& self) {
             const auto memory = self.share();
             const Defragmentation done = unwrap(without_gil([&] { return memory->defragment(); }));
             return json_text({{"idle_before_bytes", done.idle_before.value},
                               {"idle_after_bytes", done.idle_after.value},
                               {"returned_bytes", done.returned.value}});
           })
      .def("set_memory_fraction",
           [](const HeldMemory& self, double fraction) {
             const auto memory = self.share();
             unwrap(without_gil([&] { return memory->set_memory_fraction(fraction); }));
           })
      .def(
          "emergency_release",
          [](const HeldMemory& self, std::optional<std::uint64_t> needed) {
            const auto memory = self.share();
            return json_text(without_gil([&] { return to_json(memory->emergency_release(bytes_of(needed))); }));
          },
          nb::arg("needed").none());
}

std::string kind_of(const telemetry::AlertChange& change) { return std::string(to_string(change.kind)); }

void bind_performance_monitor(nb::module_& module) {
  nb::class_<HeldMonitor>(module, "PerformanceMonitor", nb::is_weak_referenceable())
      .def_static(
          "make",
          [](const OpenMachine& machine, const std::string& config) {
            telemetry::MonitorOptions options;
            options.reader = machine.get().reader();
            auto monitor = unwrap(
                PerformanceMonitor::make(unwrap(monitor_config_from_json(read_options(config))), std::move(options)));
            return std::make_unique<HeldMonitor>(std::shared_ptr<PerformanceMonitor>(std::move(monitor)),
                                                 "PerformanceMonitor");
          },
          nb::arg("machine"), nb::arg("config"))
      .def("close", &HeldMonitor::close)
      .def("config", [](const HeldMonitor& self) { return json_text(to_json(self.share()->config())); })
      .def_prop_ro("running", [](const HeldMonitor& self) { return self.share()->telemetry().running(); })
      .def("start",
           [](const HeldMonitor& self) {
             const auto monitor = self.share();
             unwrap(without_gil([&] { return monitor->telemetry().start(); }));
           })
      .def("stop",
           [](const HeldMonitor& self) {
             const auto monitor = self.share();
             without_gil([&] { monitor->telemetry().stop(); });
           })
      .def("wait",
           [](const HeldMonitor& self, double seconds) {
             const auto monitor = self.share();
             return wait_attentively(milliseconds_of("timeout", seconds), [&](std::chrono::milliseconds time) {
               return monitor->telemetry().wait_for_reading({}, time) != nullptr;
             });
           })
      .def("current",
           [](const HeldMonitor& self) {
             const auto monitor = self.share();
             return json_text(without_gil([&] { return monitor->current(); }));
           })
      .def("summary",
           [](const HeldMonitor& self, double seconds) {
             const auto monitor = self.share();
             const auto span = milliseconds_of("seconds", seconds);
             return json_text(without_gil([&] { return monitor->summary(span); }));
           })
      .def("status",
           [](const HeldMonitor& self) {
             const auto monitor = self.share();
             return json_text(without_gil([&] { return monitor->status(); }));
           })
      .def("alerts",
           [](const HeldMonitor& self) {
             json all = json::array();
             for (const auto& alert : self.share()->telemetry().alerts()) all.push_back(telemetry::to_json(alert));
             return json_text(all);
           })
      // Operations of gpuwarden.profile get their energy and utilization from it.
      .def("follow_profile",
           [](const HeldMonitor& self) {
             self.share()->telemetry().add_reading_callback([](const telemetry::Reading& reading) {
               own_profiler().hear(profile::readings_of(reading.snapshot, reading.when));
             });
           })
      .def("add_reading_callback",
           [](const HeldMonitor& self, nb::callable function) {
             self.share()->telemetry().add_reading_callback(
                 [tell = PythonFunction(std::move(function))](const telemetry::Reading& reading) {
                   tell(json_text(facts::to_json(reading.snapshot)));
                 });
           })
      .def("add_alert_callback", [](const HeldMonitor& self, nb::callable function) {
        self.share()->telemetry().add_alert_callback(
            [tell = PythonFunction(std::move(function))](const telemetry::AlertChange& change) {
              tell(kind_of(change), json_text(telemetry::to_json(change.alert)));
            });
      });
}

}  // namespace

void bind_manager(nb::module_& module) {
  bind_device_context(module);
  bind_cuda_manager(module);
  bind_memory_manager(module);
  bind_performance_monitor(module);
  bind_gpu_manager(module);
}

}  // namespace gpuwarden::python
