// SPDX-License-Identifier: Apache-2.0
// Judges a machine from its facts: checks, each one small pure function, and the verdict over what they found.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpuwarden/doctor/finding.hpp"
#include "gpuwarden/doctor/purpose.hpp"
#include "gpuwarden/facts/burn_in.hpp"
#include "gpuwarden/facts/environment.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::knowledge {
class Knowledge;
}

namespace gpuwarden::doctor {

/// What the checks look at. Facts that are empty were not told: no check takes silence for trouble.
struct Subject {
  const facts::Snapshot& snapshot;
  const facts::Environment& environment;  ///< the snapshot's own, or an empty one
  const knowledge::Knowledge& knowledge;
  const Purpose& purpose;
  const facts::BurnInRun* burn_in = nullptr;  ///< what the GPUs showed under test, where they were tested
};

class Report;

/// A row of the table of checks: all that is said about it, in one place.
struct Check {
  std::string_view id;
  Area area;
  Severity severity;          ///< of its findings, unless one says otherwise
  std::string_view looks_at;  ///< "the driver's libraries against its kernel module"
  std::string_view why;
  std::string_view source;
  std::string_view link;
  void (*run)(const Subject&, Report&);
  /// Ids, separated by blanks: if one of them found something, this check's findings are its consequences.
  std::string_view explained_by;
};

/// What a driver that is to be installed must be like.
struct DriverNeed {
  int at_least = 0;                                           ///< branch; 0: any
  int at_most = 0;                                            ///< branch; 0: any
  std::optional<facts::ModuleFlavour> module = std::nullopt;  ///< empty: whichever the GPUs take
  bool modules_clash = false;                                 ///< one GPU takes the one module only, another the other

  bool operator==(const DriverNeed&) const = default;
};
/// What satisfies both; where no driver does, at_least is above at_most or the modules clash.
DriverNeed both(const DriverNeed& a, const DriverNeed& b);

/// What a check writes its findings to. A machine has one driver, so whatever the findings of a report ask of it is
/// asked by all of them: `agreed` is what the others ask.
class Report {
 public:
  Report(const Check& check, std::vector<Finding>& findings, const DriverNeed& agreed = {})
      : check_(check), findings_(findings), agreed_(agreed) {}
  /// Notes what this check's steps ask of the driver; the answer is what all findings ask of it together.
  DriverNeed ask_driver(const DriverNeed& need);
  /// All that ask_driver() was told; empty: this check has said nothing of a driver.
  const std::optional<DriverNeed>& asked() const { return asked_; }
  /// The finding, for further words about it (severity, safe).
  Finding& say(std::string title, std::vector<std::string> fix = {});
  Finding& say(Severity severity, std::string title, std::vector<std::string> fix = {});

 private:
  const Check& check_;
  std::vector<Finding>& findings_;
  DriverNeed agreed_;
  std::optional<DriverNeed> asked_;
};

/// All checks, in the order in which one would look.
std::span<const Check> checks();
const Check* find_check(std::string_view id);

/// Which checks run: ids or areas, "site" for a site's rules, "site:ID" for one of them; both empty: all.
struct Choice {
  std::vector<std::string> only;
  std::vector<std::string> skip;
};
/// The checks of what chooses a toolkit and can contradict itself: PATH, CUDA_HOME, CUDA_PATH, LD_LIBRARY_PATH, the
/// toolkits, PyTorch, the driver.
Choice toolkit_choice();
/// Fails with invalid_argument, naming the nearest, where a name is neither a check's nor an area's.
Result<void> validate(const Choice& choice, const knowledge::Knowledge& knowledge);

/// The verdict.
struct Examination {
  std::vector<Finding> findings;        ///< worst first; among equals, in the order in which one would mend
  std::map<Area, Status> areas;         ///< of all areas that were asked for
  Status overall = Status::compatible;  ///< not_judged where no area was
  Severity worst = Severity::ok;
  std::vector<std::pair<std::string, Area>> ran;  ///< ids of the checks, and of the site's rules ("site:ID"), that ran
};

/// A finding that somebody else made of what the same text tells.
struct ToldFinding {
  Finding finding;
  std::vector<std::string> same_as;  ///< checks whose findings say the same: with one of them it is left out
};

/// Adds them to the verdict, each behind the checks' own findings of its severity. The choice is heeded by areas.
void add_told(Examination& examination, std::vector<ToldFinding> told, const Choice& choice = {});

/// Runs the checks, and the site's rules of `knowledge`.
Examination examine(const facts::Snapshot& snapshot, const knowledge::Knowledge& knowledge, const Purpose& purpose = {},
                    const Choice& choice = {}, const facts::BurnInRun* burn_in = nullptr);

}  // namespace gpuwarden::doctor
