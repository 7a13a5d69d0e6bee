// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/lease/json.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/facts/use.hpp"

namespace gpuwarden::lease {
namespace {

using Json = nlohmann::json;

Json array_of(const std::vector<facts::Lease>& leases) {
  Json array = Json::array();
  for (const facts::Lease& lease : leases) array.push_back(facts::to_json(lease));
  return array;
}

Json array_of(const std::vector<facts::LeaseTicket>& tickets) {
  Json array = Json::array();
  for (const facts::LeaseTicket& ticket : tickets) {
    array.push_back({{"number", ticket.number},
                     {"user", ticket.owner.user},
                     {"pid", ticket.owner.pid.value == 0 ? Json() : Json(ticket.owner.pid.value)},
                     {"wants", ticket.wants},
                     {"command", ticket.owner.command}});
  }
  return array;
}

}  // namespace

Json to_json(const LeaseList& list) {
  return facts::answer({{"leases", array_of(list.situation.leases)},
                        {"simulated_leases", array_of(list.fleets.leases)},
                        {"waiting", array_of(list.situation.waiting)},
                        {"simulated_waiting", array_of(list.fleets.waiting)}},
                       list.simulated);
}

Json to_json(const Acceptance& acceptance) {
  facts::Health health;
  health.since = acceptance.since;
  health.causes = acceptance.causes;
  const Json whole = facts::to_json(health);
  return {{"uuid", acceptance.uuid.value},
          {"reason", acceptance.reason},
          {"by", acceptance.by},
          {"for_everybody", acceptance.for_everybody},
          {"since_unix_ms", whole.at("since_unix_ms")},
          {"causes", whole.at("causes")}};
}

Json to_json(const Disablings::View& view, bool simulated) {
  Json disabled = Json::array();
  for (const facts::Disabling& one : view.disabled) disabled.push_back(facts::to_json(one));
  Json accepted = Json::array();
  for (const Acceptance& one : view.accepted) accepted.push_back(to_json(one));
  return facts::answer({{"disabled", disabled}, {"accepted", accepted}}, simulated);
}

Json to_json(const facts::Snapshot& snapshot, const std::vector<facts::Lease>& leases,
             std::span<const facts::Disabling> disabled, std::span<const Acceptance> accepted) {
  Json json = facts::to_json(snapshot);
  for (std::size_t i = 0; i < snapshot.gpus.size(); ++i) {
    const facts::Lease* lease = facts::find_lease(leases, snapshot.gpus[i]);
    json["gpus"][i]["lease"] = lease != nullptr ? facts::to_json(*lease) : Json();
    json["gpus"][i]["use"] = facts::key_of(facts::use_of(snapshot.gpus[i]));
    if (lease != nullptr) json["gpus"][i]["lease"]["idle"] = facts::is_idle_lease(snapshot.gpus[i], lease);
    const auto* word = facts::find_disabling(disabled, facts::identity_of(snapshot.gpus[i]));
    json["gpus"][i]["disabled"] = word != nullptr ? facts::to_json(*word) : Json();
    const Acceptance* acceptance = find_acceptance(accepted, snapshot.gpus[i]);
    json["gpus"][i]["accepted"] = acceptance != nullptr ? to_json(*acceptance) : Json();
  }
  return json;
}

}  // namespace gpuwarden::lease
