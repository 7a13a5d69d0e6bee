// SPDX-License-Identifier: Apache-2.0
#include "memory/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <ranges>

namespace gpuwarden::bench {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<Operation> frees_of_leftovers(const Trace& trace) {
  std::vector<Operation> last(trace.slots);
  for (const Operation& one : trace.operations) last[one.slot] = one;
  std::erase_if(last, [](const Operation& one) { return one.size == 0; });
  for (Operation& one : last) one.size = 0;
  return last;
}

}  // namespace

std::vector<Contender> chosen(const Options& options) {
  std::vector<Contender> result;
  for (const Contender& contender : options.contenders) {
    const bool wanted = std::ranges::any_of(options.only | std::views::split('|'), [&](auto&& part) {
      return contender.name.contains(std::string_view(part.begin(), part.end()));
    });
    if (wanted || options.only.empty()) result.push_back(contender);
  }
  return result;
}

void publish(Report& report, const Options& options, Table table) {
  if (!options.json) {
    fmt::print("{}", to_text(table));
    std::fflush(stdout);
  }
  report.tables.push_back(std::move(table));
}

Outcome play_once(const Contender& contender, const Passes& passes, const DeviceSpec& spec) {
  Outcome outcome;
  const auto contestant = contender.make(spec);
  std::vector<std::vector<Operation>> leftovers;
  std::ranges::transform(passes.traces, std::back_inserter(leftovers), frees_of_leftovers);
  double operations = 0;
  std::vector<Slot> slots(std::ranges::max(passes.traces, {}, &Trace::slots).slots);
  try {
    for (unsigned pass = 0; pass < passes.count; ++pass) {
      const std::size_t at = pass % passes.traces.size();
      const std::span all(passes.traces[at].operations);
      const std::size_t third = all.size() / 3;
      const std::size_t part = third * 2;
      const auto start = std::chrono::steady_clock::now();
      contestant->play(all.first(third), slots);
      double seconds = seconds_since(start);
      const std::uint64_t begun = contestant->footprint().calls.all();
      const auto second = std::chrono::steady_clock::now();
      contestant->play(all.subspan(third, part - third), slots);
      seconds += seconds_since(second);
      const std::uint64_t before = contestant->footprint().calls.all();
      const auto middle = std::chrono::steady_clock::now();
      contestant->play(all.subspan(part), slots);
      const double late = seconds_since(middle);
      outcome.late_nanoseconds =
          std::fmin(outcome.late_nanoseconds, late * 1e9 / static_cast<double>(all.size() - part));
      seconds += late;
      const double nanoseconds = seconds * 1e9 / static_cast<double>(all.size());
      outcome.nanoseconds = std::fmin(outcome.nanoseconds, nanoseconds);
      if (pass == 0) {
        outcome.first_nanoseconds = nanoseconds;
        const std::uint64_t after = contestant->footprint().calls.all();
        outcome.late_calls = after - before;
        outcome.settled_calls = 1000.0 * static_cast<double>(after - begun) / static_cast<double>(all.size() - third);
      }
      operations += static_cast<double>(all.size());
      if (pass + 1 == passes.count) {
        outcome.footprint = contestant->footprint();
        outcome.call_nanoseconds = outcome.footprint.calls.nanoseconds / operations;
      }
      contestant->play(leftovers[at], slots);
    }
    outcome.error = contestant->check();
  } catch (const OutOfMemory& error) {
    outcome.error = error.what();
    outcome.footprint = contestant->footprint();
  }
  return outcome;
}

std::vector<Outcome> compare(const std::vector<Contender>& contenders, const Passes& passes, unsigned rounds) {
  std::vector<Outcome> best(contenders.size());
  for (unsigned round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      if (!best[i].error.empty()) continue;
      Outcome outcome = play_once(contenders[i], passes);
      const double first = std::fmin(outcome.first_nanoseconds, best[i].first_nanoseconds);
      const double late = std::fmin(outcome.late_nanoseconds, best[i].late_nanoseconds);
      if (round == 0 || !outcome.error.empty() || outcome.nanoseconds < best[i].nanoseconds)
        best[i] = std::move(outcome);
      best[i].first_nanoseconds = first;
      best[i].late_nanoseconds = late;
    }
  }
  return best;
}

double share_live(const Trace& trace, const Outcome& outcome) {
  if (!outcome.error.empty() || outcome.footprint.peak_reserved == 0) return kNone;
  return static_cast<double>(trace.peak_live) / static_cast<double>(outcome.footprint.peak_reserved);
}

double fastest_peer(const std::vector<Contender>& contenders, const std::vector<Outcome>& outcomes, Interface interface,
                    double Outcome::* time) {
  double fastest = kNone;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    if (contenders[i].kind != Contender::Kind::rules && contenders[i].kind != Contender::Kind::library) continue;
    if (interface == Interface::address && contenders[i].name.ends_with("handles")) continue;
    if (outcomes[i].error.empty()) fastest = std::fmin(fastest, outcomes[i].*time);
  }
  return fastest;
}

double priced(const Contender& contender, const Outcome& outcome) {
  if (!contender.abilities.device || !contender.abilities.calls || !outcome.error.empty()) return kNone;
  return outcome.nanoseconds + outcome.call_nanoseconds;
}

double lowest_priced_peer(const Trace& trace, const std::vector<Contender>& contenders,
                          const std::vector<Outcome>& outcomes) {
  constexpr double kNear = 0.97;
  double best_share = 0;
  for (const Outcome& outcome : outcomes) best_share = std::fmax(best_share, share_live(trace, outcome));
  double lowest = kNone;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    if (contenders[i].kind != Contender::Kind::rules && contenders[i].kind != Contender::Kind::library) continue;
    if (share_live(trace, outcomes[i]) >= kNear * best_share)
      lowest = std::fmin(lowest, priced(contenders[i], outcomes[i]));
  }
  return lowest;
}

Table table_of(const Trace& trace, const std::vector<Contender>& contenders, const std::vector<Outcome>& outcomes) {
  Table table{.title = fmt::format("{}: {} operations, peak live {:.1f} MiB", trace.name, trace.operations.size(),
                                   static_cast<double>(trace.peak_live) / kMiB),
              .columns = {{"ns/op", "ns_per_operation"},
                          {"of best peer", "of_fastest_peer", 2},
                          {"last third", "ns_per_operation_in_last_third"},
                          {"reserved MiB", "peak_reserved_mib", 0},
                          {"live/reserved", "live_of_reserved", 3},
                          {"memory calls", "memory_calls", 0},
                          {"events", "event_calls", 0},
                          {"calls in last third", "calls_in_last_third", 0},
                          {"calls/1000 after 1st third", "calls_in_1000_after_first_third", 2},
                          {"ns/op, calls priced", "ns_per_operation_with_calls_priced"}},
              .rows = {}};
  const double fastest = fastest_peer(contenders, outcomes, Interface::any);
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    const Outcome& one = outcomes[i];
    const bool device = contenders[i].abilities.device;
    const auto counted = [&](std::uint64_t calls) {
      return device && contenders[i].abilities.calls ? static_cast<double>(calls) : kNone;
    };
    const auto& calls = one.footprint.calls;
    table.rows.push_back(
        {contenders[i].name,
         {one.nanoseconds, one.nanoseconds / fastest, one.late_nanoseconds,
          device ? static_cast<double>(one.footprint.peak_reserved) / kMiB : kNone, share_live(trace, one),
          counted(calls.memory()), counted(calls.all() - calls.memory()), counted(one.late_calls),
          device && contenders[i].abilities.calls ? one.settled_calls : kNone, priced(contenders[i], one)},
         one.error});
  }
  return table;
}

std::size_t position(const std::vector<Contender>& contenders, std::string_view name) {
  return static_cast<std::size_t>(std::ranges::find(contenders, name, &Contender::name) - contenders.begin());
}

}  // namespace gpuwarden::bench
