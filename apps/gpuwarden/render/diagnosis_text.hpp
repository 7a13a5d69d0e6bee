// SPDX-License-Identifier: Apache-2.0
// The causes of a failure, for people.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpuwarden/diagnosis/diagnosis.hpp"
#include "gpuwarden/doctor/finding.hpp"
#include "gpuwarden/logs/diagnose.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

/// What of a diagnosis is shown.
struct DiagnosisView {
  std::size_t files = 1;      ///< how many were read
  std::string machine;        ///< whose facts were looked at beside the logs: "SIMULATED h100x8"; may be empty
  std::size_t causes = 3;     ///< how many, at most
  bool all_evidence = false;  ///< every line, not the two most telling ones
  std::size_t doubtful = 0;   ///< causes that --min-confidence left out
  std::span<const doctor::Finding> environment;  ///< what the doctor finds wrong beside them
  std::span<const logs::Answer> answers;         ///< causes and findings in the order in which they are told
};

/// The causes, likeliest first, each with its reasons, lines, steps, and what followed from it; or that there is none.
std::string diagnosis_text(const diagnosis::Diagnosis& diagnosis, const DiagnosisView& view, const Style& style);

/// The words of memory messages, each with its meaning.
std::string memory_terms_text(const Style& style);

/// Steps of a fix or of a proof: commands on lines of their own that can be copied, advice broken at the width.
std::string steps_text(const std::string& label, const std::vector<std::string>& steps, std::size_t indent,
                       const Style& style);

/// "very likely" for 0.9.
std::string_view words_for(double confidence);

}  // namespace gpuwarden::cli
