// SPDX-License-Identifier: Apache-2.0
// Answers about compatibility as JSON (docs/json.md): a contract, keys are added and never renamed.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "gpuwarden/compat/question.hpp"

namespace gpuwarden::compat {

nlohmann::json to_json(const MachineAnswer& answer);
nlohmann::json to_json(const CudaAnswer& answer);
nlohmann::json to_json(const TorchAnswer& answer);
nlohmann::json to_json(const VllmAnswer& answer);
nlohmann::json to_json(const ComponentAnswer& answer);
nlohmann::json to_json(const GpuAnswer& answer);
nlohmann::json to_json(const ArchitectureAnswer& answer);
nlohmann::json to_json(const XidAnswer& answer);
nlohmann::json to_json(const JobAnswer& answer);
nlohmann::json to_json(const MatrixAnswer& answer);
nlohmann::json to_json(const Place& place);

/// The whole, as `gpuwarden compat --json` prints it.
nlohmann::json to_json(const Asked& asked, const Question& question, const Answer& answer);

}  // namespace gpuwarden::compat
