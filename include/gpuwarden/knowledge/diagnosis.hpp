// SPDX-License-Identifier: Apache-2.0
// What lines of logs mean, and what is known about the failures behind them: the data of `gpuwarden diagnose`, compiled
// in from knowledge/diagnosis/*.yaml. docs/diagnose.md says how an entry is written.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace gpuwarden::knowledge {

/// What a line that fits a rule is to the failure.
enum class Role {
  root,      ///< names its cause by itself
  symptom,   ///< what others see of a failure elsewhere; its cause is said only if nothing explains it
  weak,      ///< a warning or information: the cause only if nothing better is there
  context,   ///< sets a tag ("container", "rocm") and nothing else
  silence,   ///< no evidence, whatever other rules see in the line: advice, legends, harmless plugins
  ordinary,  ///< an error that has nothing to do with GPUs: a plain exception, an HTTP error
  harmless,  ///< sounds like a failure and is none: `says` tells why nothing has to be done
};
std::string_view to_string(Role role);

/// What starting the same work again is worth after a failure.
enum class Restart {
  again,       ///< it may pass by itself, or by the time that went by
  other_gpus,  ///< not on the GPUs that it happened on
  never,       ///< the next try ends the same way until somebody changes something
};
std::string_view to_string(Restart restart);

/// A line as the emitter prints it, with what is to be read from it, and where the emitter's words are published.
struct DiagnosisExample {
  std::string_view text;
  std::string_view facts;  ///< JSON object
  std::string_view source;
};

/// A shape of line. Patterns are RE2's, searched in one normalised line (diagnosis/line.hpp).
struct DiagnosisRule {
  std::string_view id;
  std::string_view cause;  ///< id of a DiagnosisCause; empty where the role names none
  Role role;
  std::string_view pattern;
  std::span<const std::string_view> literals;  ///< a line needs one of them to fit; in lower case, ASCII case aside
  std::span<const std::string_view> extract;   ///< more patterns with named groups, for the lines around as well
  int lines;                                   ///< how many lines after it `extract` may look at
  int before;                                  ///< and how many before it
  std::span<const std::string_view> needs;  ///< facts without which the line says nothing (a header without its value)
  std::span<const std::pair<std::string_view, std::string_view>> set;  ///< facts that follow: key, JSON value
  std::span<const std::string_view> when;                              ///< only where all these tags are set
  std::span<const std::string_view> unless;                            ///< not where any of these is
  std::string_view context;                                            ///< the tag that a context rule sets
  bool any_level;                              ///< names its cause on DEBUG, INFO and WARNING lines too
  double strength;                             ///< 0 to 1: how sure the line alone makes its cause
  std::span<const std::string_view> overlaps;  ///< rules of other causes that rightly see its examples
  std::span<const DiagnosisExample> examples;
  std::string_view says;  ///< a sentence with {facts} that this line allows; before the cause's own. Empty: none
  std::span<const std::string_view> fix;  ///< steps for this very line; they come before the cause's own
  std::string_view link;    ///< the page of the program that prints it, in place of the cause's own. Empty: that one
  std::string_view reject;  ///< a pattern: where it fits the line or those after it, the rule is silent. Empty: none
  std::span<const std::string_view> inspired_by;  ///< public threads without which nobody would have written it
};

/// A cause of failure, by the id under which it is reported.
struct DiagnosisCause {
  std::string_view id;
  std::string_view area;
  std::string_view title;
  std::span<const std::string_view> summary;  ///< sentences with {facts}, most telling first; the last has none
  std::span<const std::string_view> fix;      ///< "[vllm,sglang] step", "[!wsl] step": only for some logs (tags)
  std::span<const std::string_view> confirm;
  std::string_view link;
  std::string_view source;
  std::span<const std::string_view> explains;  ///< causes that are mere consequences where this one came before
  Restart restart = Restart::again;
  /// Variables of the environment with which the next try avoids it.
  std::span<const std::pair<std::string_view, std::string_view>> remedy;
  bool fewer_ranks = false;  ///< a try with fewer ranks on the machine may avoid it
};

std::span<const DiagnosisRule> diagnosis_rules();
/// In the order of the files, which is by area.
std::span<const DiagnosisCause> diagnosis_causes();
const DiagnosisCause* diagnosis_cause(std::string_view id);

}  // namespace gpuwarden::knowledge
