// SPDX-License-Identifier: Apache-2.0
// gpuwarden._core.Monitor: watching GPUs in the background. Its callbacks come from a thread of the library.
#include "gpuwarden/telemetry/monitor.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <fmt/format.h>

#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/placement/names.hpp"
#include "support/held.hpp"
#include "support/open_machine.hpp"

namespace gpuwarden::python {

void bind_monitor(nb::module_& module);

namespace {

using nlohmann::json;
using telemetry::WallTime;

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000; }
/// The last so many seconds.
telemetry::Window last(const char* name, double seconds) {
  const WallTime now = system_clock().wall_now();
  return {now - milliseconds_of(name, seconds), now + std::chrono::milliseconds(1)};
}
double unix_time(WallTime time) { return std::chrono::duration<double>(time.time_since_epoch()).count(); }

Result<telemetry::MonitorOptions> monitor_options(const machine::Machine& machine, const json& given) {
  telemetry::MonitorOptions options;
  if (machine.captured())
    return fail(ErrorCode::invalid_argument, "a captured machine does not change", "there is nothing to watch");
  options.reader = machine.reader();
  options.sampler.interval = milliseconds_of("interval_s", option_or(given, "interval_s", 1.0));
  options.sampler.processes = option_or(given, "processes", true);
  options.sampler.events = option_or(given, "events", true);
  if (options.sampler.interval < std::chrono::milliseconds(100) || options.sampler.interval > std::chrono::minutes(10))
    return fail(ErrorCode::invalid_argument, "interval_s must be from 0.1 to 600");
  if (given.contains("rules")) {
    GPUWARDEN_TRY(options.alerts, telemetry::parse_alert_rules(option<std::string>(given, "rules"), "rules"));
  }
  if (given.contains("remember_s"))
    options.remember = milliseconds_of("remember_s", option<double>(given, "remember_s"));
  if (given.contains("store")) options.store = option<std::string>(given, "store");
  return options;
}

class PyMonitor {
 public:
  PyMonitor(const OpenMachine& open, const std::string& text) {
    const auto machine = open.share();
    auto options = unwrap(monitor_options(*machine, read_options(text)));
    // It holds no machine: a simulated one ends when it is closed, whoever still has a monitor of it.
    // What cannot be read now is as it was.
    options.disabled = [disablings = machine->disablings(), last = std::make_shared<std::vector<facts::Disabling>>()] {
      if (auto now = disablings.read()) *last = std::move(now->disabled);
      return *last;
    };
    const nb::gil_scoped_release without_gil;
    monitor_ = std::make_unique<telemetry::PerformanceMonitor>(std::move(options));
  }
  PyMonitor(const PyMonitor&) = delete;
  PyMonitor& operator=(const PyMonitor&) = delete;
  ~PyMonitor() {
    if (!owner_.here()) {  // its threads are the parent's
      [[maybe_unused]] auto* kept = monitor_.release();
      return;
    }
    // A callback may be waiting for the lock.
    const nb::gil_scoped_release without_gil;
    monitor_.reset();
  }

  telemetry::PerformanceMonitor& get() const {
    owner_.check("Monitor");
    return *monitor_;
  }
  bool here() const { return owner_.here(); }

  /// The monitor calls the function with its news until the garbage collector finds that nobody has the monitor but
  /// the function itself. `add` is given what the library calls.
  template <class News, class Add, class Write>
  void listen(nb::callable function, Add add, Write write) {
    const PythonFunction listener(std::move(function));
    const auto id = add(get(), [listener, write](const News& news) { listener(json_text(write(news))); });
    listeners_.emplace_back(id, listener);
  }

  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nb::inst_ready(self)) return 0;
    for (const auto& [id, listener] : nb::inst_ptr<PyMonitor>(self)->listeners_) Py_VISIT(listener.object());
    return 0;
  }
  static int clear(PyObject* self) {
    auto* const monitor = nb::inst_ptr<PyMonitor>(self);
    auto listeners = std::move(monitor->listeners_);
    monitor->listeners_.clear();
    if (!monitor->here()) return 0;
    const nb::gil_scoped_release without_gil;  // a callback may be waiting for the lock
    for (const auto& [id, listener] : listeners) monitor->monitor_->remove_callback(id);
    listeners.clear();
    return 0;
  }

  /// A GPU by index, UUID or the beginning of one, as the last reading has it.
  Uuid gpu(const std::string& name) const {
    const auto reading = get().latest();
    if (!reading)
      raise({ErrorCode::unavailable, "nothing was read yet", "wait for a reading: monitor.wait(timeout_s=5)"});
    facts::Snapshot snapshot = reading->snapshot;
    unwrap(placement::keep_named({{name}}, snapshot));
    return snapshot.gpus.at(0).gpu.uuid;
  }

 private:
  Owner owner_;
  std::vector<std::pair<telemetry::CallbackId, PythonFunction>> listeners_;
  std::unique_ptr<telemetry::PerformanceMonitor> monitor_;
};

json reading_json(const telemetry::Reading& reading) {
  json answer = facts::to_json(reading.snapshot);
  json events = json::array();
  for (const auto& event : reading.events) events.push_back(facts::to_json(event));
  answer["events"] = events;
  answer["took_seconds"] = std::chrono::duration<double>(reading.took).count();
  return answer;
}

json change_json(const telemetry::HealthChange& change) {
  return {{"before", facts::to_json(change.before)}, {"now", facts::to_json(change.now)}};
}

template <class List>
std::string list_text(const List& list) {
  json rows = json::array();
  for (const auto& one : list) rows.push_back(to_json(one));
  return json_text(rows);
}

/// What was read until now; no reading in time is nothing.
std::optional<std::string> wait_for_reading(const PyMonitor& self, double timeout_s) {
  auto& monitor = self.get();
  const auto deadline = system_clock().now() + milliseconds_of("timeout_s", timeout_s);
  const auto last = monitor.latest();
  const auto after = last ? std::optional(last->when) : std::nullopt;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - system_clock().now());
    const auto reading = without_gil(
        [&] { return monitor.wait_for_reading(after, std::clamp(left, std::chrono::milliseconds(0), kSignalPeriod)); });
    if (reading) return json_text(reading_json(*reading));
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (left <= kSignalPeriod || !monitor.running()) return std::nullopt;
  }
}

std::string history(const PyMonitor& self, const std::string& gpu, const std::string& metric, double last_s,
                    double step_s) {
  const Uuid uuid = self.gpu(gpu);
  const auto series = unwrap(without_gil(
      [&] { return self.get().history(uuid, metric, last("last_s", last_s), milliseconds_of("step_s", step_s)); }));
  json points = json::array();
  for (const telemetry::Point& point : series.points)
    points.push_back({{"time_unix", unix_time(point.time)},
                      {"min", point.min},
                      {"mean", point.mean},
                      {"max", point.max},
                      {"readings", point.readings}});
  return json_text({{"uuid", series.uuid.value},
                    {"metric", series.metric},
                    {"step_seconds", seconds(series.step)},
                    {"points", points}});
}

std::optional<std::string> statistics(const PyMonitor& self, const std::string& gpu, const std::string& metric,
                                      double last_s) {
  const Uuid uuid = self.gpu(gpu);
  const auto found =
      unwrap(without_gil([&] { return self.get().statistics(uuid, metric, milliseconds_of("last_s", last_s)); }));
  if (!found) return std::nullopt;
  return json_text({{"metric", metric},
                    {"readings", found->readings},
                    {"min", found->min},
                    {"mean", found->mean},
                    {"max", found->max},
                    {"p50", found->p50},
                    {"p95", found->p95},
                    {"p99", found->p99},
                    {"covered_seconds", seconds(found->covered)}});
}

std::optional<std::string> energy(const PyMonitor& self, const std::string& gpu, double last_s) {
  const Uuid uuid = self.gpu(gpu);
  const auto found = unwrap(without_gil([&] { return self.get().energy(uuid, last("last_s", last_s)); }));
  if (!found) return std::nullopt;
  return json_text({{"joules", found->joules}, {"from_counter", found->from_counter}});
}

void silence(const PyMonitor& self, const std::string& rule, const std::string& gpu, double for_s,
             const std::string& by, const std::string& comment) {
  unwrap(self.get().silence({.rule = rule,
                             .uuid = gpu.empty() ? Uuid() : self.gpu(gpu),
                             .until = system_clock().wall_now() + milliseconds_of("for_s", for_s),
                             .by = by,
                             .comment = comment}));
}

template <class Bound>
void bind_callbacks(Bound& bound) {
  using telemetry::PerformanceMonitor;
  bound.def("add_reading_callback", [](PyMonitor& self, nb::callable callback) {
    self.listen<telemetry::Reading>(
        std::move(callback),
        [](PerformanceMonitor& monitor, auto tell) { return monitor.add_reading_callback(std::move(tell)); },
        [](const telemetry::Reading& reading) { return reading_json(reading); });
  });
  bound.def("add_alert_callback", [](PyMonitor& self, nb::callable callback) {
    self.listen<telemetry::AlertChange>(
        std::move(callback),
        [](PerformanceMonitor& monitor, auto tell) { return monitor.add_alert_callback(std::move(tell)); },
        [](const telemetry::AlertChange& change) { return telemetry::to_json(change); });
  });
  bound.def("add_health_callback", [](PyMonitor& self, nb::callable callback) {
    self.listen<telemetry::HealthChange>(
        std::move(callback),
        [](PerformanceMonitor& monitor, auto tell) { return monitor.add_health_callback(std::move(tell)); },
        [](const telemetry::HealthChange& change) { return change_json(change); });
  });
}

template <class Bound>
void bind_answers(Bound& bound) {
  bound.def("latest", [](const PyMonitor& self) -> std::optional<std::string> {
    const auto reading = self.get().latest();
    return reading ? std::optional(json_text(reading_json(*reading))) : std::nullopt;
  });
  bound.def("wait_for_reading", &wait_for_reading, nb::arg("timeout_s"));
  bound.def("history", &history, nb::arg("gpu"), nb::arg("metric"), nb::arg("last_s"), nb::arg("step_s"));
  bound.def("statistics", &statistics, nb::arg("gpu"), nb::arg("metric"), nb::arg("last_s"));
  bound.def("energy", &energy, nb::arg("gpu"), nb::arg("last_s"));
  bound.def("health", [](const PyMonitor& self) { return list_text(self.get().health()); });
  bound.def("alerts", [](const PyMonitor& self) { return list_text(self.get().alerts()); });
  bound.def(
      "alert_log", [](const PyMonitor& self, unsigned most) { return list_text(self.get().alert_log(most)); },
      nb::arg("most"));
  bound.def("acknowledge", [](const PyMonitor& self, std::uint64_t alert, const std::string& by) {
    unwrap(self.get().acknowledge(alert, by));
  });
  bound.def("silence", &silence);
}

}  // namespace

void bind_monitor(nb::module_& module) {
  // Callbacks often hold the object that holds the monitor.
  static PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&PyMonitor::traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(&PyMonitor::clear)},
                                {0, nullptr}};
  nb::class_<PyMonitor> bound(module, "Monitor", nb::is_weak_referenceable(), nb::type_slots(slots));
  bound.def(nb::init<const OpenMachine&, const std::string&>(), nb::arg("machine"), nb::arg("options"));
  bound.def("start",
            [](const PyMonitor& self) { unwrap(without_gil([&monitor = self.get()] { return monitor.start(); })); });
  bound.def("stop", [](const PyMonitor& self) {
    without_gil([&monitor = self.get()] {
      monitor.stop();
      return 0;
    });
  });
  bound.def_prop_ro("running", [](const PyMonitor& self) { return self.here() && self.get().running(); });
  bind_callbacks(bound);
  bind_answers(bound);
}

}  // namespace gpuwarden::python
