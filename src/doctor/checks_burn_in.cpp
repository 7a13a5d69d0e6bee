// SPDX-License-Identifier: Apache-2.0
// What the GPUs showed under test (doctor --deep): memory that forgets, links and memories that are slow, arithmetic
// that is wrong or slow, and tests that could not be made.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/groups.hpp"
#include "doctor/remedies.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

namespace {

using facts::BurnInFigure;
using facts::BurnInGpu;

constexpr std::string_view kBurnInSource = "gpuwarden's own test; thresholds in docs/cli.md, doctor --deep";

/// "GPU 3", or the name of a device that the snapshot has not.
std::string name_of(const BurnInGpu& gpu) {
  return gpu.index ? fmt::format("GPU {}", gpu.index->value) : gpu.name.empty() ? gpu.uuid.value : gpu.name;
}

/// Stand-ins are not to be taken for NVIDIA's driver.
std::string told_by(const Subject& subject) {
  const auto& burn_in = *subject.burn_in;
  return burn_in.stand_in ? fmt::format(" (reported by {}, a stand-in for the system's CUDA driver)", burn_in.library)
                          : "";
}

std::string reset_of(const Subject& subject, const BurnInGpu& gpu) {
  for (const auto& record : subject.snapshot.gpus) {
    if (gpu.index && record.gpu.index == *gpu.index) return reset_command({&record});
  }
  return "sudo nvidia-smi --gpu-reset";
}

/// Every GPU that was tested.
template <class Look>
void each_gpu(const Subject& subject, Look look) {
  if (subject.burn_in == nullptr) return;
  for (const BurnInGpu& gpu : subject.burn_in->gpus) look(gpu);
}

void memory_errors(const Subject& subject, Report& report) {
  each_gpu(subject, [&](const BurnInGpu& gpu) {
    if (!gpu.memory || gpu.memory->mismatches == 0) return;
    std::string first;
    if (!gpu.memory->faults.empty()) {
      const auto& fault = gpu.memory->faults.front();
      const int bits = wrong_bits(fault);
      first = fmt::format("; first at {:#x}: {:#018x} was written, {:#018x} came back ({} bit{}, pattern {})",
                          fault.address, fault.expected, fault.found, bits, bits == 1 ? "" : "s", fault.pattern);
    }
    report.say(fmt::format("{}: {} word{} of {} tested memory did not keep what was written{}{}", name_of(gpu),
                           gpu.memory->mismatches, gpu.memory->mismatches == 1 ? "" : "s",
                           format_size(gpu.memory->tested), first, told_by(subject)),
               {reset_of(subject, gpu), "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT",
                "take the GPU out of use; if it comes back after the reset, ask the vendor for a replacement"});
  });
}

void wrong_arithmetic(const Subject& subject, Report& report) {
  each_gpu(subject, [&](const BurnInGpu& gpu) {
    if (gpu.wrong_results == 0) return;
    report.say(fmt::format("{}: {} sums of ones came out wrong{}", name_of(gpu), gpu.wrong_results, told_by(subject)),
               {reset_of(subject, gpu), "take the GPU out of use; if it comes back, ask the vendor for a replacement"});
  });
}

void broken_off(const Subject& subject, Report& report) {
  if (subject.burn_in == nullptr) return;
  if (const auto& why = subject.burn_in->failed) {
    auto steps = subject.burn_in->next_steps;
    if (steps.empty()) steps = {"sudo dmesg | grep -i nvrm"};
    report.say(fmt::format("CUDA does not work: {}{}", *why, told_by(subject)), std::move(steps));
  }
  each_gpu(subject, [&](const BurnInGpu& gpu) {
    if (gpu.failed)
      report.say(fmt::format("{}: the test stopped early: {}{}", name_of(gpu), *gpu.failed, told_by(subject)),
                 {"sudo dmesg | grep -iE 'nvrm|xid'", reset_of(subject, gpu)});
  });
}

/// "; it ran at 345 MHz and 88 °C, held back by hw_thermal_slowdown", as far as it was seen.
std::string circumstances(const BurnInGpu& gpu) {
  const auto seen = std::ranges::find(gpu.moments, "load", &facts::BurnInMoment::when);
  if (seen == gpu.moments.end()) return "";
  std::vector<std::string> parts;
  if (seen->clock_sm) parts.push_back(fmt::format("{} MHz", seen->clock_sm->value));
  if (seen->temperature) parts.push_back(fmt::format("{} °C", seen->temperature->value));
  std::string text = parts.empty() ? "" : "; under load at " + join(parts, ", ");
  if (!seen->throttle_reasons) return text;
  for (const auto reason : *seen->throttle_reasons) {
    if (facts::is_slowdown(reason)) text += fmt::format(", held back by {}", to_string(reason));
  }
  return text;
}

void slow_figures(const Subject& subject, Report& report, std::span<const std::string_view> prefixes,
                  const std::vector<std::string>& fix) {
  each_gpu(subject, [&](const BurnInGpu& gpu) {
    for (const BurnInFigure& figure : gpu.figures) {
      const bool of_these =
          std::ranges::any_of(prefixes, [&](std::string_view prefix) { return figure.id.starts_with(prefix); });
      if (!of_these || !figure.least || !figure.expected || figure.value >= *figure.least) continue;
      report.say(fmt::format("{}: {} {:.4g} {}, where {:.4g} is published and {:.4g} the least to expect{}{}",
                             name_of(gpu), figure.id, figure.value, figure.unit, *figure.expected, *figure.least,
                             circumstances(gpu), told_by(subject)),
                 fix);
    }
  });
}

void slow_copies(const Subject& subject, Report& report) {
  static constexpr std::array<std::string_view, 1> kOf{"pcie_"};
  slow_figures(subject, report, kOf,
               {"nvidia-smi -q -d PERFORMANCE,CLOCK", "sudo dmesg | grep -i aer",
                "reseat the card or its riser; bind the job to the GPU's NUMA node"});
}

void slow_memory(const Subject& subject, Report& report) {
  static constexpr std::array<std::string_view, 1> kOf{"memory_bandwidth"};
  slow_figures(subject, report, kOf, {"nvidia-smi -q -d CLOCK,PERFORMANCE,ECC"});
}

void slow_arithmetic(const Subject& subject, Report& report) {
  static constexpr std::array<std::string_view, 3> kOf{"fp32", "tensor_", "matrix_"};
  slow_figures(subject, report, kOf,
               {"nvidia-smi -q -d CLOCK,PERFORMANCE,POWER,TEMPERATURE", "check power limit, cooling and power cables"});
}

void not_tested(const Subject& subject, Report& report) {
  if (subject.burn_in == nullptr) return;
  if (const auto& why = subject.burn_in->not_possible)
    report.say(fmt::format("the GPUs were not tested: {}", *why), subject.burn_in->next_steps);
  each_gpu(subject, [&](const BurnInGpu& gpu) {
    if (gpu.not_possible)
      report.say(fmt::format("{} was not tested: {}", name_of(gpu), *gpu.not_possible),
                 {"gpuwarden list --processes", "gpuwarden doctor --deep --force   # tests it beside them"});
  });
}

constexpr auto kBurnInChecks = std::to_array<Check>({
    {"deep-memory-error", Area::device, Severity::critical, "memory under patterns (--deep)",
     "Models, results and checkpoints on this GPU are silently wrong.", "NVIDIA GPU memory error management",
     kMemoryErrors, memory_errors},
    {"deep-compute-error", Area::device, Severity::critical, "arithmetic whose result is known (--deep)",
     "The GPU computes wrong numbers without reporting an error.", kBurnInSource, "", wrong_arithmetic},
    {"deep-failed", Area::device, Severity::error, "whether CUDA works through the tests (--deep)",
     "Jobs on this GPU would end the same way.", "CUDA driver API reference, error codes",
     "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html", broken_off},
    {"deep-bandwidth-low", Area::device, Severity::warning, "memory bandwidth against the catalogue (--deep)",
     "Inference and most of training wait for memory.", kBurnInSource, "", slow_memory},
    {"deep-pcie-slow", Area::device, Severity::warning, "transfers against the PCIe link's rate (--deep)",
     "Loading data and models, and offloading, take longer.", kBurnInSource, "", slow_copies},
    {"deep-throughput-low", Area::device, Severity::warning, "arithmetic rates against the catalogue (--deep)",
     "Jobs are slower here than on a sound GPU of this model.", kBurnInSource, "", slow_arithmetic},
    {"deep-not-possible", Area::device, Severity::info, "GPUs that --deep could not test",
     "Nothing is known of their memory and speed.", kBurnInSource, "", not_tested},
});

}  // namespace

std::span<const Check> burn_in_checks() { return kBurnInChecks; }

}  // namespace gpuwarden::doctor
