// SPDX-License-Identifier: Apache-2.0
// gpuwarden._core: what concerns this process itself: the GPUs that it chooses for itself, CUDA as it has started it,
// and the file in which it tells others of its memory.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstdint>
#include <map>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/diagnosis/causes.hpp"
#include "gpuwarden/diagnosis/diagnosis.hpp"
#include "gpuwarden/diagnosis/json.hpp"
#include "gpuwarden/machine/own_choice.hpp"
#include "gpuwarden/placement/json.hpp"
#include "gpuwarden/placement/selection.hpp"
#include "gpuwarden/pools/started_cuda.hpp"
#include "gpuwarden/pools/status_file.hpp"
#include "support/arguments.hpp"
#include "support/open_machine.hpp"

namespace gpuwarden::python {

void bind_own_process(nb::module_& module);

namespace {

using nlohmann::json;

std::optional<std::string> text_in(const json& options, const char* key) {
  const auto found = options.find(key);
  return found != options.end() && found->is_string() ? std::optional(found->get<std::string>()) : std::nullopt;
}

/// What the choice is told beside the request.
constexpr auto kOwnKeys =
    std::to_array<const char*>({"cuda_visible_devices", "cuda_device_order", "run_id", "pids", "model_size_bytes"});

placement::Request request_of(json options) {
  std::optional<Bytes> model_size;  // weights in 16 bit, of which nothing else is known
  if (options.contains("model_size_bytes")) model_size = Bytes(option<std::uint64_t>(options, "model_size_bytes"));
  for (const char* key : kOwnKeys) options.erase(key);
  const auto asked = unwrap(Arguments::read(options, {placement::selection_names()}));
  placement::Request request = unwrap(asked.told(asked.gpus())).gpus;
  request.model_size = model_size;
  return request;
}

/// The decision as `select --json` has it, with a CUDA number for each chosen GPU and what stands in
/// CUDA_VISIBLE_DEVICES.
std::string choose_for_process(const OpenMachine& self, const std::string& text) {
  const json options = read_options(text);
  const placement::Visibility visibility{.cuda_visible_devices = text_in(options, "cuda_visible_devices"),
                                         .cuda_device_order = text_in(options, "cuda_device_order")};
  machine::Chooser chooser;
  for (const std::int32_t pid : option_or(options, "pids", std::vector<std::int32_t>{}))
    chooser.pids.push_back(Pid{pid});
  const auto machine = self.share();
  const placement::Request request = request_of(options);
  const auto choice =
      unwrap(without_gil([&] { return machine::choose_for(*machine, request, chooser, visibility, system_clock()); }));
  json answer = placement::to_json(choice.decision, choice.request, {choice.snapshot, choice.others, {}, visibility});
  answer["may_come_true"] = choice.decision.may_come_true;
  return json_text(answer);
}

/// {"0": 1, "2": null}: the CUDA number of each GPU by its index.
std::string cuda_ordinals(OpenMachine& self, const std::string& text) {
  const json options = read_options(text);
  const placement::Visibility visibility{.cuda_visible_devices = text_in(options, "cuda_visible_devices"),
                                         .cuda_device_order = text_in(options, "cuda_device_order")};
  const facts::Snapshot snapshot = self.read({.processes = false});
  const auto started = pools::started_cuda_devices();
  json numbers = json::object();
  for (const facts::GpuRecord& record : snapshot.gpus) {
    const auto ordinal = machine::cuda_ordinal(record.gpu.uuid, visibility, snapshot, started);
    numbers[std::to_string(record.gpu.index.value)] = ordinal ? json(*ordinal) : json();
  }
  return json_text(numbers);
}

std::optional<std::vector<std::string>> started_cuda() {
  const auto devices = pools::started_cuda_devices();
  if (!devices) return std::nullopt;
  std::vector<std::string> uuids;
  for (const Uuid& uuid : *devices) uuids.push_back(uuid.value);
  return uuids;
}

/// What `gpuwarden diagnose` makes of a text.
std::string diagnose_text(const std::string& text) {
  return json_text(without_gil([&] { return diagnosis::to_json(diagnosis::diagnose_text(text, "")); }));
}

/// What `gpuwarden diagnose --explain` finds by the words.
std::string look_up(const std::string& words) {
  const auto& known = knowledge::Knowledge::built_in();
  return json_text(without_gil([&] { return diagnosis::to_json(diagnosis::look_up(words, known)); }));
}

void write_status(pools::StatusFile& self, const std::string& gpu, const std::string& strategy,
                  const std::map<std::string, std::uint64_t>& figures) {
  pools::PublishedPool status;
  status.gpu = Uuid(gpu);
  status.strategy = strategy;
  for (const auto& [key, value] : figures) unwrap(pools::set_figure(status, key, value));
  unwrap(self.write(std::move(status)));
}

}  // namespace

void bind_own_process(nb::module_& module) {
  module.def("choose_for_process", &choose_for_process, nb::arg("machine"), nb::arg("options"));
  module.def("cuda_ordinals", &cuda_ordinals, nb::arg("machine"), nb::arg("options"));
  module.def("started_cuda_devices", &started_cuda,
             "UUIDs of the devices that CUDA shows this process; None where it was not started.");
  module.def("diagnose_text", &diagnose_text, nb::arg("text"));
  module.def("look_up", &look_up, nb::arg("words"));
  nb::class_<pools::StatusFile>(module, "StatusFile")
      .def_static(
          "create", [](const std::string& folder) { return unwrap(pools::StatusFile::create(folder, system_clock())); },
          nb::arg("folder"))
      .def_prop_ro("file", [](const pools::StatusFile& self) { return self.file().string(); })
      .def("write", &write_status, nb::arg("gpu"), nb::arg("strategy"), nb::arg("figures"));
}

}  // namespace gpuwarden::python
