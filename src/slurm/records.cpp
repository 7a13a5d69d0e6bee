// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/slurm/records.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::slurm {
namespace {

/// "Key=Value Key=Value ...": a value goes on, with its blanks, until the next word that is a pair.
class Fields {
 public:
  explicit Fields(std::string_view line) {
    std::size_t at = 0;
    std::size_t value = 0;  // where the last field's begins
    while (at < line.size()) {
      const std::size_t begin = line.find_first_not_of(' ', at);
      if (begin == std::string_view::npos) break;
      const std::size_t end = std::min(line.find(' ', begin), line.size());
      const std::string_view word = line.substr(begin, end - begin);
      const std::size_t equals = word.find('=');
      if (is_key(word.substr(0, equals)) && equals != std::string_view::npos) {
        value = begin + equals + 1;
        fields_.emplace_back(word.substr(0, equals), line.substr(value, end - value));
      } else if (!fields_.empty()) {
        fields_.back().second = line.substr(value, end - value);
      }
      at = end;
    }
  }

  /// Empty where there is none, or where it says that.
  std::string text(std::string_view key) const {
    const auto found = std::ranges::find(fields_, key, &Field::first);
    if (found == fields_.end()) return "";
    constexpr auto kNothing =
        std::to_array<std::string_view>({"(null)", "N/A", "n/a", "None", "none", "Unknown", "NONE"});
    const std::string_view value = trim(found->second);
    return std::ranges::find(kNothing, value) != kNothing.end() ? "" : printable(value);
  }
  std::optional<int> number(std::string_view key) const { return number_in(text(key)); }
  static std::optional<int> number_in(std::string_view text) {
    const auto number = parse_integer(text.substr(0, text.find('-')));
    return number && *number >= 0 && *number < 1'000'000'000 ? std::optional(static_cast<int>(*number)) : std::nullopt;
  }

 private:
  using Field = std::pair<std::string_view, std::string_view>;
  static bool is_key(std::string_view text) {
    return !text.empty() && std::isupper(static_cast<unsigned char>(text[0])) != 0 &&
           std::ranges::all_of(text, [](unsigned char c) {
             return std::isalnum(c) != 0 || c == '_' || c == '/' || c == ':' || c == '&';
           });
  }
  std::vector<Field> fields_;
};

/// "7:0", "0:9".
void read_exit_code(std::string_view text, Job& job) {
  const auto parts = split(text, ':');
  if (parts.size() != 2) return;
  job.exit_code = Fields::number_in(parts[0]);
  job.signal = Fields::number_in(parts[1]);
  if (job.signal == 0) job.signal.reset();
}

std::string state_name(std::string_view text) {
  const JobStateRow* const row = find_job_state(text);
  return row != nullptr ? std::string(row->name) : printable(trim(text));
}

/// Cells between bars; the last one has the rest of the line.
std::vector<std::string> cells_of(std::string_view line, std::size_t count) {
  std::vector<std::string> cells;
  while (cells.size() + 1 < count && line.contains('|')) {
    cells.push_back(printable(trim(line.substr(0, line.find('|')))));
    line.remove_prefix(line.find('|') + 1);
  }
  cells.push_back(printable(trim(line)));
  for (std::string& cell : cells) {
    if (cell == "N/A" || cell == "(null)" || cell == "n/a") cell.clear();
  }
  return cells;
}

/// A node's reason may hold pairs of its own; who set it and when ends it: "[root@2026-11-27T18:17:25]".
std::string reason_in(std::string_view line) {
  constexpr std::string_view kKey = " Reason=";
  const std::size_t at = line.find(kKey);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = line.substr(at + kKey.size());
  const std::size_t end = rest.rfind(']');
  return printable(trim(rest.substr(0, end == std::string_view::npos ? end : end + 1)));
}

template <class Row>
void for_each_row(std::string_view text, std::size_t count, Row row) {
  for (const std::string_view line : split(text, '\n')) {
    const auto cells = cells_of(line, count);
    if (cells.size() == count && !cells[0].empty()) row(cells);
  }
}

bool matches_pattern(std::string_view pattern, std::string_view text);

/// "1-3" or "07", at the beginning of the text, with `rest` of the pattern behind it. Numbers have the width of the
/// first one, or are greater.
bool matches_range(std::string_view range, std::string_view rest, std::string_view text) {
  constexpr std::size_t kMostDigits = 18;
  const std::size_t dash = range.find('-');
  const std::string_view first = range.substr(0, dash);
  const auto least = parse_integer(first);
  const auto most = dash == std::string_view::npos ? least : parse_integer(range.substr(dash + 1));
  if (!least || !most) return false;
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  for (std::size_t width = first.size(); width <= std::min(digits, kMostDigits); ++width) {
    if (width > first.size() && text[0] == '0') return false;
    const auto number = parse_integer(text.substr(0, width));
    if (number && *number >= *least && *number <= *most && matches_pattern(rest, text.substr(width))) return true;
  }
  return false;
}

bool matches_pattern(std::string_view pattern, std::string_view text) {
  const std::size_t open = pattern.find('[');
  if (open == std::string_view::npos) return pattern == text;
  const std::size_t close = pattern.find(']', open);
  if (close == std::string_view::npos || !text.starts_with(pattern.substr(0, open))) return false;
  const auto ranges = split(pattern.substr(open + 1, close - open - 1), ',');
  return std::ranges::any_of(ranges, [&](std::string_view range) {
    return matches_range(range, pattern.substr(close + 1), text.substr(open));
  });
}

}  // namespace

bool takes_jobs(const Node& node) {
  const std::string state = to_lower(node.state);
  const auto words = split(state, '+');
  // "*": it does not answer; "~", "#", "%", "$", "@", "^": it is off, or is about to be.
  if (words.empty() || state.find_first_of("*~#!%$@^") != std::string::npos) return false;
  if (words[0] != "idle" && words[0] != "mixed" && words[0] != "allocated" && words[0] != "completing") return false;
  return std::all_of(words.begin() + 1, words.end(), [](std::string_view flag) {
    return flag == "completing" || flag == "planned" || flag == "cloud" || flag == "dynamic_norm";
  });
}

std::vector<GpuCount> free_gpus(const Node& node) {
  std::vector<GpuCount> free;
  if (!takes_jobs(node)) return free;
  for (const GpuCount& one : node.gpus) {
    const auto used = std::ranges::find(node.used, one.type, &GpuCount::type);
    free.push_back({one.type, std::max(0, one.count - (used == node.used.end() ? 0 : used->count))});
  }
  return free;
}

int count_of(const std::vector<GpuCount>& gpus, std::string_view type) {
  int count = 0;
  for (const GpuCount& one : gpus) count += type.empty() || one.type == type ? one.count : 0;
  return count;
}

bool names_node(std::string_view nodes, std::string_view node) {
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= nodes.size(); ++i) {
    const char c = i < nodes.size() ? nodes[i] : ',';
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c != ',' || (depth > 0 && i < nodes.size())) continue;
    if (!node.empty() && matches_pattern(nodes.substr(begin, i - begin), node)) return true;
    begin = i + 1;
  }
  return false;
}

bool is_over(const Job& job) {
  const JobStateRow* const row = find_job_state(job.state);
  return row != nullptr && row->over;
}

int exit_code_of(const Job& job) {
  if (job.state == "COMPLETED") return 0;
  if (job.state == "TIMEOUT" || job.state == "DEADLINE") return 124;
  if (job.state == "CANCELLED") return 143;
  if (job.state == "OUT_OF_MEMORY") return 137;
  if (job.exit_code.value_or(0) != 0) return *job.exit_code;
  // 53 is none of Linux's: Slurm says so of a log that it could not open.
  if (job.signal && *job.signal < 32) return 128 + *job.signal;
  return 1;
}

Result<std::vector<Node>> parse_nodes(std::string_view text) {
  std::vector<Node> nodes;
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with("NodeName=")) continue;
    const Fields fields(line);
    Node node{.name = fields.text("NodeName"), .state = fields.text("State"), .reason = reason_in(line)};
    node.gpus = gpus_in_gres(fields.text("Gres"));
    node.used = gpus_in_gres(fields.text("GresUsed"));
    node.cpus = fields.number("CPUTot");
    node.cpus_used = fields.number("CPUAlloc");
    const std::string partitions = fields.text("Partitions");
    for (const std::string_view one : split(partitions, ',')) {
      if (!trim(one).empty()) node.partitions.emplace_back(trim(one));
    }
    nodes.push_back(std::move(node));
  }
  if (nodes.empty()) return fail(ErrorCode::corrupt, "scontrol tells of no nodes", "see scontrol show node");
  return nodes;
}

Result<std::vector<Job>> parse_jobs(std::string_view text) {
  std::vector<Job> jobs;
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with("JobId=")) continue;
    const Fields fields(line);
    Job job{.id = fields.text("JobId"), .name = fields.text("JobName"), .user = fields.text("UserId")};
    job.user = job.user.substr(0, job.user.find('('));
    job.partition = fields.text("Partition");
    job.state = state_name(fields.text("JobState"));
    job.reason = fields.text("Reason");
    job.nodes = fields.text("NodeList");
    job.node_count = fields.number("NumNodes");
    job.gpus = fields.text("TresPerNode");
    job.submitted = fields.text("SubmitTime");
    job.started = fields.text("StartTime");
    job.time_limit = fields.text("TimeLimit");
    job.run_time = fields.text("RunTime");
    job.log = fields.text("StdOut");
    read_exit_code(fields.text("ExitCode"), job);
    jobs.push_back(std::move(job));
  }
  if (jobs.empty()) return fail(ErrorCode::corrupt, "scontrol tells of no job", "see scontrol show job");
  return jobs;
}

std::vector<Job> parse_queue(std::string_view text) {
  std::vector<Job> jobs;
  for_each_row(text, 13, [&](const std::vector<std::string>& cells) {
    Job job{.id = cells[0], .name = cells[12], .user = cells[1], .partition = cells[2]};
    job.state = state_name(cells[3]);
    job.reason = cells[4] == "None" ? "" : cells[4];
    job.node_count = Fields::number_in(cells[5]);
    job.gpus = cells[6];
    job.submitted = cells[7];
    job.started = cells[8];
    job.time_limit = cells[9];
    job.run_time = cells[10];
    job.nodes = cells[11];
    jobs.push_back(std::move(job));
  });
  return jobs;
}

std::vector<Partition> parse_partitions(std::string_view text) {
  std::vector<Partition> partitions;
  for_each_row(text, 4, [&](const std::vector<std::string>& cells) {
    Partition one{.name = cells[0], .up = cells[1] == "up"};
    one.is_default = one.name.ends_with('*');
    if (one.is_default) one.name.pop_back();
    one.max_time = parse_time(cells[2]);
    one.default_time = parse_time(cells[3]);
    // sinfo has a row for each group of nodes that are alike.
    if (std::ranges::find(partitions, one.name, &Partition::name) == partitions.end())
      partitions.push_back(std::move(one));
  });
  return partitions;
}

std::vector<Job> parse_history(std::string_view text) {
  std::vector<Job> jobs;
  for_each_row(text, 5, [&](const std::vector<std::string>& cells) {
    Job job{.id = cells[0], .name = cells[4], .state = state_name(cells[1]), .nodes = cells[3]};
    read_exit_code(cells[2], job);
    jobs.push_back(std::move(job));
  });
  return jobs;
}

std::string configured(std::string_view text, std::string_view key) {
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || trim(line.substr(0, equals)) != key) continue;
    const std::string_view value = trim(line.substr(equals + 1));
    return value == "(null)" ? "" : printable(value);
  }
  return "";
}

}  // namespace gpuwarden::slurm
