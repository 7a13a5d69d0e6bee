// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/answer.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::facts {
namespace {

constexpr const char* kSchemaKey = "schema";

}  // namespace

nlohmann::json answer(nlohmann::json members, bool simulated) {
  members["simulated"] = simulated;
  return document(std::move(members));
}

nlohmann::json document(nlohmann::json members) {
  members[kSchemaKey] = kJsonSchema;
  return members;
}

bool has_own_schema(const nlohmann::json& document) {
  const auto schema = document.is_object() ? document.find(kSchemaKey) : document.end();
  return schema != document.end() && *schema == kJsonSchema;
}

}  // namespace gpuwarden::facts
