// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/gpu.hpp"

#include "facts/names.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/gpu_event.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::facts {
namespace {

constexpr Names<GpuState, 9> kStates{{{GpuState::available, "available"},
                                      {GpuState::busy, "busy"},
                                      {GpuState::lost, "lost"},
                                      {GpuState::needs_reset, "needs_reset"},
                                      {GpuState::not_answering, "not_answering"},
                                      {GpuState::no_permission, "no_permission"},
                                      {GpuState::suspended, "suspended"},
                                      {GpuState::disabled, "disabled"},
                                      {GpuState::faulty, "faulty"}}};

constexpr Names<ComputeMode, 4> kComputeModes{{{ComputeMode::shared, "default"},
                                               {ComputeMode::exclusive_thread, "exclusive_thread"},
                                               {ComputeMode::prohibited, "prohibited"},
                                               {ComputeMode::exclusive_process, "exclusive_process"}}};

constexpr Names<ThrottleReason, 9> kThrottleReasons{
    {{ThrottleReason::gpu_idle, "gpu_idle"},
     {ThrottleReason::applications_clocks_setting, "applications_clocks_setting"},
     {ThrottleReason::sw_power_cap, "sw_power_cap"},
     {ThrottleReason::hw_slowdown, "hw_slowdown"},
     {ThrottleReason::sync_boost, "sync_boost"},
     {ThrottleReason::sw_thermal_slowdown, "sw_thermal_slowdown"},
     {ThrottleReason::hw_thermal_slowdown, "hw_thermal_slowdown"},
     {ThrottleReason::hw_power_brake, "hw_power_brake"},
     {ThrottleReason::display_clock_setting, "display_clock_setting"}}};

constexpr Names<LinkLevel, 6> kLinkLevels{{{LinkLevel::internal, "internal"},
                                           {LinkLevel::single_switch, "PIX"},
                                           {LinkLevel::multiple_switches, "PXB"},
                                           {LinkLevel::host_bridge, "PHB"},
                                           {LinkLevel::node, "NODE"},
                                           {LinkLevel::system, "SYS"}}};

constexpr Names<GpuEventKind, 7> kEventKinds{{{GpuEventKind::xid, "xid"},
                                              {GpuEventKind::ecc_single_bit, "ecc_single_bit"},
                                              {GpuEventKind::ecc_double_bit, "ecc_double_bit"},
                                              {GpuEventKind::clock, "clock"},
                                              {GpuEventKind::performance_state, "performance_state"},
                                              {GpuEventKind::mig_config, "mig_config"},
                                              {GpuEventKind::lost, "lost"}}};

constexpr Names<DriverProblem::Kind, 11> kProblemKinds{{{DriverProblem::Kind::no_library, "no_library"},
                                                        {DriverProblem::Kind::wrong_library, "wrong_library"},
                                                        {DriverProblem::Kind::crashed, "crashed"},
                                                        {DriverProblem::Kind::timed_out, "timed_out"},
                                                        {DriverProblem::Kind::mismatch, "mismatch"},
                                                        {DriverProblem::Kind::not_loaded, "not_loaded"},
                                                        {DriverProblem::Kind::no_permission, "no_permission"},
                                                        {DriverProblem::Kind::unknown_error, "unknown_error"},
                                                        {DriverProblem::Kind::no_devices, "no_devices"},
                                                        {DriverProblem::Kind::impossible, "impossible"},
                                                        {DriverProblem::Kind::other, "other"}}};

constexpr Names<ReadingGap::Part, 4> kGapParts{{{ReadingGap::Part::links, "links"},
                                                {ReadingGap::Part::cuda_order, "cuda_order"},
                                                {ReadingGap::Part::slow_metrics, "slow_metrics"},
                                                {ReadingGap::Part::holders, "holders"}}};

}  // namespace

std::optional<ComputeCapability> compute_capability_from(std::string_view text) {
  const auto parts = split(text, '.');
  const auto major = parse_integer(parts[0]);
  const auto minor = parts.size() == 2 ? parse_integer(parts[1]) : std::nullopt;
  if (!major || !minor || *major < 1 || *major > 99 || *minor < 0 || *minor > 9) return std::nullopt;
  return ComputeCapability{static_cast<int>(*major), static_cast<int>(*minor)};
}

std::string_view to_string(DriverProblem::Kind kind) { return name_of(kProblemKinds, kind); }
std::optional<DriverProblem::Kind> driver_problem_kind_from(std::string_view name) {
  return named(kProblemKinds, name);
}
std::string_view to_string(ReadingGap::Part part) { return name_of(kGapParts, part); }
std::optional<ReadingGap::Part> reading_gap_part_from(std::string_view name) { return named(kGapParts, name); }
bool is_absence(DriverProblem::Kind kind) {
  return kind == DriverProblem::Kind::no_library || kind == DriverProblem::Kind::not_loaded;
}
std::string_view to_string(GpuEventKind kind) { return name_of(kEventKinds, kind); }
std::optional<GpuEventKind> gpu_event_kind_from(std::string_view name) { return named(kEventKinds, name); }
std::string_view to_string(GpuState state) { return name_of(kStates, state); }
std::optional<GpuState> gpu_state_from(std::string_view name) { return named(kStates, name); }
std::string_view to_string(ComputeMode mode) { return name_of(kComputeModes, mode); }
std::optional<ComputeMode> compute_mode_from(std::string_view name) { return named(kComputeModes, name); }
std::string_view to_string(ThrottleReason reason) { return name_of(kThrottleReasons, reason); }
std::optional<ThrottleReason> throttle_reason_from(std::string_view name) { return named(kThrottleReasons, name); }
std::string_view to_string(LinkLevel level) { return name_of(kLinkLevels, level); }
std::optional<LinkLevel> link_level_from(std::string_view name) { return named(kLinkLevels, name); }

std::vector<ThrottleReason> throttle_reasons_from_mask(std::uint64_t mask) {
  std::vector<ThrottleReason> reasons;
  for (std::size_t bit = 0; bit < kThrottleReasons.size(); ++bit) {
    if ((mask >> bit & 1U) != 0) reasons.push_back(kThrottleReasons[bit].first);
  }
  return reasons;
}

bool is_slowdown(ThrottleReason reason) {
  switch (reason) {
    case ThrottleReason::gpu_idle:
    case ThrottleReason::applications_clocks_setting:
    case ThrottleReason::sync_boost:
    case ThrottleReason::display_clock_setting:
      return false;
    default:
      return true;
  }
}

std::string_view type_of(const GpuProcess& process) {
  if (!process.listed) return "-";
  if (process.compute && process.graphics) return process.mps ? "M+C+G" : "C+G";
  if (process.mps) return "M+C";
  return process.graphics ? "G" : "C";
}

bool is_usable(const GpuRecord& record) {
  return record.state == GpuState::available || record.state == GpuState::busy;
}

}  // namespace gpuwarden::facts
