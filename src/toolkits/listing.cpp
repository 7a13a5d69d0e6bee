// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/toolkits/listing.hpp"

#include <algorithm>

#include "gpuwarden/toolkits/activation.hpp"

namespace gpuwarden::toolkits {

const facts::Environment& software_of(const facts::Snapshot& snapshot) {
  static const facts::Environment kNone;
  return snapshot.environment ? *snapshot.environment : kNone;
}

std::optional<knowledge::Version> driver_of(const facts::Snapshot& snapshot) {
  const auto& driver = software_of(snapshot).driver;
  for (const auto& text : {snapshot.driver_version, driver.loaded_version, driver.on_disk_version}) {
    if (text) return knowledge::Version::parse(*text);
  }
  return std::nullopt;
}

std::vector<int> architectures_of(const facts::Snapshot& snapshot, const knowledge::Knowledge& knowledge) {
  std::vector<int> architectures;
  for (const facts::GpuRecord& record : snapshot.gpus) {
    const auto& capability = record.gpu.compute_capability;
    const auto architecture =
        capability ? capability->major * 10 + capability->minor : knowledge.architecture_of_name(record.gpu.name);
    if (record.gpu.vendor == "NVIDIA" && architecture) architectures.push_back(*architecture);
  }
  std::ranges::sort(architectures);
  const auto repeated = std::ranges::unique(architectures);
  architectures.erase(repeated.begin(), repeated.end());
  return architectures;
}

Result<ToolkitChoice> choose_toolkit_for(std::string_view architecture, const facts::Snapshot& snapshot,
                                         const knowledge::Knowledge& knowledge) {
  std::vector<int> wanted;
  if (architecture == "native") {
    wanted = architectures_of(snapshot, knowledge);
    if (wanted.empty())
      return fail(ErrorCode::unsatisfied, "native: there is no NVIDIA GPU here whose architecture is known",
                  "sm_89 names one");
  } else {
    GPUWARDEN_TRY(const int one, parse_architecture(architecture, knowledge));
    wanted = {one};
  }
  return choose_toolkit(software_of(snapshot).toolkits, wanted, driver_of(snapshot), knowledge);
}

ToolkitListing list_toolkits(const facts::Snapshot& snapshot, const Environment& variables,
                             const knowledge::Knowledge& knowledge) {
  ToolkitListing listing{snapshot.simulated, snapshot.fleet, driver_of(snapshot), {}};
  const std::string chosen = activated(variables);
  for (const auto* toolkit : newest_first(software_of(snapshot).toolkits)) {
    listing.toolkits.push_back({*toolkit, reasons_in_use(*toolkit), toolkit->path == chosen,
                                targets_of(*toolkit, knowledge), on_driver(*toolkit, listing.driver, knowledge)});
  }
  return listing;
}

}  // namespace gpuwarden::toolkits
