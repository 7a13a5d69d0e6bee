// SPDX-License-Identifier: Apache-2.0
#include "doctor/site.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "doctor/queries.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

namespace {

using facts::GpuRecord;
using knowledge::RuleHit;
using knowledge::SiteRule;
using knowledge::Situation;

constexpr double kAll = 100;

bool is_used(const GpuRecord& gpu) {
  const auto& utilization = gpu.sample.utilization_gpu;
  return !gpu.processes.value_or(std::vector<facts::GpuProcess>{}).empty() || (utilization && utilization->value > 0);
}

/// The load of the last minute against the CPUs, at most all of them.
std::optional<double> cpu_percent(const Subject& subject) {
  const auto& host = subject.environment.host;
  if (!host.load_average || !host.cpus || *host.cpus <= 0) return std::nullopt;
  return std::min(kAll, *host.load_average / *host.cpus * kAll);
}

std::optional<double> memory_percent(const GpuRecord& gpu) {
  const auto& sample = gpu.sample;
  if (!sample.memory_used || !sample.memory_total || sample.memory_total->value == 0) return std::nullopt;
  return ratio(*sample.memory_used, *sample.memory_total) * kAll;
}

/// What is the same for all GPUs. How many were asked for is Slurm's to say: nobody else writes it down.
Situation situation_of(const Subject& subject) {
  Situation situation{
      .workload = subject.purpose.text, .driver = driver_of(subject), .cpu_percent = cpu_percent(subject)};
  const auto& slurm = subject.environment.slurm;
  if (!slurm) return situation;
  situation.gpus_requested = slurm->gpus_requested;
  if (!situation.gpus_requested && !slurm->granted_gpus.empty())
    situation.gpus_requested = static_cast<int>(slurm->granted_gpus.size());
  if (situation.gpus_requested)
    situation.gpus_used =
        static_cast<int>(gpus_that(subject, [](const GpuRecord& gpu) { return is_used(gpu); }).size());
  return situation;
}

Situation situation_of(const Subject& subject, const GpuRecord& gpu, Situation situation) {
  const auto* model = model_of(subject, gpu.gpu);
  situation.gpu = gpu.gpu.name;
  situation.capability = architecture_of(subject, gpu.gpu);
  if (model != nullptr) situation.architecture = model->architecture;
  situation.memory_percent = memory_percent(gpu);
  if (gpu.sample.utilization_gpu) situation.utilization_percent = gpu.sample.utilization_gpu->value;
  return situation;
}

/// What one sentence is said of.
struct Said {
  RuleHit hit;
  std::vector<std::string> gpus;
};

void add(std::vector<Said>& said, const RuleHit& hit, const GpuRecord& gpu) {
  const auto same = std::ranges::find_if(
      said, [&](const Said& one) { return one.hit.message == hit.message && one.hit.severity == hit.severity; });
  Said& entry = same != said.end() ? *same : said.emplace_back(hit);
  entry.gpus.push_back(std::to_string(gpu.gpu.index.value));
}

std::string why_of(const SiteRule& rule) {
  return fmt::format("A rule of this site ({}){}.", rule.source,
                     rule.workload.empty() ? "" : fmt::format(" for {}", rule.workload));
}

}  // namespace

std::string site_id(const SiteRule& rule) { return "site:" + printable(rule.id); }

Area site_area(const SiteRule& rule) {
  return rule.driver_minimum || rule.driver_recommended || rule.driver_required || rule.driver_optimal ? Area::driver
                                                                                                       : Area::device;
}

std::vector<Finding> site_findings(const Subject& subject, const SiteRule& rule) {
  const Situation all = situation_of(subject);
  const auto gpus = nvidia_gpus(subject);
  std::vector<Said> said;
  for (const GpuRecord* gpu : gpus) {
    for (const RuleHit& hit : judge({&rule, 1}, situation_of(subject, *gpu, all))) add(said, hit, *gpu);
  }
  std::vector<Finding> findings;
  for (const Said& one : said) {
    const bool everywhere = one.gpus.size() == gpus.size();
    const std::string where =
        everywhere ? "" : fmt::format(" (GPU{} {})", one.gpus.size() == 1 ? "" : "s", join(one.gpus, ", "));
    Finding finding{.id = site_id(rule),
                    .area = site_area(rule),
                    .severity = severity_from(one.hit.severity).value_or(Severity::warning),
                    .title = printable(one.hit.message + where),
                    .why = printable(why_of(rule)),
                    .source = printable(rule.source)};
    if (!one.hit.fix.empty()) finding.fix.push_back(printable(one.hit.fix));
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace gpuwarden::doctor
