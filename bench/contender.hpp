// SPDX-License-Identifier: Apache-2.0
// Whole programs, measured side by side: their rounds are interleaved, so that the machine's moods hit everybody alike.
#pragma once

#include <string>
#include <vector>

namespace gpuwarden::bench {

/// What one round cost, with the processes that the program waited for.
struct Round {
  double wall_ms = 0;
  double cpu_ms = 0;    ///< user and system time
  double faults = 0;    ///< pages that were mapped or copied
  double peak_mib = 0;  ///< resident, of the largest process
};

struct Contender {
  std::string name;
  std::vector<std::string> argv;
  int copies = 1;       ///< started at once, and waited for
  int most_rounds = 0;  ///< 0: as many as the others
  std::vector<Round> rounds;
  bool failed = false;
};

/// Runs every contender `rounds` times, without input and output.
void compete(std::vector<Contender>& field, int rounds);
/// A line for each contender: best and median round, CPU time, page faults, peak memory, and how much of each is above
/// the first contender's. A contender that failed says so.
void print_field(const std::vector<Contender>& field);

/// Where a program of this name is on PATH, or below `folder` where that is given; empty where it is not.
std::string find_program(const std::string& name, const std::string& folder = "");
/// The last word of the first line that the program answers `--version` with.
std::string version_of(const std::string& program);
/// Whether the command ends with 0; its output is dropped.
bool succeeds(const std::vector<std::string>& argv);

}  // namespace gpuwarden::bench
