// SPDX-License-Identifier: Apache-2.0
// The models that are known by name, with their sizes: what `gpuwarden plan --list` shows.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::planning {

struct CatalogEntry {
  std::string name;
  std::string family;
  std::uint64_t parameters = 0;
  std::string source;  ///< of its shape
};

/// All of them, in the catalogue's order.
Result<std::vector<CatalogEntry>> list_catalog();
nlohmann::json to_json(const std::vector<CatalogEntry>& entries);

}  // namespace gpuwarden::planning
