// SPDX-License-Identifier: Apache-2.0
// Common models by name, compiled in from knowledge/model_catalog.csv: what their config.json says about their shape.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace gpuwarden::knowledge {

/// A published model.
struct CatalogModel {
  std::string_view name;         ///< as its publisher writes it: "meta-llama/Llama-3.1-8B"
  std::string_view aliases;      ///< separated by spaces
  std::string_view family;       ///< "llama"
  std::string_view config;       ///< JSON: the keys of config.json that decide the shape
  std::uint64_t parameters = 0;  ///< published exact count; 0: not known
  std::string_view source;
};

/// Sorted by name, letter case ignored.
std::span<const CatalogModel> model_catalog();

}  // namespace gpuwarden::knowledge
