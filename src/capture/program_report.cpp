// SPDX-License-Identifier: Apache-2.0
#include "capture/program_report.hpp"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <utility>

#include "capture/cells.hpp"
#include "capture/identity.hpp"
#include "capture/program_lines.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {
namespace {

/// More GPUs or packages than one machine has are a hostile file's.
constexpr std::size_t kMostGpus = 64;
constexpr std::size_t kMostPackages = 500;
/// Lines of tools are shorter, but for servers' that print all their settings; what is longer holds somebody's data.
constexpr std::size_t kLongestLine = 12000;

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
  static constexpr std::size_t kMostGroups = 8;  // with the whole match; the test asks
  const ProgramLine* line_;
  std::unique_ptr<RE2> pattern_;
};

/// Programs that list GPUs without numbers: equal names are several.
constexpr auto kListing = std::to_array<std::string_view>({"Lightning", "clinfo"});

/// A GPU as one program tells it.
struct ToldGpu {
  std::string key;  ///< what tells it from the program's others
  std::uint32_t index = 0;
  std::string name;
  std::string gfx;
  std::string uuid;
  std::string capability;
  std::optional<Bytes> memory;
};

void fill(ToldGpu& gpu, const ToldGpu& other) {
  if (gpu.gfx.empty()) gpu.gfx = other.gfx;
  if (gpu.uuid.empty()) gpu.uuid = other.uuid;
  if (gpu.capability.empty()) gpu.capability = other.capability;
  if (!gpu.memory) gpu.memory = other.memory;
}

std::string value_of(const Values& values, std::string_view name) {
  const auto found = values.find(name);
  return found == values.end() ? "" : found->second;
}

std::optional<Bytes> memory_in(const Values& values) {
  if (const auto bytes = parse_integer(value_of(values, "memory_bytes")); bytes && *bytes > 0)
    return Bytes(static_cast<std::uint64_t>(*bytes));
  for (const auto& [group, unit] : {std::pair("memory_mib", " MiB"), {"memory_gib", " GiB"}, {"memory", ""}}) {
    if (const std::string value = value_of(values, group); !value.empty()) return memory_of(value + unit);
  }
  return std::nullopt;
}

/// What one line tells of a GPU, besides its name.
ToldGpu attributes_in(const Values& values) {
  const std::string sm = value_of(values, "sm");
  return {.gfx = value_of(values, "gfx"),
          .uuid = value_of(values, "uuid"),
          .capability = sm.size() >= 2 ? sm.substr(0, sm.size() - 1) + "." + sm.back() : value_of(values, "capability"),
          .memory = memory_in(values)};
}

/// What one program tells.
class Teller {
 public:
  explicit Teller(std::string_view program) : program_(program) {}

  std::string_view program() const { return program_; }
  std::vector<ToldGpu>& gpus() { return gpus_; }

  /// Servers tell what each of their processes has, and seldom which GPU that is.
  void name_ranks() {
    if (gpus_.size() > 1) return;
    ToldGpu one = gpus_.empty() ? next_ : gpus_[0];
    if (one.name.empty()) one.name = "unknown GPU";
    if (!ranks_.empty()) gpus_.assign(ranks_.size(), one);
    auto rank = ranks_.begin();
    // A node's share of ranks that are counted over all nodes begins with its first GPU.
    const std::uint32_t first = over_all_nodes_ && rank != ranks_.end() ? *rank : 0;
    for (ToldGpu& gpu : gpus_) {
      if (rank != ranks_.end()) gpu.index = *rank++ - first;
    }
  }

  void take(const Values& values) {
    const std::string name = name_in(values);
    const ToldGpu told = attributes_in(values);
    take_rank(value_of(values, "rank"));
    if (const std::string rank = value_of(values, "tp"); !rank.empty()) {
      over_all_nodes_ = true;
      take_rank(rank);
    }
    other_ = values.contains("other") || (other_ && name.empty());
    if (other_) return;
    if (!name.empty())
      name_gpus(name, values, told);
    else if (!current_.empty() && lacks(gpus_[current_[0]], told))
      for (const std::size_t at : current_) fill(gpus_[at], told);
    else if (gpus_.empty() || !lost_)
      fill(next_, told);
  }

 private:
  /// "NVIDIA H200" of a file's "NVIDIA_H200_down".
  static std::string name_in(const Values& values) {
    std::string name = value_of(values, "device");
    if (name.empty()) return value_of(values, "gpu");
    if (name.ends_with("_down")) name.resize(name.size() - 5);
    std::ranges::replace(name, '_', ' ');
    return name;
  }

  void take_rank(std::string_view rank) {
    const auto number = parse_integer(rank);
    constexpr std::int64_t kMostRanks = 65536;
    if (number && *number >= 0 && *number < kMostRanks && ranks_.size() < kMostGpus)
      ranks_.insert(static_cast<std::uint32_t>(*number));
  }

  static bool lacks(const ToldGpu& gpu, const ToldGpu& told) {
    return (!told.capability.empty() && gpu.capability.empty()) || (told.memory && !gpu.memory) ||
           (!told.gfx.empty() && gpu.gfx.empty());
  }

  std::string key_of(const std::string& name, const Values& values, const std::string& index) const {
    for (const std::string& key : {value_of(values, "uuid"), value_of(values, "number"), index}) {
      if (!key.empty()) return key;
    }
    const bool listing = std::ranges::find(kListing, program_) != kListing.end();
    return listing ? fmt::format("#{}", gpus_.size()) : name;
  }

  void name_gpus(const std::string& name, const Values& values, const ToldGpu& told) {
    current_.clear();
    lost_ = true;
    if (!is_name_of_gpu(name)) return;
    std::vector<std::string> indices;
    for (const auto number : split(value_of(values, "index"), ',')) indices.emplace_back(number);
    const auto count = parse_integer(value_of(values, "count")).value_or(1);
    const bool known = !gpus_.empty() && indices[0].empty();
    for (std::int64_t i = 1; indices.size() == 1 && !known && i < std::min<std::int64_t>(count, kMostGpus); ++i)
      indices.push_back(fmt::to_string(i));
    for (const std::string& index : indices) name_gpu(name, key_of(name, values, index), index, told);
  }

  /// Another name under a number that is known is another library's GPU, or another machine's: it is left out, and what
  /// follows it.
  void name_gpu(const std::string& name, const std::string& key, const std::string& index, const ToldGpu& told) {
    const auto found = std::ranges::find(gpus_, key, &ToldGpu::key);
    if (found != gpus_.end()) {
      if (found->name != name) return;
      fill(*found, told);
      current_.push_back(static_cast<std::size_t>(found - gpus_.begin()));
    } else if (gpus_.size() < kMostGpus) {
      ToldGpu gpu = told;
      gpu.key = key;
      gpu.name = name;
      const auto number = parse_integer(index);
      gpu.index = static_cast<std::uint32_t>(
          number && *number >= 0 && *number < 1024 ? *number : static_cast<std::int64_t>(gpus_.size()));
      fill(gpu, std::exchange(next_, {}));
      gpus_.push_back(std::move(gpu));
      current_.push_back(gpus_.size() - 1);
    }
    lost_ = false;
  }

  std::string_view program_;
  std::vector<ToldGpu> gpus_;
  std::vector<std::size_t> current_;  ///< the GPUs of the line that named some last
  ToldGpu next_;                      ///< what was told before any was named
  std::set<std::uint32_t> ranks_;     ///< local processes, a GPU each
  bool over_all_nodes_ = false;       ///< the ranks are not counted for each node
  bool other_ = false;                ///< the line that named one last, named another one's
  bool lost_ = false;                 ///< the line that named one last was no GPU's that counts
};

constexpr auto kSlots = std::to_array<std::string_view>(
    {"driver", "cuda_driver", "torch", "cuda_build", "cuda_available", "python", "platform", "os", "module"});

void add_package(std::string name, const std::string& version, EnvReport& report) {
  std::ranges::replace(name, '_', '-');
  if (report.packages.size() < kMostPackages) report.packages.push_back({std::move(name), version, ""});
}

/// What is the machine's, not a GPU's.
void take_machine(const Values& values, EnvReport& report) {
  for (const auto& [group, value] : values) {
    if (group.starts_with("p_")) add_package(group.substr(2), value, report);
    if (group.starts_with("u_")) {
      std::string version = value;
      std::ranges::replace(version, '_', '.');
      add_package(group.substr(2), version, report);
    }
    if (std::ranges::find(kSlots, group) != kSlots.end()) report.cells.try_emplace(group, value);
  }
  if (values.contains("name") && values.contains("version"))
    add_package(values.at("name"), values.at("version"), report);
  if (const auto number = parse_integer(value_of(values, "cuda_number")))
    report.cells.try_emplace("cuda_driver", fmt::format("{}.{}", *number / 1000, *number % 1000 / 10));
}

/// The words of programs that have other ones than reports do.
void supply_words(EnvReport& report) {
  const auto replace = [&](std::string_view slot, std::string_view from, const char* to) {
    const auto found = report.cells.find(slot);
    if (found != report.cells.end() && found->second == from) found->second = to;
  };
  replace("os", "nt", "Microsoft Windows");
  replace("os", "win32", "Microsoft Windows");
  replace("os", "windows", "Microsoft Windows");
  replace("os", ".dll", "Microsoft Windows");
  // A driver's number as only Windows has it.
  if (driver_of_windows(report.cell("driver"))) report.cells.try_emplace("os", "Microsoft Windows");
  replace("cuda_available", "Yes", "True");
  replace("cuda_available", "No", "False");
}

/// The GPUs of the program that tells most; others fill its gaps where they tell of the same one.
void take_gpus(std::vector<Teller>& tellers, EnvReport& report) {
  for (Teller& teller : tellers) teller.name_ranks();
  const auto most = std::ranges::max_element(tellers, {}, [](Teller& one) { return one.gpus().size(); });
  if (most == tellers.end()) return;
  for (ToldGpu& gpu : most->gpus()) {
    for (Teller& other : tellers) {
      for (const ToldGpu& same : other.gpus()) {
        if (same.index == gpu.index && same.name == gpu.name) fill(gpu, same);
      }
    }
    report.gpus.push_back(fmt::format("GPU {}: {}{}{}", gpu.index, gpu.name,
                                      gpu.gfx.empty() ? "" : fmt::format(" ({})", gpu.gfx),
                                      gpu.uuid.empty() ? "" : fmt::format(" (UUID: {})", gpu.uuid)));
    if (!gpu.capability.empty()) report.capabilities.emplace_back(fmt::to_string(gpu.index), gpu.capability);
    if (gpu.memory) report.memories.try_emplace(gpu.index, *gpu.memory);
  }
}

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
  EnvReport report{.tool = EnvTool::program};
  std::vector<Teller> tellers(programs.begin(), programs.end());
  for (const Line& line : lines) {
    if (!is_candidate(line)) continue;
    for (Row& row : rows) {
      const auto values = row.read(line.text);
      if (!values) continue;
      if (report.line == 0) report.line = line.number;
      take_machine(*values, report);
      std::ranges::find(tellers, row.line().program, &Teller::program)->take(*values);
    }
  }
  take_gpus(tellers, report);
  supply_words(report);
  return report;
}

}  // namespace gpuwarden::capture
