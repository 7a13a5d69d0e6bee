// SPDX-License-Identifier: Apache-2.0
// The probes of a survey: each one looks at one subject and fills its part of the environment.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/probe/survey.hpp"
#include "probe/survey/formats.hpp"
#include "probe/survey/tree.hpp"

namespace gpuwarden::probe {

struct Scene {
  using Clock = std::chrono::steady_clock;

  explicit Scene(const SurveyRequest& wanted) : request(wanted), tree(wanted.root) {}

  const SurveyRequest& request;
  Tree tree;
  /// When the probe at work has to be through. Programs are killed before that, so that none outlives its probe.
  Clock::time_point end = Clock::now() + std::chrono::hours(1);

  struct Program {
    std::vector<std::string> argv;
    std::chrono::milliseconds deadline;
    std::size_t output_cap = std::size_t{1} << 20U;
    bool any_exit_code = false;  ///< its output counts even where it says it failed
  };
  /// Standard output of a program. Fails with unavailable where programs may not be started, not_found where it is
  /// missing, timed_out, or failed.
  Result<std::string> run(const Program& program) const;
  /// The same with the request's deadline, and no word about why there is none.
  std::optional<std::string> output_of(std::vector<std::string> argv) const;
  /// A variable of the caller's environment.
  std::optional<std::string> variable(const std::string& name) const;
  /// The folders of a variable like PATH that are absolute paths.
  std::vector<std::string> folders(const std::string& name) const;
  /// The caller's home folder; "/root" where it is not told.
  std::string home() const;
  /// Installed packages of the distribution that have to do with GPUs, containers and Slurm; read once.
  const std::vector<NamedVersion>& packages() const;
  /// The version of the first installed package of these names; a last '*' stands for any ending.
  std::optional<NamedVersion> package(std::initializer_list<std::string_view> names) const;

 private:
  mutable std::optional<std::vector<NamedVersion>> packages_;
};

void survey_variables(const Scene& scene, facts::Environment& environment);
void survey_host(const Scene& scene, facts::Environment& environment);
void survey_limits(const Scene& scene, facts::Environment& environment);
void survey_file_systems(const Scene& scene, facts::Environment& environment);
void survey_pci(const Scene& scene, facts::Environment& environment);
void survey_packages(const Scene& scene, facts::Environment& environment);
void survey_driver(const Scene& scene, facts::Environment& environment);
void survey_device_nodes(const Scene& scene, facts::Environment& environment);
void survey_libraries(const Scene& scene, facts::Environment& environment);
void survey_toolkits(const Scene& scene, facts::Environment& environment);
void survey_compilers(const Scene& scene, facts::Environment& environment);
void survey_pythons(const Scene& scene, facts::Environment& environment);
void ask_pythons(const Scene& scene, facts::Environment& environment);
void survey_containers(const Scene& scene, facts::Environment& environment);
void survey_services(const Scene& scene, facts::Environment& environment);
void survey_network(const Scene& scene, facts::Environment& environment);
void survey_slurm(const Scene& scene, facts::Environment& environment);

/// No more Pythons than this are started.
inline constexpr int kMostPythonsAsked = 8;

/// Notes that `what` was not looked at.
void note(facts::Environment& environment, std::string_view what, std::string_view reason);
/// The same for a program that gave nothing; silent where it is missing or may not be started: that is no failure.
void note_failure(facts::Environment& environment, std::string_view what, const Error& error);
/// The module that the next load would take, as far as a file tells: version, licence, signature.
void read_module_on_disk(const Scene& scene, facts::Environment& environment);

}  // namespace gpuwarden::probe
