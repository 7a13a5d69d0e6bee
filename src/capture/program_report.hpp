// SPDX-License-Identifier: Apache-2.0
// What programs that use GPUs print of the machine, when they start or are asked: ultralytics, ComfyUI, Unsloth,
// llama.cpp, ollama, TensorFlow, CuPy, Numba, CUDA.jl, deviceQuery, trtexec, Blender and others; and what Python
// answered when somebody asked PyTorch.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capture/env_report.hpp"
#include "capture/lines.hpp"

namespace gpuwarden::capture {

/// Nothing where no line is one that only such a program prints.
std::optional<EnvReport> read_program_report(std::span<const Line> lines);

/// What Python answered on one machine.
struct PythonAnswers {
  std::string host;  ///< as the prompt or the heading before it names it; empty where none does
  EnvReport report;
};

/// ">>> torch.cuda.is_available()" and the answer in the next line; `python -c "print(...)"` likewise. A machine each,
/// in the order of the text, 64 at most; of several answers on one the last counts.
std::vector<PythonAnswers> read_python_answers(std::span<const Line> lines);
/// Of several machines' answers those of the machine of which the other facts are (`host`); where nobody named that
/// one, the first's. nullptr: it was named, and there are only others' answers.
const PythonAnswers* answers_of_machine(const std::vector<PythonAnswers>& machines, const std::string& host);
/// Whose answers are left out, in one sentence; empty: nobody's.
std::string answers_left_out(const std::vector<PythonAnswers>& machines, const PythonAnswers* own,
                             const std::string& host);
/// The machine on which line `number` was printed, as the last prompt or heading before it says; empty: none says it.
std::string host_at(std::span<const Line> lines, std::uint32_t number);

}  // namespace gpuwarden::capture
