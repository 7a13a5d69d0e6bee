// SPDX-License-Identifier: Apache-2.0
#include "planner/table.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "gpuwarden/base/file.hpp"

namespace gpuwarden::bench {

namespace {

/// Cells line by line; quotes hold commas, line ends and doubled quotes.
struct Reader {
  std::vector<std::vector<std::string>> lines{{}};
  std::string cell;
  bool quoted = false;

  void end_cell() { lines.back().push_back(std::exchange(cell, {})); }
  void end_line() {
    end_cell();
    lines.emplace_back();
  }
  void take(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '"') {
        const bool doubled = quoted && i + 1 < text.size() && text[i + 1] == '"';
        if (doubled) {
          cell += '"';
          ++i;
        } else {
          quoted = !quoted;
        }
      } else if (!quoted && c == ',') {
        end_cell();
      } else if (!quoted && c == '\n') {
        end_line();
      } else if (quoted || c != '\r') {
        cell += c;
      }
    }
  }
};

}  // namespace

Row::Row(const std::vector<std::string>& names, std::vector<std::string> cells) {
  for (std::size_t i = 0; i < names.size() && i < cells.size(); ++i)
    cells_.insert_or_assign(names[i], std::move(cells[i]));
}

const std::string& Row::operator[](std::string_view column) const {
  static const std::string kEmpty;
  const auto found = cells_.find(column);
  return found == cells_.end() ? kEmpty : found->second;
}

Result<std::vector<Row>> read_table(const std::filesystem::path& path) {
  GPUWARDEN_TRY(const std::string text, read_file(path));
  Reader reader;
  reader.take(text);
  if (reader.quoted) {
    return fail(ErrorCode::corrupt, path.string() + ": a quote is not closed", "give a comma-separated file");
  }
  if (!reader.cell.empty() || !reader.lines.back().empty()) reader.end_line();
  std::vector<Row> rows;
  if (reader.lines.size() < 2) return rows;
  const std::vector<std::string> names = reader.lines.front();
  for (std::size_t i = 1; i < reader.lines.size(); ++i) {
    if (reader.lines[i].size() > 1) rows.emplace_back(names, std::move(reader.lines[i]));
  }
  return rows;
}

std::vector<double> numbers_in(std::string_view text) {
  std::vector<double> numbers;
  for (std::size_t i = 0; i < text.size();) {
    if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) {
      ++i;
      continue;
    }
    double value = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), value);
    if (error != std::errc{}) break;
    numbers.push_back(value);
    i = static_cast<std::size_t>(end - text.data());
  }
  return numbers;
}

double leading_number(std::string_view text) {
  const std::vector<double> numbers = numbers_in(text);
  return numbers.empty() ? 0 : numbers.front();
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

}  // namespace gpuwarden::bench
