// SPDX-License-Identifier: Apache-2.0
// Lines of Slurm's gres.conf: which devices of a node are generic resources. Source: gres.conf(5).
#pragma once

#include <optional>
#include <string_view>

#include "capture/slurm.hpp"

namespace gpuwarden::capture {

/// A line of gres.conf: "NodeName=n[1-4] Name=gpu Type=h100 File=/dev/nvidia[0-7]", "AutoDetect=nvml". Its cells have
/// the manual's names, whatever their case in the file.
std::optional<SlurmRecord> read_gres_line(const Line& line);

/// How many devices `File=` names: "/dev/nvidia[0-3,6]", "/dev/nvidia0,/dev/nvidia2"; nothing where that is not told.
std::optional<int> count_of_files(std::string_view text);

/// The GPUs of a line of gres.conf: Count, else one for each File (one for MultipleFiles); nothing for other resources
/// and where Slurm is to find out by itself.
std::optional<int> gpus_of_gres_line(const SlurmRecord& record);

}  // namespace gpuwarden::capture
