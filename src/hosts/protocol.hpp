// SPDX-License-Identifier: Apache-2.0
// The names of the messages, and how long both sides are silent at most.
#pragma once

#include <chrono>
#include <string_view>

namespace gpuwarden::hosts {

// To an agent.
inline constexpr std::string_view kOrder = "order";    ///< Order: hold GPUs
inline constexpr std::string_view kMeet = "meet";      ///< {"port"}: hold a port, say where you are
inline constexpr std::string_view kTry = "try";        ///< {"meeting"}: can you reach it?
inline constexpr std::string_view kStart = "start";    ///< Start: run the ranks
inline constexpr std::string_view kSignal = "signal";  ///< {"signal"}: to the ranks
inline constexpr std::string_view kLook = "look";      ///< {"options"}: show your GPUs
// From an agent.
inline constexpr std::string_view kHello = "hello";      ///< {"machine"}
inline constexpr std::string_view kProblem = "problem";  ///< an Error: what was asked for failed
inline constexpr std::string_view kHeld = "held";        ///< Held
inline constexpr std::string_view kMeeting = "meeting";  ///< Meeting
inline constexpr std::string_view kReached = "reached";  ///< {"reached": [Reach]}
inline constexpr std::string_view kOutput = "output";    ///< {"rank", "stream"} and bytes
inline constexpr std::string_view kFailed = "failed";    ///< {"rank", "exit_code", "now"}
inline constexpr std::string_view kSaid = "said";        ///< {"text"}: a warning
inline constexpr std::string_view kDone = "done";        ///< Done
inline constexpr std::string_view kNode = "node";        ///< {"node"}: a cluster::Node
// Both ways: {"sent"} of the launcher, answered with {"echo", "now"}.
inline constexpr std::string_view kBeat = "beat";

/// A launcher says something so often.
inline constexpr std::chrono::seconds kBeatPeriod(3);
/// After so long without a word the launcher takes a host for lost...
inline constexpr std::chrono::seconds kSilence(15);
/// ... and an agent takes the launcher for dead, and ends its job.
inline constexpr std::chrono::seconds kDeadMan(12);
/// So long the ranks have then; after it the guardians kill them. With kDeadMan and the guardians' second this stays
/// well below the half minute after which nothing may be left of the job.
inline constexpr std::chrono::seconds kLastGrace(5);

}  // namespace gpuwarden::hosts
