// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/slurm/answers.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/facts/answer.hpp"

namespace gpuwarden::slurm {

using nlohmann::json;

json nodes_to_json(const Site& site, const std::string& partition) { return facts::answer(to_json(site, partition)); }

json queue_to_json(const std::vector<Job>& jobs) {
  json list = json::array();
  for (const Job& job : jobs) list.push_back(to_json(job));
  return facts::answer({{"jobs", list}});
}

json why_to_json(const Job& job) { return facts::answer(to_json(job)); }

json shell_to_json(const std::vector<std::string>& command, const std::vector<std::string>& decisions) {
  return facts::answer({{"command", command}, {"decisions", decisions}});
}

json script_to_json(const std::string& script, const std::vector<std::string>& decisions) {
  return facts::answer({{"script", script}, {"decisions", decisions}});
}

}  // namespace gpuwarden::slurm
