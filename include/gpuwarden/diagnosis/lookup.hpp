// SPDX-License-Identifier: Apache-2.0
// Finds what `gpuwarden diagnose --explain WHAT` means among the causes that are known.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/knowledge/diagnosis.hpp"

namespace gpuwarden::diagnosis {

struct Lookup {
  std::vector<const knowledge::DiagnosisCause*> causes;  ///< best first; empty: nothing fits
  std::vector<const knowledge::DiagnosisRule*> rules;    ///< those that the text fits, where it is a line of a log
  std::optional<int> xid;                                ///< whether it is known or not
  std::optional<int> cuda_code;                          ///< an error code of CUDA of which something is known
  std::string nearest;  ///< id of a cause that may have been meant, where nothing fits; may be empty
};

/// `what`: a cause's or a rule's id, "xid 79", "sxid=20034", "700" (an Xid that is known, an error code of CUDA, or
/// both), a line of a log, or words.
Lookup look_up(std::string_view what, const knowledge::Knowledge& knowledge);

}  // namespace gpuwarden::diagnosis
