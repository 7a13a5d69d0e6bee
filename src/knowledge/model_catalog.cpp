// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/model_catalog.hpp"

namespace gpuwarden::knowledge {
namespace {

constexpr CatalogModel kCatalog[] = {
#include "knowledge/catalog.inc"
};

}  // namespace

std::span<const CatalogModel> model_catalog() { return kCatalog; }

}  // namespace gpuwarden::knowledge
