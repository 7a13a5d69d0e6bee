// SPDX-License-Identifier: Apache-2.0
// What a log tells, line by line: typed events with the numbers in them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace gpuwarden::knowledge {
struct DiagnosisRule;
}

namespace gpuwarden::diagnosis {

/// Memory that a process holds on a GPU, as an error message tells it.
struct ProcessMemory {
  std::int64_t pid = 0;
  std::int64_t bytes = 0;
  bool operator==(const ProcessMemory&) const = default;
};

/// A whole number (sizes in bytes, times in milliseconds: the key ends in _bytes, _ms), a word, numbers, processes.
using Fact = std::variant<std::int64_t, std::string, std::vector<std::int64_t>, std::vector<ProcessMemory>>;
using Facts = std::map<std::string, Fact>;

/// The fact as a number; empty where it is missing or none.
std::optional<std::int64_t> number(const Facts& facts, const std::string& key);
std::optional<std::string> word(const Facts& facts, const std::string& key);

/// How loud the line was that an event stands in.
enum class Level { unknown, info, warning, error };

/// A line that a rule fits, or many lines that say the same.
struct Event {
  const knowledge::DiagnosisRule* rule = nullptr;
  Facts facts;
  std::string file;
  std::uint64_t line = 0;   ///< from 1, of its first appearance
  std::uint64_t order = 0;  ///< its place among all events of the file
  std::uint64_t count = 1;  ///< how often it came
  std::string text;         ///< the line without prefixes and escapes, printable, at most 500 characters
  Level level = Level::unknown;
  bool silenced = false;  ///< a later line says that it means nothing
  bool quoted = false;    ///< in prose about an error, not in a log
  std::optional<std::int64_t> rank;
  std::optional<double> time;  ///< seconds since something: comparable within `clock`
  int clock = 0;               ///< which kind of time stamp the line had; 0: none
};

/// A Python traceback: the exception that ended it.
struct Traceback {
  std::string file;
  std::uint64_t line = 0;  ///< of the exception
  std::string exception;   ///< "KeyError: 'loss'", at most 500 characters
  std::string frame;       ///< "train.py:88 in main": the last of the program's own code
};

/// All that was read of one file, or of several.
struct Reading {
  std::vector<Event> events;          ///< in the order of the lines; bounded, whatever the file
  std::vector<Traceback> tracebacks;  ///< the first of each exception, bounded
  std::set<std::string> tags;         ///< "container", "rocm" ...
  bool newest_first = false;          ///< the time stamps run backwards
  /// How many events came before the last line that tells of success; empty: no such line, or several files.
  std::optional<std::size_t> ended_well;
  std::uint64_t lines = 0;
  std::uint64_t bytes = 0;
  std::uint64_t dropped = 0;  ///< events beyond the bound
};

}  // namespace gpuwarden::diagnosis
