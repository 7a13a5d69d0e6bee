// SPDX-License-Identifier: Apache-2.0
// The one place where a command prints a document.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "command.hpp"

namespace gpuwarden::cli {

/// What --json asked for, on standard output.
void print_json(const nlohmann::json& document);
/// An answer on standard output: the document where --json asked for it, else the words.
void print_answer(const Context& context, const nlohmann::json& document, std::string_view text);

}  // namespace gpuwarden::cli
