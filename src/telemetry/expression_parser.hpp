// SPDX-License-Identifier: Apache-2.0
// From a text to a condition, with the place of what is wrong in it.
#pragma once

#include <expected>
#include <string_view>

#include "gpuwarden/telemetry/expression.hpp"
#include "telemetry/expression_lexer.hpp"

namespace gpuwarden::telemetry {

std::expected<Expression, ParseFailure> parse_expression(std::string_view text);

}  // namespace gpuwarden::telemetry
