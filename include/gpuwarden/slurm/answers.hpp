// SPDX-License-Identifier: Apache-2.0
// What `gpuwarden slurm ... --json` prints (docs/json.md).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "gpuwarden/slurm/records.hpp"
#include "gpuwarden/slurm/site.hpp"

namespace gpuwarden::slurm {

/// Of `slurm nodes`.
nlohmann::json nodes_to_json(const Site& site, const std::string& partition);
/// Of `slurm queue`.
nlohmann::json queue_to_json(const std::vector<Job>& jobs);
/// Of `slurm why`.
nlohmann::json why_to_json(const Job& job);
/// Of `slurm shell`: what would be run.
nlohmann::json shell_to_json(const std::vector<std::string>& command, const std::vector<std::string>& decisions);
/// Of `slurm script`.
nlohmann::json script_to_json(const std::string& script, const std::vector<std::string>& decisions);

}  // namespace gpuwarden::slurm
