// SPDX-License-Identifier: Apache-2.0
// Turns a log of any size into events, in one pass and with bounded memory.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "gpuwarden/diagnosis/event.hpp"

namespace gpuwarden::diagnosis {

/// Ids of rules that are not asked: for measuring what the others know.
using RulesLeftOut = std::set<std::string, std::less<>>;

/// Fed with pieces of a file as they come. The text may be anything: colours, prefixes of launchers, CRLF, invalid
/// UTF-8, lines of any length.
class LogReader {
 public:
  explicit LogReader(std::string file, RulesLeftOut left_out = {});
  LogReader(LogReader&&) noexcept;
  LogReader& operator=(LogReader&&) noexcept;
  ~LogReader();

  void feed(std::string_view piece);
  /// What was read. The reader is spent.
  Reading finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A whole text at once.
Reading read_log(std::string_view text, const std::string& file, const RulesLeftOut& left_out = {});
/// Adds another file of the same run.
void add_reading(Reading& whole, Reading part);

}  // namespace gpuwarden::diagnosis
