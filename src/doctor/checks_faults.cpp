// SPDX-License-Identifier: Apache-2.0
// The faults that the driver wrote to the kernel log: Xid of GPUs, SXid of NVSwitches.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "doctor/groups.hpp"
#include "doctor/queries.hpp"
#include "doctor/remedies.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

namespace {

using facts::GpuRecord;

/// Follow other Xids and say nothing new: preemptive cleanup, and the recovery action, which has a check of its own.
constexpr std::uint32_t kCleanup = 45;
constexpr std::uint32_t kRecoveryAction = 154;

/// The events of one code, on GPUs that repair their memory in one way.
struct XidGroup {
  std::uint32_t code = 0;
  knowledge::MemoryRepair repair = knowledge::MemoryRepair::unknown;
  std::size_t events = 0;
  std::vector<std::string> places;  ///< PCI bus ids, each once
  bool fatal = false;               ///< a message of it says so: "NETIR_LINK_EVT Fatal XC0 i0 Link 07"
};

/// The number of a hexadecimal PCI domain, "0000" or "00000000", without its leading zeros.
std::string_view domain_of(std::string_view bus_id) {
  const std::string_view domain = bus_id.substr(0, bus_id.find(':'));
  return domain.substr(std::min(domain.find_first_not_of('0'), domain.size()));
}

/// Whether a place of the kernel log ("0000:27:00") is that of a GPU ("00000000:27:00.0").
bool is_at(const GpuRecord& gpu, std::string_view place) {
  const std::string own = to_lower(gpu.gpu.pci_bus_id);
  const std::string wanted = to_lower(place);
  if (!own.contains(':') || !wanted.contains(':')) return false;
  return domain_of(own) == domain_of(wanted) && own.substr(own.find(':')).starts_with(wanted.substr(wanted.find(':')));
}

/// How the GPU of a message repairs its memory: the message's own words, else what is known of the GPU there; where
/// nobody names a GPU, of all there are.
knowledge::MemoryRepair repair_at(const Subject& subject, const facts::KernelFault& fault) {
  using knowledge::MemoryRepair;
  if (fault.text.contains("Page Retirement")) return MemoryRepair::pages;
  if (fault.text.contains("Row Remapper")) return MemoryRepair::rows;
  const auto gpus = gpus_that(subject, [&](const GpuRecord& gpu) { return is_at(gpu, fault.pci_bus_id.value_or("")); });
  return repair_of(subject, gpus.empty() ? nvidia_gpus(subject) : gpus);
}

/// "Fatal", not "Nonfatal" and "Non-fatal".
bool says_fatal(std::string_view text) {
  return std::ranges::any_of(split_words(text), [](std::string_view word) { return to_lower(word) == "fatal"; });
}

std::vector<XidGroup> xid_groups(const Subject& subject) {
  std::vector<XidGroup> groups;
  if (!subject.snapshot.kernel_faults) return groups;
  for (const auto& fault : *subject.snapshot.kernel_faults) {
    if (fault.kind != "xid" || fault.code == kCleanup || fault.code == kRecoveryAction) continue;
    const auto repair = repair_at(subject, fault);
    auto group = std::ranges::find_if(
        groups, [&](const XidGroup& one) { return one.code == fault.code && one.repair == repair; });
    if (group == groups.end()) group = groups.insert(group, {.code = fault.code, .repair = repair});
    ++group->events;
    group->fatal = group->fatal || says_fatal(fault.text);
    const std::string place = fault.pci_bus_id.value_or("");
    if (!place.empty() && std::ranges::find(group->places, place) == group->places.end())
      group->places.push_back(place);
  }
  return groups;
}

/// "Xid 31 on 0000:27:00, 0000:37:00 (5 times)".
std::string title_of(const XidGroup& group) {
  return fmt::format("Xid {}{}{}", group.code, group.places.empty() ? "" : " on " + join(group.places, ", "),
                     group.events > 1 ? fmt::format(" ({} times)", group.events) : "");
}

struct XidReason {
  std::string_view cause;
  std::string_view why;
};

constexpr auto kXidReasons = std::to_array<XidReason>({
    {"USER_APP", "A program was stopped; usually its own bug."},
    {"HW-info", "The hardware reports what it has repaired itself; no program was stopped."},
    {"HW-contained", "Memory failed under a program, which was stopped; others go on."},
    {"HW-uncontained", "Memory failed, and what the GPU computed since cannot be trusted."},
    {"HW/LINK", "A link between GPUs fails."},
    {"HW/BUS", "The GPU no longer answers on the PCIe bus."},
    {"HW", "The hardware is at fault, not a program."},
    {"APP/DRIVER", "A program or the driver is at fault."},
    {"FW/DRIVER", "The GPU's firmware or the driver is at fault, not a program."},
});

/// Why it matters, by the catalogue's cause, else by what it asks for; empty where neither tells.
std::string_view why_of(const knowledge::XidCode& row) {
  const auto* const reason = std::ranges::find(kXidReasons, row.cause, &XidReason::cause);
  if (reason != kXidReasons.end()) return reason->why;
  if (row.action == "RESTART_APP") return "A program was stopped; usually its own bug.";
  if (row.action == "IGNORE") return "The driver reports it; nothing was stopped.";
  if (row.action.starts_with("WORKFLOW_NVLINK")) return "A link between GPUs fails.";
  return row.severity == "warning" ? "The driver reports it; NVIDIA's catalog names no cause." : "";
}

bool is_of_nvlink(const knowledge::XidCode& row) { return row.action.starts_with("WORKFLOW_NVLINK5"); }
bool is_of_a_program(const knowledge::XidCode& row) {
  return row.action == "RESTART_APP" || row.cause == "USER_APP" || row.cause == "APP/DRIVER";
}

std::string text_of(const XidGroup& group, const knowledge::XidCode& row) {
  return fmt::format("{}: {}", title_of(group), row.description.empty() ? row.mnemonic : row.description);
}

/// The kind of the step that a row asks for.
std::string_view kind_of_action(const knowledge::XidCode& row) {
  constexpr int kRemapped = 63;  // a row is replaced, or a page set aside, by the next reset
  const bool resets = row.action == "RESET_GPU" || row.action == "WORKFLOW_XID_48" || row.code == kRemapped;
  return resets ? "reset" : "admin";
}

template <class Wanted>
void xids(const Subject& subject, Report& report, std::string_view severity, Wanted wanted) {
  for (const XidGroup& group : xid_groups(subject)) {
    const auto* row = subject.knowledge.xid(static_cast<int>(group.code), group.repair);
    if (row == nullptr || row->severity != severity || !wanted(*row)) continue;
    std::vector<std::string> fix;
    if (row->action_plain == "no action")
      fix.emplace_back("nothing needs to be done; watch whether it comes again");
    else if (!row->action_plain.empty())
      fix.push_back(knowledge::with_kind(kind_of_action(*row), row->action_plain));
    fix.push_back(fmt::format("gpuwarden compat xid {}", group.code));
    Finding& finding = report.say(text_of(group, *row), fix);
    if (const auto why = why_of(*row); !why.empty()) finding.why = why;
  }
}

constexpr auto kAnyXid = [](const knowledge::XidCode&) { return true; };

void xid_critical(const Subject& subject, Report& report) { xids(subject, report, "critical", kAnyXid); }
void xid_error(const Subject& subject, Report& report) { xids(subject, report, "error", kAnyXid); }
void xid_warning(const Subject& subject, Report& report) { xids(subject, report, "warning", is_of_a_program); }
void xid_hardware(const Subject& subject, Report& report) {
  xids(subject, report, "warning", [](const auto& row) { return !is_of_nvlink(row) && !is_of_a_program(row); });
}

/// Of NVLink 5 the message itself says whether it is fatal, and the catalog resets the GPU after all that are and after
/// none that is not (source: NVIDIA Xid catalog, sheet of Xid 144 to 150: severity and recovery action).
void xid_nvlink(const Subject& subject, Report& report) {
  for (const XidGroup& group : xid_groups(subject)) {
    const auto* row = subject.knowledge.xid(static_cast<int>(group.code));
    if (row == nullptr || !is_of_nvlink(*row)) continue;
    const std::string look = fmt::format("gpuwarden compat xid {}", group.code);
    if (group.fatal)
      report.say(
          Severity::error, text_of(group, *row) + ", fatal",
          {"[@reset] end the GPU's work and reset it: sudo nvidia-smi --gpu-reset -i ID; after it came again, ask the "
           "vendor",
           look});
    else
      report.say(text_of(group, *row) + ", not fatal",
                 {"nothing, unless Xid 154 asks for more or it comes again: then ask the vendor", look});
  }
}

void xid_unknown(const Subject& subject, Report& report) {
  for (const XidGroup& group : xid_groups(subject)) {
    if (subject.knowledge.xid(static_cast<int>(group.code)) != nullptr) continue;
    report.say(fmt::format("{}: this code is not in this version's knowledge base", title_of(group)),
               {"[@nvidia] look it up in NVIDIA's Xid catalog"});
  }
}

/// Whether the log has an Xid of this place that says more than the action to take.
bool is_judged_by_another(const Subject& subject, const facts::KernelFault& action) {
  return std::ranges::any_of(*subject.snapshot.kernel_faults, [&](const facts::KernelFault& fault) {
    const auto* row = fault.kind == "xid" && fault.code != kRecoveryAction && fault.pci_bus_id == action.pci_bus_id
                          ? subject.knowledge.xid(static_cast<int>(fault.code))
                          : nullptr;
    return row != nullptr && (row->severity == "error" || row->severity == "critical");
  });
}

struct RecoveryAction {
  std::string_view words;  ///< as the driver prints them
  Severity severity;
  std::string_view asks;
  std::string_view fix;  ///< empty: a reset
};

/// source: nvml.h, nvmlDeviceGpuRecoveryAction_t; open-gpu-kernel-modules, Xid 154. The longer ones stand first.
constexpr auto kRecoveryActions = std::to_array<RecoveryAction>({
    {"drain and reset", Severity::error, "a reset once its work has ended", ""},
    {"reset", Severity::error, "a reset", ""},
    {"reboot", Severity::critical, "a reboot of the machine", "sudo reboot"},
    {"drain p2p", Severity::warning, "its work with other GPUs to end",
     "end the programs that use this GPU together with others"},
});

/// "Node Reboot Required" of "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)".
const RecoveryAction* action_in(std::string_view text) {
  const std::size_t to = text.rfind(" to ");
  if (to == std::string_view::npos) return nullptr;
  const auto* const found = std::ranges::find_if(
      kRecoveryActions, [&](const RecoveryAction& one) { return contains_ignoring_case(text.substr(to), one.words); });
  return found == kRecoveryActions.end() ? nullptr : found;
}

std::string reset_at(const Subject& subject, std::string_view place) {
  const auto gpus = gpus_that(subject, [&](const GpuRecord& gpu) { return is_at(gpu, place); });
  return gpus.empty() ? "sudo nvidia-smi --gpu-reset   # after the GPU's processes have ended" : reset_command(gpus);
}

void xid_recovery(const Subject& subject, Report& report) {
  if (!subject.snapshot.kernel_faults) return;
  // The last word about a GPU holds.
  std::map<std::string, const facts::KernelFault*> last;
  for (const auto& fault : *subject.snapshot.kernel_faults) {
    if (fault.kind == "xid" && fault.code == kRecoveryAction) last[fault.pci_bus_id.value_or("")] = &fault;
  }
  for (const auto& [place, fault] : last) {
    const RecoveryAction* action = action_in(fault->text);
    if (action == nullptr || is_judged_by_another(subject, *fault)) continue;
    report.say(action->severity,
               fmt::format("the GPU{} asks for {} (Xid 154)", place.empty() ? "" : " on " + place, action->asks),
               {action->fix.empty() ? reset_at(subject, place) : std::string(action->fix)});
  }
}

void sxid(const Subject& subject, Report& report) {
  if (!subject.snapshot.kernel_faults) return;
  for (const auto& fault : *subject.snapshot.kernel_faults) {
    if (fault.kind != "sxid") continue;
    const bool fatal = contains_ignoring_case(fault.text, "fatal") && !contains_ignoring_case(fault.text, "non-fatal");
    report.say(fatal ? Severity::critical : Severity::warning,
               fmt::format("NVSwitch reports SXid {}: {}", fault.code, printable(fault.text)),
               {"sudo systemctl restart nvidia-fabricmanager", "sudo reboot   # if it was fatal"});
    return;
  }
}

constexpr auto kFaultChecks = std::to_array<Check>({
    {"xid-critical", Area::device, Severity::critical, "Xid errors that need hands",
     "The driver reported a fault of the hardware.", "NVIDIA Xid catalog (xid table)", kXids, xid_critical, "gpu-lost"},
    {"xid-error", Area::device, Severity::error, "Xid errors that need a reset",
     "Work on that GPU was or will be lost.", "NVIDIA Xid catalog (xid table)", kXids, xid_error},
    {"xid-application", Area::device, Severity::warning, "Xid errors that programs cause",
     "A program was stopped; usually its own bug.", "NVIDIA Xid catalog (xid table)", kXids, xid_warning},
    {"xid-nvlink", Area::device, Severity::warning, "NVLink errors of Blackwell and newer",
     "A link between GPUs fails.", "NVIDIA Xid catalog, sheet of Xid 144 to 150", kXids, xid_nvlink, "gpu-lost"},
    {"xid-hardware", Area::device, Severity::warning, "Xid messages about the GPU itself",
     "The driver reports it; NVIDIA's catalog names no cause.", "NVIDIA Xid catalog (xid table)", kXids, xid_hardware},
    {"xid-recovery", Area::device, Severity::error, "the recovery action that the driver asks for",
     "The GPU takes no new work before, or not with its peers.",
     "NVIDIA Xid catalog; nvml.h, nvmlDeviceGpuRecoveryAction_t", kXids, xid_recovery, "gpu-lost gpu-needs-reset"},
    {"xid-unknown", Area::device, Severity::info, "Xid errors that came after this program",
     "What is not known is reported, not judged.", "NVIDIA Xid catalog (xid table)", kXids, xid_unknown},
    {"sxid", Area::device, Severity::warning, "NVSwitch errors", "They stop traffic between GPUs.",
     "NVIDIA fabric manager user guide, SXid errors", kXids, sxid},
});

}  // namespace

std::span<const Check> fault_checks() { return kFaultChecks; }

}  // namespace gpuwarden::doctor
