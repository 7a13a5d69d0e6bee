// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/toolkits/json.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::toolkits {
namespace {

using Json = nlohmann::json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json to_json(const ListedToolkit& one) {
  return {{"version", one.toolkit.version},
          {"path", one.toolkit.path},
          {"origin", one.toolkit.origin},
          {"nvcc", or_null(one.toolkit.nvcc)},
          {"libraries", or_null(one.toolkit.libraries)},
          {"active", one.toolkit.active},
          {"reasons", one.reasons},
          {"chosen_by_env_use", one.chosen},
          {"targets", one.targets},
          {"on_driver", one.on_driver}};
}

}  // namespace

Json to_json(const ToolkitListing& listing) {
  Json rows = Json::array();
  for (const ListedToolkit& one : listing.toolkits) rows.push_back(to_json(one));
  return facts::answer(
      {{"driver", listing.driver ? Json(knowledge::to_string(*listing.driver)) : Json()}, {"toolkits", rows}},
      listing.simulated);
}

Json to_json(const std::vector<Change>& changes) {
  Json values = Json::object();
  for (const Change& change : changes) values[change.name] = or_null(change.value);
  return facts::answer({{"variables", values}});
}

Json to_json(std::span<const knowledge::KnownVariable* const> variables, const Environment& here) {
  Json rows = Json::array();
  for (const auto* one : variables) {
    const auto found = here.find(std::string(one->name));
    rows.push_back({{"name", one->name},
                    {"software", one->software},
                    {"values", one->values},
                    {"default", one->default_value},
                    {"meaning", one->meaning},
                    {"when", one->when},
                    {"source", one->source},
                    {"here", found == here.end() ? Json() : Json(found->second)}});
  }
  return facts::answer({{"variables", rows}});
}

Json to_json(const std::vector<Suggestion>& suggestions, const facts::Snapshot& snapshot) {
  Json rows = Json::array();
  for (const Suggestion& one : suggestions) {
    const bool advice = one.name.empty();
    rows.push_back(
        {{"name", advice ? Json() : Json(one.name)}, {"value", advice ? Json() : Json(one.value)}, {"why", one.why}});
  }
  return facts::answer({{"suggestions", rows}}, snapshot.simulated);
}

}  // namespace gpuwarden::toolkits
