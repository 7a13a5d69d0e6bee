// SPDX-License-Identifier: Apache-2.0
// The one place where a command prints a document.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace gpuwarden::cli {

/// What --json asked for, on standard output.
void print_json(const nlohmann::json& document);

}  // namespace gpuwarden::cli
