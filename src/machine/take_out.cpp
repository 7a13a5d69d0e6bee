// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/take_out.hpp"

#include <unistd.h>

#include <chrono>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/use.hpp"
#include "gpuwarden/machine/at_sight.hpp"
#include "gpuwarden/machine/enable_names.hpp"
#include "gpuwarden/placement/names.hpp"

namespace gpuwarden::machine {
namespace {

/// Whoever became root by sudo; else nobody by name.
std::string by_whom(const Environment& environment) {
  const auto found = environment.find("SUDO_USER");
  return found == environment.end() || found->second.empty() ? "" : printable(found->second) + " with sudo";
}

Result<void> check_names(const std::vector<std::string>& names) {
  if (!names.empty()) return {};
  return fail(ErrorCode::invalid_argument, "no GPU is named", "an index, a UUID or a PCI bus id");
}

bool means_all(const std::vector<std::string>& names) { return names == std::vector<std::string>{"all"}; }

facts::Snapshot look_at(const Machine& machine) {
  return machine.read({.processes = false, .every = std::chrono::seconds(1)});
}

}  // namespace

Result<TakenOut> take_out(const Machine& machine, const std::vector<std::string>& names, const std::string& reason,
                          const Clock& clock) {
  GPUWARDEN_CHECK(check_names(names));
  TakenOut taken{.gpus = look_at(machine), .now = {}};
  if (!means_all(names)) GPUWARDEN_CHECK(placement::keep_named(placement::expand_ranges(names), taken.gpus));
  if (taken.gpus.gpus.empty() && taken.gpus.problem) {
    const auto& problem = *taken.gpus.problem;
    return fail(problem.code, problem.message, problem.hint);
  }
  if (taken.gpus.gpus.empty()) return fail(ErrorCode::not_found, "this machine has no GPU");
  std::vector<Uuid> uuids;
  for (const facts::GpuRecord& record : taken.gpus.gpus) uuids.push_back(facts::identity_of(record));
  GPUWARDEN_CHECK(machine.disablings().disable(uuids, reason, by_whom(machine.options().environment), clock));
  GPUWARDEN_TRY(taken.now, out_of_use_in(machine, taken.gpus, clock.wall_now()));
  return taken;
}

Result<PutBack> put_back(const Machine& machine, const std::vector<std::string>& names, const std::string& reason,
                         const Clock& clock) {
  GPUWARDEN_CHECK(check_names(names));
  PutBack back;
  back.machine = look_at(machine);
  GPUWARDEN_TRY(auto before, out_of_use_in(machine, back.machine, clock.wall_now()));
  back.before = std::move(before.disabled);
  if (means_all(names)) {
    back.gpus = all_to_enable(back.before, ::geteuid() == 0);
  } else {
    GPUWARDEN_TRY(back.gpus, gpus_to_enable(names, back.machine, back.before));
  }
  const auto request = enable_request(back.machine, back.gpus, reason, by_whom(machine.options().environment));
  GPUWARDEN_TRY(back.enabled, enable(machine.options().environment, machine.reader(), request, clock));
  GPUWARDEN_TRY(back.now, out_of_use_in(machine, back.machine, clock.wall_now()));
  return back;
}

}  // namespace gpuwarden::machine
