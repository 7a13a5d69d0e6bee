// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/probe/survey.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "gpuwarden/facts/json.hpp"
#include "probe/child_process.hpp"
#include "probe/reader_child.hpp"
#include "probe/survey/probes.hpp"

namespace gpuwarden::probe {

namespace {

struct Probe {
  std::string_view name;
  void (*look)(const Scene&, facts::Environment&);
  bool slow = false;  ///< it starts programs, each with a deadline of its own
};

constexpr auto kProbes = std::to_array<Probe>({{"environment variables", survey_variables},
                                               {"host", survey_host},
                                               {"limits", survey_limits},
                                               {"PCI", survey_pci},
                                               {"kernel driver", survey_driver, true},
                                               {"device nodes", survey_device_nodes},
                                               {"libraries", survey_libraries},
                                               {"toolkits", survey_toolkits, true},
                                               {"compilers", survey_compilers, true},
                                               {"Python environments", survey_pythons},
                                               {"containers", survey_containers, true},
                                               {"services", survey_services, true},
                                               {"Slurm", survey_slurm},
                                               {"asking Pythons", ask_pythons, true}});

/// Programs have a deadline each; a probe that starts several needs more in all.
constexpr int kSlowFactor = 10;

/// Runs the probes from `first` on in a process of its own, which can be killed when one hangs. Gives the index of the
/// probe that did not end; kProbes.size() when all have.
std::size_t run_from(std::size_t first, const SurveyRequest& request, facts::Environment& environment) {
  const auto child = ChildProcess::start([&](int fd) {
    const Scene scene{request, Tree(request.root)};
    for (std::size_t i = first; i < kProbes.size(); ++i) {
      kProbes[i].look(scene, environment);
      if (!send_message(fd, {{"done", i}, {"environment", facts::to_json(environment)}})) return;
    }
  });
  if (child == nullptr) return first;
  for (std::size_t i = first; i < kProbes.size(); ++i) {
    const auto message = child->receive(request.deadline * (kProbes[i].slow ? kSlowFactor : 1));
    if (!message || !message->contains("environment")) return i;
    auto known = facts::environment_from_json((*message)["environment"]);
    if (!known) return i;
    environment = std::move(*known);
  }
  return kProbes.size();
}

}  // namespace

std::optional<std::string> Scene::run(std::vector<std::string> argv, std::chrono::milliseconds deadline) const {
  if (!request.start_programs || !tree.is_live()) return std::nullopt;
  Environment variables = request.variables;
  variables["LC_ALL"] = "C";
  const auto done = run_command({.argv = std::move(argv),
                                 .environment = std::move(variables),
                                 .deadline = deadline,
                                 .output_cap = std::size_t{1} << 20U});
  if (!done || done->exit_code != 0) return std::nullopt;
  return done->standard_output;
}

std::optional<std::string> Scene::variable(const std::string& name) const {
  const auto found = request.variables.find(name);
  return found == request.variables.end() ? std::nullopt : std::optional(found->second);
}

std::string Scene::home() const { return variable("HOME").value_or("/root"); }

facts::Environment survey(const SurveyRequest& request) {
  facts::Environment environment;
  for (std::size_t next = 0; next < kProbes.size();) {
    const std::size_t stopped = run_from(next, request, environment);
    if (stopped == kProbes.size()) break;
    environment.not_probed.push_back(
        {std::string(kProbes[stopped].name),
         fmt::format("no answer within {} ms", request.deadline.count() * (kProbes[stopped].slow ? kSlowFactor : 1))});
    next = stopped + 1;
  }
  return environment;
}

}  // namespace gpuwarden::probe
