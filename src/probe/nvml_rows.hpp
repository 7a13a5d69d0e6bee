// SPDX-License-Identifier: Apache-2.0
// Rows of the read tables: which NVML call fills which field of a sample. A call that fails empties its own field and
// no other. A metric that NVML tells by a plain getter needs no code but its row.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "gpuwarden/facts/gpu_sample.hpp"
#include "probe/nvml_call.hpp"

namespace gpuwarden::probe {

/// How often a row is read in a series of readings (ReadRequest::every). A single reading reads all but `series`.
enum class Pace {
  quick,   ///< each time
  slow,    ///< every ten seconds
  series,  ///< as slow, and by a series alone: what a single reading of that detail does without
};

/// Which rows are read.
enum class RowSet { all, quick, slow };
constexpr bool is_in(RowSet set, Pace pace) {
  if (set == RowSet::all) return pace != Pace::series;
  return (set == RowSet::quick) == (pace == Pace::quick);
}

/// One or more fields of a sample and the way to read them.
struct SampleRow {
  void (*read)(const nvml::Functions&, nvml::Device, facts::GpuSample&);
  Pace pace = Pace::quick;
};

/// Reads the rows of a set, in their order.
template <class Rows>
void read_rows(const Rows& rows, RowSet set, const nvml::Functions& nvml, nvml::Device device,
               facts::GpuSample& sample) {
  for (const SampleRow& row : rows) {
    if (is_in(set, row.pace)) row.read(nvml, device, sample);
  }
}

template <auto Field>
using FieldUnit = typename std::remove_reference_t<decltype(std::declval<facts::GpuSample&>().*Field)>::value_type;

/// Function(device, &value), in the field's own unit times `Scale`.
template <auto Field, auto Function, std::int64_t Scale = 1>
void read_plain(const nvml::Functions& nvml, nvml::Device device, facts::GpuSample& sample) {
  sample.*Field = read_number<FieldUnit<Field>>(nvml.*Function, device, Scale);
}

/// Function(device, which, &value): one of several that the function tells.
template <auto Field, auto Function, int Which, std::int64_t Scale = 1>
void read_one_of(const nvml::Functions& nvml, nvml::Device device, facts::GpuSample& sample) {
  using Unit = FieldUnit<Field>;
  unsigned value = 0;
  if (call(nvml.*Function, device, Which, &value) == nvml::kSuccess)
    sample.*Field = Unit(static_cast<typename Unit::rep>(value) * static_cast<typename Unit::rep>(Scale));
}

/// Function(device, &share, &period): a share that the driver samples.
template <auto Field, auto Function>
void read_sampled_share(const nvml::Functions& nvml, nvml::Device device, facts::GpuSample& sample) {
  unsigned share = 0;
  unsigned period = 0;
  if (call(nvml.*Function, device, &share, &period) == nvml::kSuccess && share <= 100) sample.*Field = Percent(share);
}

/// Function(device, &flag), as 0 or 1.
template <auto Field, auto Function>
void read_zero_or_one(const nvml::Functions& nvml, nvml::Device device, facts::GpuSample& sample) {
  if (const auto flag = read_flag(nvml.*Function, device)) sample.*Field = Count(*flag ? 1 : 0);
}

/// Memory errors of all places together.
template <auto Field, int Error, int Counter>
void read_ecc_total(const nvml::Functions& nvml, nvml::Device device, facts::GpuSample& sample) {
  unsigned long long count = 0;
  if (call(nvml.nvmlDeviceGetTotalEccErrors, device, Error, Counter, &count) == nvml::kSuccess)
    sample.*Field = Count(static_cast<std::int64_t>(count));
}

/// How long a policy has held the clocks back; NVML tells nanoseconds.
template <auto Field, int Policy>
void read_violation(const nvml::Functions& nvml, nvml::Device device, facts::GpuSample& sample) {
  nvml::ViolationTime time{};
  if (call(nvml.nvmlDeviceGetViolationStatus, device, Policy, &time) == nvml::kSuccess)
    sample.*Field = Microseconds(static_cast<std::int64_t>(time.violation_time / 1000));
}

}  // namespace gpuwarden::probe
