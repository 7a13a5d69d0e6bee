// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/serve/local_actions.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "gpuwarden/base/process.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/users.hpp"
#include "gpuwarden/machine/at_sight.hpp"
#include "gpuwarden/probe/power_limit.hpp"

namespace gpuwarden::serve {
namespace {

using machine::Machine;

Result<void> disable_here(const Machine& machine, const facts::Disabling& wanted) {
  return machine.disablings().disable({wanted.uuid}, wanted.reason, wanted.by, system_clock());
}

/// What the GPU itself shows is accepted, too, as `gpuwarden enable` does it.
Result<void> enable_here(const Machine& machine, const Uuid& uuid) {
  const facts::Snapshot snapshot = machine.read({.processes = false, .every = std::chrono::seconds(1)});
  const auto request = machine::enable_request(snapshot, {uuid}, "", name_of_user(::geteuid()) + "'s gpuwarden serve");
  GPUWARDEN_CHECK(machine::enable(machine.options().environment, machine.reader(), request, system_clock()));
  return {};
}

struct NamedRight {
  std::string_view name;
  bool KeptRights::* right;
};
constexpr auto kRights = std::to_array<NamedRight>(
    {{"power", &KeptRights::power}, {"signal", &KeptRights::signals}, {"disable", &KeptRights::disable}});

}  // namespace

Result<KeptRights> kept_rights_from(std::span<const std::string> names) {
  KeptRights rights;
  for (const std::string& name : names) {
    const auto* const row = std::ranges::find(kRights, name, &NamedRight::name);
    if (row == kRights.end())
      return fail(ErrorCode::invalid_argument, fmt::format("unknown right '{}'", printable(name)),
                  "power, signal or disable");
    rights.*(row->right) = true;
  }
  return rights;
}

Result<std::unique_ptr<Helper>> start_helper(const Machine& machine, const KeptRights& rights) {
  if (!rights.any()) return nullptr;
  if (::geteuid() != 0 && !machine.simulated())
    return fail(ErrorCode::permission_denied, "only root has rights to keep", "start gpuwarden serve as root");
  HelperRights kept{.signals = rights.signals};
  if (rights.power)
    kept.set_power_limit = [&machine](const Uuid& uuid, Milliwatts limit) {
      return probe::set_power_limit(machine.reader(), uuid, limit);
    };
  if (rights.disable) {
    kept.disable = [&machine](const facts::Disabling& wanted) { return disable_here(machine, wanted); };
    kept.enable = [&machine](const Uuid& uuid) { return enable_here(machine, uuid); };
  }
  return Helper::start(kept);
}

Actions actions_of(const Machine& machine, const KeptRights& rights, Helper* helper) {
  Actions actions;
  if (rights.signals) {
    actions.signal = [helper](Pid pid, int signal, const Peer& peer) {
      return helper->signal(pid, signal, peer.descriptor);
    };
  } else {
    actions.signal = [](Pid pid, int signal, const Peer&) { return send_signal(pid, std::nullopt, signal); };
  }
  if (rights.power)
    actions.set_power_limit = [helper](const Uuid& uuid, Milliwatts limit) {
      return helper->set_power_limit(uuid, limit);
    };
  if (rights.disable) {
    actions.disable = [helper](const facts::Disabling& wanted) {
      return helper->disable(wanted.uuid, wanted.reason, wanted.by);
    };
    // What the server itself judges stands in the files of the user whom root has become: that is undone, too.
    actions.enable = [helper, &machine](const Uuid& uuid) -> Result<void> {
      GPUWARDEN_CHECK(helper->enable(uuid));
      return enable_here(machine, uuid);
    };
  } else {
    actions.disable = [&machine](const facts::Disabling& wanted) { return disable_here(machine, wanted); };
    actions.enable = [&machine](const Uuid& uuid) { return enable_here(machine, uuid); };
  }
  if (!rights.disable && ::geteuid() != 0) actions.disables_for = name_of_user(::geteuid());
  return actions;
}

}  // namespace gpuwarden::serve
