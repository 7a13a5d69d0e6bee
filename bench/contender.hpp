// SPDX-License-Identifier: Apache-2.0
// Whole programs, timed side by side: their rounds are interleaved, so that the machine's moods hit everybody alike.
#pragma once

#include <string>
#include <vector>

namespace gpuwarden::bench {

struct Contender {
  std::string name;
  std::vector<std::string> argv;
  int copies = 1;  ///< started at once, and waited for
  std::vector<double> milliseconds;
  long peak_kib = 0;
  bool failed = false;
};

/// Runs every contender `rounds` times, without input and output. Peak memory of a fork starts at the parent's own, so
/// the calling program has to stay small.
void compete(std::vector<Contender>& field, int rounds);
/// A line for each contender: the fastest and the median round, and what is above the first contender's. A contender
/// that failed says so.
void print_field(const std::vector<Contender>& field);
/// Whether a program of this name is on PATH.
bool is_installed(const std::string& program);

}  // namespace gpuwarden::bench
