// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/expect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/knowledge/site_rules.hpp"

namespace gpuwarden::doctor {
namespace {

using facts::GpuRecord;
using knowledge::Version;
using Gpus = std::vector<const GpuRecord*>;

/// What the file asks for, one after another: passed, failed or not told.
class Comparing {
 public:
  Comparing(Examination& examination, const Expected& expected) : examination_(examination), expected_(expected) {}

  void ran(std::string_view what, Area area) {
    std::string id = id_of(what);
    if (std::ranges::find(examination_.ran, std::pair(id, area)) != examination_.ran.end()) return;
    examination_.ran.emplace_back(std::move(id), area);
    examination_.areas.try_emplace(area, Status::not_judged);
  }
  void differs(std::string_view what, Area area, const std::string& title, const std::vector<std::string>& fix) {
    say(what, area, Severity::error, title, fix);
  }
  void not_told(std::string_view what, Area area, const std::string& title) {
    say(what, area, Severity::info, title, {});
  }
  std::vector<ToldFinding>& findings() { return findings_; }

 private:
  static std::string id_of(std::string_view what) { return fmt::format("expected:{}", what); }

  void say(std::string_view what, Area area, Severity severity, const std::string& title,
           const std::vector<std::string>& fix) {
    Finding finding{.id = id_of(what),
                    .area = area,
                    .severity = severity,
                    .title = printable(title),
                    .why = "The site's inventory says so.",
                    .source = printable(expected_.source)};
    for (const std::string& step : fix) finding.fix.push_back(printable(step));
    findings_.push_back({std::move(finding), {}});
  }

  Examination& examination_;
  const Expected& expected_;
  std::vector<ToldFinding> findings_;
};

std::string numbers_of(const Gpus& gpus) {
  std::vector<std::string> numbers;
  for (const GpuRecord* gpu : gpus) numbers.push_back(std::to_string(gpu->gpu.index.value));
  return fmt::format("GPU{} {}", gpus.size() == 1 ? "" : "s", join(numbers, ", "));
}

bool is_of(const GpuRecord& gpu, const ExpectedGpus& group) {
  return gpu.gpu.vendor == "NVIDIA" && (group.model.empty() || knowledge::has_words(gpu.gpu.name, group.model));
}

Gpus gpus_of(const facts::Snapshot& snapshot, const ExpectedGpus& group) {
  Gpus gpus;
  for (const GpuRecord& gpu : snapshot.gpus) {
    if (is_of(gpu, group)) gpus.push_back(&gpu);
  }
  return gpus;
}

/// Another machine's text may tell of no GPU because nobody asked for them.
bool are_told(const facts::Snapshot& snapshot) {
  return !snapshot.gpus.empty() || snapshot.problem || snapshot.origin.empty();
}

void compare_count(Comparing& comparing, const facts::Snapshot& snapshot, const ExpectedGpus& group, const Gpus& gpus) {
  if (!group.count) return;
  const std::string kind = group.model.empty() ? "GPUs" : group.model + " GPUs";
  comparing.ran("count", Area::device);
  if (!are_told(snapshot)) {
    comparing.not_told("count", Area::device,
                       fmt::format("{} {} are expected; the text tells of no GPU", *group.count, kind));
    return;
  }
  if (static_cast<int>(gpus.size()) == *group.count) return;
  comparing.differs("count", Area::device, fmt::format("{} {} are expected, {} found", *group.count, kind, gpus.size()),
                    {"lspci -nn -d 10de:   # which of them are on the bus",
                     "sudo dmesg | grep -i -E 'nvrm|xid' | tail -20   # why the driver does not list the others"});
}

/// A figure of each GPU against the expected one.
struct Figure {
  std::string_view what;
  std::string wanted;  ///< "80 GB"
  std::optional<bool> (*as_expected)(const GpuRecord&, const ExpectedGpus&);
  std::string (*found)(const GpuRecord&);
  std::string_view step;
};

void compare_figure(Comparing& comparing, const Gpus& gpus, const ExpectedGpus& group, const Figure& figure) {
  comparing.ran(figure.what, Area::device);
  Gpus differing;
  Gpus silent;
  for (const GpuRecord* gpu : gpus) {
    const auto same = figure.as_expected(*gpu, group);
    if (!same)
      silent.push_back(gpu);
    else if (!*same)
      differing.push_back(gpu);
  }
  if (!differing.empty())
    comparing.differs(figure.what, Area::device,
                      fmt::format("{} of {}: {}, expected are {}", figure.what, numbers_of(differing),
                                  figure.found(*differing[0]), figure.wanted),
                      {std::string(figure.step)});
  if (!silent.empty())
    comparing.not_told(
        figure.what, Area::device,
        fmt::format("{} of {} is not told; expected are {}", figure.what, numbers_of(silent), figure.wanted));
}

std::optional<bool> has_memory(const GpuRecord& gpu, const ExpectedGpus& group) {
  constexpr double kTolerance = 0.1;
  constexpr double kGigabyte = 1e9;
  if (!gpu.sample.memory_total) return std::nullopt;
  const double wanted = group.memory_gb.value_or(0) * kGigabyte;
  return std::abs(static_cast<double>(gpu.sample.memory_total->value) - wanted) <= wanted * kTolerance;
}
std::string memory_of(const GpuRecord& gpu) {
  constexpr double kGibibyte = 1024.0 * 1024 * 1024;
  return fmt::format("{:.0f} GiB", static_cast<double>(gpu.sample.memory_total.value_or(Bytes{}).value) / kGibibyte);
}

std::optional<bool> has_width(const GpuRecord& gpu, const ExpectedGpus& group) {
  if (!gpu.sample.pcie_width) return std::nullopt;
  return gpu.sample.pcie_width->value >= group.pcie_width.value_or(0);
}
std::string width_of(const GpuRecord& gpu) {
  return fmt::format("{} lanes", gpu.sample.pcie_width.value_or(Count{}).value);
}

/// Idle links slow down, so that only what they can do tells.
std::optional<bool> has_generation(const GpuRecord& gpu, const ExpectedGpus& group) {
  if (!gpu.gpu.pcie_generation_max) return std::nullopt;
  return gpu.gpu.pcie_generation_max->value >= group.pcie_generation.value_or(0);
}
std::string generation_of(const GpuRecord& gpu) {
  return fmt::format("generation {}", gpu.gpu.pcie_generation_max.value_or(Count{}).value);
}

void compare_gpus(Comparing& comparing, const facts::Snapshot& snapshot, const ExpectedGpus& group) {
  const Gpus gpus = gpus_of(snapshot, group);
  compare_count(comparing, snapshot, group, gpus);
  if (group.memory_gb)
    compare_figure(comparing, gpus, group,
                   {"memory", fmt::format("{:g} GB", *group.memory_gb), has_memory, memory_of,
                    "compare the card's label, or gpuwarden list: it may be another model"});
  if (group.pcie_width)
    compare_figure(comparing, gpus, group,
                   {"pcie-width", fmt::format("{} lanes", *group.pcie_width), has_width, width_of,
                    "reseat the card; check riser, slot and the firmware's bifurcation"});
  if (group.pcie_generation)
    compare_figure(comparing, gpus, group,
                   {"pcie-generation", fmt::format("generation {}", *group.pcie_generation), has_generation,
                    generation_of, "check the slot, and the link speed in the firmware's settings"});
}

/// GPUs that no group of the file means.
void compare_models(Comparing& comparing, const facts::Snapshot& snapshot, const Expected& expected) {
  const bool named = std::ranges::any_of(expected.gpus, [](const ExpectedGpus& group) { return !group.model.empty(); });
  if (!named) return;
  comparing.ran("model", Area::device);
  Gpus others;
  for (const GpuRecord& gpu : snapshot.gpus) {
    const bool meant = std::ranges::any_of(expected.gpus, [&](const ExpectedGpus& group) { return is_of(gpu, group); });
    if (!meant && gpu.gpu.vendor == "NVIDIA") others.push_back(&gpu);
  }
  if (others.empty()) return;
  std::vector<std::string> wanted;
  for (const ExpectedGpus& group : expected.gpus) {
    if (!group.model.empty()) wanted.push_back(group.model);
  }
  comparing.differs("model", Area::device,
                    fmt::format("{} ({}) {} not of an expected model ({})", numbers_of(others), others[0]->gpu.name,
                                others.size() == 1 ? "is" : "are", join(wanted, ", ")),
                    {"lspci -nn -d 10de:   # what is in the slots"});
}

void compare_driver(Comparing& comparing, const facts::Snapshot& snapshot, const Expected& expected) {
  if (!expected.driver && !expected.driver_minimum) return;
  comparing.ran("driver", Area::driver);
  const std::string wanted =
      expected.driver ? to_string(*expected.driver) : to_string(*expected.driver_minimum) + " or newer";
  const auto& text = snapshot.driver_version ? snapshot.driver_version : snapshot.kernel_module_version;
  const auto found = text ? Version::parse(*text) : std::nullopt;
  if (!found) {
    if (snapshot.origin.empty() || snapshot.problem)
      comparing.differs("driver", Area::driver, fmt::format("driver {} is expected, none answers", wanted), {});
    else
      comparing.not_told("driver", Area::driver, fmt::format("driver {} is expected; the text tells none", wanted));
    return;
  }
  const bool same = !expected.driver || *found == *expected.driver;
  const bool new_enough = !expected.driver_minimum || *found >= *expected.driver_minimum;
  if (same && new_enough) return;
  const int branch = expected.driver ? expected.driver->major : expected.driver_minimum->major;
  comparing.differs("driver", Area::driver, fmt::format("driver {} is expected, {} is loaded", wanted, *text),
                    {fmt::format("gpuwarden driver plan --branch {}", branch)});
}

}  // namespace

void add_expected(Examination& examination, const facts::Snapshot& snapshot, const Expected& expected) {
  Comparing comparing(examination, expected);
  for (const ExpectedGpus& group : expected.gpus) compare_gpus(comparing, snapshot, group);
  compare_models(comparing, snapshot, expected);
  compare_driver(comparing, snapshot, expected);
  add_told(examination, std::move(comparing.findings()));
}

}  // namespace gpuwarden::doctor
