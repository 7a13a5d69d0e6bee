// SPDX-License-Identifier: Apache-2.0
// A choice of GPUs as shells take it. Pure.
#pragma once

#include <string>
#include <string_view>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/placement/select.hpp"

namespace gpuwarden::placement {

/// "0,2": the indices of what was selected, as CUDA_VISIBLE_DEVICES takes them where CUDA_DEVICE_ORDER is PCI_BUS_ID.
std::string visible_indices(const Decision& decision);

/// Commands for a shell (sh, bash, zsh, fish, csh, tcsh, powershell, cmd) to evaluate: CUDA_VISIBLE_DEVICES becomes
/// `value`, which cuda_visible_devices() or visible_indices() made, and CUDA_DEVICE_ORDER PCI_BUS_ID. Fails with
/// invalid_argument for another shell.
Result<std::string> export_commands(std::string_view shell, std::string_view value);

/// The chosen devices for people: "GPU 0, 1 (NVIDIA L4), GPU 2.0 (NVIDIA A100)", an instance behind its GPU; "the CPU".
std::string in_words(const Decision& decision);
/// "NVIDIA L4", "NVIDIA L4 and NVIDIA A100": each model once.
std::string models_in_words(const Decision& decision);

}  // namespace gpuwarden::placement
