// SPDX-License-Identifier: Apache-2.0
#include "memory/trace.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <stdexcept>

namespace gpuwarden::bench {
namespace {

struct Row {
  bool allocates = false;
  bool before = false;
  std::uint64_t id = 0;
  std::uint32_t stream = 0;
  double c0 = 0;
  double c1 = 0;
  double c2 = 0;

  std::uint64_t size(double length) const {
    return static_cast<std::uint64_t>(std::max(1.0, c0 + c1 * length + c2 * length * length));
  }
};

/// Throws std::logic_error where a cell is missing or no number.
Row row_of(const std::vector<std::string>& cells, const std::map<std::string, std::size_t>& columns) {
  const auto number = [&](const std::string& name) {
    const auto found = columns.find(name);
    return found == columns.end() ? 0.0 : std::stod(cells.at(found->second));
  };
  return Row{.allocates = cells.at(columns.at("op")) == "a",
             .before = cells.at(columns.at("phase")).starts_with("pre"),
             .id = std::stoull(cells.at(columns.at("id"))),
             .stream = static_cast<std::uint32_t>(number("stream")),
             .c0 = columns.contains("size") ? number("size") : number("c0"),
             .c1 = number("c1"),
             .c2 = number("c2")};
}

/// The rows of a CSV, their columns found by name.
std::vector<Row> read_rows(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read the trace " + path);
  const auto cells_of = [](const std::string& line) {
    std::vector<std::string> cells;
    std::istringstream stream(line);
    for (std::string cell; std::getline(stream, cell, ',');) {
      if (cell.ends_with('\r')) cell.pop_back();
      cells.push_back(cell);
    }
    return cells;
  };
  std::string line;
  std::getline(file, line);
  std::map<std::string, std::size_t> columns;
  for (const auto& name : cells_of(line)) columns.emplace(name, columns.size());
  for (const char* name : {"op", "id", "phase"}) {
    if (!columns.contains(name)) throw std::runtime_error(path + " has no column '" + name + "'");
  }
  std::vector<Row> rows;
  for (std::size_t number_of_line = 2; std::getline(file, line); ++number_of_line) {
    try {
      rows.push_back(row_of(cells_of(line), columns));
    } catch (const std::logic_error&) {
      throw std::runtime_error(path + ", line " + std::to_string(number_of_line) + ": not a row of a trace");
    }
  }
  return rows;
}

Trace repeat(const std::string& path, const std::vector<unsigned>& lengths) {
  const auto rows = read_rows(path);
  TraceBuilder builder(std::filesystem::path(path).stem());
  for (std::size_t step = 0; step < lengths.size(); ++step) {
    for (const Row& row : rows) {
      if (row.before && builder.is_live(row.id)) continue;
      if (row.allocates) {
        builder.allocate(row.id, row.size(lengths[step]), row.stream);
      } else if (builder.is_live(row.id)) {
        builder.free(row.id, row.stream);
      }
    }
    if (step + 1 == lengths.size()) break;
    for (const Row& row : rows) {
      if (row.allocates && !row.before && builder.is_live(row.id)) builder.free(row.id, row.stream);
    }
  }
  return builder.finish();
}

}  // namespace

void TraceBuilder::allocate(std::uint64_t id, std::uint64_t size, std::uint32_t stream) {
  const std::uint32_t slot = free_.empty() ? trace_.slots++ : free_.back();
  if (!free_.empty()) free_.pop_back();
  live_[id] = {slot, size};
  trace_.operations.push_back({size, slot, stream});
  bytes_ += (size + 511) / 512 * 512;
  trace_.peak_live = std::max(trace_.peak_live, bytes_);
}

void TraceBuilder::free(std::uint64_t id, std::uint32_t stream) {
  const auto [slot, size] = live_.at(id);
  live_.erase(id);
  free_.push_back(slot);
  trace_.operations.push_back({0, slot, stream});
  bytes_ -= (size + 511) / 512 * 512;
}

Trace read_trace(const std::string& path, unsigned steps) { return repeat(path, std::vector<unsigned>(steps, 0)); }

Trace read_symbolic(const std::string& path, const std::vector<unsigned>& lengths) { return repeat(path, lengths); }

std::vector<unsigned> random_lengths(unsigned count, unsigned seed, unsigned step) {
  std::mt19937 random(seed);
  std::vector<unsigned> lengths(count);
  std::ranges::generate(lengths, [&] { return 128 + step * static_cast<unsigned>(random() % (896 / step + 1)); });
  return lengths;
}

Trace random_allocations(unsigned n, std::uint64_t most) {
  std::default_random_engine random;
  std::uniform_int_distribution<std::uint64_t> sizes(1, most);
  std::uniform_int_distribution<int> chances(0, 99);
  TraceBuilder builder("random " + std::to_string(n) + " x " + std::to_string(most >> 20U) + " MiB");
  struct Live {
    std::uint64_t id;
    std::uint64_t size;
  };
  std::vector<Live> live;
  std::uint64_t bytes = 0;
  std::uint64_t next = 0;
  for (unsigned i = 0; i < 2 * n; ++i) {
    const std::uint64_t size = sizes(random);
    const bool wanted = chances(random) < 73;
    if (wanted && next < n && bytes + size < std::uint64_t{16000} << 20U) {
      live.push_back({next, size});
      builder.allocate(next++, size, 0);
      bytes += size;
    } else if (!live.empty()) {
      std::uniform_int_distribution<std::size_t> which(0, live.size() - 1);
      std::swap(live[which(random)], live.back());
      builder.free(live.back().id, 0);
      bytes -= live.back().size;
      live.pop_back();
    }
  }
  return builder.finish();
}

}  // namespace gpuwarden::bench
