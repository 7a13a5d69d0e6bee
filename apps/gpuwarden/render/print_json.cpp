// SPDX-License-Identifier: Apache-2.0
#include "render/print_json.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "gpuwarden/facts/json_text.hpp"

namespace gpuwarden::cli {

void print_json(const nlohmann::json& document) { fmt::print("{}", facts::json_text(document)); }

void print_answer(const Context& context, const nlohmann::json& document, std::string_view text) {
  fmt::print("{}", context.args.has("json") ? facts::json_text(document) : text);
}

}  // namespace gpuwarden::cli
