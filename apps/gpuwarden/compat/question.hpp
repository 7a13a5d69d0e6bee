// SPDX-License-Identifier: Apache-2.0
// gpuwarden compat: what is asked.
#pragma once

#include <optional>
#include <string>

#include "command.hpp"
#include "gpuwarden/doctor/purpose.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::cli::compat {

/// What is asked. At most one of the parts is set; none: what the place runs.
struct Question {
  std::string text;
  std::string kind = "machine";
  std::optional<knowledge::Version> cuda;
  std::optional<int> xid;
  std::optional<doctor::Purpose> purpose;
  std::string component;
  std::string version;
  std::string gpu;
  bool matrix = false;
};

/// Reads the operands, --cuda, --for, --gpu and --matrix. "driver 550.54" becomes --driver. Fails with
/// invalid_argument.
Result<Question> read_question(Context& context, const knowledge::Knowledge& knowledge);

}  // namespace gpuwarden::cli::compat
