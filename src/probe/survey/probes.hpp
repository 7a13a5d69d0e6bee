// SPDX-License-Identifier: Apache-2.0
// The probes of a survey: each one looks at one subject and fills its part of the environment.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/probe/survey.hpp"
#include "probe/survey/tree.hpp"

namespace gpuwarden::probe {

struct Scene {
  const SurveyRequest& request;
  Tree tree;

  /// Standard output of a program; empty where programs may not be started, it is missing, fails or takes too long.
  std::optional<std::string> run(std::vector<std::string> argv, std::chrono::milliseconds deadline) const;
  /// A variable of the caller's environment.
  std::optional<std::string> variable(const std::string& name) const;
  /// The caller's home folder; "/root" where it is not told.
  std::string home() const;
};

void survey_variables(const Scene& scene, facts::Environment& environment);
void survey_host(const Scene& scene, facts::Environment& environment);
void survey_limits(const Scene& scene, facts::Environment& environment);
void survey_pci(const Scene& scene, facts::Environment& environment);
void survey_driver(const Scene& scene, facts::Environment& environment);
void survey_device_nodes(const Scene& scene, facts::Environment& environment);
void survey_libraries(const Scene& scene, facts::Environment& environment);
void survey_toolkits(const Scene& scene, facts::Environment& environment);
void survey_compilers(const Scene& scene, facts::Environment& environment);
void survey_pythons(const Scene& scene, facts::Environment& environment);
void ask_pythons(const Scene& scene, facts::Environment& environment);
void survey_containers(const Scene& scene, facts::Environment& environment);
void survey_services(const Scene& scene, facts::Environment& environment);
void survey_slurm(const Scene& scene, facts::Environment& environment);

/// "550.54.15" behind the last ".so." of a file name; empty where it is no number with a dot.
std::optional<std::string> version_of_library(std::string_view file_name);

}  // namespace gpuwarden::probe
