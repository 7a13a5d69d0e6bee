// SPDX-License-Identifier: Apache-2.0
// The language of alert rules and filters: `temp > slowdown - 5`, `user == ann & memory_used > 50%`, `throttle
// thermal`, `xid in (48, 79)`. What is not known makes neither a condition nor its opposite true.
#pragma once

#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/telemetry/variables.hpp"

namespace gpuwarden::telemetry {

struct ParseFailure;

/// A condition over a Subject.
///   or: `|`, `||`, `or`;  and: `&`, `&&`, `and`, `while`;  not: `!`, `not`;  ( )
///   comparisons: < <= > >= == = != , `~` (contains, ignoring case), `!~`, `in (a, b)`, `not in (a, b)`;
///   arithmetic: + - * /
///   numbers may have a unit: 85, 85%, 300W, 20GiB, 1500MHz; it must be of the variable's kind. A percentage beside
///   memory, power or a clock is a share of the whole.
///   texts: bare words or quoted ("..." or '...').
///   `throttle` alone: held back by power, heat or a fault; `throttle thermal|power|hw|sync_boost|NAME`.
///   `xid` alone: an Xid since the last reading; `xid == 79`, `xid in (48, 79)`.
///   `increase(COUNTER)`: by how much it has grown since the reading before.
///   A name alone: the number is not 0; there are such texts (`lease_user`).
/// At most 4096 characters, nested 32 deep.
class Expression {
 public:
  /// Fails with invalid_argument naming the place and, for an unknown name, the nearest known one.
  static Result<Expression> parse(std::string_view text);

  /// Whether it holds; nothing where it depends on what is not known.
  std::optional<bool> holds(const Subject& subject) const;
  const std::string& text() const { return text_; }
  /// The variables that it speaks of, each once, in order of appearance.
  const std::vector<const Variable*>& variables() const { return variables_; }
  /// Whether it speaks of events (xid, increase()), which are over when they have happened.
  bool about_events() const { return about_events_; }
  /// Whether it speaks of processes (pid, command, user ...): of Subject::process, else of any on the GPU.
  bool about_processes() const { return about_processes_; }
  /// Whether it asks for increases, which need Subject::before.
  bool about_increases() const { return about_increases_; }

  struct Node;
  /// What it is made of, for those who say it in another language; lives as long as the expression.
  const Node* root() const { return root_.get(); }

 private:
  std::string text_;
  std::shared_ptr<const Node> root_;
  std::vector<const Variable*> variables_;
  bool about_events_ = false;
  bool about_processes_ = false;
  bool about_increases_ = false;

  friend std::expected<Expression, ParseFailure> parse_expression(std::string_view text);
};

}  // namespace gpuwarden::telemetry
