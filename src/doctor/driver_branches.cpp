// SPDX-License-Identifier: Apache-2.0
#include "doctor/driver_branches.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "doctor/fitting.hpp"
#include "doctor/queries.hpp"
#include "doctor/remedies.hpp"
#include "gpuwarden/knowledge/first_drivers.hpp"

namespace gpuwarden::doctor {

using facts::GpuRecord;

Doubt doubt_of(const Subject& subject, const std::vector<const GpuRecord*>& not_served) {
  const bool in_use = is_elsewhere(subject) && std::ranges::any_of(subject.environment.pythons, [](const auto& python) {
                        return python.cuda_available == true;
                      });
  if (!in_use) return Doubt::none;
  return not_served.size() == nvidia_gpus(subject).size() ? Doubt::disproved : Doubt::open;
}

Severity severity_with(Doubt doubt, Severity severity) {
  return doubt == Doubt::open ? std::min(severity, Severity::warning) : severity;
}

std::string_view text_of(Doubt doubt) {
  return doubt == Doubt::open ? "; PyTorch has CUDA here, maybe on the other GPUs only" : "";
}

void driver_too_old_for_gpu(const Subject& subject, Report& report) {
  const auto driver = driver_of(subject);
  if (!driver) return;
  knowledge::FirstDrivers needed;
  std::string_view newest;
  const auto gpus = gpus_that(subject, [&](const GpuRecord& gpu) {
    const auto* model = model_of(subject, gpu.gpu);
    const auto first = knowledge::first_drivers_of(gpu.gpu.name, model != nullptr ? model->first_driver_branch : 0);
    const bool too_old = !first.serve(*driver);
    if (!too_old || (!newest.empty() && first.lowest() <= needed.lowest())) return too_old;
    needed = first;
    newest = gpu.gpu.name;
    return too_old;
  });
  const Doubt doubt = doubt_of(subject, gpus);
  if (gpus.empty() || doubt == Doubt::disproved) return;
  report.say(severity_with(doubt, Severity::critical),
             fmt::format("driver {} is older than {} ({}), which came with {}{}", to_string(*driver), name_gpus(gpus),
                         newest, text_of(needed, driver->major), text_of(doubt)),
             install_driver(subject, report, {.at_least = needed.lowest().major}));
}

void driver_dropped_gpu(const Subject& subject, Report& report) {
  const auto branch = driver_branch(subject);
  if (!branch) return;
  int last = 9999;
  const auto gpus = gpus_that(subject, [&](const GpuRecord& gpu) {
    const auto* model = model_of(subject, gpu.gpu);
    const bool dropped = model != nullptr && model->last_driver_branch > 0 && model->last_driver_branch < *branch;
    if (dropped) last = std::min(last, model->last_driver_branch);
    return dropped;
  });
  const Doubt doubt = doubt_of(subject, gpus);
  if (gpus.empty() || doubt == Doubt::disproved) return;
  report.say(severity_with(doubt, Severity::critical),
             fmt::format("driver branch {} no longer knows {} ({}): {} is the last that does{}", *branch,
                         name_gpus(gpus), gpus[0]->gpu.name, last, text_of(doubt)),
             plan_driver(
                 subject, report,
                 no_older_than(subject, report, last, {.at_most = last, .module = facts::ModuleFlavour::proprietary})));
}

void driver_at_its_end(const Subject& subject, Report& report) {
  const auto branch = driver_branch(subject);
  const auto* row = branch ? subject.knowledge.branch(*branch) : nullptr;
  const auto when = time_of_advice(subject);
  if (row == nullptr || !knowledge::is_over(row->end_of_life, when)) return;
  const DriverNeed newer{.at_least = *branch + 1};
  const std::string end = row->end_of_life == "past" ? "" : fmt::format(" since {}", row->end_of_life);
  if (const int last = last_driver_branch(subject); last == *branch) {
    const auto gpus = gpus_that(subject, [&](const GpuRecord& gpu) {
      const auto* model = model_of(subject, gpu.gpu);
      return model != nullptr && model->last_driver_branch == last;
    });
    if (!gpus.empty())
      report.say(fmt::format("driver branch {} gets no more fixes{}, and no newer one serves {} ({})", *branch, end,
                             name_gpus(gpus), gpus[0]->gpu.name),
                 {fmt::format("keep to the last release of branch {}, and plan for a newer GPU: new programs leave "
                              "this one out",
                              last)});
    return;
  }
  if (subject.knowledge.recommended_branch(newer.at_least, last_driver_branch(subject), when) == 0) return;
  const int next = fitting_branch(subject, report.ask_driver(newer));
  const auto* const other = subject.knowledge.branch(next);
  const bool is_better = next > *branch && other != nullptr && !knowledge::is_over(other->end_of_life, when);
  report.say(fmt::format("driver branch {} gets no more fixes{}{}", *branch, end,
                         is_better ? fmt::format("; branch {} does", next) : ""),
             plan_driver(subject, report, newer));
}

void driver_newer_than_known(const Subject& subject, Report& report) {
  const auto branch = driver_branch(subject);
  if (!branch || *branch <= subject.knowledge.newest_branch()) return;
  report.say(
      fmt::format("driver branch {} is newer than this version's knowledge (newest: {}, as of {}); it is judged as "
                  "that",
                  *branch, subject.knowledge.newest_branch(), subject.knowledge.as_of()),
      {"update gpuwarden, or describe the branch in a file for --knowledge (docs/knowledge.md)"});
}

}  // namespace gpuwarden::doctor
