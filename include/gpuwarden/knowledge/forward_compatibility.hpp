// SPDX-License-Identifier: Apache-2.0
// Forward compatibility: a newer CUDA's programs on an older driver, by the package cuda-compat (source: CUDA
// compatibility guide, docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/knowledge/version.hpp"

namespace gpuwarden::knowledge {

/// Whether cuda-compat serves a GPU: "NVIDIA Data Center GPUs, select NGC Server Ready SKUs of RTX cards, Jetson
/// boards".
enum class CompatServes { no, certified_servers_only, yes };
/// By the GPU's name, as NVML has it.
CompatServes compat_serves(std::string_view gpu_name);

/// The branches of drivers below a CUDA's own on which NVIDIA's image of it runs by cuda-compat; empty: not known of
/// that CUDA.
std::vector<int> compat_branches(const Version& cuda);
/// Whether a driver of this branch is among them; nothing where they are not known.
std::optional<bool> compat_serves_branch(const Version& cuda, int branch);

/// "cuda-compat-13-0" of 13.0.
std::string compat_package(const Version& cuda);
/// The folder of its libcuda, for LD_LIBRARY_PATH: "/usr/local/cuda-13.0/compat".
std::string compat_folder(const Version& cuda);

}  // namespace gpuwarden::knowledge
