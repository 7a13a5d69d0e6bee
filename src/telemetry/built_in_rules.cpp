// SPDX-License-Identifier: Apache-2.0
// The alert rules that are there without a file: a row each, with where its threshold and level are from. The Xids are
// those of knowledge/xid.csv whose severity is critical or error, and some that are only told; a test holds this table
// against that one.
#include <array>
#include <cstdlib>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/telemetry/alert_rules.hpp"
#include "telemetry/alert_rule_text.hpp"

namespace gpuwarden::telemetry {
namespace {

struct BuiltIn {
  std::string_view id;
  AlertLevel level;
  std::string_view when;
  std::string_view until;
  std::string_view clear_for;
  std::string_view message;
  std::string_view next_step;
  std::string_view source;
  std::string_view part_of = {};  ///< ids, with blanks between
};

constexpr std::string_view kThresholds =
    "NVML: nvmlDeviceGetTemperatureThreshold, each GPU's own; the margin is judgement";
constexpr std::string_view kXids = "NVIDIA's Xid catalog (knowledge/xid.csv: severity and action)";
constexpr std::string_view kReset = "drain the GPU, then reset it: nvidia-smi --gpu-reset -i {gpu}";

constexpr auto kBuiltIn = std::to_array<BuiltIn>({
    {"hot", AlertLevel::warning, "temperature > slowdown - 5 for 10s", "temperature < slowdown - 8", "10s",
     "GPU {gpu} is at {temperature} and slows down at {slowdown}", "look at fans, filters and the inlet temperature",
     kThresholds},
    {"too_hot", AlertLevel::error, "temperature >= slowdown for 10s", "temperature < slowdown - 3", "10s",
     "GPU {gpu} is at {temperature}: it has reached its slowdown temperature",
     "look at fans, filters and the inlet temperature", kThresholds},
    {"near_shutdown", AlertLevel::critical, "temperature > shutdown - 3", "temperature < shutdown - 6", "10s",
     "GPU {gpu} is at {temperature} and switches itself off at {shutdown}", "stop its work now; check the cooling",
     kThresholds},
    {"memory_hot", AlertLevel::warning, "memory_temperature > memory_temperature_max for 30s",
     "memory_temperature < memory_temperature_max - 3", "30s",
     "The memory of GPU {gpu} is at {memory_temperature}, above {memory_temperature_max}",
     "look at fans, filters and the inlet temperature", "NVML: threshold MEM_MAX"},
    {"thermal_throttle", AlertLevel::warning, "throttle thermal for 30s", "", "30s",
     "GPU {gpu} has held back its clocks because of heat for 30 s ({throttle})",
     "look at fans, filters and the inlet temperature", "NVML: nvmlClocksEventReasons; the time is judgement"},
    {"power_brake", AlertLevel::error, "throttle hw_power_brake for 5s", "", "60s",
     "The power supply makes GPU {gpu} hold back its clocks", "check power supplies and cables of the machine",
     "NVML: nvmlClocksEventReasonHwPowerBrakeSlowdown (an external brake is asserted)"},
    {"gpu_lost", AlertLevel::critical, "state in (lost, needs_reset)", "", "30s", "GPU {gpu} ({name}) {state_words}",
     "see `gpuwarden list`; a lost GPU mostly needs a reboot",
     "NVML: GPU_IS_LOST, RESET_REQUIRED; dcgm-exporter rule sets alert when a UUID is absent",
     "xid_off_the_bus xid_fatal xid_memory"},
    {"not_answering", AlertLevel::error, "state in (not_answering, faulty) for 10s", "", "30s",
     "GPU {gpu} does not answer or answers nonsense", "see `gpuwarden list` and the kernel's log",
     "the reader's own judgement (docs/internals/probe.md)", "xid_off_the_bus xid_fatal xid_engine gpu_lost"},
    {"unfit", AlertLevel::error, "health == error", "", "", "GPU {gpu} is judged unfit for work: {health_reason}",
     "{health_next_step}", "docs/health.md", "*"},
    {"xid_memory", AlertLevel::critical, "xid in (48, 95, 140)", "", "",
     "GPU {gpu} reported Xid {value}: a memory error that could not be corrected", kReset, kXids, "ecc_uncorrected"},
    {"xid_memory_contained", AlertLevel::error, "xid == 94", "", "",
     "GPU {gpu} reported Xid 94: a memory error that hit one application only", "start that application again", kXids,
     "xid_memory"},
    {"xid_remapping_failed", AlertLevel::critical, "xid == 64", "", "",
     "GPU {gpu} reported Xid 64: bad memory could not be set aside", kReset, kXids, "xid_memory remapping_failed"},
    {"xid_remapping", AlertLevel::warning, "xid in (63, 92)", "", "",
     "GPU {gpu} reported Xid {value}: memory is being repaired, or has many errors", "reset the GPU when it is idle",
     kXids, "xid_memory ecc_uncorrected"},
    {"xid_off_the_bus", AlertLevel::critical, "xid == 79", "", "", "GPU {gpu} reported Xid 79: it fell off the bus",
     "reboot the machine; if it happens again check power and seating", kXids, "gpu_lost"},
    {"xid_fatal", AlertLevel::critical, "xid in (54, 143, 151, 158)", "", "",
     "GPU {gpu} reported Xid {value}: it cannot go on", "see `gpuwarden diagnose --explain {value}`", kXids},
    {"xid_link", AlertLevel::error, "xid in (74, 136, 155)", "", "", "GPU {gpu} reported Xid {value}: an NVLink error",
     "check the links (nvidia-smi nvlink -e), then reset the GPU", kXids},
    {"xid_bus", AlertLevel::error, "xid in (167, 173)", "", "",
     "GPU {gpu} reported Xid {value}: a fatal error of its link to the host", kReset, kXids,
     "xid_off_the_bus xid_fatal"},
    {"xid_uncorrectable", AlertLevel::error, "xid in (171, 172)", "", "",
     "GPU {gpu} reported Xid {value}: an uncorrectable memory error", kReset, kXids, "xid_memory xid_memory_contained"},
    {"xid_engine", AlertLevel::error, "xid in (46, 62, 109, 110, 119, 120, 156, 169)", "", "",
     "GPU {gpu} reported Xid {value}: its firmware or an engine stopped", kReset, kXids},
    {"xid_application", AlertLevel::info, "xid in (8, 13, 31, 43, 45, 68, 69)", "", "",
     "GPU {gpu} reported Xid {value}: most often an error of an application",
     "see `gpuwarden diagnose --explain {value}`", kXids,
     "xid_memory xid_memory_contained xid_off_the_bus xid_fatal xid_engine"},
    {"ecc_uncorrected", AlertLevel::critical, "increase(ecc_uncorrected_volatile) > 0", "", "",
     "GPU {gpu} has new uncorrected memory errors ({ecc_uncorrected_volatile} since the driver was loaded)", kReset,
     "AWS HyperPod's default: double bit errors above 0 are critical", "xid_memory xid_memory_contained"},
    {"remapping_failed", AlertLevel::critical, "remapped_rows_failed > 0", "", "",
     "GPU {gpu} has no spare memory rows left where one is needed", "have the board replaced",
     "NVIDIA GPU memory error management: a row remapping failure is a reason for an RMA",
     "xid_remapping_failed xid_memory"},
    {"remapping_pending", AlertLevel::warning, "remapped_rows_pending > 0", "", "",
     "GPU {gpu} will replace rows of its memory at its next reset", "reset the GPU when it is idle",
     "NVIDIA GPU memory error management", "xid_memory xid_remapping ecc_uncorrected"},
    {"retirement_pending", AlertLevel::warning, "retired_pages_pending > 0", "", "",
     "GPU {gpu} will retire pages of its memory at its next reset", "reset the GPU when it is idle",
     "NVIDIA dynamic page retirement", "xid_memory xid_remapping ecc_uncorrected"},
    {"memory_full", AlertLevel::info, "memory_used_percent > 95 for 30s", "memory_used_percent < 90", "30s",
     "The memory of GPU {gpu} is {value} full", "see `gpuwarden memory`",
     "public rule sets of dcgm-exporter: above 90 % for 10 minutes"},
    {"idle_with_memory", AlertLevel::info, "utilization < 5 while memory_used > 50% for 10m", "utilization >= 5", "60s",
     "GPU {gpu} does nothing, and {user} holds {memory_used} of its memory", "ask whether it is still needed",
     "public rule sets of dcgm-exporter: utilization below 10 % for 30 minutes"},
    {"reserved_but_idle", AlertLevel::info, "leased and idle for 30m", "", "",
     "GPU {gpu} is reserved by {lease_user} and has done nothing for 30 minutes", "ask whether it is still needed",
     "public rule sets of dcgm-exporter: utilization below 10 % for 30 minutes"},
    {"narrow_link", AlertLevel::info, "pcie_width < pcie_width_max while utilization > 50 for 5m", "", "60s",
     "GPU {gpu} works over {pcie_width} of {pcie_width_max} PCIe lanes", "check its seating and the slot",
     "NVML: nvmlDeviceGetCurrPcieLinkWidth against nvmlDeviceGetMaxPcieLinkWidth"},
});

/// The table is constant: a row that does not parse is a fault of this program, which its tests find.
AlertRule rule_of(const BuiltIn& row) {
  auto timed = parse_timed_condition(row.when);
  if (!timed) std::abort();
  AlertRule rule;
  rule.id = row.id;
  rule.level = row.level;
  rule.holds_for = timed->holds_for.value_or(std::chrono::milliseconds(0));
  rule.when = std::move(timed->condition);
  if (!row.until.empty()) {
    auto until = Expression::parse(row.until);
    if (!until) std::abort();
    rule.until = std::move(*until);
  }
  if (!row.clear_for.empty()) {
    rule.clear_for = parse_duration(row.clear_for).value_or(std::chrono::milliseconds(0));
  } else if (rule.when.about_events()) {
    rule.clear_for = kEventLasts;
  }
  rule.message = row.message;
  rule.next_step = row.next_step;
  rule.source = row.source;
  for (const std::string_view id : split_words(row.part_of)) rule.part_of.emplace_back(id);
  rule.built_in = true;
  return rule;
}

}  // namespace

const std::vector<AlertRule>& built_in_rules() {
  static const std::vector<AlertRule> kRules = [] {
    std::vector<AlertRule> rules;
    for (const BuiltIn& row : kBuiltIn) rules.push_back(rule_of(row));
    return rules;
  }();
  return kRules;
}

}  // namespace gpuwarden::telemetry
