// SPDX-License-Identifier: Apache-2.0
// What programs that use GPUs print of the machine, when they start or are asked: ultralytics, ComfyUI, Unsloth,
// llama.cpp, ollama, TensorFlow, CuPy, Numba, CUDA.jl, deviceQuery, trtexec, Blender and others; and what Python
// answered when somebody asked PyTorch.
#pragma once

#include <optional>
#include <span>

#include "capture/env_report.hpp"
#include "capture/lines.hpp"

namespace gpuwarden::capture {

/// Nothing where no line is one that only such a program prints.
std::optional<EnvReport> read_program_report(std::span<const Line> lines);

/// ">>> torch.cuda.is_available()" and the answer in the next line; `python -c "print(...)"` likewise.
std::optional<EnvReport> read_python_answers(std::span<const Line> lines);

}  // namespace gpuwarden::capture
