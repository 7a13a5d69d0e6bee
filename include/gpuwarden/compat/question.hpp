// SPDX-License-Identifier: Apache-2.0
// Questions about compatibility as people type them: "cu128", "torch==2.5.1", "RTX 4090", "xid 79", "train llama-3-8b".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "gpuwarden/compat/answer.hpp"

namespace gpuwarden::compat {

/// What is asked. At most one of the parts is set; none: what the place runs.
struct Question {
  std::string text;
  std::string kind = "machine";
  std::optional<Version> cuda;
  std::optional<int> xid;
  std::optional<doctor::Purpose> purpose;
  std::string component;
  std::string version;
  std::string gpu;
  bool matrix = false;

  /// What this machine is matters to the answer without being named.
  bool is_about_here() const { return kind == "machine" || kind == "cuda" || kind == "package"; }
};

/// Reads the words; a blank before a version is as good as "==". What is nothing else is taken for a GPU's name. Fails
/// with invalid_argument.
Result<Question> parse_question(const knowledge::Knowledge& knowledge, const std::string& text);

/// "12.8", "cu128"; fails with invalid_argument.
Result<Version> parse_cuda(std::string_view text);

/// A purpose as a question: of a package, an architecture, a job, or of the drivers for it.
Question question_of(doctor::Purpose purpose);

using Answer = std::variant<MachineAnswer, CudaAnswer, TorchAnswer, VllmAnswer, ComponentAnswer, GpuAnswer,
                            ArchitectureAnswer, XidAnswer, JobAnswer, MatrixAnswer>;

/// What all answers have.
const Verdict& verdict_of(const Answer& answer);

/// Fails with not_found where nothing is known about what was asked for.
Result<Answer> answer(const Asked& asked, const Question& question);

}  // namespace gpuwarden::compat
