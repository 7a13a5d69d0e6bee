// SPDX-License-Identifier: Apache-2.0
// gpuwarden._core.Machine: opening a machine and reading it.
#include "gpuwarden/machine/machine.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <tuple>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/lease/json.hpp"
#include "gpuwarden/logs/captures.hpp"
#include "gpuwarden/placement/names.hpp"
#include "gpuwarden/pools/memory_status.hpp"
#include "gpuwarden/telemetry/variables.hpp"
#include "support/open_machine.hpp"

namespace gpuwarden::python {

void bind_machine(nb::module_& module);

namespace {

using nlohmann::json;
using MachinePtr = std::shared_ptr<OpenMachine>;

Result<MachinePtr> open(const std::optional<std::string>& simulate, const std::vector<std::string>& captures,
                        const json& given) {
  if (simulate && !captures.empty())
    return fail(ErrorCode::invalid_argument, "simulate and capture cannot be given together",
                "simulate=FILE makes a simulated fleet of a capture, capture=FILE only looks at it");
  machine::Options options = own_options();
  if (given.contains("timeout_s")) options.timeout = milliseconds_of("timeout_s", option<double>(given, "timeout_s"));
  options.wake = option_or(given, "wake", false);
  if (given.contains("probe")) {
    const auto named = option<std::string>(given, "probe");
    const auto probe = probe::probe_choice_from(named);
    if (!probe)
      return fail(ErrorCode::invalid_argument, "probe: unknown value '" + named + "'", "auto, nvml or nvidia-smi");
    options.probe = *probe;
  }
  for (const std::string& file : option_or(given, "knowledge", std::vector<std::string>{}))
    options.overlays.emplace_back(file);
  if (simulate) return OpenMachine::open(machine::Simulated{*simulate}, std::move(options));
  if (captures.empty()) return OpenMachine::open(machine::Real{}, std::move(options));
  GPUWARDEN_TRY(auto texts, logs::read_texts(captures));
  return OpenMachine::open(std::move(texts), std::move(options));
}

probe::Detail detail_from(const std::string& name) {
  if (name == "basic") return probe::Detail::basic;
  if (name == "full") return probe::Detail::full;
  if (name == "slow") return probe::Detail::slow;
  raise({ErrorCode::invalid_argument, "unknown detail '" + name + "'", "basic, full or slow"});
}

probe::ReadRequest request_from(const json& options) {
  return {.detail = detail_from(option_or(options, "detail", "full")),
          .processes = option_or(options, "processes", true),
          .links = option_or(options, "links", false),
          .holders = option_or(options, "holders", false)};
}

std::string snapshot(OpenMachine& self, const std::string& options) {
  return json_text(facts::to_json(self.read(request_from(read_options(options)))));
}

/// All that judges look at, with the software around the GPUs.
std::string survey(const OpenMachine& self, const std::string& text) {
  const json options = read_options(text);
  const auto machine = self.share();
  const probe::ReadRequest request{.detail = probe::Detail::full, .links = true, .holders = true};
  return json_text(interruptible([&](const std::stop_token& stop) {
    probe::ReadRequest wanted = request;
    wanted.stop = stop;
    return facts::to_json(machine->survey(survey_options(options), wanted));
  }));
}

using MemoryRow = std::tuple<unsigned, std::string, std::optional<std::uint64_t>, std::optional<std::uint64_t>,
                             std::optional<std::uint64_t>>;

std::optional<std::uint64_t> plain(const std::optional<Bytes>& bytes) {
  return bytes ? std::optional(bytes->value) : std::nullopt;
}

/// Index, UUID, used, free and total memory of each GPU: what is read most often, so without JSON.
std::vector<MemoryRow> gpu_memory(OpenMachine& self) {
  const facts::Snapshot snapshot = self.read({.detail = probe::Detail::basic,
                                              .processes = false,
                                              .every = std::chrono::milliseconds(1000),
                                              .memory_alone = true});
  std::vector<MemoryRow> rows;
  for (const facts::GpuRecord& record : snapshot.gpus) {
    const facts::GpuSample& sample = record.sample;
    rows.emplace_back(record.gpu.index.value, record.gpu.uuid.value, plain(sample.memory_used),
                      plain(sample.memory_free), plain(sample.memory_total));
  }
  if (snapshot.problem && rows.empty())
    raise({ErrorCode::unavailable, snapshot.problem->message, snapshot.problem->hint});
  return rows;
}

/// The pools of this machine's processes; none where a capture stands for the machine.
pools::Pools pools_beside(const machine::Machine& machine) {
  return machine.captured() ? pools::Pools{} : pools::published_pools_of(machine.options().environment);
}

std::string memory_status(OpenMachine& self, const std::vector<std::string>& gpus) {
  facts::Snapshot snapshot = self.read({.holders = true});
  unwrap(placement::keep_named(placement::expand_ranges(gpus), snapshot));
  const auto machine = self.share();
  return json_text(without_gil([&] { return pools::to_json({snapshot, pools_beside(*machine)}); }));
}

std::string simulator_call(const OpenMachine& self, const std::string& request) {
  const auto machine = self.share();
  if (machine->simulator() == nullptr)
    raise({ErrorCode::invalid_argument, "this machine is not simulated", "gpuwarden.simulate(\"h100x8\") is"});
  const json asked = read_options(request);
  return json_text(unwrap(without_gil([&] { return machine->simulator()->call(asked); })));
}

std::string metrics() {
  json rows = json::array();
  for (const facts::Metric& metric : facts::metrics())
    rows.push_back({{"id", metric.id}, {"unit", metric.unit}, {"key", metric.json_path}, {"help", metric.help}});
  for (const telemetry::DerivedMetric& metric : telemetry::derived_metrics())
    rows.push_back({{"id", metric.id}, {"unit", metric.unit}, {"key", nullptr}, {"help", metric.help}});
  return json_text(rows);
}

}  // namespace

void bind_machine(nb::module_& module) {
  nb::class_<OpenMachine>(module, "Machine", nb::is_weak_referenceable())
      .def_static(
          "open",
          [](const std::optional<std::string>& simulate, const std::vector<std::string>& captures,
             const std::string& options) {
            const json given = read_options(options);
            return unwrap(without_gil([&] { return open(simulate, captures, given); }));
          },
          nb::arg("simulate").none(), nb::arg("captures"), nb::arg("options"))
      .def("close", &OpenMachine::close)
      .def_prop_ro("closed", &OpenMachine::closed)
      .def_prop_ro("simulated", [](const OpenMachine& self) { return self.share_any()->simulated(); })
      .def_prop_ro("fleet", [](const OpenMachine& self) { return self.share_any()->reader().fleet; })
      .def_prop_ro("capture_name", [](const OpenMachine& self) { return self.share_any()->capture_name(); })
      .def(
          "simulated_environment",
          [](const OpenMachine& self) { return json_text(self.share()->simulated_environment(current_environment())); })
      .def("snapshot", &snapshot, nb::arg("options"))
      .def("survey", &survey, nb::arg("options"))
      .def("gpu_memory", &gpu_memory)
      .def("memory_status", &memory_status, nb::arg("gpus"))
      .def("simulator_call", &simulator_call, nb::arg("request"));
  module.def("metrics", &metrics);
  module.def("native_folder", [] { return native_folder().string(); });
}

}  // namespace gpuwarden::python
