// SPDX-License-Identifier: Apache-2.0
// What a text is that somebody sent: facts of a machine, messages of a failure, both, or neither.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/capture/capture.hpp"
#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/knowledge/platform_steps.hpp"

namespace gpuwarden::logs {

/// What of a text is known. Every command that takes texts asks for it, so that none refuses what another reads.
struct Recognised {
  std::optional<capture::Capture> facts;  ///< empty: it tells none
  std::optional<Error> unread;            ///< why there are no facts
  std::vector<doctor::ToldFinding> told;  ///< what its messages say, likeliest first
};

/// Facts that tell nothing of their system take what the messages around them tell.
void take_platform(knowledge::Platform platform, facts::Snapshot& machine);

/// Reads a text of any kind; `name` is the file's, for origin and messages.
Recognised recognise(std::string_view text, const std::string& name);

/// All that several texts tell of one machine; a text may be a log alone. Capture::warnings tells what did not fit
/// together. Fails as reading a text's facts did where it tells nothing else either.
struct RecognisedTexts {
  capture::Capture facts;
  std::vector<doctor::ToldFinding> told;
};
Result<RecognisedTexts> recognise_all(std::span<const capture::NamedText> texts);

/// For a command that needs facts, where `text` has none: that it is a log of a failure, and which command reads it;
/// the error of reading its facts where it is no such log either.
Error without_facts(std::string_view text, const std::string& name);

}  // namespace gpuwarden::logs
