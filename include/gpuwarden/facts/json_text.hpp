// SPDX-License-Identifier: Apache-2.0
// Documents as text: every answer and every file is written alike.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gpuwarden::facts {

/// Indented by two, with a newline at its end. Bytes that are no UTF-8 are replaced.
std::string json_text(const nlohmann::json& document);

/// The same on one line, for documents that follow one another.
std::string json_line(const nlohmann::json& document);

}  // namespace gpuwarden::facts
