// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/out_of_use.hpp"

#include <filesystem>
#include <utility>

namespace gpuwarden::machine {

lease::HealthPlaces health_places(const Environment& environment, const probe::ReaderOptions& reader) {
  if (!reader.simulated) return lease::health_places(lease::disabling_places(environment));
  const auto fleet = reader.variables.find("GPUWARDEN_SIM_FLEET");
  const std::filesystem::path folder = fleet == reader.variables.end() ? "" : fleet->second;
  return {folder / "health", folder / "health"};
}

Result<lease::Disablings::View> out_of_use(const Environment& environment, const probe::ReaderOptions& reader,
                                           std::chrono::system_clock::time_point now) {
  GPUWARDEN_TRY(lease::Disablings::View view, lease::Disablings(lease::disabling_places(environment)).read());
  lease::HealthView health = lease::read_health(health_places(environment, reader), now);
  for (facts::Disabling& one : health.unfit) {
    // A person's word comes first.
    if (facts::find_disabling(view.disabled, one.uuid) == nullptr) view.disabled.push_back(std::move(one));
  }
  for (std::string& warning : health.warnings) view.warnings.push_back(std::move(warning));
  return view;
}

}  // namespace gpuwarden::machine
