// SPDX-License-Identifier: Apache-2.0
// Slurm's words: scontrol's "Key=Value" records, states, counts of GPUs.
#include <algorithm>
#include <array>
#include <cctype>

#include "capture/lines.hpp"
#include "capture/slurm.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/slurm/words.hpp"

namespace gpuwarden::capture {
namespace {

/// More GPUs than a cluster has are damage.
constexpr std::int64_t kMostCounted = 10'000'000;

/// source: sinfo(1), "NODE STATE CODES", short and long, and the flags that scontrol joins with '+'
constexpr auto kNodeStates = std::to_array<std::string_view>({"alloc",
                                                              "allocated",
                                                              "allocating",
                                                              "block",
                                                              "blocked",
                                                              "cloud",
                                                              "comp",
                                                              "completing",
                                                              "down",
                                                              "drain",
                                                              "drained",
                                                              "draining",
                                                              "drng",
                                                              "dynamic_norm",
                                                              "dynamic_future",
                                                              "external",
                                                              "fail",
                                                              "failg",
                                                              "failing",
                                                              "future",
                                                              "futr",
                                                              "idle",
                                                              "inval",
                                                              "invalid_reg",
                                                              "maint",
                                                              "maintenance",
                                                              "mix",
                                                              "mixed",
                                                              "n/a",
                                                              "no_respond",
                                                              "not_responding",
                                                              "npc",
                                                              "perfctrs",
                                                              "planned",
                                                              "plnd",
                                                              "pow_dn",
                                                              "pow_up",
                                                              "powered_down",
                                                              "powering_down",
                                                              "powering_up",
                                                              "power_down",
                                                              "power_up",
                                                              "power_drain",
                                                              "power_drained",
                                                              "reboot",
                                                              "reboot_issued",
                                                              "reboot_requested",
                                                              "reserved",
                                                              "resv",
                                                              "resuming",
                                                              "undrain",
                                                              "unk",
                                                              "unknown",
                                                              "error"});

constexpr auto kRecordBegins = std::to_array<std::pair<std::string_view, SlurmThing>>(
    {{"NodeName=", SlurmThing::node}, {"JobId=", SlurmThing::job}, {"PartitionName=", SlurmThing::partition}});

bool is_key(std::string_view text) {
  return !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) != 0 &&
         std::ranges::all_of(text, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '/' || c == ':' || c == '&' || c == '-';
         });
}

/// "Key=Value Key=Value ...": a word that is no pair belongs to the value before it.
void read_pairs(std::string_view line, std::vector<std::pair<std::string, std::string>>& cells) {
  const std::size_t before = cells.size();
  for (const std::string_view word : split_words(line)) {
    const std::size_t equals = word.find('=');
    if (equals != std::string_view::npos && is_key(word.substr(0, equals)))
      cells.emplace_back(word.substr(0, equals), word.substr(equals + 1));
    else if (cells.size() > before)
      cells.back().second.append(" ").append(word);
  }
}

std::optional<SlurmThing> begins_record(std::string_view line) {
  for (const auto& [text, thing] : kRecordBegins) {
    if (line.starts_with(text)) return thing;
  }
  return std::nullopt;
}

bool goes_on(std::string_view line) {
  if (line.empty() || begins_record(line)) return false;
  if (line.find_first_not_of(". ") == std::string_view::npos) return true;  // somebody left lines out
  const std::string_view word = split_words(line)[0];
  return is_key(word.substr(0, word.find('='))) && word.contains('=');
}

std::optional<std::int64_t> count_of(std::string_view text) {
  const auto number = parse_integer(text);
  return number && *number >= 0 && *number <= kMostCounted ? number : std::nullopt;
}

std::optional<int> sum_of(std::span<const std::int64_t> counts) {
  if (counts.empty()) return std::nullopt;
  std::int64_t sum = 0;
  for (const std::int64_t count : counts) sum += count;
  return sum <= kMostCounted ? std::optional(static_cast<int>(sum)) : std::nullopt;
}

}  // namespace

std::string_view SlurmRecord::first(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) {
    for (const auto& [key, value] : cells) {
      const bool nothing = value.empty() || value == "N/A" || value == "n/a" || value == "(null)" || value == "None";
      if (key == name && !nothing) return value;
    }
  }
  return {};
}

std::string_view job_state(std::string_view text) {
  const auto words = split_words(text);
  if (words.empty()) return {};
  std::string_view word = words[0];
  const bool cut = word.ends_with('+');
  if (cut) word.remove_suffix(1);
  if (const auto* const row = slurm::find_job_state(word)) return row->name;
  // Narrow columns cut the long forms; five letters tell them apart but for COMPLETED and COMPLETING.
  const auto states = slurm::job_states();
  const auto fits = [&](const auto& state) { return word.size() >= 5 && state.name.starts_with(word); };
  if (std::ranges::count_if(states, fits) != 1) return {};
  return std::ranges::find_if(states, fits)->name;
}

bool is_node_state(std::string_view text) {
  if (text.empty()) return false;
  const std::string lower = to_lower(text);
  return std::ranges::all_of(split(lower, '+'), [](std::string_view word) {
    while (!word.empty() && std::string_view("*~#!%$@^-").contains(word.back())) word.remove_suffix(1);
    return std::ranges::find(kNodeStates, word) != kNodeStates.end();
  });
}

bool is_job_id(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && is_digit(text[end])) ++end;
  if (end == 0 || end > 12) return false;
  return end == text.size() || text[end] == '_' || text[end] == '.' || text[end] == '+';
}

std::optional<int> gpus_of_gres(std::string_view text) {
  const auto gpus = slurm::gpus_in_gres(text);
  const int sum = slurm::sum_of(gpus);
  return gpus.empty() || sum >= kMostCounted ? std::nullopt : std::optional(sum);
}

std::optional<int> gpus_of_tres(std::string_view text) {
  std::vector<std::int64_t> typed;
  auto entries = slurm::entries_in(text);
  // sacct ends a cell that did not fit with a plus.
  if (text.ends_with('+')) entries.pop_back();
  for (const std::string_view entry : entries) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos || !entry.starts_with("gres/gpu")) continue;
    const auto count = count_of(entry.substr(equals + 1));
    // The sum stands beside the counts of each type.
    if (count && entry.substr(0, equals) == "gres/gpu") return static_cast<int>(*count);
    if (count && entry[8] == ':') typed.push_back(*count);
  }
  return sum_of(typed);
}

std::size_t read_slurm_record(std::span<const Line> lines, SlurmRecord& record) {
  const auto thing = begins_record(trim(lines[0].text));
  if (!thing) return 0;
  record.thing = *thing;
  record.line = lines[0].number;
  std::size_t length = 0;
  for (; length < lines.size(); ++length) {
    const std::string_view text = trim(lines[length].text);
    if (length > 0 && !goes_on(text)) break;
    read_pairs(text, record.cells);
    // What was cut may go on.
    if (!lines[length].ended && !record.cells.empty()) record.cells.pop_back();
  }
  return length;
}

}  // namespace gpuwarden::capture
