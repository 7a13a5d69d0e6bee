// SPDX-License-Identifier: Apache-2.0
// Counts what the doctor finds in labelled reports, as `gpuwarden doctor --from` judges a text, facts and messages
// together. For the benchmark and the tests, so that one place counts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::bench {

struct DoctorScore {
  int problems = 0;                  ///< reports whose label names a problem
  int found = 0;                     ///< of these; a report that is not read is none
  int first = 0;                     ///< named before everything else
  int unmapped = 0;                  ///< of which no row of the map speaks
  int healthy = 0;                   ///< reports whose label names none
  int clean = 0;                     ///< of these, without an error; where nothing is read, too
  std::vector<std::string> unread;   ///< "FILE: why", a report each
  std::vector<std::string> remarks;  ///< what was missed, not named first, or an alarm for nothing
};

/// Every labelled row (`expected.env_is_the_problem`) of an index, whose files lie beside it. `problems` maps words of
/// labels to checks (bench/doctor_problems.csv); rows with `accept` need no map. `half`: only rows that name it; empty:
/// all. Fails where a file cannot be read or the map has a row that is none.
Result<DoctorScore> score_doctor(const std::filesystem::path& index, const std::filesystem::path& problems,
                                 const std::string& half = "");

}  // namespace gpuwarden::bench
