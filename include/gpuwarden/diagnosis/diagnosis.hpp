// SPDX-License-Identifier: Apache-2.0
// From what a log tells, and what is known of the machine, to the cause of the failure and what to do. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/diagnosis/event.hpp"
#include "gpuwarden/diagnosis/reader.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/knowledge/platform_steps.hpp"

namespace gpuwarden::diagnosis {

struct Evidence {
  std::string file;
  std::uint64_t line = 0;  ///< 0: not a line, but a fact of the machine
  std::string text;
  bool operator==(const Evidence&) const = default;
};

/// Something that followed from a cause.
struct Consequence {
  std::string id;    ///< of the cause that the lines would name by themselves
  std::string text;  ///< "3 x Watchdog caught collective operation timeout (rank 1), run.log:40"
  Evidence evidence;
};

struct Cause {
  std::string id;         ///< of a knowledge::DiagnosisCause
  double confidence = 0;  ///< 0 to 1: of the causes given with 0.9, nine in ten are right (bench/diagnose_corpus)
  std::string title;
  std::string summary;  ///< a sentence with the numbers
  Facts facts;
  std::vector<Evidence> evidence;    ///< most telling first
  std::vector<std::string> reasons;  ///< why this and not its neighbour: "free + reserved is more than was asked for"
  std::vector<std::string> fix;
  std::vector<std::string> confirm;
  std::vector<Consequence> consequences;
  std::string link;
};

/// A line that sounds like a failure and is none.
struct Note {
  Evidence evidence;
  std::string text;  ///< why nothing has to be done, a sentence
};

struct Diagnosis {
  std::vector<Cause> causes;       ///< likeliest first; empty: nothing that has to do with GPUs
  bool only_consequences = false;  ///< what is visible follows from something that is not: look earlier, at other ranks
  std::optional<Evidence> ordinary;  ///< an error that has nothing to do with GPUs; it may be there beside causes
  std::string ordinary_frame;        ///< "train.py:88 in main": where in the program's own code; may be empty
  std::vector<Note> harmless;        ///< what sounds worse than it is
  std::string look_at;               ///< where: "earlier in run.log", "rank 3"
  std::uint64_t lines = 0;
  std::uint64_t bytes = 0;
  knowledge::Platform platform = knowledge::Platform::linux_own;  ///< for which steps are written
  bool without_torch = false;  ///< the log is of a program without PyTorch: JAX, TensorFlow, llama.cpp
};

/// `machine`: facts of the machine on which it happened, where they are known. `report`: what the text itself tells of
/// the machine (collect_env, nvidia-smi tables); less is concluded from it, since nobody knows when it was taken.
Diagnosis diagnose(const Reading& reading, const facts::Snapshot* machine = nullptr,
                   const facts::Snapshot* report = nullptr);

/// Takes away the steps that are for PyTorch alone, unless none were left.
void leave_out_torch(std::vector<std::string>& steps);

/// A text of any kind: its events, and whatever it tells about the machine (collect_env, nvidia-smi tables).
Diagnosis diagnose_text(std::string_view text, const std::string& file, const RulesLeftOut& left_out = {});

}  // namespace gpuwarden::diagnosis
