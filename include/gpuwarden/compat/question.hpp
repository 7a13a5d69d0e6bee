// SPDX-License-Identifier: Apache-2.0
// Questions about compatibility as people type them: "cu128", "torch==2.5.1", "RTX 4090", "xid 79", "train llama-3-8b".
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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

/// A question and the place it is about, as options of a command line or arguments of a program have them.
struct Inquiry {
  std::string text;                    ///< words of parse_question(), or "driver 550.54", which sets `driver`
  std::optional<std::string> cuda;     ///< instead of `text`: of parse_cuda()
  std::optional<std::string> purpose;  ///< instead of `text`: of doctor::read_purpose()
  bool matrix = false;                 ///< which driver for which GPU, for the work that is asked about
  std::vector<std::string> gpus;       ///< of gpus_named(); one alone, where nothing is asked, is the question
  std::optional<std::string> driver;   ///< of parse_driver()

  bool names_place() const { return !gpus.empty() || driver.has_value(); }
};

/// The question. Takes a driver that the words name out of them. Fails with invalid_argument on several questions at
/// once, and as the readers of the parts do.
Result<Question> read_question(Inquiry& inquiry, const knowledge::Knowledge& knowledge);

/// The place with the GPUs and the driver that are named in the place of its own. Fails with invalid_argument, as
/// gpus_named() and parse_driver() do.
Result<Place> with_named(const Inquiry& inquiry, Place place, const knowledge::Knowledge& knowledge);

/// "550.54.15", "550": from branch 100 on, before which there was no CUDA. Fails with invalid_argument.
Result<Version> parse_driver(std::string_view text);

/// "2027-06", "2027-06-30": the beginning of that month or day, of the years 2000 to 2200. Fails with invalid_argument.
Result<std::chrono::system_clock::time_point> parse_date(std::string_view text);

using Answer = std::variant<MachineAnswer, CudaAnswer, TorchAnswer, VllmAnswer, ComponentAnswer, GpuAnswer,
                            ArchitectureAnswer, XidAnswer, JobAnswer, MatrixAnswer>;

/// What all answers have.
const Verdict& verdict_of(const Answer& answer);

/// Fails with not_found where nothing is known about what was asked for.
Result<Answer> answer(const Asked& asked, const Question& question);

}  // namespace gpuwarden::compat
