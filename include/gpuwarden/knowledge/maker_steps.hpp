// SPDX-License-Identifier: Apache-2.0
// Steps that are written for NVIDIA's GPUs, as AMD's are served (sources: ROCm documentation, AMD SMI CLI tool usage,
// HIP environment variables, Debugging with HIP).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpuwarden::knowledge {

/// Whether a step names a tool, a file, a message or a page of NVIDIA's alone.
bool is_of_nvidia_alone(std::string_view step);
/// The steps in their order, each that names NVIDIA's tools said with AMD's, or left out where it has none: none may be
/// left.
std::vector<std::string> steps_for_amd(const std::vector<std::string>& steps);
/// AMD's page on the subject of one of NVIDIA's; other pages as they are.
std::string link_for_amd(std::string_view link);

}  // namespace gpuwarden::knowledge
