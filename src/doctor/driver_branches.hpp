// SPDX-License-Identifier: Apache-2.0
// Checks of the driver's branch: against the GPUs' first and last, and its life cycle.
#pragma once

#include <string_view>
#include <vector>

#include "gpuwarden/doctor/doctor.hpp"

namespace gpuwarden::doctor {

/// What a program's own word leaves of a table's, that the driver does not serve these GPUs. Where CUDA is available,
/// one GPU at least works: of all of them the table is wrong, of some it stays open whether they are those that work.
enum class Doubt { none, open, disproved };
Doubt doubt_of(const Subject& subject, const std::vector<const facts::GpuRecord*>& not_served);
/// What is not proven is a warning.
Severity severity_with(Doubt doubt, Severity severity);
/// What a title says of it.
std::string_view text_of(Doubt doubt);

void driver_too_old_for_gpu(const Subject& subject, Report& report);
void driver_dropped_gpu(const Subject& subject, Report& report);
void driver_at_its_end(const Subject& subject, Report& report);
void driver_newer_than_known(const Subject& subject, Report& report);

}  // namespace gpuwarden::doctor
