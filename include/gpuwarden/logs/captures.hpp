// SPDX-License-Identifier: Apache-2.0
// Files that tell of a machine: outputs of gpuwarden snapshot, nvidia-smi, a bundle.
#pragma once

#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/capture/capture.hpp"

namespace gpuwarden::logs {

using capture::NamedText;

/// The files' texts. "-" is standard input, a pipe is read until its writer ends.
Result<std::vector<NamedText>> read_texts(const std::vector<std::string>& files);

/// Several texts that tell the facts of one machine, joined; Capture::warnings tells what did not fit together. Fails
/// as capture::read_capture() does, and of a text that is a log of a failure says which command reads it.
Result<capture::Capture> join_captures(const std::vector<NamedText>& texts);

/// Several captures of one machine, joined. Fails as read_texts() and join_captures() do.
Result<capture::Capture> read_captures(const std::vector<std::string>& files);

}  // namespace gpuwarden::logs
