// SPDX-License-Identifier: Apache-2.0
// The tables of sinfo, squeue and sacct: any columns, set apart by blanks, by a separator, or by a row of dashes.
#include <algorithm>
#include <array>

#include "capture/slurm.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {
namespace {

/// Titles that make a line a header, in the case in which the tools print them.
constexpr auto kKeyTitles = std::to_array<std::string_view>(
    {"JOBID", "JobID", "JobIDRaw", "PARTITION", "NODELIST", "HOSTNAMES", "NODELIST(REASON)"});

/// Titles of other columns, in upper case.
constexpr auto kTitles = std::to_array<std::string_view>({"ACCOUNT",
                                                          "ACTIVE_FEATURES",
                                                          "ALLOC",
                                                          "ALLOCCPUS",
                                                          "ALLOCGRES",
                                                          "ALLOCNODES",
                                                          "ALLOCTRES",
                                                          "AVAIL",
                                                          "AVAIL_FE",
                                                          "AVAIL_FEATURES",
                                                          "CLUSTER",
                                                          "CPUS",
                                                          "CPUS(A/I/O/T)",
                                                          "CPU_LOAD",
                                                          "CPUTIME",
                                                          "CPUTIMERAW",
                                                          "DERIVEDEXITCODE",
                                                          "ELAPSED",
                                                          "END",
                                                          "END_TIME",
                                                          "EXITCODE",
                                                          "FREE_MEM",
                                                          "FEATURES",
                                                          "GRES",
                                                          "GRES_USED",
                                                          "GROUP",
                                                          "JOBNAME",
                                                          "MAXRSS",
                                                          "MEMORY",
                                                          "MIN_CPUS",
                                                          "MIN_MEMORY",
                                                          "MIN_MEM",
                                                          "NAME",
                                                          "NCPUS",
                                                          "NNODES",
                                                          "NODES",
                                                          "NODES(A/I/O/T)",
                                                          "NTASKS",
                                                          "PRIORITY",
                                                          "QOS",
                                                          "REASON",
                                                          "REQMEM",
                                                          "REQTRES",
                                                          "REQGRES",
                                                          "REQCPUS",
                                                          "S:C:T",
                                                          "SOCKETS",
                                                          "ST",
                                                          "START",
                                                          "START_TIME",
                                                          "STATE",
                                                          "SUBMIT",
                                                          "SUBMIT_TIME",
                                                          "TIME",
                                                          "TIMELIMIT",
                                                          "TIME_LEFT",
                                                          "TIME_LIMIT",
                                                          "TIMESTAMP",
                                                          "TMP_DISK",
                                                          "TOTALCPU",
                                                          "TRES_ALLOC",
                                                          "TRES_PER_NODE",
                                                          "TRES_PER_JOB",
                                                          "TRES",
                                                          "USER",
                                                          "VERSION",
                                                          "WEIGHT",
                                                          "GRES_DETAIL",
                                                          "MAX_CPUS_PER_NODE"});

struct Extent {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct Layout {
  std::string_view separator;  ///< empty: blanks
  std::vector<std::string> titles;
  std::vector<Extent> extents;  ///< of the titles, or of the dashes below them
  bool ruled = false;           ///< there are dashes
};

std::vector<Extent> words_at(std::string_view line) {
  std::vector<Extent> words;
  for (std::size_t at = line.find_first_not_of(" \t"); at < line.size(); at = line.find_first_not_of(" \t", at)) {
    const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
    words.push_back({at, end});
    at = end;
  }
  return words;
}

std::string_view part_of(std::string_view line, Extent extent) {
  return line.substr(extent.begin, extent.end - extent.begin);
}

std::vector<std::string_view> cut(std::string_view line, std::string_view separator) {
  std::vector<std::string_view> cells;
  for (;;) {
    const std::size_t at = line.find(separator);
    cells.push_back(trim(line.substr(0, at)));
    if (at == std::string_view::npos) return cells;
    line.remove_prefix(at + separator.size());
  }
}

std::string_view separator_of(std::string_view line) {
  if (line.contains("|#")) return "|#";
  if (line.contains('|')) return "|";
  return line.contains(',') && !line.contains(' ') ? "," : "";
}

std::optional<Layout> header_of(std::string_view line) {
  Layout layout;
  layout.separator = separator_of(line);
  std::vector<std::string_view> titles;
  if (layout.separator.empty()) {
    layout.extents = words_at(line);
    for (const Extent extent : layout.extents) titles.push_back(part_of(line, extent));
  } else {
    titles = cut(line, layout.separator);
  }
  std::size_t keys = 0;
  std::size_t known = 0;
  for (const std::string_view title : titles) {
    layout.titles.push_back(to_upper(title));
    const bool key = std::ranges::find(kKeyTitles, title) != kKeyTitles.end();
    keys += key ? 1 : 0;
    known += key || std::ranges::find(kTitles, layout.titles.back()) != kTitles.end() ? 1 : 0;
  }
  // sacct has very many columns; of the others nearly all are known here.
  const bool enough = known >= 2 && (known * 2 >= titles.size() || (known >= 8 && !layout.separator.empty()));
  return keys > 0 && enough ? std::optional(std::move(layout)) : std::nullopt;
}

bool is_rule(std::string_view line) {
  return line.size() >= 4 && line.contains("--") && line.find_first_not_of("- ") == std::string_view::npos;
}

std::size_t overlap(Extent a, Extent b) {
  const std::size_t begin = std::max(a.begin, b.begin);
  const std::size_t end = std::min(a.end, b.end);
  return end > begin ? end - begin : 0;
}

std::size_t distance(Extent a, Extent b) { return a.end <= b.begin ? b.begin - a.end : a.begin - b.end; }

/// The column of a word that stands between two titles. Where its neighbour fills one title to the edge, that
/// column ends there, and the word is the other's.
std::size_t column_between(std::span<const Extent> words, std::size_t at, const std::vector<Extent>& columns) {
  const Extent word = words[at];
  const auto behind = std::ranges::find_if(columns, [&](Extent column) { return column.begin >= word.end; });
  if (behind == columns.begin()) return 0;
  const auto right = static_cast<std::size_t>(behind - columns.begin());
  if (behind == columns.end() || (at > 0 && words[at - 1].end == columns[right - 1].end))
    return std::min(right, columns.size() - 1);
  if (at + 1 < words.size() && words[at + 1].begin == behind->begin) return right - 1;
  return distance(word, *behind) < distance(word, columns[right - 1]) ? right : right - 1;
}

/// The column under whose title a word stands.
std::size_t column_of(std::span<const Extent> words, std::size_t at, const std::vector<Extent>& columns) {
  const auto shared = [&](Extent column) { return overlap(words[at], column); };
  const auto best = std::ranges::max_element(columns, {}, shared);
  return shared(*best) > 0 ? static_cast<std::size_t>(best - columns.begin()) : column_between(words, at, columns);
}

std::vector<std::string> cells_of_words(std::string_view line, const Layout& layout) {
  const auto words = words_at(line);
  std::vector<std::string> cells(layout.titles.size());
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t column = words.size() == cells.size() ? i : column_of(words, i, layout.extents);
    if (!cells[column].empty()) cells[column] += ' ';
    cells[column] += part_of(line, words[i]);
  }
  return cells;
}

/// Empty where a value runs over its dashes: then nothing tells which column it is of.
std::vector<std::string> cells_of_rule(std::string_view line, const Layout& layout) {
  std::vector<std::string> cells;
  for (const Extent extent : layout.extents) {
    if (extent.begin >= line.size()) {
      cells.emplace_back();
      continue;
    }
    if (extent.begin > 0 && line[extent.begin - 1] != ' ') return {};
    const bool last = &extent == &layout.extents.back();
    cells.emplace_back(trim(line.substr(extent.begin, last ? line.size() : extent.end - extent.begin)));
  }
  return cells;
}

std::vector<std::string> cells_of(std::string_view line, const Layout& layout) {
  if (layout.separator.empty()) return layout.ruled ? cells_of_rule(line, layout) : cells_of_words(line, layout);
  std::vector<std::string> cells;
  for (const std::string_view cell : cut(line, layout.separator)) cells.emplace_back(cell);
  return cells;
}

bool has(const Layout& layout, std::string_view title) {
  return std::ranges::find(layout.titles, title) != layout.titles.end();
}

bool is_job_table(const Layout& layout) { return has(layout, "JOBID") || has(layout, "JOBIDRAW"); }

/// Rows that are none of this table end it: their number or state is no such thing.
bool is_row(const SlurmRecord& record) {
  if (record.thing == SlurmThing::job) return is_job_id(record.first({"JOBID", "JOBIDRAW"}));
  const std::string_view state = record.first({"STATE"});
  if (!state.empty()) return is_node_state(state);
  return !record.first({"PARTITION", "NODELIST", "HOSTNAMES"}).empty();
}

std::optional<SlurmRecord> row_of(const Line& line, const Layout& layout) {
  // What was cut may go on, and its cells may stand under other titles.
  if (trim(line.text).empty() || !line.ended) return std::nullopt;
  SlurmRecord record{is_job_table(layout) ? SlurmThing::job : SlurmThing::node, line.number, {}};
  auto cells = cells_of(line.text, layout);
  // A record that was cut: what is left of its last value may be another one.
  if (!layout.separator.empty() && cells.size() < layout.titles.size() && cells.size() > 1) cells.pop_back();
  for (std::size_t i = 0; i < std::min(cells.size(), layout.titles.size()); ++i)
    record.cells.emplace_back(layout.titles[i], cells[i]);
  return is_row(record) ? std::optional(std::move(record)) : std::nullopt;
}

/// How many lines a record takes: values such as a job's name or comment may have line breaks in them. Only what comes
/// to all columns in the end is joined, and no line that is a record by itself.
std::size_t lines_of_record(std::span<const Line> lines, const Layout& layout) {
  constexpr std::size_t kMost = 16;
  if (layout.separator.empty()) return 1;
  const auto columns = [&](const Line& line) { return cut(line.text, layout.separator).size(); };
  std::size_t cells = columns(lines[0]);
  for (std::size_t length = 1; length < std::min(kMost, lines.size()); ++length) {
    if (cells >= layout.titles.size()) return length;
    const std::size_t more = columns(lines[length]);
    const std::string_view first = cut(lines[length].text, layout.separator)[0];
    if (!lines[length].ended || (more > 1 && is_job_id(first))) return 1;
    cells += more - 1;
    if (cells > layout.titles.size() + 1) return 1;
    if (cells >= layout.titles.size()) return length + 1;
  }
  return 1;
}

Line joined(std::span<const Line> lines) {
  Line whole = lines[0];
  for (const Line& line : lines.subspan(1)) whole.text += " " + std::string(trim(line.text));
  return whole;
}

}  // namespace

std::size_t read_slurm_table(std::span<const Line> lines, std::vector<SlurmRecord>& records) {
  if (!lines[0].ended) return 0;
  auto layout = header_of(lines[0].text);
  if (!layout) return 0;
  std::size_t length = 1;
  if (length < lines.size() && is_rule(lines[length].text) && layout->separator.empty()) {
    const auto dashes = words_at(lines[length].text);
    layout->ruled = dashes.size() == layout->titles.size();
    if (layout->ruled) layout->extents = dashes;
    ++length;
  }
  while (length < lines.size()) {
    const std::size_t taken = lines_of_record(lines.subspan(length), *layout);
    auto row = row_of(joined(lines.subspan(length, taken)), *layout);
    if (!row) break;
    records.push_back(std::move(*row));
    length += taken;
  }
  return length;
}

std::optional<SlurmRecord> headless_job(const Line& line) {
  const std::string_view separator = separator_of(line.text);
  if (separator.empty() || !line.ended) return std::nullopt;
  const auto cells = cut(line.text, separator);
  SlurmRecord record{SlurmThing::job, line.number, {}};
  std::size_t states = 0;
  for (const std::string_view cell : cells) {
    const bool number = is_job_id(cell) && cell.size() >= 3;
    if (number && states == 0 && record.first({"JOBID"}).empty()) record.cells.emplace_back("JOBID", cell);
    if (cell.size() >= 6 && job_state(cell) == split_words(cell)[0] && ++states == 1)
      record.cells.emplace_back("STATE", cell);
    // squeue says so of a job without GRES.
    if (cell == "N/A" && record.cells.empty()) record.cells.emplace_back("TRES_PER_NODE", cell);
    if (cell.starts_with("cpu=")) record.cells.emplace_back("TRES_ALLOC", cell);
    if (cell.starts_with("gres/gpu:") || cell.starts_with("gres:gpu:"))
      record.cells.emplace_back("TRES_PER_NODE", cell);
  }
  const bool plain = cells.size() == 2 && cells[1] == record.first({"STATE"});
  const bool wide = separator != "," && cells.size() >= 8;
  return states == 1 && !record.first({"JOBID"}).empty() && (plain || wide) ? std::optional(std::move(record))
                                                                            : std::nullopt;
}

}  // namespace gpuwarden::capture
