// SPDX-License-Identifier: Apache-2.0
// A diagnosis as JSON (docs/json.md).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/diagnosis/diagnosis.hpp"

namespace gpuwarden::diagnosis {

nlohmann::json to_json(const Facts& facts);
/// {"schema":1,"causes":[...],...}
nlohmann::json to_json(const Diagnosis& diagnosis);
/// What to_json() wrote, as far as it is shown to people: facts and the texts of consequences alone stay behind. Fails
/// with corrupt.
Result<Diagnosis> diagnosis_from_json(const nlohmann::json& json);

}  // namespace gpuwarden::diagnosis
