// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/out_of_use.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "gpuwarden/base/users.hpp"

namespace gpuwarden::machine {

lease::HealthPlaces health_places(const Environment& environment, const probe::ReaderOptions& reader) {
  if (!reader.simulated) {
    auto places = lease::health_places(lease::disabling_places(environment));
    places.epoch_now = [sys = reader.sys_root, proc = reader.driver_proc_root] {
      return lease::driver_epoch(sys, proc);
    };
    return places;
  }
  const auto fleet = reader.variables.find("GPUWARDEN_SIM_FLEET");
  const std::filesystem::path folder = fleet == reader.variables.end() ? "" : fleet->second;
  return {folder / "health", folder / "health", "simulated"};
}

Result<lease::Disablings::View> out_of_use(const Environment& environment, const probe::ReaderOptions& reader,
                                           std::chrono::system_clock::time_point now) {
  GPUWARDEN_TRY(lease::Disablings::View view, lease::Disablings(lease::disabling_places(environment)).read());
  const lease::HealthPlaces places = health_places(environment, reader);
  GPUWARDEN_TRY(const lease::VerdictView known, lease::read_verdicts(places));
  for (const std::string& warning : known.warnings) view.warnings.push_back(warning);
  view.accepted = known.accepted;
  lease::HealthView health = lease::read_health(places, now, known);
  for (facts::Disabling& one : health.unfit) {
    // A person's word comes first.
    if (facts::find_disabling(view.disabled, one.uuid) == nullptr) view.disabled.push_back(std::move(one));
  }
  for (std::string& warning : health.warnings) view.warnings.push_back(std::move(warning));
  return view;
}

Result<EnabledGpus> enable(const Environment& environment, const probe::ReaderOptions& reader,
                           const EnableRequest& request, const Clock& clock) {
  const lease::HealthPlaces places = health_places(environment, reader);
  GPUWARDEN_TRY(const lease::VerdictView known, lease::read_verdicts(places));
  const lease::HealthView health = lease::read_health(places, clock.wall_now(), known);
  const std::string by = request.by.empty() ? name_of_user(::geteuid()) : request.by;
  std::vector<lease::Acceptance> accepted;
  for (const lease::Verdict& verdict : health.verdicts) {
    if (std::ranges::find(request.gpus, verdict.health.uuid) == request.gpus.end()) continue;
    if (verdict.for_everybody && ::geteuid() != 0)
      return fail(
          ErrorCode::permission_denied,
          fmt::format("{} is judged unfit by {}: {}", verdict.health.uuid.value, verdict.by, verdict.health.reason),
          "root puts it back: sudo gpuwarden enable " + verdict.health.uuid.value);
    accepted.push_back(
        {verdict.health.uuid, request.reason, by, clock.wall_now(), verdict.health.causes, ::geteuid() == 0});
  }
  for (const facts::Health& seen : request.seen) {
    if (std::ranges::find(request.gpus, seen.uuid) == request.gpus.end()) continue;
    const auto judged = std::ranges::find(accepted, seen.uuid, &lease::Acceptance::uuid);
    if (judged == accepted.end())
      accepted.push_back({seen.uuid, request.reason, by, clock.wall_now(), seen.causes, ::geteuid() == 0});
    else
      std::ranges::copy_if(seen.causes, std::back_inserter(judged->causes),
                           [&](const facts::HealthCause& cause) { return !lease::accepts(*judged, cause); });
  }
  for (lease::Acceptance& one : accepted) {
    const auto mark = std::ranges::find(request.marks, one.uuid, &lease::ResetMark::uuid);
    if (mark != request.marks.end()) one.mark = *mark;
  }
  EnabledGpus enabled;
  GPUWARDEN_TRY(enabled.disabled, lease::Disablings(lease::disabling_places(environment)).enable(request.gpus));
  if (!accepted.empty()) GPUWARDEN_CHECK(lease::accept(places, accepted));
  enabled.accepted = std::move(accepted);
  return enabled;
}

}  // namespace gpuwarden::machine
