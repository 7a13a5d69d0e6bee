// SPDX-License-Identifier: Apache-2.0
// Labelled failures (JSON lines), as tests and the benchmark put them to the diagnosis.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::testing {

/// The label, and the answer, where there is no cause.
inline constexpr std::string_view kNoCause = "none";

struct DiagnosisCase {
  std::string id;
  std::string text;
  std::string label;              ///< id of the right cause, or kNoCause
  std::vector<std::string> also;  ///< ids that are right as well
  std::string kind;               ///< "log", "quoted_in_prose", "long" ...
  bool composite = false;         ///< the first match is known to mislead
  bool decidable = true;          ///< false: the cause is known from elsewhere, not from the text
  bool kept_back = false;         ///< no rule may be written from it, and it chooses nothing
  std::string source;             ///< the thread it is from: "owner/repository#17", else its own id
  nlohmann::json facts;           ///< an object; empty where nothing is to be extracted

  bool is_long() const { return kind == "long"; }
  bool is_right(std::string_view answer) const { return answer == label; }
  bool is_acceptable(std::string_view answer) const;
};

/// All cases of a file; of one whose name ends in "kept_back", cases that are kept back. Fails with file and line on
/// what is no case: id, text, label and kind must be there.
Result<std::vector<DiagnosisCase>> read_diagnosis_cases(const std::filesystem::path& file);

}  // namespace gpuwarden::testing
