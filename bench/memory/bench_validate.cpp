// SPDX-License-Identifier: Apache-2.0
// The contenders beside figures that were measured elsewhere for what they stand for, so that no strawman is beaten:
// RMM's own pool (rapidsai/rmm @5d50a37), cub of CUDA 13.0, VMA @e386068, and a port of PyTorch's rules that itself
// reproduces what PyTorch reserved in five recorded snapshots within 0.4 %. All with the same traces.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "memory/comparison.hpp"

namespace gpuwarden::bench {
namespace {

/// One published figure for a contender: reserved MiB, or peak live by reserved.
struct Figure {
  const char* contender;
  double value;
};

struct Published {
  const char* file;  ///< the trace's name begins so
  const char* description;
  unsigned step;  ///< of the random lengths; 0: a recorded trace
  bool shares;    ///< the figures are shares of live memory
  std::vector<Figure> figures;
};

constexpr const char* kRmm = "RMM pool rules";
constexpr const char* kCub = "cub::CachingDeviceAllocator";
constexpr const char* kVma = "VMA virtual block";
constexpr const char* kClassic = "PyTorch rules";
constexpr const char* kExpandable = "PyTorch rules, expandable";
constexpr unsigned kSeed = 11;
constexpr unsigned kLengths = 60;

std::vector<Published> published() {
  return {
      {"we_medium_1024_training",
       "GPT medium, T 1024, training",
       0,
       true,
       {{kRmm, .705}, {kCub, .928}, {kVma, .930}, {kClassic, .962}, {kExpandable, .976}}},
      {"kk_memory_ctx512_fullstep",
       "GPT 2.7B, T 512, fp32",
       0,
       true,
       {{kRmm, .689}, {kCub, .763}, {kVma, .914}, {kClassic, .870}, {kExpandable, .986}}},
      {"kk_memory_ctx128_fullstep",
       "GPT 2.7B, T 128",
       0,
       true,
       {{kRmm, .664}, {kCub, .741}, {kVma, .927}, {kClassic, .897}, {kExpandable, .987}}},
      {"cr_ftcourse",
       "TinyLlama, fine-tuning",
       0,
       true,
       {{kRmm, .565}, {kCub, .796}, {kVma, .879}, {kClassic, .905}, {kExpandable, .993}}},
      {"ni_forward_and_backward_memory_snapshot_200_mixed_precision",
       "GPT small, mixed, forward and backward",
       0,
       true,
       {{kRmm, .746}, {kCub, .583}, {kVma, .865}, {kClassic, .810}, {kExpandable, .896}}},
      {"symbolic_gpt_medium.",
       "random lengths",
       1,
       false,
       {{kRmm, 32768}, {kCub, 28292}, {kVma, 24352}, {kClassic, 40834}, {kExpandable, 23484}}},
      {"symbolic_gpt_medium.", "random lengths in steps of 64", 64, false, {{kClassic, 29248}, {kExpandable, 22162}}},
      {"symbolic_gpt_medium_recompute.",
       "random lengths, recomputation",
       1,
       false,
       {{kRmm, 16384}, {kCub, 10057}, {kVma, 9252}, {kClassic, 12746}, {kExpandable, 8846}}},
  };
}

/// What PyTorch itself had reserved when the snapshots were taken, MiB.
struct Snapshot {
  const char* file;
  double reserved;
};
constexpr auto kSnapshots = std::to_array<Snapshot>({
    {"we_medium_1024_training", 24012},
    {"ni_forward_and_backward_memory_snapshot_200_mixed_precision", 1150},
});

/// Calls to cudaMalloc and cudaFree on a device of so many tenths of a GiB, random lengths without recomputation.
struct Calls {
  const char* contender;
  std::uint64_t tenths;
  double allocations;
  double frees;
};
constexpr auto kCapped = std::to_array<Calls>({
    {kClassic, 260, 714, 299},
    {kCub, 260, 14250, 12573},
    {kCub, 235, 22464, 21445},
});

std::optional<std::filesystem::path> find_trace(const std::filesystem::path& folder, std::string_view begin) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (entry.path().extension() == ".csv" && name.starts_with(begin)) return entry.path();
  }
  return std::nullopt;
}

std::vector<Column> columns() {
  return {
      {"ours MiB", "reserved_mib", 0}, {"published", "published_mib", 0}, {"difference %", "difference_percent", 2}};
}

class Validation {
 public:
  Validation(Report& report, const Options& options) : report_(report), contenders_(options.contenders) {}

  void hold(Table& table, const Trace& trace, std::string_view name, double published) {
    const std::size_t at = position(contenders_, name);
    if (at == contenders_.size()) {
      table.rows.push_back({std::string(name), {kNone, published, kNone}, "not built in"});
      return;
    }
    const Outcome outcome = play_once(contenders_[at], trace);
    compare(table, std::string(name), static_cast<double>(outcome.footprint.peak_reserved) / kMiB, published,
            outcome.error);
  }

  void hold_calls(Table& table, const Trace& trace, const Calls& published) {
    const std::size_t at = position(contenders_, published.contender);
    if (at == contenders_.size()) return;
    const Outcome outcome = play_once(contenders_[at], trace, {.capacity = kGiB / 10 * published.tenths});
    const auto& calls = outcome.footprint.calls;
    const auto name = fmt::format("{}, {:.1f} GiB", published.contender, static_cast<double>(published.tenths) / 10);
    compare(table, name + ", cudaMalloc", static_cast<double>(calls[Call::mem_alloc]), published.allocations,
            outcome.error);
    compare(table, name + ", cudaFree", static_cast<double>(calls[Call::mem_free]), published.frees, outcome.error);
  }

 private:
  void compare(Table& table, std::string name, double ours, double published, std::string error) {
    const double difference = 100 * (ours - published) / published;
    report_.goals.push_back(
        {fmt::format("{}, {}: per cent apart", table.title, name), std::abs(difference), true, 2, 2});
    table.rows.push_back({std::move(name), {ours, published, difference}, std::move(error)});
  }

  Report& report_;
  const std::vector<Contender>& contenders_;
};

}  // namespace

Report bench_validate(const Options& options) {
  Report report{.benchmark = "validate"};
  if (!std::filesystem::is_directory(options.traces))
    throw std::runtime_error(fmt::format("there are no traces: '{}' is no directory", options.traces.string()));
  Validation validation(report, options);
  for (const Published& one : published()) {
    const auto file = find_trace(options.traces, one.file);
    Table table{.title = one.description, .columns = columns(), .rows = {}};
    if (!file) {
      table.rows.push_back({"not checked", {}, "its trace is not at hand"});
      publish(report, options, std::move(table));
      continue;
    }
    const Trace trace =
        one.step == 0 ? read_trace(*file, 1) : read_symbolic(*file, random_lengths(kLengths, kSeed, one.step));
    const double live = static_cast<double>(trace.peak_live) / kMiB;
    for (const Figure& figure : one.figures)
      validation.hold(table, trace, figure.contender, one.shares ? live / figure.value : figure.value);
    publish(report, options, std::move(table));
  }
  if (const auto file = find_trace(options.traces, "symbolic_gpt_medium.")) {
    const Trace trace = read_symbolic(*file, random_lengths(kLengths, kSeed));
    Table table{.title = "random lengths on a capped device, calls",
                .columns = {{"ours", "calls", 0},
                            {"published", "published_calls", 0},
                            {"difference %", "difference_percent", 2}},
                .rows = {}};
    for (const Calls& one : kCapped) validation.hold_calls(table, trace, one);
    publish(report, options, std::move(table));
  }
  Table table{.title = "PyTorch itself, as its snapshots tell", .columns = columns(), .rows = {}};
  for (const Snapshot& one : kSnapshots) {
    if (const auto file = find_trace(options.traces, one.file))
      validation.hold(table, read_trace(*file, 1), kClassic, one.reserved);
  }
  publish(report, options, std::move(table));
  if (report.goals.empty())
    throw std::runtime_error(fmt::format("none of the published traces is in '{}'", options.traces.string()));
  return report;
}

}  // namespace gpuwarden::bench
