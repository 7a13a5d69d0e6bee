// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "gpuwarden/base/text.hpp"
#include "memtrace/builder.hpp"
#include "memtrace/csv.hpp"
#include "memtrace/lines.hpp"
#include "memtrace/quote.hpp"

namespace gpuwarden::memtrace {
namespace {

enum Column : std::size_t { op, id, size, stream, time_us, phase, c0, c1, c2, device };
constexpr auto kNames =
    std::to_array<std::string_view>({"op", "id", "size", "stream", "time_us", "phase", "c0", "c1", "c2", "device"});

std::string heading_of(std::string_view data) {
  Lines lines(data.substr(0, 4096));
  return std::string(lines.next().value_or(""));
}

class CsvReader {
 public:
  CsvReader(std::string_view data, const std::string& name)
      : data_(data), lines_(data), name_(name), builder_("CSV of allocations", Unknown::is_wrong) {
    positions_.fill(kNone);
  }

  Result<Trace> read(const ReadOptions& options) {
    GPUWARDEN_CHECK(read_heading());
    if (has(device)) GPUWARDEN_CHECK(choose(options));
    if (!has(device) && options.device)
      return fail(ErrorCode::invalid_argument, fmt::format("{}: there is no column 'device'", name_),
                  "read it without naming a device");
    while (const auto line = lines_.next()) GPUWARDEN_CHECK(take(Cells(*line)));
    if (builder_.trace().events.empty())
      return fail(ErrorCode::invalid_argument, fmt::format("{}: holds no allocation", name_));
    return builder_.finish(false);
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  static constexpr std::uint64_t kMostDevice = 1023;

  std::unexpected<Error> wrong(std::string_view what) const {
    return fail(ErrorCode::corrupt, fmt::format("{}: line {}: {}", name_, lines_.number(), what),
                "each line is op,id,size,stream,time_us,phase: a,1,4096,0,0,rec allocates, f,1,4096,0,7,rec frees");
  }

  Result<void> read_heading() {
    const Cells heading(lines_.next().value_or(""));
    if (heading.count > Cells::kMost) return wrong(fmt::format("there are more than {} columns", Cells::kMost));
    cells_ = heading.count;
    for (std::size_t i = 0; i < cells_; ++i) {
      const auto* const found = std::ranges::find(kNames, trim(heading.cells[i]));
      if (found != kNames.end()) positions_[static_cast<std::size_t>(found - kNames.begin())] = i;
    }
    has_formulas_ = positions_[c0] != kNone;
    if (positions_[size] == kNone && !has_formulas_) return wrong("there is no column 'size'");
    return {};
  }

  /// The events of the device that was asked for, or of the one with most.
  Result<void> choose(const ReadOptions& options) {
    std::vector<std::uint64_t>& counts = builder_.trace().events_of_devices;
    Lines lines(data_);
    lines.next();
    while (const auto line = lines.next()) {
      const Cells cells(*line);
      const auto number = cells.count == cells_ ? whole_number(cell(cells, device)) : std::nullopt;
      if (!number || *number > kMostDevice) continue;  // take() tells what is wrong with it
      if (*number >= counts.size()) counts.resize(*number + 1);
      ++counts[*number];
    }
    if (counts.empty()) return {};
    const auto most = std::ranges::max_element(counts) - counts.begin();
    device_ = options.device.value_or(static_cast<std::uint32_t>(most));
    builder_.trace().device = device_;
    if (device_ < counts.size() && counts[device_] > 0) return {};
    return fail(ErrorCode::invalid_argument, fmt::format("{}: device {} has no events", name_, device_),
                fmt::format("most events has device {}", most));
  }

  bool has(Column column) const { return positions_[column] != kNone; }
  std::string_view cell(const Cells& cells, Column column) const { return trim(cells.cells[positions_[column]]); }

  /// A whole number, 0 where there is no such column.
  Result<std::uint64_t> number(const Cells& cells, Column column) const {
    if (!has(column)) return 0;
    if (const auto value = whole_number(cell(cells, column))) return *value;
    return wrong(fmt::format("{} '{}' is not a whole number", kNames[column], quoted(cell(cells, column))));
  }

  Result<double> coefficient(const Cells& cells, Column column) const {
    if (!has(column)) return 0;
    const auto value = parse_number(cell(cells, column));
    if (value) return *value;
    return wrong(fmt::format("{} '{}' is not a number", kNames[column], quoted(cell(cells, column))));
  }

  Result<void> take(const Cells& cells) {
    if (cells.count > Cells::kMost) return wrong(fmt::format("has more than {} cells", Cells::kMost));
    if (cells.count != cells_) return wrong(fmt::format("has {} cells instead of {}", cells.count, cells_));
    const std::string_view what = cell(cells, op);
    if (what != "a" && what != "f") return wrong(fmt::format("op '{}' is neither a nor f", quoted(what)));
    GPUWARDEN_TRY(const auto on_device, number(cells, device));
    if (on_device > kMostDevice) return wrong(fmt::format("device {} is more than {}", on_device, kMostDevice));
    if (has(device) && on_device != device_) return {};
    GPUWARDEN_TRY(const auto key, number(cells, id));
    GPUWARDEN_TRY(const auto on, number(cells, stream));
    GPUWARDEN_TRY(const auto time, number(cells, time_us));
    GPUWARDEN_TRY(const auto bytes, number(cells, size));
    const bool before = has(phase) && cell(cells, phase).starts_with("pre");
    const auto when = static_cast<std::int64_t>(time);
    std::string_view problem;
    if (what == "f") {
      problem = before ? "frees what was live before the recording" : builder_.free(key, bytes, on, when);
    } else {
      SizeFormula formula;
      if (has_formulas_) {
        GPUWARDEN_TRY(formula.c0, coefficient(cells, c0));
        GPUWARDEN_TRY(formula.c1, coefficient(cells, c1));
        GPUWARDEN_TRY(formula.c2, coefficient(cells, c2));
      }
      const std::uint64_t asked = has_formulas_ ? formula.at(0) : bytes;
      problem = before ? builder_.live_before(key, asked, on) : builder_.allocate(key, asked, on, when);
      if (has_formulas_ && problem.empty()) builder_.formula(formula);
    }
    if (!problem.empty()) return wrong(fmt::format("id {} {}", key, problem));
    return {};
  }

  std::string_view data_;
  Lines lines_;
  const std::string& name_;
  TraceBuilder builder_;
  std::array<std::size_t, kNames.size()> positions_{};
  std::size_t cells_ = 0;
  bool has_formulas_ = false;
  std::uint32_t device_ = 0;
};

}  // namespace

bool is_allocation_csv(std::string_view data) {
  const std::string heading = heading_of(data);
  const Cells cells(heading);
  const auto has = [&](std::string_view name) {
    return std::any_of(cells.cells.begin(), cells.cells.begin() + std::min(cells.count, Cells::kMost),
                       [&](std::string_view cell) { return trim(cell) == name; });
  };
  return has("op") && has("id");
}

Result<Trace> read_allocation_csv(std::string_view data, const std::string& name, const ReadOptions& options) {
  return CsvReader(data, name).read(options);
}

}  // namespace gpuwarden::memtrace
