// SPDX-License-Identifier: Apache-2.0
#include "capture/program_report.hpp"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include "capture/cells.hpp"
#include "capture/program_lines.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {
namespace {

/// More GPUs or packages than one machine has are a hostile file's.
constexpr std::size_t kMostGpus = 64;
constexpr std::size_t kMostPackages = 500;
/// Lines of tools are shorter; what is longer holds somebody's data.
constexpr std::size_t kLongestLine = 2000;

using Values = std::map<std::string, std::string, std::less<>>;

/// A row of the table with its pattern, compiled when its literal is first met.
class Row {
 public:
  explicit Row(const ProgramLine& line) : line_(&line) {}

  const ProgramLine& line() const { return *line_; }

  /// What its named groups stand for in this text; nothing where it does not match.
  std::optional<Values> read(std::string_view text) {
    if (!text.contains(line_->literal)) return std::nullopt;
    if (!pattern_) pattern_ = std::make_unique<RE2>(line_->pattern);
    const int groups = pattern_->NumberOfCapturingGroups();
    std::array<re2::StringPiece, kMostGroups> found;
    const re2::StringPiece piece(text.data(), text.size());
    if (!pattern_->Match(piece, 0, text.size(), RE2::UNANCHORED, found.data(), groups + 1)) return std::nullopt;
    Values cells;
    for (const auto& [number, name] : pattern_->CapturingGroupNames()) {
      const re2::StringPiece value = found.at(static_cast<std::size_t>(number));
      if (!value.empty()) cells[name] = printable(trim(std::string_view(value.data(), value.size())));
    }
    return cells;
  }

 private:
  static constexpr std::size_t kMostGroups = 8;
  const ProgramLine* line_;
  std::unique_ptr<RE2> pattern_;
};

/// Takes what the lines tell into a report.
class ProgramTaker {
 public:
  EnvReport& report() { return report_; }

  void take(const Values& cells) {
    add_gpus(cells);
    add_to_gpu(cells);
    for (const auto& [group, value] : cells) {
      if (group.starts_with("p_")) add_package(group.substr(2), value);
      if (std::ranges::find(kSlots, group) != kSlots.end()) report_.cells.try_emplace(group, value);
    }
    if (const auto name = cells.find("name"); name != cells.end() && cells.contains("version"))
      add_package(name->second, cells.at("version"));
    if (const auto number = cells.find("cuda_number"); number != cells.end()) {
      const auto value = parse_integer(number->second).value_or(0);
      report_.cells.try_emplace("cuda_driver", fmt::format("{}.{}", value / 1000, value % 1000 / 10));
    }
    supply_words();
  }

 private:
  static constexpr auto kSlots = std::to_array<std::string_view>(
      {"driver", "cuda_driver", "torch", "cuda_build", "cuda_available", "python", "platform", "os"});

  static std::string cell(const Values& cells, std::string_view name) {
    const auto found = cells.find(name);
    return found == cells.end() ? "" : found->second;
  }

  void add_package(std::string name, const std::string& version) {
    std::ranges::replace(name, '_', '-');
    if (report_.packages.size() < kMostPackages) report_.packages.push_back({std::move(name), version, ""});
  }

  /// One without a number is the next one, unless one of that name is known.
  void add_gpus(const Values& cells) {
    const std::string gpu = cell(cells, "gpu");
    if (gpu.empty()) return;
    std::vector<std::uint32_t> indices;
    for (const auto number : split(cell(cells, "index"), ',')) {
      const auto index = parse_integer(number);
      if (index && *index >= 0 && *index < 1024) indices.push_back(static_cast<std::uint32_t>(*index));
    }
    if (indices.empty() && !names_.contains(gpu)) {
      const auto count = std::clamp<std::int64_t>(parse_integer(cell(cells, "count")).value_or(1), 1, kMostGpus);
      for (std::int64_t i = 0; i < count; ++i) indices.push_back(next_++);
    }
    names_.insert(gpu);
    if (!indices.empty()) current_.clear();
    for (const std::uint32_t index : indices) {
      current_.push_back(index);
      next_ = std::max(next_, index + 1);
      if (report_.gpus.size() >= kMostGpus || !known_.insert(index).second) continue;
      const std::string gfx = cell(cells, "gfx");
      const std::string uuid = cell(cells, "uuid");
      report_.gpus.push_back(fmt::format("GPU {}: {}{}{}", index, gpu, gfx.empty() ? "" : fmt::format(" ({})", gfx),
                                         uuid.empty() ? "" : fmt::format(" (UUID: {})", uuid)));
    }
  }

  /// What a line tells of the GPU that it names, or of the one named last.
  void add_to_gpu(const Values& cells) {
    std::string capability = cell(cells, "capability");
    const std::string sm = cell(cells, "sm");
    if (sm.size() >= 2) capability = sm.substr(0, sm.size() - 1) + "." + sm.back();
    auto memory =
        memory_of(cell(cells, "memory_mib").empty() ? cell(cells, "memory") : cell(cells, "memory_mib") + " MiB");
    if (const auto bytes = parse_integer(cell(cells, "memory_bytes")); bytes && *bytes > 0)
      memory = Bytes(static_cast<std::uint64_t>(*bytes));
    const std::vector<std::uint32_t> gpus = current_.empty() ? std::vector<std::uint32_t>{0} : current_;
    for (const std::uint32_t index : gpus) {
      if (!capability.empty() && told_.insert(index).second)
        report_.capabilities.emplace_back(fmt::to_string(index), capability);
      if (memory) report_.memories.try_emplace(index, *memory);
    }
  }

  /// The words of programs that have other ones than reports do.
  void supply_words() {
    const auto replace = [&](std::string_view slot, std::string_view from, const char* to) {
      const auto found = report_.cells.find(slot);
      if (found != report_.cells.end() && found->second == from) found->second = to;
    };
    replace("os", "nt", "Microsoft Windows");
    replace("os", "win32", "Microsoft Windows");
    replace("cuda_available", "Yes", "True");
    replace("cuda_available", "No", "False");
  }

  EnvReport report_{.tool = EnvTool::program};
  std::set<std::string> names_;
  std::set<std::uint32_t> known_;
  std::set<std::uint32_t> told_;        ///< of which the compute capability is known
  std::vector<std::uint32_t> current_;  ///< the GPUs of the line that named some last
  std::uint32_t next_ = 0;
};

bool is_candidate(const Line& line) { return line.ended && !line.text.empty() && line.text.size() <= kLongestLine; }

std::set<std::string_view> programs_in(std::span<const Line> lines, std::vector<Row>& rows) {
  std::set<std::string_view> programs;
  for (Row& row : rows) {
    if (!row.line().sure || programs.contains(row.line().program)) continue;
    const auto fits = [&](const Line& line) { return is_candidate(line) && row.read(line.text).has_value(); };
    if (std::ranges::any_of(lines, fits)) programs.insert(row.line().program);
  }
  return programs;
}

}  // namespace

std::optional<EnvReport> read_program_report(std::span<const Line> lines) {
  std::vector<Row> rows(program_lines().begin(), program_lines().end());
  const std::set<std::string_view> programs = programs_in(lines, rows);
  if (programs.empty()) return std::nullopt;
  std::erase_if(rows, [&](const Row& row) { return !programs.contains(row.line().program); });
  ProgramTaker taker;
  for (const Line& line : lines) {
    if (!is_candidate(line)) continue;
    for (Row& row : rows) {
      const auto cells = row.read(line.text);
      if (!cells) continue;
      if (taker.report().line == 0) taker.report().line = line.number;
      taker.take(*cells);
    }
  }
  return std::move(taker.report());
}

}  // namespace gpuwarden::capture
