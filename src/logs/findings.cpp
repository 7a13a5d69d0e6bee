// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/logs/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/diagnosis/overview.hpp"
#include "gpuwarden/knowledge/diagnosis.hpp"

namespace gpuwarden::logs {
namespace {

using doctor::Area;
using doctor::Severity;

/// Weights (diagnosis::weight_among): from here on a cause is an error, below it a warning; what weighs less than the
/// second figure is a guess. As the first cause's confidence they are 0.87 and 0.76.
constexpr double kSure = 0.6;
constexpr double kDoubtful = 0.45;

struct Same {
  std::string_view cause;
  std::string_view checks;  ///< divided by blanks
};

/// Checks that say of facts, or of the same line, what a cause says.
constexpr auto kSame = std::to_array<Same>({
    {"driver_library_mismatch", "driver-library-mismatch reported-cuda-error libcuda-compat-unfit"},
    {"driver_not_loaded",
     "driver-in-trouble driver-missing driver-not-loaded nouveau-loaded driver-blacklisted reported-driver-too-old "
     "told-open-module-needed told-legacy-gpu told-other-driver told-key-rejected told-build-failed "
     "told-headers-missing told-module-missing told-no-gpu-served"},
    {"libcuda_missing", "driver-in-trouble driver-missing container-without-gpu"},
    {"no_device_detected",
     "driver-in-trouble told-no-gpu-served told-open-module-needed told-legacy-gpu told-init-failed "
     "reported-cuda-error reported-driver-too-old driver-library-mismatch nvml-unknown-error container-without-gpu"},
    {"cgroup_device_lost", "nvml-unknown-error device-nodes-blocked"},
    {"device_permission", "driver-in-trouble device-nodes-not-permitted"},
    {"nouveau_or_kernel_module",
     "told-open-module-needed told-legacy-gpu told-other-driver told-build-failed told-headers-missing "
     "told-module-missing nouveau-loaded "
     "kernel-headers-missing driver-not-built-for-kernel"},
    {"secure_boot", "told-key-rejected secure-boot-unsigned-module"},
    {"rm_init_failed", "told-init-failed told-open-module-needed told-no-memory-window told-no-gpu-served"},
    {"driver_too_old",
     "told-container-needs-cuda reported-driver-too-old torch-needs-newer-driver reported-cuda-error "
     "vllm-needs-newer-driver"},
    {"container_runtime_missing", "told-container-without-toolkit container-toolkit-missing"},
    {"container_driver_injection", "driver-in-trouble driver-library-mismatch"},
    {"arch_unsupported_by_toolkit",
     "told-ptxas-too-old reported-build-failure triton-too-old-for-gpu toolkit-too-old-for-gpu"},
    {"no_kernel_image",
     "reported-no-kernel reported-gpu-not-served torch-too-old-for-gpu torch-dropped-gpu vllm-gpu-too-old "
     "vllm-without-blackwell-kernels"},
    {"cpu_only_build", "reported-cpu-build torch-without-cuda"},
    {"fabric_manager_not_running",
     "told-fabric-version fabric-manager-not-running fabric-manager-version-differs reported-cuda-error"},
    {"unsupported_ptx", "reported-ptx-too-new"},
    {"arch_feature_unsupported",
     "reported-capability-too-low gpu-before-ampere-for-llm flash-attention-gpu-too-old vllm-gpu-too-old"},
    {"cuda_unknown_error", "reported-cuda-error uvm-not-loaded driver-in-trouble"},
    {"cudart_not_found", "reported-library-missing"},
    {"host_compiler_unsupported", "reported-build-failure host-compiler-too-new"},
    {"toolkit_framework_mismatch", "toolkit-differs-from-torch reported-build-failure"},
    {"abi_undefined_symbol",
     "torch-companions-differ vllm-torch-differs reported-glibc-too-old reported-libstdcxx-too-old"},
    {"rocm_arch", "reported-no-kernel vllm-without-kernels-for-amd-gpu"},
    {"visible_devices_empty", "visible-devices-empty reported-cuda-error"},
    {"device_busy", "reported-cuda-error"},
    {"crash_secondary", ""},
});

struct AreaName {
  std::string_view name;
  Area area;
};
/// The knowledge base's areas of causes; memory and communication are matters of the devices and their joining.
constexpr auto kAreas = std::to_array<AreaName>({{"driver", Area::driver},
                                                 {"hardware", Area::device},
                                                 {"device", Area::device},
                                                 {"memory", Area::device},
                                                 {"containers", Area::containers},
                                                 {"communication", Area::multi_gpu},
                                                 {"frameworks", Area::frameworks},
                                                 {"toolkit", Area::toolkit},
                                                 {"scheduler", Area::cluster},
                                                 {"host", Area::system}});

std::string_view area_name(std::string_view cause) {
  const auto* row = knowledge::diagnosis_cause(cause);
  return row == nullptr ? "" : row->area;
}

Area area_of(std::string_view cause) {
  const auto* const found = std::ranges::find(kAreas, area_name(cause), &AreaName::name);
  return found == kAreas.end() ? Area::system : found->area;
}

/// "run.log:12: the line".
std::string told_by(const diagnosis::Cause& cause) {
  if (cause.evidence.empty()) return cause.title + ".";
  const diagnosis::Evidence& first = cause.evidence.front();
  const std::string place = first.line == 0 ? "" : fmt::format("{}:{}: ", first.file, first.line);
  return printable(place + first.text);
}

}  // namespace

// Xids stand in the facts as well, where the doctor judges each.
std::vector<std::string> checks_like(std::string_view cause) {
  std::vector<std::string> ids;
  const auto* const row = std::ranges::find(kSame, cause, &Same::cause);
  if (row != kSame.end()) {
    for (const auto id : split_words(row->checks)) ids.emplace_back(id);
  }
  if (area_name(cause) != "hardware" && cause != "xid_app_fault") return ids;
  for (const doctor::Check& check : doctor::checks()) {
    if (check.id.starts_with("xid-") || check.id.starts_with("sxid") || check.id == "gpu-lost")
      ids.emplace_back(check.id);
  }
  return ids;
}

Severity severity_of(const diagnosis::Diagnosis& diagnosis, const diagnosis::Cause& cause) {
  const double weight = diagnosis::weight_among(diagnosis, cause);
  if (weight < kDoubtful) return Severity::info;
  if (weight < kSure) return Severity::warning;
  const std::string_view area = area_name(cause.id);
  return area == "driver" || area == "hardware" ? Severity::critical : Severity::error;
}

std::vector<doctor::ToldFinding> findings_of(const diagnosis::Diagnosis& diagnosis) {
  std::vector<doctor::ToldFinding> result;
  for (const diagnosis::Cause& cause : diagnosis.causes) {
    const Severity severity = severity_of(diagnosis, cause);
    if (severity < Severity::warning) continue;
    doctor::Finding finding{.id = "diagnose:" + cause.id,
                            .area = area_of(cause.id),
                            .severity = severity,
                            .title = printable(cause.summary.empty() ? cause.title : cause.summary),
                            .why = told_by(cause),
                            .source = fmt::format("gpuwarden diagnose, {:.0f} % sure", cause.confidence * 100),
                            .link = cause.link};
    for (const std::string& step : cause.fix) finding.fix.push_back(printable(step));
    result.push_back({std::move(finding), checks_like(cause.id)});
  }
  return result;
}

}  // namespace gpuwarden::logs
