// SPDX-License-Identifier: Apache-2.0
#include "serve/serve_unknowns.hpp"

#include <algorithm>
#include <string_view>

#include "gpuwarden/machine/out_of_use.hpp"

namespace gpuwarden::cli {

std::vector<facts::Lease> Unknowns::leases(const facts::Snapshot& snapshot) {
  const auto store = machine_.open_leases("", "");
  leases_problem_.set(store ? std::nullopt : std::optional(store.error()));
  return store ? store->inspect(machine_.lease_devices(snapshot)).leases : std::vector<facts::Lease>{};
}

std::vector<facts::Disabling> Unknowns::disabled() {
  auto view = machine::out_of_use(machine_.options().environment, machine_.reader(), system_clock().wall_now());
  disablings_problem_.set(view ? std::nullopt : std::optional(view.error()));
  if (!view) return known_;
  out_of_use_.set(view->disabled);
  // What monitors judge is no word of a person's: this server's own monitor judges for itself.
  std::erase_if(view->disabled, [](const facts::Disabling& one) { return one.judged; });
  known_ = std::move(view->disabled);
  return known_;
}

RuleIds rules_quoting(const telemetry::AlertConfig& alerts) {
  RuleIds ids;
  const auto quotes = [](std::string_view words) {
    return words.find("{command}") != std::string_view::npos || words.find("{cmd}") != std::string_view::npos;
  };
  for (const telemetry::AlertRule& rule : alerts.rules) {
    if (quotes(rule.message) || quotes(rule.next_step)) ids.insert(rule.id);
  }
  return ids;
}

}  // namespace gpuwarden::cli
