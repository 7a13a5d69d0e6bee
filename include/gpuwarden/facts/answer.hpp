// SPDX-License-Identifier: Apache-2.0
// What all JSON that gpuwarden writes has in common (docs/json.md).
//
//     return facts::answer({{"jobs", list}}, snapshot.simulated);
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace gpuwarden::facts {

/// The answer of a command: its members, with "schema", and with "simulated": whether anything in it comes from a
/// simulated fleet.
nlohmann::json answer(nlohmann::json members, bool simulated = false);

/// What is no command's answer, a file or one of the server's: its members, with "schema".
nlohmann::json document(nlohmann::json members);

/// Whether a document has this "schema", so that it can be read.
bool has_own_schema(const nlohmann::json& document);

}  // namespace gpuwarden::facts
