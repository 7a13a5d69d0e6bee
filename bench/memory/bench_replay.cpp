// SPDX-License-Identifier: Apache-2.0
// Whole traces through every contender: recorded ones, ones with random lengths, RMM's grid, a server.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <stdexcept>
#include <utility>

#include "memory/comparison.hpp"

namespace gpuwarden::bench {
namespace {

constexpr std::string_view kOurs = "gpuwarden balanced";
constexpr std::string_view kOurHandles = "gpuwarden balanced, handles";
constexpr std::string_view kOurSteady = "gpuwarden steady";

/// The files whose name begins so (symbolic traces: with "symbolic") and contains the workload.
std::vector<std::filesystem::path> files_of(const Options& options, bool symbolic) {
  if (!std::filesystem::is_directory(options.traces))
    throw std::runtime_error(fmt::format("there are no traces: '{}' is no directory", options.traces.string()));
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(options.traces)) {
    const std::string name = entry.path().filename();
    if (entry.path().extension() == ".csv" && name.starts_with("symbolic") == symbolic &&
        name.contains(options.workload))
      files.push_back(entry.path());
  }
  if (files.empty())
    throw std::runtime_error(fmt::format("no {} trace in '{}' has '{}' in its name", symbolic ? "symbolic" : "recorded",
                                         options.traces.string(), options.workload));
  std::ranges::sort(files);
  return files;
}

struct Comparison {
  const Trace& trace;
  const std::vector<Contender>& contenders;
  std::vector<Outcome> outcomes;

  /// nullptr if it takes no part.
  const Outcome* of(std::string_view name) const {
    const std::size_t at = position(contenders, name);
    return at < outcomes.size() ? &outcomes[at] : nullptr;
  }
};

Comparison compare_into(Report& report, const Options& options, const std::vector<Contender>& contenders,
                        const Passes& passes, unsigned rounds) {
  Comparison result{passes.traces.front(), contenders, compare(contenders, passes, rounds)};
  publish(report, options, table_of(result.trace, contenders, result.outcomes));
  return result;
}

/// What driver calls cost beside peers that need about as little memory, whether they come to an end, and whether that
/// is had with as little memory.
void call_goals(Report& report, const Comparison& found) {
  const double peer = lowest_priced_peer(found.trace, found.contenders, found.outcomes);
  double best = kNone;
  for (const Outcome& outcome : found.outcomes) best = std::fmax(best, share_live(found.trace, outcome));
  for (const std::string_view name : {kOurs, kOurSteady}) {
    const Outcome* const ours = found.of(name);
    if (ours == nullptr) continue;
    const std::string what = fmt::format("{}, {}", found.trace.name, name);
    const double own = priced(found.contenders[position(found.contenders, name)], *ours);
    if (!std::isnan(peer))
      report.goals.push_back({what + ", with calls priced, of the best peer's within 3 % of the best live/reserved",
                              own / peer, true, 1, 2});
    report.goals.push_back(
        {what + ", calls in 1,000 operations after the first third", ours->settled_calls, true, 1, 2});
    report.goals.push_back(
        {what + ", live/reserved, of the best", share_live(found.trace, *ours) / best, false, 0.97, 3});
  }
}

void speed_goals(Report& report, const Comparison& found) {
  struct Face {
    std::string_view name;
    Interface interface;
    const char* words;
    double most;
  };
  struct Part {
    double Outcome::* time;
    const char* words;
  };
  for (const Face& face :
       {Face{kOurs, Interface::address, "by address", 20}, Face{kOurHandles, Interface::any, "by handle", 10}}) {
    const Outcome* const ours = found.of(face.name);
    if (ours == nullptr) continue;
    for (const Part& part : {Part{&Outcome::late_nanoseconds, "in the last third"},
                             Part{&Outcome::nanoseconds, "from an empty pool on"}}) {
      const std::string name = fmt::format("{}, {}, {}", found.trace.name, face.words, part.words);
      const double own = ours->*part.time;
      const double peer = fastest_peer(found.contenders, found.outcomes, face.interface, part.time);
      report.goals.push_back({name + ", ns/op", own, true, face.most});
      report.goals.push_back({name + ", of the best peer's ns/op", own / peer, true, 0.6, 2});
    }
  }
}

void share_goal(Report& report, const Comparison& found, double least) {
  if (const Outcome* const ours = found.of(kOurs))
    report.goals.push_back(
        {fmt::format("{}, live/reserved", found.trace.name), share_live(found.trace, *ours), false, least, 4});
}

void trace_goals(Report& report, const Comparison& found, bool repeated) {
  if (!repeated) {
    call_goals(report, found);
    if (found.trace.name.starts_with("we_")) share_goal(report, found, 0.985);
    if (found.trace.name.starts_with("ni_")) share_goal(report, found, 0.95);
    return;
  }
  speed_goals(report, found);
  if (const Outcome* const ours = found.of(kOurs))
    report.goals.push_back({fmt::format("{}, driver calls in the last third", found.trace.name),
                            static_cast<double>(ours->late_calls), true, 0, 0});
}

}  // namespace

Report bench_traces(const Options& options) {
  Report report{.benchmark = "traces"};
  const auto contenders = chosen(options);
  for (const auto& file : files_of(options, false)) {
    for (const unsigned steps : {1U, 6U}) {
      Trace trace = read_trace(file, steps);
      if (steps > 1) trace.name += fmt::format(" x {}", steps);
      trace_goals(report, compare_into(report, options, contenders, {std::span(&trace, 1)}, options.rounds), steps > 1);
    }
  }
  return report;
}

Report bench_symbolic(const Options& options) {
  Report report{.benchmark = "symbolic"};
  const auto contenders = chosen(options);
  struct Lengths {
    unsigned seed;
    unsigned step;
  };
  for (const auto& file : files_of(options, true)) {
    for (const auto [seed, step] : {Lengths{11, 1}, Lengths{1, 1}, Lengths{2, 1}, Lengths{11, 64}}) {
      Trace trace = read_symbolic(file, random_lengths(options.steps, seed, step));
      trace.name += fmt::format(", {} lengths in steps of {}, seed {}", options.steps, step, seed);
      const auto found = compare_into(report, options, contenders, {std::span(&trace, 1)}, options.rounds);
      share_goal(report, found, file.filename().string().contains("recompute") ? 0.97 : 0.985);
      call_goals(report, found);
    }
  }
  return report;
}

namespace {

/// Ours beside the best peer in one cell, by address and by handle; first passes and later ones.
Row overview_row(const Comparison& found) {
  Row row{found.trace.name, {}, {}};
  for (const auto& [name, interface] : {std::pair{kOurs, Interface::address}, std::pair{kOurHandles, Interface::any}}) {
    const Outcome* const ours = found.of(name);
    const double peer = fastest_peer(found.contenders, found.outcomes, interface);
    const double own = ours == nullptr ? kNone : ours->nanoseconds;
    row.values.insert(row.values.end(), {own, peer, own / peer});
    if (name == kOurs) row.values.push_back(ours == nullptr ? kNone : ours->first_nanoseconds);
  }
  return row;
}

}  // namespace

namespace {

/// Which sequences of operations a cell of RMM's grid takes in its passes on one pool.
struct Sequences {
  std::string_view title;
  const char* words;  ///< behind the workload's name
  bool changing;
  const char* goal;
};
constexpr std::array kSequences{
    Sequences{"RMM random_allocations, ns/op, one sequence again and again", "", false,
              "the worst cell, of the best peer's ns/op"},
    Sequences{"RMM random_allocations, ns/op, a new sequence each time", ", new each time", true,
              "the worst cell with a new sequence each time, of the best peer's ns/op"},
};

Row grid_row(Report& report, const Options& options, const std::vector<Contender>& contenders, const Passes& passes,
             bool goal) {
  const Comparison found = compare_into(report, options, contenders, passes, options.rounds);
  const Outcome* const ours = found.of(kOurs);
  if (goal && ours != nullptr)
    report.goals.push_back({fmt::format("{}, ns/op", found.trace.name), ours->nanoseconds, true, 120});
  return overview_row(found);
}

void grid_of(Report& report, const Options& options, const std::vector<Contender>& contenders,
             const Sequences& sequences) {
  Table overview{.title = std::string(sequences.title),
                 .columns = {{"by address", "ours"},
                             {"best peer", "best_peer"},
                             {"ratio", "ratio", 2},
                             {"first pass", "ours_first_pass"},
                             {"by handle", "ours_handles"},
                             {"best peer", "best_peer_any"},
                             {"ratio", "ratio_handles", 2}},
                 .rows = {}};
  for (const unsigned n : {1000U, 10000U, 100000U}) {
    const unsigned passes = n < 100000 ? 6 : 3;
    for (const std::uint64_t most : {1U, 4U, 64U, 256U, 1024U, 4096U}) {
      std::vector<Trace> traces{random_allocations(n, most * kMiB)};
      if (!traces[0].name.contains(options.workload)) continue;
      traces[0].name += sequences.words;
      for (unsigned pass = 1; sequences.changing && pass < passes; ++pass)
        traces.push_back(random_allocations(n, most * kMiB, pass));
      overview.rows.push_back(
          grid_row(report, options, contenders, {.traces = traces, .count = passes}, n == 100000 && most == 1));
    }
  }
  double worst = kNone;
  for (const Row& row : overview.rows) worst = std::fmax(worst, row.values[2]);
  if (!overview.rows.empty()) report.goals.push_back({sequences.goal, worst, true, 1, 2});
  publish(report, options, std::move(overview));
}

}  // namespace

// As RMM's benchmark does, a pool is used again and again: the best of several passes counts. It takes the same
// sequence each time, which a pool can learn; so both are shown.
Report bench_grid(const Options& options) {
  Report report{.benchmark = "grid"};
  const auto contenders = chosen(options);
  for (const Sequences& sequences : kSequences) grid_of(report, options, contenders, sequences);
  return report;
}

Report bench_serving(const Options& options) {
  Report report{.benchmark = "serving"};
  const auto contenders = chosen(options);
  const auto steps = static_cast<unsigned>(options.operations == 0 ? 10000 : options.operations);
  for (const bool paged : {false, true}) {
    const Trace trace = serving(steps, 1, paged);
    if (trace.name.contains(options.workload))
      call_goals(report, compare_into(report, options, contenders, {std::span(&trace, 1)}, options.rounds));
  }
  return report;
}

Report bench_inference(const Options& options) {
  Report report{.benchmark = "inference"};
  const auto contenders = chosen(options);
  for (const InferenceTrace& row : inference_traces()) {
    const std::string name = fmt::format("{}{}", row.name, row.kept_back ? ", kept back" : "");
    if (!name.contains(options.workload)) continue;
    Trace trace = row.make();
    trace.name = name;
    call_goals(report, compare_into(report, options, contenders, {std::span(&trace, 1)}, options.rounds));
  }
  return report;
}

}  // namespace gpuwarden::bench
