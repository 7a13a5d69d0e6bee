// SPDX-License-Identifier: Apache-2.0
// What is known of something that stands in a log: a cause, an Xid, an error code of CUDA, a line, words.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/compat/answer.hpp"
#include "gpuwarden/diagnosis/lookup.hpp"

namespace gpuwarden::logs {

struct Explanation {
  std::string question;
  bool memory_terms = false;  ///< it asks for diagnosis::memory_terms(), and for nothing else
  diagnosis::Lookup lookup;
  std::optional<compat::XidAnswer> xid;  ///< where it names one, which may be unknown

  /// Whether anything is known.
  bool found() const { return memory_terms || !lookup.causes.empty() || (xid && xid->positive); }
};

/// `question` as diagnosis::look_up takes it, or "memory" for the words of its messages. Fails with invalid_argument
/// where it is blank.
Result<Explanation> explain(std::string_view question, const knowledge::Knowledge& knowledge);

/// As `gpuwarden diagnose --explain --json` prints it.
nlohmann::json to_json(const Explanation& explanation);

}  // namespace gpuwarden::logs
