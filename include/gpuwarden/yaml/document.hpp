// SPDX-License-Identifier: Apache-2.0
// YAML from strangers: what could crash or blow up the parser is refused first, and every error has file, line, column.
#pragma once

#include <yaml-cpp/node/node.h>

#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::yaml {

/// Parses one document. Refuses (invalid_argument, "NAME:LINE:COLUMN: what"): more than 1 MiB, nesting deeper than 32,
/// tabs as indentation, anchors and aliases, several documents, duplicate keys, and whatever is no YAML.
Result<YAML::Node> load(std::string_view text, std::string_view name);

/// "NAME:LINE:COLUMN: what", counted from 1.
Error error_at(const YAML::Node& node, std::string_view name, std::string_view what, std::string hint = {});

/// The value of a key; a node that is not defined, and safe to ask for its kind, where there is none. (yaml-cpp's own
/// look-up gives nodes that throw when they are asked.)
YAML::Node child(const YAML::Node& map, const std::string& key);

/// Fails on the first key of a map that is not among `known`, with the one that was probably meant; and on anything
/// that is not a map. `where` names the map in the sentence ("gpus[0]").
Result<void> check_keys(const YAML::Node& map, std::string_view name, std::string_view where,
                        const std::vector<std::string>& known);

}  // namespace gpuwarden::yaml
