// SPDX-License-Identifier: Apache-2.0
// gpuwarden._core's profile functions: the profiler that gpuwarden.profile measures with.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/facts/json.hpp"
#include "support/own_profiler.hpp"
#include "support/support.hpp"

namespace gpuwarden::python {

void bind_profile(nb::module_& module);

namespace {

using profile::Profiler;

/// A forked child gets another one: what its parent's holds, locks included, stays as it was.
std::atomic<Profiler*>& current() {
  static std::atomic<Profiler*> profiler{&profile::default_profiler()};
  return profiler;
}

Profiler& profiler() { return own_profiler(); }

/// One run, until end() or until Python lets go of it.
class PythonScope {
 public:
  PythonScope(std::string_view name, std::uintptr_t stream) { scope_.emplace(name, profiler(), stream); }
  void end() { scope_.reset(); }

 private:
  std::optional<profile::Scope> scope_;
};

std::atomic<bool>& wanted() {
  static std::atomic<bool> on{true};
  return on;
}

void set_enabled(bool enabled) {
  wanted() = enabled;
  profiler().set_enabled(enabled);
}

void after_fork() {
  // The parent's is left alone; a process forks seldom.
  current().store(new Profiler({.enabled = wanted()}), std::memory_order_release);
}

void follow_memory(const nb::object& ask) {
  if (ask.is_none()) {
    profiler().set_memory({});
    return;
  }
  // Never let go of: a scope may ask until the very end, when the interpreter is gone.
  PyObject* const callable = nb::object(ask).release().ptr();
  profiler().set_memory([callable]() -> std::optional<Bytes> {
    const nb::gil_scoped_acquire locked;
    try {
      const nb::object bytes = nb::handle(callable)();
      if (bytes.is_none()) return std::nullopt;
      return Bytes(nb::cast<std::uint64_t>(bytes));
    } catch (const std::exception&) {
      return std::nullopt;  // what cannot be asked is not known
    }
  });
}

/// Readings as a Monitor's callback gets them: a snapshot's JSON, or an object with one at "snapshot".
void hear(const std::string& text) {
  const nb::gil_scoped_release unlocked;
  const auto now = system_clock().now();
  const auto document = nlohmann::json::parse(text, nullptr, false);
  if (!document.is_object()) return;
  const auto snapshot = facts::snapshot_from_json(document.contains("snapshot") ? document["snapshot"] : document);
  if (snapshot) profiler().hear(profile::readings_of(*snapshot, now));
}

void time_device(const std::optional<std::string>& library) {
  profiler().set_device(library ? unwrap(profile::open_cuda_timer(*library)) : nullptr);
}

void tell_nvtx(const std::optional<std::string>& library) {
  profiler().set_ranges(library ? unwrap(profile::open_nvtx(*library)) : nullptr);
}

std::string results() {
  const nb::gil_scoped_release unlocked;
  return json_text(profile::to_json(profiler().results()));
}

nb::object trace(const std::string& foreign) {
  Result<std::string> text;
  {
    const nb::gil_scoped_release unlocked;
    text = profile::chrome_trace(profiler().trace(), foreign);
  }
  const std::string all = unwrap(std::move(text));
  return nb::bytes(all.data(), all.size());
}

void reset() {
  const nb::gil_scoped_release unlocked;
  profiler().reset();
}

}  // namespace

Profiler& own_profiler() { return *current().load(std::memory_order_acquire); }

void bind_profile(nb::module_& module) {
  nb::class_<PythonScope>(module, "ProfileScope", "One run of an operation, from its making to end().")
      .def(nb::init<std::string_view, std::uintptr_t>(), nb::arg("name"), nb::arg("stream") = 0)
      .def("end", &PythonScope::end);
  module.def("profile_enabled", [] { return profiler().enabled(); });
  module.def("profile_set_enabled", set_enabled, nb::arg("enabled"));
  module.def("profile_device", time_device, nb::arg("library").none());
  module.def("profile_nvtx", tell_nvtx, nb::arg("library").none());
  module.def("profile_memory", follow_memory, nb::arg("ask").none());
  module.def("profile_hear", hear, nb::arg("reading"));
  module.def("profile_results", results);
  module.def("profile_trace", trace, nb::arg("foreign") = "", nb::sig("def profile_trace(foreign: str = '') -> bytes"));
  module.def("profile_reset", reset);
  module.def("profile_after_fork", after_fork);
}

}  // namespace gpuwarden::python
