// SPDX-License-Identifier: Apache-2.0
#include "capture/gres_conf.hpp"

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/slurm/words.hpp"

namespace gpuwarden::capture {
namespace {

/// More devices than a node has are damage.
constexpr int kMostDevices = 4096;

/// source: gres.conf(5), parameters
constexpr auto kKeys = std::to_array<std::string_view>(
    {"NodeName", "Name", "Type", "File", "MultipleFiles", "Count", "AutoDetect", "Cores", "CPUs", "Links", "Flags"});
/// source: gres.conf(5), AutoDetect
constexpr auto kWaysToFind =
    std::to_array<std::string_view>({"nvml", "nvidia", "rsmi", "oneapi", "nrt", "full", "off"});

std::string_view known_key(std::string_view word) {
  const std::string lower = to_lower(word);
  const auto* const key = std::ranges::find_if(kKeys, [&](std::string_view one) { return to_lower(one) == lower; });
  return key == kKeys.end() ? std::string_view() : *key;
}

/// 4 of "0-3", 1 of "6", 2 of "3-2": an order may be the other way round.
int count_of_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = parse_integer(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_integer(text.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < 0 || *first > kMostDevices || *last > kMostDevices) return 0;
  return static_cast<int>(std::max(*first, *last) - std::min(*first, *last)) + 1;
}

}  // namespace

std::optional<SlurmRecord> read_gres_line(const Line& line) {
  if (!line.ended) return std::nullopt;
  std::string_view text = line.text;
  text = trim(text.substr(0, text.find('#')));
  SlurmRecord record{SlurmThing::gres, line.number, {}};
  for (const std::string_view word : split_words(text)) {
    const std::size_t equals = word.find('=');
    const std::string_view key = equals == std::string_view::npos ? "" : known_key(word.substr(0, equals));
    if (key.empty()) return std::nullopt;
    record.cells.emplace_back(key, word.substr(equals + 1));
  }
  const std::string_view found = record.first({"AutoDetect"});
  const bool finds = std::ranges::find(kWaysToFind, to_lower(found)) != kWaysToFind.end();
  const bool names = !record.first({"Name"}).empty() && record.cells.size() >= 2;
  return finds || names ? std::optional(std::move(record)) : std::nullopt;
}

std::optional<int> count_of_files(std::string_view text) {
  int count = 0;
  for (const std::string_view file : slurm::entries_in(text)) {
    if (!file.starts_with('/')) return std::nullopt;
    const std::size_t open = file.find('[');
    if (open == std::string_view::npos) {
      ++count;
      continue;
    }
    const std::size_t close = file.find(']', open);
    if (close == std::string_view::npos) return std::nullopt;
    for (const std::string_view range : split(file.substr(open + 1, close - open - 1), ',')) {
      const int devices = count_of_range(trim(range));
      if (devices == 0) return std::nullopt;
      count += devices;
    }
  }
  return count > 0 && count <= kMostDevices ? std::optional(count) : std::nullopt;
}

std::optional<int> gpus_of_gres_line(const SlurmRecord& record) {
  if (to_lower(record.first({"Name"})) != "gpu") return std::nullopt;
  const auto count = parse_integer(record.first({"Count"}));
  if (count && *count >= 0 && *count <= kMostDevices) return static_cast<int>(*count);
  if (const std::string_view files = record.first({"File"}); !files.empty()) return count_of_files(files);
  // A MIG instance has several device files and is one GPU to Slurm.
  if (!record.first({"MultipleFiles"}).empty()) return 1;
  return std::nullopt;
}

}  // namespace gpuwarden::capture
