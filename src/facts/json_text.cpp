// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/json_text.hpp"

#include <nlohmann/json.hpp>

namespace gpuwarden::facts {
namespace {

std::string text_of(const nlohmann::json& document, int indent) {
  return document.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string json_text(const nlohmann::json& document) { return text_of(document, 2); }

std::string json_line(const nlohmann::json& document) { return text_of(document, -1); }

}  // namespace gpuwarden::facts
