// SPDX-License-Identifier: Apache-2.0
#include "doctor/fitting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "doctor/queries.hpp"
#include "doctor/remedies.hpp"
#include "doctor/software_plan.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/advice.hpp"

namespace gpuwarden::doctor {

namespace {

using knowledge::Version;

/// A driver of the branch that came with this CUDA: 570 for 12.8.
std::optional<Version> driver_with(const Subject& subject, const std::optional<Version>& cuda) {
  std::optional<Version> found;
  for (const knowledge::DriverBranch& branch : subject.knowledge.branches()) {
    if (cuda && branch.max_cuda && branch.max_cuda <= *cuda) found = Version{branch.branch};
  }
  return found;
}

/// The newest wheel that the driver alone does not rule out.
const knowledge::TorchBuild* newest_wheel_on(const Subject& subject, const Version& driver) {
  return knowledge::newest_torch_for(subject.knowledge, {}, driver, wheel_machine(subject));
}

}  // namespace

bool is_elsewhere(const Subject& subject) { return !subject.snapshot.origin.empty(); }

std::vector<std::string> driver_steps_for_cuda(const Subject& subject, Report& report, const Version& cuda) {
  const auto needed = subject.knowledge.min_driver(cuda, false);
  const auto own = subject.knowledge.min_driver(cuda, true);
  const int last = both(report.ask_driver({}), {.at_most = last_driver_branch(subject)}).at_most;
  if (needed && last > 0 && needed->major > last) {
    std::vector<std::string> steps = fitting_torch(subject);
    steps.insert(steps.begin(), fmt::format("[@nvidia] no driver for these GPUs runs CUDA {}: their last branch is {}",
                                            to_string(cuda), last));
    return steps;
  }
  const bool all_of_it = !own || last == 0 || own->major <= last;
  if (!all_of_it && driver_branch(subject).value_or(0) >= last)
    return {fmt::format("[@nvidia] no driver for these GPUs has all of CUDA {}: {}, their last branch, is installed",
                        to_string(cuda), last)};
  const int wanted = !all_of_it ? last : own ? own->major : needed ? needed->major : 0;
  return plan_driver(subject, report, {.at_least = wanted});
}

std::vector<std::string> steps_for_older_driver(const Subject& subject, Report& report,
                                                const std::optional<Version>& offered) {
  const auto own = driver_of(subject);
  const auto driver = own ? own : driver_with(subject, offered);
  std::vector<std::string> steps;
  if (driver && all_architectures(subject).empty() && nvidia_gpus(subject).empty()) {
    const auto* wheel = newest_wheel_on(subject, *driver);
    if (wheel != nullptr)
      steps.push_back(fmt::format("{}   # the newest build for this driver", wheel_command(subject, *wheel)));
  } else if (driver) {
    static const facts::PythonEnvironment kNone;
    const auto& pythons = subject.environment.pythons;
    steps = fitting_torch(subject, pythons.empty() ? kNone : pythons.front(), driver);
  }
  for (std::string& step : plan_driver(subject, report, {.at_least = driver ? driver->major + 1 : 0}))
    steps.push_back(std::move(step));
  if (std::string more = send_also(subject); !more.empty()) steps.push_back(std::move(more));
  return steps;
}

std::string here_or_elsewhere(const Subject& subject, std::string here, std::string elsewhere) {
  return is_elsewhere(subject) ? std::move(elsewhere) : std::move(here);
}

std::string toolkit_step(const Subject& subject, const Version& cuda, std::string here) {
  if (!is_elsewhere(subject)) return here;
  const Version release = knowledge::release_of(cuda);
  for (const facts::Toolkit& toolkit : subject.environment.toolkits) {
    const auto own = Version::parse(toolkit.version);
    if (own && !toolkit.path.empty() && knowledge::release_of(*own) == release)
      return fmt::format("export CUDA_HOME={0} PATH={0}/bin:$PATH", shell_word(toolkit.path));
  }
  return install_toolkit(subject.environment, release);
}

/// The driver's lines of the kernel's log.
constexpr std::string_view kDriverLines = "sudo dmesg | grep -i -E 'nvrm|xid'";

std::string send_also(const Subject& subject) {
  if (!is_elsewhere(subject)) return {};
  std::vector<std::string> wanted;
  if (subject.snapshot.gpus.empty() || !driver_of(subject)) wanted.emplace_back("nvidia-smi");
  const auto& problem = subject.snapshot.problem;
  if (problem || (subject.snapshot.gpus.empty() && !subject.snapshot.kernel_faults)) wanted.emplace_back(kDriverLines);
  if (subject.environment.pythons.empty()) wanted.emplace_back("python -m torch.utils.collect_env");
  if (!subject.environment.host.distribution) wanted.emplace_back("cat /etc/os-release");
  if (wanted.empty()) return "";
  const bool log = std::ranges::find(wanted, kDriverLines) != wanted.end();
  const std::string_view kind = log ? "driver_log" : !subject.environment.host.distribution ? "linux_nvidia" : "nvidia";
  return knowledge::with_kind(kind, "send also: " + join(wanted, ", "));
}

}  // namespace gpuwarden::doctor
