// SPDX-License-Identifier: Apache-2.0
// What fits a machine, as steps: the driver, a toolkit (PyTorch: software_plan.hpp); for a machine that is only told
// of, what those who sit at it type, and what they should send besides.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::doctor {

/// The facts are of a text or a folder: what is found is to be mended elsewhere, where gpuwarden may not be installed.
bool is_elsewhere(const Subject& subject);
/// A driver that runs programs of this CUDA version; where the GPUs' last branch does not, a build for an older one.
std::vector<std::string> driver_steps_for_cuda(const Subject& subject, Report& report, const knowledge::Version& cuda);

/// How one builds with a toolkit of this release: `use` is the gpuwarden command here; elsewhere it is taken from where
/// the text says that it lies, else its package of NVIDIA's repository.
std::string toolkit_step(const Subject& subject, const knowledge::Version& cuda, std::string here);
/// What is typed here, else what is to be done elsewhere.
std::string here_or_elsewhere(const Subject& subject, std::string here, std::string elsewhere);

/// What helps where a driver that offers so much CUDA (empty: not told) is too old for a program: PyTorch's newest
/// build for it, else the newer driver.
std::vector<std::string> steps_for_older_driver(const Subject& subject, Report& report,
                                                const std::optional<knowledge::Version>& offered);

/// "send also: nvidia-smi, cat /etc/os-release": what a told machine's text lacks; empty where nothing does.
std::string send_also(const Subject& subject);

}  // namespace gpuwarden::doctor
