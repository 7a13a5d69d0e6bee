// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "doctor/groups.hpp"
#include "doctor/queries.hpp"
#include "doctor/site.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/doctor/leftovers.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::doctor {

namespace {

constexpr std::string_view kSite = "site";
constexpr std::string_view kNoGpu = "no-gpu";
constexpr std::string_view kMac = "macos";

std::vector<Check> join_groups() {
  std::vector<Check> all;
  for (const auto group :
       {driver_checks(), device_checks(), fault_checks(), health_checks(), burn_in_checks(), toolkit_checks(),
        framework_checks(), serving_checks(), library_checks(), variable_checks(), container_checks(),
        multi_gpu_checks(), system_checks(), cluster_checks(), told_checks(), reported_checks(), purpose_checks()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

/// Whether one of the list's names means a check: its id, its area, or the group of all of a site's rules.
bool names(const std::vector<std::string>& list, std::string_view id, Area area) {
  return std::ranges::any_of(list, [&](const auto& name) {
    return name == id || name == to_string(area) || (name == kSite && id.starts_with("site:"));
  });
}

bool is_wanted(const Choice& choice, std::string_view id, Area area) {
  return (choice.only.empty() || names(choice.only, id, area)) && !names(choice.skip, id, area);
}

/// What each check asks of the driver, by its id.
using DriverAsked = std::map<std::string, DriverNeed, std::less<>>;

DriverAsked run_checks(const Subject& subject, const Choice& choice, const DriverNeed& agreed, Examination& result) {
  DriverAsked asked;
  for (const Check& check : checks()) {
    if (!is_wanted(choice, check.id, check.area)) continue;
    Report report(check, result.findings, agreed);
    check.run(subject, report);
    if (report.asked()) asked.emplace(check.id, *report.asked());
    result.ran.emplace_back(check.id, check.area);
    result.areas.try_emplace(check.area, Status::not_judged);
  }
  return asked;
}

void run_site_rules(const Subject& subject, const Choice& choice, Examination& result) {
  for (const knowledge::SiteRule& rule : subject.knowledge.rules()) {
    const Area area = site_area(rule);
    if (!is_wanted(choice, site_id(rule), area)) continue;
    for (Finding& finding : site_findings(subject, rule)) result.findings.push_back(std::move(finding));
    result.ran.emplace_back(site_id(rule), area);
    result.areas.try_emplace(area, Status::not_judged);
  }
}

/// The place of its check in the table; a site's rules come behind.
std::ptrdiff_t place_of(const Finding& finding) {
  const Check* check = find_check(finding.id);
  return check != nullptr ? check - checks().data() : static_cast<std::ptrdiff_t>(checks().size());
}

/// Consequences of something else that was found are not findings of their own.
void drop_consequences(std::vector<Finding>& findings) {
  std::vector<std::string> found;
  for (const Finding& finding : findings) found.push_back(finding.id);
  std::erase_if(findings, [&](const Finding& finding) {
    const Check* check = find_check(finding.id);
    const std::string_view causes = check != nullptr ? check->explained_by : "";
    return std::ranges::any_of(split_words(causes),
                               [&](std::string_view cause) { return std::ranges::find(found, cause) != found.end(); });
  });
}

/// What one driver can do of all that the findings ask. What the GPUs take comes first; a branch that none of these
/// takes, or that is not known, is left to the finding that asks for it to tell.
DriverNeed agree(const Subject& subject, const std::vector<DriverNeed>& needs) {
  DriverNeed all = taken_by_gpus(subject);
  for (const DriverNeed& need : needs)
    all = both(all, {.at_most = need.at_most, .module = need.module, .modules_clash = need.modules_clash});
  const DriverNeed taken = all;
  for (const DriverNeed& need : needs) {
    const DriverNeed own = both(taken, {.at_least = need.at_least});
    if (why_no_driver(subject, own).empty()) all = both(all, own);
  }
  return all;
}

/// Runs the checks; where their findings ask for different drivers, once more, with what all of them ask for.
void find(const Subject& subject, const Choice& choice, Examination& result) {
  const DriverAsked asked = run_checks(subject, choice, {}, result);
  drop_consequences(result.findings);
  std::vector<DriverNeed> needs;
  for (const Finding& finding : result.findings) {
    if (const auto own = asked.find(finding.id); own != asked.end()) needs.push_back(own->second);
  }
  const DriverNeed all = agree(subject, needs);
  const DriverNeed taken = taken_by_gpus(subject);
  if (std::ranges::all_of(needs, [&](const DriverNeed& own) { return both(taken, own) == all; })) return;
  result = {};
  run_checks(subject, choice, all, result);
  drop_consequences(result.findings);
}

/// Checks speak as on Linux with its own driver.
void take_to_platform(const Subject& subject, std::vector<Finding>& findings) {
  const knowledge::Platform platform = platform_of(subject);
  for (Finding& finding : findings) {
    std::vector<std::string> steps = knowledge::steps_on(platform, finding.fix);
    finding.safe = finding.safe && steps == knowledge::tests_on(knowledge::Platform::linux_own, finding.fix);
    finding.fix = std::move(steps);
  }
}

Status status_of(Severity worst, bool for_a_purpose) {
  if (worst >= Severity::error) return Status::incompatible;
  if (worst == Severity::warning) return Status::needs_update;
  return for_a_purpose && worst == Severity::ok ? Status::optimal : Status::compatible;
}

/// Whether a driver is known, loaded or installed. Libraries and device files alone, as containers get them, are none.
bool has_driver(const Subject& subject) {
  const facts::Snapshot& snapshot = subject.snapshot;
  const facts::KernelDriver& driver = subject.environment.driver;
  return snapshot.driver_version || snapshot.kernel_module_version || driver.loaded_version || driver.on_disk_version ||
         driver.dkms_version || driver.package || !driver.loaded_modules.empty();
}

/// What programs print of GPUs alone names no software.
bool tells_software(const facts::PythonEnvironment& python) {
  return python.version || !python.packages.empty() || python.torch_cuda || python.torch_rocm || python.cuda_available;
}

/// Whether a text tells more of a GPU than what it is.
bool tells_state(const facts::GpuRecord& gpu) {
  facts::GpuSample sample = gpu.sample;
  sample.memory_total = facts::GpuSample{}.memory_total;
  return sample != facts::GpuSample{} || gpu.state != facts::GpuState::available || gpu.processes.has_value() ||
         gpu.gpu.mig_enabled.has_value();
}

/// Whether anything is known of which the area's checks could speak.
bool has_facts(Area area, const Subject& subject) {
  const auto& environment = subject.environment;
  const auto& snapshot = subject.snapshot;
  switch (area) {
    case Area::driver:
      // A text may name GPUs alone; on a machine that was read, they show that there is no driver.
      return has_driver(subject) ||
             (snapshot.origin.empty() && std::ranges::any_of(snapshot.gpus, [](const facts::GpuRecord& gpu) {
                return gpu.gpu.vendor == "NVIDIA" || gpu.gpu.vendor.empty();
              }));
    case Area::device:
      // A driver that lists a GPU has found it; a name alone says nothing of how it is.
      return (!snapshot.gpus.empty() && (snapshot.origin.empty() || has_driver(subject))) ||
             std::ranges::any_of(snapshot.gpus, tells_state) ||
             (snapshot.kernel_faults && !snapshot.kernel_faults->empty()) || subject.burn_in != nullptr;
    case Area::toolkit:
      return !environment.toolkits.empty() || environment.compilers_sought.value_or(false);
    case Area::frameworks:
      return std::ranges::any_of(environment.pythons, tells_software);
    case Area::libraries:
      return !environment.libraries.empty() || !environment.variables.empty();
    case Area::containers:
      return environment.containers != facts::ContainerFacts{} || environment.host.wsl.value_or(0) > 0;
    case Area::multi_gpu:
      return snapshot.gpus.size() > 1;
    case Area::system: {
      facts::Host named;  // which system it is says nothing of how it is
      named.distribution = environment.host.distribution;
      return environment.host != named;
    }
    case Area::cluster:
      return environment.slurm.has_value();
  }
  return true;
}

bool is_for_something(const Purpose& purpose) {
  return purpose.package || purpose.architecture || purpose.work || !purpose.text.empty();
}

/// Fills in the verdicts over the areas and over all, as the findings have it.
void give_verdicts(const Subject& subject, Examination& result) {
  std::map<Area, Severity> worst;
  bool without_gpu = false;
  for (const Finding& finding : result.findings) {
    result.worst = std::max(result.worst, finding.severity);
    // That there is no GPU is told; it is no verdict over one.
    if (finding.id == kNoGpu || finding.id == kMac)
      without_gpu = true;
    else
      worst[finding.area] = std::max(worst[finding.area], finding.severity);
  }
  const bool purposeful = is_for_something(subject.purpose);
  bool judged = false;
  for (auto& [area, status] : result.areas) {
    if (!worst.contains(area) && !has_facts(area, subject)) continue;
    status = status_of(worst[area], purposeful);
    judged = true;
  }
  // Software in which nothing is wrong does not make a machine without a GPU a sound GPU machine.
  const bool open = without_gpu && result.worst < Severity::warning;
  result.overall = judged && !open ? status_of(result.worst, purposeful) : Status::not_judged;
}

}  // namespace

DriverNeed both(const DriverNeed& a, const DriverNeed& b) {
  const int most = a.at_most == 0 || b.at_most == 0 ? std::max(a.at_most, b.at_most) : std::min(a.at_most, b.at_most);
  const bool clash = a.modules_clash || b.modules_clash || (a.module && b.module && *a.module != *b.module);
  return {std::max(a.at_least, b.at_least), most, a.module ? a.module : b.module, clash};
}

DriverNeed Report::ask_driver(const DriverNeed& need) {
  asked_ = both(asked_.value_or(DriverNeed{}), need);
  return both(agreed_, *asked_);
}

Finding& Report::say(Severity severity, std::string title, std::vector<std::string> fix) {
  // Names, paths and values of other people's machines stand in titles and commands.
  for (std::string& step : fix) step = printable(step);
  title = printable(title);
  findings_.push_back({.id = std::string(check_.id),
                       .area = check_.area,
                       .severity = severity,
                       .title = std::move(title),
                       .why = std::string(check_.why),
                       .fix = std::move(fix),
                       .safe = false,
                       .source = std::string(check_.source),
                       .link = std::string(check_.link)});
  return findings_.back();
}

Finding& Report::say(std::string title, std::vector<std::string> fix) {
  return say(check_.severity, std::move(title), std::move(fix));
}

std::span<const Check> checks() {
  static const std::vector<Check> kAll = join_groups();
  return kAll;
}

const Check* find_check(std::string_view id) {
  const auto all = checks();
  const auto found = std::ranges::find(all, id, &Check::id);
  return found == all.end() ? nullptr : &*found;
}

Choice toolkit_choice() {
  return {.only = {"toolkit-newer-than-driver", "toolkit-by-minor-version", "toolkit-and-driver-cuda-differ",
                   "toolkit-too-old-for-gpu", "toolkit-dropped-gpu", "host-compiler-too-new",
                   "glibc-too-new-for-toolkit", "cuda-home-differs-from-nvcc", "loaded-module-differs",
                   "cuda-home-without-toolkit", "cuda-path-differs-from-cuda-home", "library-path-of-other-toolkit",
                   "toolkit-differs-from-torch", "library-path-of-another-cuda", "libcuda-stub-first",
                   "libcuda-compat-unfit", "cudnn-shadowed", "gpu-library-preloaded"},
          .skip = {}};
}

Result<void> validate(const Choice& choice, const knowledge::Knowledge& knowledge) {
  std::vector<std::string> known{std::string(kSite), std::string(kLeftovers)};
  for (const knowledge::SiteRule& rule : knowledge.rules()) known.push_back(site_id(rule));
  for (const Check& check : checks()) known.emplace_back(check.id);
  for (int area = 0; area <= std::to_underlying(Area::cluster); ++area)
    known.emplace_back(to_string(static_cast<Area>(area)));
  for (const auto& list : {choice.only, choice.skip}) {
    for (const std::string& name : list) {
      if (std::ranges::find(known, name) != known.end()) continue;
      const std::string close = closest_match(name, known);
      return fail(ErrorCode::invalid_argument, fmt::format("unknown check or area '{}'", printable(name)),
                  close.empty() ? "gpuwarden doctor --list shows them all" : fmt::format("did you mean '{}'?", close));
    }
  }
  return {};
}

void add_told(Examination& examination, std::vector<ToldFinding> told, const Choice& choice) {
  const auto is_said = [&](const ToldFinding& one) {
    return std::ranges::any_of(examination.findings, [&](const Finding& finding) {
      return std::ranges::find(one.same_as, finding.id) != one.same_as.end();
    });
  };
  std::erase_if(told, is_said);
  for (ToldFinding& one : told) {
    Finding& finding = one.finding;
    if (!is_wanted(choice, finding.id, finding.area)) continue;
    // That nothing of a GPU is seen is no news beside a failure on one.
    std::erase_if(examination.findings, [](const Finding& other) { return other.id == kNoGpu || other.id == kMac; });
    examination.worst = std::max(examination.worst, finding.severity);
    Status& area = examination.areas.try_emplace(finding.area, Status::not_judged).first->second;
    area = std::max(area, status_of(finding.severity, false));
    examination.overall = std::max(examination.overall, status_of(finding.severity, false));
    const auto place =
        std::ranges::upper_bound(examination.findings, finding.severity, std::greater<>(), &Finding::severity);
    examination.findings.insert(place, std::move(finding));
  }
}

Examination examine(const facts::Snapshot& snapshot, const knowledge::Knowledge& knowledge, const Purpose& purpose,
                    const Choice& choice, const facts::BurnInRun* burn_in) {
  static const facts::Environment kNothing;
  const Subject subject{snapshot, snapshot.environment ? *snapshot.environment : kNothing, knowledge, purpose, burn_in};
  Examination result;
  find(subject, choice, result);
  run_site_rules(subject, choice, result);
  take_to_platform(subject, result.findings);
  std::ranges::sort(result.findings, [](const Finding& a, const Finding& b) {
    return std::tuple(b.severity, place_of(a), a.title) < std::tuple(a.severity, place_of(b), b.title);
  });
  give_verdicts(subject, result);
  return result;
}

}  // namespace gpuwarden::doctor
