// SPDX-License-Identifier: Apache-2.0
#include "support/environment_parts.hpp"

#include <algorithm>
#include <array>

#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::testing {
namespace {

using Json = nlohmann::json;

/// The members that name an entry of a list, the first that it has.
constexpr auto kNames = std::to_array<const char*>({"path", "id", "name", "version", "what"});

/// A release is not wrong where its last numbers were cut off: "12.4" of "12.4.131".
bool is_rougher(const Json& whole, const Json& part) {
  return whole.is_string() && part.is_string() &&
         whole.get_ref<const std::string&>().starts_with(part.get_ref<const std::string&>() + ".");
}

bool same_entry(const Json& one, const Json& other) {
  if (!one.is_object()) return one == other;
  if (one.contains("architectures") && is_rougher(one["version"], other["version"])) return true;
  for (const char* name : kNames) {
    if (one.contains(name) && other.contains(name) && one[name] == other[name] && !one[name].empty()) return true;
  }
  return one.contains("kind") && one["kind"] == other.value("kind", "");
}

std::string changed(const Json& whole, const Json& part, const std::string& path) {
  if (part.is_object() && whole.is_object()) {
    for (const auto& [key, value] : part.items()) {
      const auto problem = changed(whole.contains(key) ? whole[key] : Json(), value, path + "." + key);
      if (!problem.empty()) return problem;
    }
    return "";
  }
  if (part.is_array() && whole.is_array()) {
    for (const Json& entry : part) {
      const bool found = std::ranges::any_of(
          whole, [&](const Json& other) { return same_entry(other, entry) && changed(other, entry, path).empty(); });
      if (!found) return path + ": " + entry.dump();
    }
    return "";
  }
  const bool nothing = part.is_null() || part == "" || part == Json::array() || part == Json::object();
  if (path == ".messages.text" && whole.is_string() && part.is_string() &&
      whole.get_ref<const std::string&>().starts_with(part.get_ref<const std::string&>()))
    return "";
  const bool rougher = path == ".toolkits.version" && is_rougher(whole, part);
  return nothing || rougher || whole == part ? "" : path + ": " + part.dump() + " of " + whole.dump();
}

}  // namespace

std::string changed_facts(const facts::Environment& whole, const facts::Environment& part) {
  return changed(facts::to_json(whole), facts::to_json(part), "");
}

}  // namespace gpuwarden::testing
