// SPDX-License-Identifier: Apache-2.0
// A diagnosis as JSON (docs/json.md).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "gpuwarden/diagnosis/diagnosis.hpp"

namespace gpuwarden::diagnosis {

nlohmann::json to_json(const Facts& facts);
/// {"schema":1,"causes":[...],...}
nlohmann::json to_json(const Diagnosis& diagnosis);

}  // namespace gpuwarden::diagnosis
