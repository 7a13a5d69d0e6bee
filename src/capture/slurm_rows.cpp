// SPDX-License-Identifier: Apache-2.0
// Rows of sinfo without their header (sinfo -h), known by what stands in them.
#include <algorithm>
#include <array>

#include "capture/slurm.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {
namespace {

bool is_count(std::string_view text) {
  const auto number = parse_integer(text);
  return number && *number >= 0 && *number <= 1'000'000;
}

/// States that are no words of other programs, too ("error", "unknown").
bool is_plain_state(std::string_view text) {
  constexpr auto kPlain = std::to_array<std::string_view>(
      {"idle", "mix", "alloc", "drain", "drng", "down", "comp", "maint", "resv", "reserved", "planned"});
  const std::string lower = to_lower(text);
  return is_node_state(text) && std::ranges::any_of(kPlain, [&](auto word) { return lower.starts_with(word); });
}

/// "16/0/0/16": allocated, idle, other and their sum.
bool is_cpu_use(std::string_view text) {
  const auto parts = split(text, '/');
  if (parts.size() != 4 || !std::ranges::all_of(parts, is_count)) return false;
  return *parse_integer(parts[0]) + *parse_integer(parts[1]) + *parse_integer(parts[2]) == *parse_integer(parts[3]);
}

bool is_gres(std::string_view text) {
  return text == "(null)" || (text.contains(':') && gpus_of_gres(text).has_value());
}

/// "28,idle": how many nodes are in a state.
bool read_states(const std::vector<std::string_view>& cells, SlurmRecord& record) {
  if (cells.size() != 2 || !is_count(cells[0]) || !is_plain_state(cells[1])) return false;
  record.cells = {{"NODES", std::string(cells[0])}, {"STATE", std::string(cells[1])}};
  return true;
}

/// "4 gpu:a100:8(S:0-1) gpu:a100:0(IDX:N/A)": how many nodes have these GPUs, and use these.
bool read_gpus(const std::vector<std::string_view>& words, SlurmRecord& record) {
  if (words.size() < 2 || words.size() > 3 || !is_count(words[0])) return false;
  const bool gres = std::all_of(words.begin() + 1, words.end(), is_gres);
  if (!gres || (words[1] == "(null)" && words.back() == "(null)")) return false;
  record.cells = {{"NODES", std::string(words[0])}, {"GRES", std::string(words[1])}};
  if (words.size() == 3) record.cells.emplace_back("GRES_USED", words[2]);
  return true;
}

/// "gpu01 163840 193000 16/0/0/16 mixed": a node's name first, and somewhere its processors and its state.
bool read_node(const std::vector<std::string_view>& words, SlurmRecord& record) {
  if (words.size() < 3 || words.size() > 12 || is_count(words[0])) return false;
  const auto use = std::ranges::find_if(words, is_cpu_use);
  const auto state = std::find_if(words.begin() + 1, words.end(), is_plain_state);
  if (use == words.end() || state == words.end()) return false;
  record.cells = {
      {"NODELIST", std::string(words[0])}, {"CPUS(A/I/O/T)", std::string(*use)}, {"STATE", std::string(*state)}};
  return true;
}

}  // namespace

std::optional<SlurmRecord> headless_node(const Line& line) {
  // What was cut may go on.
  if (!line.ended || line.text.size() > 400) return std::nullopt;
  SlurmRecord record{SlurmThing::node, line.number, {}};
  const std::string_view text = trim(line.text);
  const auto words = split_words(text);
  const bool read = read_states(split(text, ','), record) || read_gpus(words, record) || read_node(words, record);
  return read ? std::optional(std::move(record)) : std::nullopt;
}

}  // namespace gpuwarden::capture
