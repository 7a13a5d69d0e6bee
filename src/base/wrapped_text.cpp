// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/wrapped_text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <set>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden {
namespace {

constexpr std::size_t kLongestText = std::size_t{256} << 10U;
/// Widths of terminals. Below, columns of a table are likelier.
constexpr std::size_t kNarrowest = 60;
constexpr std::size_t kWidest = 250;
/// What forms and mails break at.
constexpr std::size_t kWidestForm = 100;
/// Where one line of exactly that width may be a terminal's already.
constexpr auto kUsualWidths = std::to_array<std::size_t>({80, 100, 120, 132});

struct Row {
  std::string_view text;    ///< without line end
  std::size_t columns = 0;  ///< characters
  std::size_t widest = 0;   ///< of the rows around it, to the next empty ones
  bool is_own = false;      ///< begins, by its looks, what was printed as a line of its own
  bool opens = false;       ///< of a table, without its right edge
  bool closes = false;      ///< of a table, without its left one
  bool is_whole = false;    ///< of a table or a rule: it goes on in no other
};

bool is_alnum(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }
bool is_digit_at(std::string_view text, std::size_t at) {
  return at < text.size() && text[at] >= '0' && text[at] <= '9';
}

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

/// "2026-01-02 ", "10:02:03.4", "[123.456] ", "I0305 19:29": what programs put before a message.
bool begins_with_time(std::string_view text) {
  if (text.starts_with('[') || text.starts_with('(')) text.remove_prefix(1);
  if (text.size() < 6) return false;
  const bool date = is_digit_at(text, 0) && is_digit_at(text, 3) && (text[4] == '-' || text[4] == '/');
  const bool clock = is_digit_at(text, 0) && is_digit_at(text, 1) && text[2] == ':' && is_digit_at(text, 3);
  const bool glog =
      std::string_view("IWEF").contains(text[0]) && is_digit_at(text, 1) && is_digit_at(text, 4) && text[5] == ' ';
  return date || clock || glog;
}

/// How lines begin that no break makes.
bool begins_anew(std::string_view text) {
  constexpr auto kBeginnings = std::to_array<std::string_view>({"Traceback ",
                                                                "File \"",
                                                                "$ ",
                                                                "# ",
                                                                ">>> ",
                                                                "> ",
                                                                "- ",
                                                                "* ",
                                                                "```",
                                                                "INFO",
                                                                "WARN",
                                                                "ERROR",
                                                                "DEBUG",
                                                                "CRITICAL",
                                                                "[INFO",
                                                                "[WARN",
                                                                "[ERROR",
                                                                "(",
                                                                "During handling of",
                                                                "The above exception",
                                                                "NVRM:",
                                                                "Collecting "});
  const std::string_view start = trim(text);
  const auto begins = [&](std::string_view one) { return start.starts_with(one); };
  if (start.starts_with('(') && !start.contains("pid=")) return begins_with_time(start);
  return std::ranges::any_of(kBeginnings, begins) || begins_with_time(start);
}

bool is_edge(char c) { return c == '|' || c == '+'; }

/// "| GPU  Name ... |", "+-----+", "=====": a table's rows, and rules.
bool is_whole(std::string_view text) {
  if (text.empty()) return true;
  if (is_edge(text.front())) return text.size() > 1 && is_edge(text.back());
  return std::ranges::all_of(text, [&](char c) { return !is_alnum(c); });
}

/// Without the blanks that fill a row up; a single one may be that at which it was broken.
std::string_view without_filling(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  if (line.starts_with('|')) return line;
  const std::size_t end = line.find_last_not_of(' ') + 1;
  return line.size() > end + 1 ? line.substr(0, end) : line;
}

/// Rows of other people's texts around are as wide as they like.
void measure_blocks(std::vector<Row>& rows) {
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = begin;
    std::size_t widest = 0;
    for (; end < rows.size() && !rows[end].text.empty() && !rows[end].text.starts_with("```"); ++end)
      widest = std::max(widest, rows[end].is_whole ? 0 : rows[end].columns);
    for (std::size_t i = begin; i < end; ++i) rows[i].widest = widest;
    begin = end + 1;
  }
}

std::vector<Row> rows_of(std::string_view text) {
  std::vector<Row> rows;
  for (const std::string_view line : split(text, '\n')) {
    const std::string_view row = without_filling(line);
    const bool left = !row.empty() && is_edge(row.front());
    const bool right = !row.empty() && is_edge(row.back());
    rows.push_back({row, columns_of(row), 0, begins_anew(row), left && !right, right && !left, is_whole(row)});
  }
  measure_blocks(rows);
  return rows;
}

/// Whether a row may go on in the next one at all.
bool may_go_on(const Row& row, const Row& next) {
  if (row.opens) return next.closes;
  return !row.is_whole && !trim(next.text).empty() && !next.is_own && !next.is_whole;
}

/// "addd" of "c002": how a text looks.
std::string shape_of(std::string_view text) {
  std::string shape;
  for (const char c : text) shape += std::isdigit(static_cast<unsigned char>(c)) != 0 ? 'd' : is_alnum(c) ? 'a' : c;
  return shape;
}

/// Whether the next row begins as this one does: rows of a table, lines of one format.
bool is_alike(const Row& row, const Row& next) {
  constexpr std::size_t kBeginning = 5;
  constexpr std::size_t kShape = 10;
  if (row.text.substr(0, kBeginning) == next.text.substr(0, kBeginning)) return true;
  if (is_digit_at(row.text, 0) && is_digit_at(next.text, 0)) return true;
  const std::string shape = shape_of(row.text.substr(0, kShape));
  const bool telling = shape.contains('d') || shape.contains("  ");
  return telling && shape == shape_of(next.text.substr(0, kShape));
}

/// How a row and the next begin: where several do alike, they are lines of a format.
std::string beginnings_of(const Row& row, const Row& next) {
  constexpr std::size_t kBeginning = 5;
  return std::string(row.text.substr(0, kBeginning)) + '\n' + std::string(next.text.substr(0, kBeginning));
}

/// Whether a row that ends at the last column was cut there: what follows begins no line.
bool is_cut(const Row& row, const Row& next) {
  if (row.opens) return next.closes;
  const std::string_view rest = next.text;
  // A blank that the cut left: no program indents by one.
  if (rest.starts_with(' ')) return row.text.back() != ' ' && rest.size() > 1 && rest[1] != ' ';
  return std::isupper(static_cast<unsigned char>(rest.front())) == 0 && rest.front() != '\t';
}

/// How sure it is that rows of one width were cut at it.
struct Cuts {
  std::size_t rows = 0;       ///< of that width that may go on
  std::size_t cut = 0;        ///< of them
  std::size_t sure = 0;       ///< within a word
  std::size_t different = 0;  ///< of these, such as do not repeat one format
};

Cuts cuts_at(const std::vector<Row>& rows, std::size_t width) {
  Cuts cuts;
  std::set<std::string> different;
  for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
    if (rows[i].columns != width || rows[i].widest != width || rows[i].is_whole || trim(rows[i + 1].text).empty())
      continue;
    ++cuts.rows;
    if (!may_go_on(rows[i], rows[i + 1]) || is_alike(rows[i], rows[i + 1]) || !is_cut(rows[i], rows[i + 1])) continue;
    if (rows[i].opens) ++cuts.sure;
    ++cuts.cut;
    const char last = rows[i].text.back();
    cuts.sure += (is_alnum(last) || last == ' ') && is_alnum(rows[i + 1].text.front()) ? 1 : 0;
    different.insert(beginnings_of(rows[i], rows[i + 1]));
  }
  cuts.different = different.size();
  return cuts;
}

/// The terminal's width, where one cut these rows.
struct Terminal {
  std::size_t width = 0;
  bool sure = false;  ///< one row that is as wide may be a line of just that length
};

Terminal terminal_of(const std::vector<Row>& rows) {
  std::set<std::size_t, std::greater<>> widths;
  for (const Row& row : rows) {
    if (row.widest >= kNarrowest && row.widest <= kWidest) widths.insert(row.widest);
  }
  for (const std::size_t width : widths) {
    const bool usual = std::ranges::find(kUsualWidths, width) != kUsualWidths.end();
    // Within the width of forms rows may have one length by chance.
    const std::size_t least = usual ? 1 : width <= kWidestForm ? 3 : 2;
    const Cuts cuts = cuts_at(rows, width);
    if (cuts.different >= least && cuts.sure > 0 && 2 * cuts.cut >= cuts.rows) return {width, cuts.different > 1};
  }
  return {};
}

/// Cells with bars or tabs between them.
bool is_of_columns(std::string_view text) { return std::ranges::count(text, '|') > 1 || text.contains('\t'); }

/// Whether a word-wrapping form broke between two rows: the next word had no room.
bool had_no_room(const Row& row, const Row& next, std::size_t width) {
  if (is_of_columns(row.text) || is_of_columns(next.text)) return false;
  if (!may_go_on(row, next) || row.widest > width || row.text.back() == ' ' || next.text.front() == ' ' ||
      next.text.front() == '\t')
    return false;
  const std::size_t word = columns_of(next.text.substr(0, next.text.find(' ')));
  return row.columns + 1 + word > width;
}

/// Whether a sentence goes on from one row to the next.
bool is_broken(const Row& row, const Row& next) {
  constexpr std::string_view kEnds = ",(;";
  const char last = row.text.back();
  const char first = next.text.front();
  const bool goes_on = is_alnum(last) || kEnds.contains(last);
  return goes_on && (std::islower(static_cast<unsigned char>(first)) != 0 || is_digit_at(next.text, 0) || first == '(');
}

/// The same where quotes and marks stand at the break, as they do in code.
bool may_be_broken(const Row& row, const Row& next) {
  constexpr std::string_view kEnds = ",(;:'\"`)]";
  constexpr std::string_view kBegins = "('\"`[</";
  const char last = row.text.back();
  const char first = next.text.front();
  const bool goes_on = is_alnum(last) || kEnds.contains(last);
  return goes_on && (std::isupper(static_cast<unsigned char>(first)) == 0) &&
         (is_alnum(first) || kBegins.contains(first));
}

/// How sure it is that a form broke rows at blanks before its width.
struct Breaks {
  std::size_t width = 0;
  bool sure = false;
};

Breaks breaks_in(const std::vector<Row>& rows) {
  Breaks result;
  for (const Row& row : rows) result.width = std::max(result.width, row.widest <= kWidestForm ? row.widest : 0);
  if (result.width < kNarrowest) return {};
  std::size_t full = 0;
  std::size_t broken = 0;
  std::size_t perhaps = 0;
  std::set<std::string> different;
  for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
    if (!had_no_room(rows[i], rows[i + 1], result.width) || is_alike(rows[i], rows[i + 1])) continue;
    ++full;
    perhaps += may_be_broken(rows[i], rows[i + 1]) ? 1 : 0;
    if (!is_broken(rows[i], rows[i + 1])) continue;
    ++broken;
    different.insert(beginnings_of(rows[i], rows[i + 1]));
  }
  result.sure = different.size() >= 2 && 5 * broken >= 3 * full;
  return result.sure || 2 * perhaps > full ? result : Breaks{};
}

/// How two rows become one.
enum class Join { none, close, with_blank };

struct Wrapping {
  std::size_t terminal = 0;
  std::size_t form = 0;

  Join between(const Row& row, const Row& next) const {
    if (!may_go_on(row, next)) return Join::none;
    if (terminal != 0 && row.widest == terminal && row.columns == terminal) return Join::close;
    // The blank at which a terminal broke is lost where ends of lines are trimmed.
    if (terminal != 0 && row.widest <= terminal && row.columns + 1 == terminal && is_broken(row, next))
      return Join::with_blank;
    return form != 0 && had_no_room(row, next, form) ? Join::with_blank : Join::none;
  }
};

}  // namespace

std::optional<UnwrappedText> unwrap(std::string_view text) {
  if (text.size() > kLongestText || text.contains('\0')) return std::nullopt;
  const std::vector<Row> rows = rows_of(text);
  const Terminal terminal = terminal_of(rows);
  const Breaks breaks = terminal.width == 0 ? breaks_in(rows) : Breaks{};
  if (terminal.width == 0 && breaks.width == 0) return std::nullopt;
  const Wrapping wrapping{.terminal = terminal.width, .form = breaks.width};
  UnwrappedText result{.text = {}, .sure = terminal.sure || breaks.sure, .numbers = {}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    result.numbers.push_back(static_cast<std::uint32_t>(i + 1));
    result.text += rows[i].text;
    for (; i + 1 < rows.size(); ++i) {
      const Join join = wrapping.between(rows[i], rows[i + 1]);
      if (join == Join::none) break;
      if (join == Join::with_blank) result.text += ' ';
      result.text += rows[i + 1].text;
    }
    if (i + 1 < rows.size()) result.text += '\n';
  }
  return result;
}

}  // namespace gpuwarden
