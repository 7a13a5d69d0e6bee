// SPDX-License-Identifier: Apache-2.0
// gpuwarden._core: what the validator of an environment judges by: the drivers for its GPUs, and each CUDA release with
// what is built for it. Of the knowledge base, under the overlays of site and user.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>

#include "gpuwarden/compat/json.hpp"
#include "gpuwarden/knowledge/overlays.hpp"
#include "support/open_machine.hpp"

namespace gpuwarden::python {

void bind_environment(nb::module_& module);

namespace {

using nlohmann::json;

Result<knowledge::Knowledge> knowledge_with(const json& options) {
  auto files = knowledge::overlay_files(current_environment());
  for (const std::string& file : option_or(options, "knowledge", std::vector<std::string>{})) files.emplace_back(file);
  return knowledge::read_knowledge(files);
}

/// Every release of CUDA that is known, once, oldest first.
json toolkits_of(const compat::Asked& asked) {
  json rows = json::array();
  std::vector<knowledge::Version> seen;
  for (const knowledge::CudaToolkit& toolkit : asked.knowledge.toolkits()) {
    const auto release = release_of(toolkit.version);
    if (std::ranges::find(seen, release) != seen.end()) continue;
    seen.push_back(release);
    rows.push_back(compat::to_json(compat::answer_cuda(asked, release)));
  }
  return rows;
}

Result<json> judge(const facts::Snapshot& snapshot, const json& options) {
  GPUWARDEN_TRY(const knowledge::Knowledge known, knowledge_with(options));
  const auto now = std::chrono::system_clock::now();
  compat::Place place = compat::place_of(snapshot, known);
  const std::string workload = option_or(options, "workload", "");
  const json here = compat::to_json(compat::answer_matrix({known, place, now}, {}, workload));
  GPUWARDEN_TRY(place.gpus, compat::gpus_named({option_or(options, "gpu", "")}, known));
  place.named = true;
  place.machine.clear();  // theirs, not this one's
  const compat::Asked asked{known, place, now};
  return json{{"here", here["matrix"]},
              {"named", compat::to_json(compat::answer_matrix(asked, {}, workload))["matrix"]},
              {"cuda", toolkits_of(asked)},
              {"driver", snapshot.driver_version ? json(*snapshot.driver_version) : json()},
              {"overlays", known.overlays()}};
}

std::string compatibility(OpenMachine& self, const std::string& text) {
  const json options = read_options(text);
  const facts::Snapshot snapshot = self.read({.processes = false});
  return json_text(unwrap(without_gil([&] { return judge(snapshot, options); })));
}

}  // namespace

void bind_environment(nb::module_& module) {
  module.def("compatibility", &compatibility, nb::arg("machine"), nb::arg("options"));
}

}  // namespace gpuwarden::python
