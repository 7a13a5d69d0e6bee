// SPDX-License-Identifier: Apache-2.0
// The groups of checks; doctor.cpp joins them, in this order.
#pragma once

#include <span>
#include <string_view>

#include "gpuwarden/doctor/doctor.hpp"

namespace gpuwarden::doctor {

/// Pages of NVIDIA that checks of several groups name.
inline constexpr std::string_view kXids = "https://docs.nvidia.com/deploy/xid-errors/";
inline constexpr std::string_view kMemoryErrors = "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/";

std::span<const Check> driver_checks();
std::span<const Check> device_checks();
std::span<const Check> fault_checks();
std::span<const Check> health_checks();
std::span<const Check> burn_in_checks();
std::span<const Check> toolkit_checks();
std::span<const Check> framework_checks();
std::span<const Check> serving_checks();
std::span<const Check> library_checks();
std::span<const Check> variable_checks();
std::span<const Check> container_checks();
std::span<const Check> multi_gpu_checks();
std::span<const Check> system_checks();
std::span<const Check> cluster_checks();
std::span<const Check> reported_checks();
std::span<const Check> told_checks();
std::span<const Check> purpose_checks();

}  // namespace gpuwarden::doctor
