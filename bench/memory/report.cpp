// SPDX-License-Identifier: Apache-2.0
#include "memory/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace gpuwarden::bench {
namespace {

std::string cell(double value, int decimals) {
  return std::isnan(value) ? std::string("-") : fmt::format("{:.{}f}", value, decimals);
}

nlohmann::ordered_json number(double value) {
  return std::isnan(value) ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
}

}  // namespace

std::string to_text(const Table& table) {
  std::string text = fmt::format("\n{}\n", table.title);
  std::size_t widest = 0;
  for (const Row& row : table.rows) widest = std::max(widest, row.name.size());
  text += fmt::format("  {:<{}}", "", widest);
  for (const Column& column : table.columns) text += fmt::format("  {:>9}", column.title);
  text += "\n";
  for (const Row& row : table.rows) {
    text += fmt::format("  {:<{}}", row.name, widest);
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      const double value = i < row.values.size() ? row.values[i] : kNone;
      text += fmt::format("  {:>{}}", cell(value, table.columns[i].decimals),
                          std::max<std::size_t>(9, table.columns[i].title.size()));
    }
    text += row.note.empty() ? "\n" : fmt::format("  {}\n", row.note.substr(0, row.note.find_first_of(";\n")));
  }
  return text;
}

std::string to_text(const std::vector<Goal>& goals) {
  if (goals.empty()) return {};
  std::string text = "\nGoals\n";
  for (const Goal& goal : goals) {
    text += fmt::format("  {:<6} {}: {} ({} {})\n", goal.met() ? "met" : "MISSED", goal.what,
                        cell(goal.measured, goal.decimals), goal.at_most ? "at most" : "at least",
                        cell(goal.goal, goal.decimals));
  }
  return text;
}

std::string to_json(const Report& report) {
  nlohmann::ordered_json json{{"schema", 1}, {"benchmark", report.benchmark}, {"device", report.device}};
  json["tables"] = nlohmann::ordered_json::array();
  for (const Table& table : report.tables) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const Row& row : table.rows) {
      nlohmann::ordered_json one{{"name", row.name}};
      for (std::size_t i = 0; i < table.columns.size() && i < row.values.size(); ++i)
        one[table.columns[i].key] = number(row.values[i]);
      if (!row.note.empty()) one["note"] = row.note;
      rows.push_back(std::move(one));
    }
    json["tables"].push_back({{"title", table.title}, {"rows", std::move(rows)}});
  }
  json["goals"] = nlohmann::ordered_json::array();
  for (const Goal& goal : report.goals) {
    json["goals"].push_back({{"what", goal.what},
                             {"measured", number(goal.measured)},
                             {"rule", goal.at_most ? "at_most" : "at_least"},
                             {"goal", goal.goal},
                             {"met", goal.met()}});
  }
  return json.dump(1) + "\n";
}

}  // namespace gpuwarden::bench
