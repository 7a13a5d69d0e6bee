// SPDX-License-Identifier: Apache-2.0
#include "sim/core/settings.hpp"

#include <algorithm>

namespace gpuwarden::sim {
namespace {

Override* find(Body& body, std::uint32_t gpu, Field field) {
  return std::find_if(body.overrides, body.overrides + body.override_count, [&](const Override& change) {
    return change.gpu == gpu && change.field == static_cast<std::uint32_t>(field);
  });
}

/// A counter that is pinned stays pinned, at 0.
void zero_if_pinned(Body& body, const FleetSpec& spec, std::uint32_t gpu, std::initializer_list<Field> fields) {
  for (const Field field : fields) {
    const bool is_set = find(body, gpu, field) != body.overrides + body.override_count;
    if (is_set || spec.gpus[gpu].readings.contains(field)) pin(body, gpu, field, 0);
  }
}

bool is_mended_by_reset(FaultKind kind) {
  return kind == FaultKind::reset_required || kind == FaultKind::unknown_error || kind == FaultKind::cuda_corrupt ||
         kind == FaultKind::ecc_uncorrected;
}

}  // namespace

bool pin(Body& body, std::uint32_t gpu, Field field, std::optional<double> value) {
  Override* const end = body.overrides + body.override_count;
  Override* const found = find(body, gpu, field);
  if (found == end && body.override_count == kMaxOverrides) return false;
  *found = {gpu, static_cast<std::uint32_t>(field), value ? 1U : 0U, 0, value.value_or(0)};
  if (found == end) ++body.override_count;
  return true;
}

void unpin(Body& body, std::uint32_t gpu, Field field) {
  Override* const end = body.overrides + body.override_count;
  Override* const found = find(body, gpu, field);
  if (found == end) return;
  std::move(found + 1, end, found);
  --body.override_count;
}

double setting(const Body& body, const FleetSpec& spec, std::uint32_t gpu, Field field, double otherwise) {
  const Override* const end = body.overrides + body.override_count;
  const Override* const found = std::find_if(body.overrides, end, [&](const Override& change) {
    return change.gpu == gpu && change.field == static_cast<std::uint32_t>(field);
  });
  if (found != end) return found->supported != 0 ? found->value : otherwise;
  const auto pinned = spec.gpus[gpu].readings.find(field);
  return pinned != spec.gpus[gpu].readings.end() && pinned->second ? *pinned->second : otherwise;
}

bool is_mig(const Body& body, const FleetSpec& spec, std::uint32_t gpu) {
  return setting(body, spec, gpu, Field::mig_enabled, spec.gpus[gpu].mig ? 1 : 0) != 0;
}

Limits limits_of(const Body& body, const FleetSpec& spec, std::uint32_t gpu) {
  const Model& model = spec.gpus[gpu].model;
  const GpuSettings& set = body.settings[gpu];
  const double most = model.clock_graphics_max;
  double high = most;
  if (model.ecc) high = std::min(high, setting(body, spec, gpu, Field::clock_graphics_application, most));
  if (set.clock_high > 0) high = std::min<double>(high, set.clock_high);
  return {.power = setting(body, spec, gpu, Field::power_limit, model.power_default), .clock = high / most};
}

void apply_locks(Readings& readings, const GpuSettings& settings) {
  const auto clamp = [&](Field field, std::uint32_t low, std::uint32_t high) {
    auto& clock = at(readings, field);
    // Heat and power go below a lock; only an idle GPU is held up by it.
    if (high > 0 && clock) clock = std::min<double>(*clock, high);
    if (low > 0 && clock && at(readings, Field::utilization).value_or(0) < 0.5) clock = std::max<double>(*clock, low);
  };
  clamp(Field::clock_graphics, settings.clock_low, settings.clock_high);
  clamp(Field::clock_sm, settings.clock_low, settings.clock_high);
  clamp(Field::clock_memory, settings.memory_clock_low, settings.memory_clock_high);
}

void clear_ecc(Body& body, const FleetSpec& spec, std::uint32_t gpu, int counter) {
  const GpuState& state = body.gpus[gpu];
  auto& cleared = body.settings[gpu].ecc_cleared[counter];
  cleared[0] = state.ecc_corrected;
  cleared[1] = state.ecc_uncorrected;
  if (counter == 0)
    zero_if_pinned(body, spec, gpu, {Field::ecc_corrected_volatile, Field::ecc_uncorrected_volatile});
  else
    zero_if_pinned(body, spec, gpu, {Field::ecc_corrected_aggregate, Field::ecc_uncorrected_aggregate});
}

void clear_nvlink_errors(Body& body, const FleetSpec& spec, std::uint32_t gpu) {
  zero_if_pinned(body, spec, gpu, {Field::nvlink_replays, Field::nvlink_crc_errors});
}

void reset(Body& body, const FleetSpec& spec, std::uint32_t gpu) {
  const GpuSpec& one = spec.gpus[gpu];
  if (one.model.ecc) {
    const double enabled = setting(body, spec, gpu, Field::ecc_enabled, 1);
    pin(body, gpu, Field::ecc_enabled, setting(body, spec, gpu, Field::ecc_pending, enabled));
    clear_ecc(body, spec, gpu, 0);
  }
  if (one.model.mig_instances > 0) {
    const double enabled = is_mig(body, spec, gpu) ? 1 : 0;
    pin(body, gpu, Field::mig_enabled, setting(body, spec, gpu, Field::mig_pending, enabled));
    body.mig[gpu] = {};
  }
  for (const Field field : {Field::power_limit, Field::clock_graphics_application, Field::clock_memory_application})
    unpin(body, gpu, field);
  GpuSettings& set = body.settings[gpu];
  set.clock_low = set.clock_high = set.memory_clock_low = set.memory_clock_high = 0;
  set.fan_is_manual = set.fan_percent = 0;
  SharedFault* const end = std::remove_if(body.faults, body.faults + body.fault_count, [&](const SharedFault& fault) {
    return fault.gpu == gpu && fault.tick <= body.tick && is_mended_by_reset(fault.kind);
  });
  body.fault_count = static_cast<std::uint32_t>(end - body.faults);
}

}  // namespace gpuwarden::sim
