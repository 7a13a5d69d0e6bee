// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/catalog_list.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/facts/answer.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/planning/catalog.hpp"
#include "gpuwarden/planning/parameters.hpp"

namespace gpuwarden::planning {

Result<std::vector<CatalogEntry>> list_catalog() {
  std::vector<CatalogEntry> entries;
  for (const std::string& name : catalog_names()) {
    GPUWARDEN_TRY(const ModelShape model, find_model(name));
    entries.push_back({name, model.family, count_parameters(model).total, model.source});
  }
  return entries;
}

nlohmann::json to_json(const std::vector<CatalogEntry>& entries) {
  auto models = nlohmann::json::array();
  for (const CatalogEntry& one : entries)
    models.push_back(
        {{"name", one.name}, {"family", one.family}, {"parameters", one.parameters}, {"source", one.source}});
  return facts::answer({{"models", models}});
}

}  // namespace gpuwarden::planning
