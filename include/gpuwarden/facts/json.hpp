// SPDX-License-Identifier: Apache-2.0
// The JSON codec of the facts. The shapes are a contract (docs/json.md): keys are added, never renamed.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/gpu_event.hpp"
#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/facts/lease.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::facts {

/// The `schema` number of every JSON document.
inline constexpr int kJsonSchema = 1;

nlohmann::json to_json(const GpuRecord& record);
nlohmann::json to_json(const GpuProcess& process);
nlohmann::json to_json(const Snapshot& snapshot);
nlohmann::json to_json(const Environment& environment);
nlohmann::json to_json(const Lease& lease);
nlohmann::json to_json(const Error& error);
nlohmann::json to_json(const DriverProblem& problem);
nlohmann::json to_json(const GpuEvent& event);
nlohmann::json to_json(const Health& health);
nlohmann::json to_json(const Disabling& disabling);

/// Reads back what to_json wrote, without loss; null and absent are unknown. Fails with corrupt, naming the key.
Result<GpuRecord> gpu_record_from_json(const nlohmann::json& json);
Result<GpuProcess> gpu_process_from_json(const nlohmann::json& json);
Result<Snapshot> snapshot_from_json(const nlohmann::json& json);
Result<Environment> environment_from_json(const nlohmann::json& json);
Result<Lease> lease_from_json(const nlohmann::json& json);
Result<DriverProblem> driver_problem_from_json(const nlohmann::json& json);
Result<GpuEvent> gpu_event_from_json(const nlohmann::json& json);
Result<Health> health_from_json(const nlohmann::json& json);
Result<Disabling> disabling_from_json(const nlohmann::json& json);

}  // namespace gpuwarden::facts
