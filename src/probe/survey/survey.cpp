// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/probe/survey.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/probe/child_process.hpp"
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
                                               {"file systems", survey_file_systems},
                                               {"PCI", survey_pci},
                                               {"packages", survey_packages, true},
                                               {"kernel driver", survey_driver, true},
                                               {"device nodes", survey_device_nodes, true},
                                               {"libraries", survey_libraries},
                                               {"Python environments", survey_pythons},
                                               {"toolkits", survey_toolkits, true},
                                               {"compilers", survey_compilers, true},
                                               {"containers", survey_containers, true},
                                               {"services", survey_services, true},
                                               {"network", survey_network},
                                               {"Slurm", survey_slurm, true},
                                               {"asking Pythons", ask_pythons, true}});

/// Programs have a deadline each; a probe that starts several needs more in all.
constexpr int kSlowFactor = 10;

std::chrono::milliseconds deadline_of(const Probe& probe, const SurveyRequest& request) {
  if (probe.look == ask_pythons) return request.python_deadline * kMostPythonsAsked;
  return request.deadline * (probe.slow ? kSlowFactor : 1);
}

/// In the child: looks at one subject after the other and tells the environment so far after each.
void look_from(std::size_t first, const SurveyRequest& request, facts::Environment& environment, int fd) {
  Scene scene(request);
  for (std::size_t i = first; i < kProbes.size(); ++i) {
    scene.end = Scene::Clock::now() + deadline_of(kProbes[i], request);
    facts::Environment attempt = environment;
    try {
      kProbes[i].look(scene, attempt);
      environment = std::move(attempt);
    } catch (const std::exception& error) {  // of a library: no memory, a path that is too long
      note(environment, kProbes[i].name, error.what());
    }
    if (!send_message(fd, {{"done", i}, {"environment", facts::to_json(environment)}})) return;
  }
}

struct Stop {
  std::size_t probe = kProbes.size();  ///< the one that did not end; kProbes.size() when all have
  std::string reason;
};

/// Runs the probes from `first` on in a process of its own, which can be killed when one hangs.
Stop run_from(std::size_t first, const SurveyRequest& request, facts::Environment& environment) {
  const auto child = ChildProcess::start([&](int fd) { look_from(first, request, environment, fd); });
  if (child == nullptr) return {first, "no process could be started for it"};
  for (std::size_t i = first; i < kProbes.size(); ++i) {
    const auto limit = deadline_of(kProbes[i], request);
    const auto message = child->receive(limit);
    auto known = message && message->contains("environment")
                     ? facts::environment_from_json((*message)["environment"])
                     : Result<facts::Environment>(fail(ErrorCode::timed_out, ""));
    if (known) {
      environment = std::move(*known);
      continue;
    }
    const bool died = child->closed();
    const ChildEnd end = child->end();
    if (!died) return {i, fmt::format("no answer within {}", format_duration(limit))};
    return {i, end.signal ? fmt::format("it was killed by signal {}", *end.signal)
                          : fmt::format("it ended with exit code {}", end.exit_code.value_or(0))};
  }
  return {};
}

}  // namespace

facts::Environment survey(const SurveyRequest& request) {
  facts::Environment environment;
  for (std::size_t next = 0; next < kProbes.size();) {
    const Stop stop = run_from(next, request, environment);
    if (stop.probe == kProbes.size()) break;
    note(environment, kProbes[stop.probe].name, stop.reason);
    next = stop.probe + 1;
  }
  return environment;
}

}  // namespace gpuwarden::probe
