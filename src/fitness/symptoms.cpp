// SPDX-License-Identifier: Apache-2.0
// The table of symptoms: what is wrong with a GPU in one reading.
#include "gpuwarden/fitness/symptoms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "gpuwarden/facts/use.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::fitness {
namespace {

using facts::GpuEventKind;
using facts::GpuRecord;
using facts::GpuState;
using facts::ThrottleReason;

struct SymptomSubject {
  const GpuRecord& record;
  std::span<const facts::GpuEvent> events;
};
struct SymptomWords {
  std::string reason;
  std::string next_step;
};
using SymptomLook = std::optional<SymptomWords> (*)(const SymptomSubject&);

/// From which load on a link that is slower than it can be is held against a GPU: an idle one lowers it to save power.
constexpr Percent kUnderLoad(20);
/// The lowest P-state of work.
constexpr Count kWorkingState(2);
/// Source: NVIDIA's "Dynamic page retirement": a board that has retired 60 pages may be returned.
constexpr std::int64_t kMostRetiredPages = 60;
constexpr std::uint64_t kFellOffTheBus = 79;

constexpr const char* kResetWords = "end its processes, then reset it: sudo nvidia-smi --gpu-reset -i ";

std::string reset_of(const GpuRecord& record) { return kResetWords + std::to_string(record.gpu.index.value); }

template <GpuState State>
std::optional<SymptomWords> in_state(const SymptomSubject& seen) {
  if (seen.record.state != State) return std::nullopt;
  return SymptomWords{seen.record.cause.empty() ? std::string(facts::to_string(State)) : seen.record.cause,
                      seen.record.next_step};
}

bool has_event_of(const SymptomSubject& seen, GpuEventKind kind) {
  return std::ranges::find(seen.events, kind, &facts::GpuEvent::kind) != seen.events.end();
}

std::optional<SymptomWords> find_lost(const SymptomSubject& seen) {
  if (auto words = in_state<GpuState::lost>(seen)) return words;
  const bool told = has_event_of(seen, GpuEventKind::lost) || std::ranges::any_of(seen.events, [](const auto& event) {
                      return event.kind == GpuEventKind::xid && event.data == kFellOffTheBus;
                    });
  if (!told) return std::nullopt;
  return SymptomWords{"the GPU fell off the PCIe bus (Xid 79)",
                      "reboot the machine; if it comes back, check power, seating and cooling"};
}

std::optional<SymptomWords> remap_failed(const SymptomSubject& seen) {
  if (seen.record.sample.remapped_rows_failed.value_or(Count(0)) == Count(0)) return std::nullopt;
  return SymptomWords{"a row of its memory is broken and could not be remapped", "have the board replaced"};
}

std::optional<SymptomWords> pages_exhausted(const SymptomSubject& seen) {
  const auto& sample = seen.record.sample;
  const std::int64_t pages = sample.retired_pages_single_bit.value_or(Count(0)).value +
                             sample.retired_pages_double_bit.value_or(Count(0)).value;
  if (pages < kMostRetiredPages) return std::nullopt;
  return SymptomWords{fmt::format("{} pages of its memory are retired", pages), "have the board replaced"};
}

std::optional<SymptomWords> ecc_uncorrected(const SymptomSubject& seen) {
  const std::int64_t errors = seen.record.sample.ecc_uncorrected_volatile.value_or(Count(0)).value;
  if (errors == 0 && !has_event_of(seen, GpuEventKind::ecc_double_bit)) return std::nullopt;
  return SymptomWords{errors <= 1 ? "an uncorrectable memory error since the driver was loaded"
                                  : fmt::format("{} uncorrectable memory errors since the driver was loaded", errors),
                      reset_of(seen.record)};
}

knowledge::MemoryRepair repair_of(const facts::Gpu& gpu) {
  const auto& capability = gpu.compute_capability;
  return knowledge::memory_repair(capability ? std::optional(capability->major * 10 + capability->minor)
                                             : knowledge::Knowledge::built_in().architecture_of_name(gpu.name));
}

std::optional<SymptomWords> broken_by_xid(const SymptomSubject& seen) {
  for (const facts::GpuEvent& event : seen.events) {
    if (event.kind != GpuEventKind::xid || event.data == kFellOffTheBus) continue;
    const auto* xid = knowledge::Knowledge::built_in().xid(static_cast<int>(event.data), repair_of(seen.record.gpu));
    if (xid == nullptr || (xid->severity != "error" && xid->severity != "critical")) continue;
    if (xid->action == "RESTART_APP" || xid->action == "IGNORE") continue;
    const bool reset = xid->action == "RESET_GPU" || xid->action_plain.empty();
    return SymptomWords{fmt::format("Xid {}: {}", event.data, xid->description),
                        reset ? reset_of(seen.record) : std::string(xid->action_plain)};
  }
  return std::nullopt;
}

std::optional<SymptomWords> remap_pending(const SymptomSubject& seen) {
  if (seen.record.sample.remapped_rows_pending.value_or(Count(0)) == Count(0)) return std::nullopt;
  return SymptomWords{"a row of its memory is broken, and remapped only at its next reset", reset_of(seen.record)};
}

std::optional<SymptomWords> retirement_pending(const SymptomSubject& seen) {
  if (seen.record.sample.retired_pages_pending.value_or(Count(0)) == Count(0)) return std::nullopt;
  return SymptomWords{"a page of its memory is broken, and retired only when the driver is loaded again",
                      reset_of(seen.record)};
}

std::optional<SymptomWords> over_limit(const std::optional<Celsius>& temperature, const std::optional<Celsius>& limit,
                                       std::string_view what) {
  if (!temperature || !limit || *temperature < *limit) return std::nullopt;
  return SymptomWords{fmt::format("{} °C, {} {} °C", temperature->value, what, limit->value),
                      "check fans, air flow and the room's temperature"};
}

std::optional<SymptomWords> over_shutdown(const SymptomSubject& seen) {
  return over_limit(seen.record.sample.temperature, seen.record.gpu.temperature_shutdown, "and it switches off at");
}

std::optional<SymptomWords> over_slowdown(const SymptomSubject& seen) {
  const auto& margin = seen.record.sample.temperature_margin;
  if (!seen.record.gpu.temperature_slowdown && margin && *margin <= Celsius(0))
    return SymptomWords{"no margin is left to the temperature at which it slows down",
                        "check fans, air flow and the room's temperature"};
  return over_limit(seen.record.sample.temperature, seen.record.gpu.temperature_slowdown, "and it slows down at");
}

std::optional<SymptomWords> memory_hot(const SymptomSubject& seen) {
  return over_limit(seen.record.sample.temperature_memory, seen.record.gpu.temperature_memory_max,
                    "in its memory, which is made for at most");
}

bool is_held_back(const SymptomSubject& seen, std::initializer_list<ThrottleReason> reasons) {
  const auto& told = seen.record.sample.throttle_reasons;
  return told && std::ranges::any_of(
                     reasons, [&](ThrottleReason reason) { return std::ranges::find(*told, reason) != told->end(); });
}

std::optional<SymptomWords> thermal_throttle(const SymptomSubject& seen) {
  if (!is_held_back(seen, {ThrottleReason::sw_thermal_slowdown, ThrottleReason::hw_thermal_slowdown}))
    return std::nullopt;
  return SymptomWords{"heat holds its clocks back", "check fans, air flow and the room's temperature"};
}

std::optional<SymptomWords> power_brake(const SymptomSubject& seen) {
  if (!is_held_back(seen, {ThrottleReason::hw_power_brake})) return std::nullopt;
  return SymptomWords{"the power brake holds its clocks back", "check the machine's power supplies and their limits"};
}

std::optional<SymptomWords> nvlink_down(const SymptomSubject& seen) {
  const auto& links = seen.record.sample.nvlinks;
  const auto down = std::ranges::count(links, std::optional(false), &facts::NvLink::active);
  const auto up = std::ranges::count(links, std::optional(true), &facts::NvLink::active);
  if (down == 0 || up == 0) return std::nullopt;
  return SymptomWords{fmt::format("{} of its {} NVLinks are down", down, links.size()),
                      "nvidia-smi nvlink -s; reseat the bridge, or reset the GPUs"};
}

std::optional<SymptomWords> fabric_failed(const SymptomSubject& seen) {
  const auto& fabric = seen.record.gpu.fabric;
  if (!fabric) return std::nullopt;
  if (fabric->state != "completed")
    return SymptomWords{"it has not joined the NVLink fabric (" + fabric->state + ")",
                        "see whether the fabric manager runs: systemctl status nvidia-fabricmanager"};
  if (!fabric->status || *fabric->status == "success") return std::nullopt;
  return SymptomWords{"it could not join the NVLink fabric: " + *fabric->status, "journalctl -u nvidia-fabricmanager"};
}

bool is_under_load(const GpuRecord& record) {
  const auto& load = record.sample.utilization_gpu;
  return load && *load >= kUnderLoad && record.sample.performance_state.value_or(Count(0)) <= kWorkingState;
}

std::optional<SymptomWords> pcie_narrow(const SymptomSubject& seen) {
  const auto& now = seen.record.sample.pcie_width;
  const auto& best = seen.record.gpu.pcie_width_max;
  if (!now || !best || *now >= *best || now->value == 0 || !is_under_load(seen.record)) return std::nullopt;
  return SymptomWords{fmt::format("its PCIe link has {} lanes of {}", now->value, best->value),
                      "reseat the board and its riser, and look into the firmware's settings of the slot"};
}

std::optional<SymptomWords> pcie_slow(const SymptomSubject& seen) {
  const auto& now = seen.record.sample.pcie_generation;
  const auto& best = seen.record.gpu.pcie_generation_max;
  if (!now || !best || *now >= *best || now->value == 0 || !is_under_load(seen.record)) return std::nullopt;
  return SymptomWords{
      fmt::format("under load its PCIe link is of generation {}, where {} is possible", now->value, best->value),
      "look into the firmware's settings of the slot; reseat the board and its riser"};
}

struct SymptomRow {
  Symptom symptom;
  SymptomLook look;  ///< nullptr: the book of health finds it
};

constexpr bool kLaterOnly = false;   // not at once, but after the policy's patience
constexpr bool kUntilReset = false;  // does not pass by itself

/// Worst first. DCGM: NVIDIA's Data Center GPU Manager, whose health checks fail for these, too.
constexpr auto kSymptomRows = std::to_array<SymptomRow>(
    {{{kMissing, true, true, "the GPU was there before and is not listed any more"}, nullptr},
     {{"fell_off_the_bus", true, kUntilReset, "NVML: GPU_IS_LOST; Xid 79"}, find_lost},
     {{"needs_reset", true, kUntilReset, "NVML: RESET_REQUIRED"}, in_state<GpuState::needs_reset>},
     {{"not_answering", true, true, "no answer within the time that a reading has"}, in_state<GpuState::not_answering>},
     {{"faulty", true, true, "it tells what cannot be true"}, in_state<GpuState::faulty>},
     {{kNoDriver, true, true, "no driver serves it"}, in_state<GpuState::disabled>},
     {{"no_permission", true, true, "this user may not read it"}, in_state<GpuState::no_permission>},
     {{"remap_failed", true, kUntilReset, "nvmlDeviceGetRemappedRows: failureOccurred; DCGM_FR_ROW_REMAP_FAILURE"},
      remap_failed},
     {{"pages_exhausted", true, kUntilReset, "NVIDIA, Dynamic page retirement: 60 retired pages"}, pages_exhausted},
     {{"ecc_uncorrected", true, kUntilReset, "volatile uncorrectable errors; DCGM_FR_VOLATILE_DBE_DETECTED"},
      ecc_uncorrected},
     {{"xid", true, kUntilReset, "an Xid that NVIDIA's catalog calls an error of the GPU (gpuwarden's table of Xids)"},
      broken_by_xid},
     {{"remap_pending", true, kUntilReset, "nvmlDeviceGetRemappedRows: isPending"}, remap_pending},
     {{"retirement_pending", true, kUntilReset,
       "nvmlDeviceGetRetiredPagesPendingStatus; DCGM_FR_PENDING_PAGE_RETIREMENTS"},
      retirement_pending},
     {{"over_shutdown", true, true, "NVML's threshold SHUTDOWN"}, over_shutdown},
     {{"over_slowdown", kLaterOnly, true, "NVML's threshold SLOWDOWN, or no margin to it"}, over_slowdown},
     {{"memory_hot", kLaterOnly, true, "NVML's threshold MEM_MAX"}, memory_hot},
     {{"thermal_throttle", kLaterOnly, true, "clocks event reasons: thermal slowdown by software or hardware"},
      thermal_throttle},
     {{"power_brake", kLaterOnly, true, "clocks event reasons: power brake"}, power_brake},
     {{"nvlink_down", kLaterOnly, true, "NVLinks that are down beside others that are up; DCGM_FR_NVLINK_DOWN"},
      nvlink_down},
     {{"fabric", kLaterOnly, true, "nvmlDeviceGetGpuFabricInfo: not completed, or with an error"}, fabric_failed},
     {{"pcie_narrow", kLaterOnly, true, "under load: fewer PCIe lanes than board and slot have"}, pcie_narrow},
     {{"pcie_slow", kLaterOnly, true, "under load: a lower PCIe generation than board and slot have"}, pcie_slow}});

constexpr auto kSymptoms = [] {
  std::array<Symptom, kSymptomRows.size()> list{};
  for (std::size_t i = 0; i < list.size(); ++i) list[i] = kSymptomRows[i].symptom;
  return list;
}();

}  // namespace

std::span<const Symptom> symptoms() { return kSymptoms; }

const Symptom& symptom_named(std::string_view id) {
  const auto* const found = std::ranges::find(kSymptoms, id, &Symptom::id);
  return found == kSymptoms.end() ? kSymptoms.front() : *found;
}

std::vector<Ailment> ailments_of(const GpuRecord& record, std::span<const facts::GpuEvent> events) {
  const SymptomSubject seen{record, events};
  std::vector<Ailment> ailments;
  for (std::size_t i = 0; i < kSymptomRows.size(); ++i) {
    if (kSymptomRows[i].look == nullptr) continue;
    if (auto words = kSymptomRows[i].look(seen))
      ailments.push_back({&kSymptoms[i], std::move(words->reason), std::move(words->next_step)});
  }
  return ailments;
}

facts::HealthCause cause_of(const Ailment& ailment) {
  return {std::string(ailment.symptom->id), ailment.reason, ailment.next_step, !ailment.symptom->passes};
}

namespace {

/// "0000:17:00" of a log and "00000000:17:00.0" of NVML are one place.
bool is_at(const facts::KernelFault& fault, const facts::Gpu& gpu) {
  if (!fault.pci_bus_id || gpu.pci_bus_id.empty()) return false;
  const auto place = [](std::string_view id) {
    const std::size_t domain = id.find_first_not_of('0');
    std::string text(domain == std::string_view::npos ? "" : id.substr(std::min(domain, id.find(':'))));
    text = text.substr(0, text.find('.'));
    std::ranges::transform(text, text.begin(),
                           [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    return text;
  };
  return place(*fault.pci_bus_id) == place(gpu.pci_bus_id);
}

/// Xids of the memory. Where NVML tells its counters these say more than a log: they begin anew with a reset, of which
/// a log knows nothing, and the flags of remapping stay.
bool counters_know_better(const facts::KernelFault& fault, const facts::GpuSample& sample) {
  constexpr auto kOfMemory = std::to_array<std::uint32_t>({48, 63, 64, 94, 95});
  return sample.ecc_uncorrected_volatile && std::ranges::find(kOfMemory, fault.code) != kOfMemory.end();
}

}  // namespace

std::vector<facts::HealthCause> unfit_at_sight(const GpuRecord& record, const facts::Snapshot& snapshot) {
  if (record.gpu.vendor != "NVIDIA" || !facts::is_usable(record)) return {};
  std::vector<facts::GpuEvent> events;
  for (const facts::KernelFault& fault : snapshot.kernel_faults.value_or(std::vector<facts::KernelFault>{})) {
    if (fault.kind != "xid" || !is_at(fault, record.gpu) || counters_know_better(fault, record.sample)) continue;
    facts::GpuEvent event;
    event.kind = GpuEventKind::xid;
    event.uuid = facts::identity_of(record);
    event.data = fault.code;
    events.push_back(std::move(event));
  }
  std::vector<facts::HealthCause> causes;
  for (const Ailment& one : ailments_of(record, events)) {
    if (one.symptom->at_once) causes.push_back(cause_of(one));
  }
  return causes;
}

}  // namespace gpuwarden::fitness
