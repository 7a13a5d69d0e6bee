// SPDX-License-Identifier: Apache-2.0
// Files that tell of a machine: outputs of gpuwarden snapshot, nvidia-smi, a bundle.
#pragma once

#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/capture/capture.hpp"

namespace gpuwarden::machine {

using capture::NamedText;

/// The files' texts. "-" is standard input, a pipe is read until its writer ends.
Result<std::vector<NamedText>> read_texts(const std::vector<std::string>& files);
/// What they tell of one machine, joined. Fails with corrupt where one tells of none.
Result<capture::Capture> captures_of(const std::vector<NamedText>& texts);

/// Several captures of one machine, joined; Capture::warnings tells what did not fit together. "-" is standard input, a
/// pipe is read until its writer ends. Fails as read_file, bundle::capture_text and capture::read_capture do.
Result<capture::Capture> read_captures(const std::vector<std::string>& files);

}  // namespace gpuwarden::machine
