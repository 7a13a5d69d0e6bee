// SPDX-License-Identifier: Apache-2.0
// What a benchmark found: tables of figures and how they stand beside their goals; as text or as JSON.
#pragma once

#include <limits>
#include <string>
#include <vector>

namespace gpuwarden::bench {

/// No figure: "-" in text, null in JSON.
inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct Column {
  std::string title;  ///< for people, with its unit
  std::string key;    ///< for JSON
  int decimals = 1;
};

struct Row {
  std::string name;
  std::vector<double> values;  ///< one for each column
  std::string note;            ///< what went wrong; empty: nothing
};

struct Table {
  std::string title;
  std::vector<Column> columns;
  std::vector<Row> rows;
};

struct Goal {
  std::string what;
  double measured = kNone;
  bool at_most = true;  ///< otherwise at least
  double goal = 0;
  int decimals = 1;

  bool met() const { return at_most ? measured <= goal : measured >= goal; }
};

struct Report {
  std::string benchmark;
  std::string device;  ///< what the driver calls went to
  std::vector<Table> tables;
  std::vector<Goal> goals;
};

std::string to_text(const Table& table);
std::string to_text(const std::vector<Goal>& goals);
/// {"schema":1,"benchmark","device","tables":[{"title","rows":[{"name","note",COLUMN KEY...}]}],"goals":[...]}
std::string to_json(const Report& report);

}  // namespace gpuwarden::bench
