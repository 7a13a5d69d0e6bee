// SPDX-License-Identifier: Apache-2.0
#include "render/print_json.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "gpuwarden/facts/json_text.hpp"

namespace gpuwarden::cli {

void print_json(const nlohmann::json& document) { fmt::print("{}", facts::json_text(document)); }

}  // namespace gpuwarden::cli
