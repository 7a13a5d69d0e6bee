// SPDX-License-Identifier: Apache-2.0
// How far the planner is off on published measurements, with other planners' errors on the same cases beside it.
//   planner_truth [--truth FILE] [--params FILE] [--fits FILE] [--peers FILE] [--json] [--rows]
// Files default to planner/*.csv in the folder that GPUWARDEN_CORPUS names. --rows lists every answer.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "planner/evaluate.hpp"

namespace {

using namespace gpuwarden;
using namespace gpuwarden::bench;
namespace fs = std::filesystem;
using nlohmann::json;

struct Options {
  fs::path truth, params, fits, peers;
  bool as_json = false;
  bool rows = false;
  bool help = false;
};

constexpr std::string_view kUsage =
    "planner_truth [--truth FILE] [--params FILE] [--fits FILE] [--peers FILE] [--json] [--rows]";

Result<Options> parse(int argc, char** argv) {
  Options options;
  if (const char* corpus = std::getenv("GPUWARDEN_CORPUS"); corpus != nullptr) {
    const fs::path folder = fs::path(corpus) / "planner";
    options = {folder / "truth.csv", folder / "params.csv", folder / "fits.csv", folder / "peers.csv"};
  }
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    fs::path* file = word == "--truth"    ? &options.truth
                     : word == "--params" ? &options.params
                     : word == "--fits"   ? &options.fits
                     : word == "--peers"  ? &options.peers
                                          : nullptr;
    if (word == "--json")
      options.as_json = true;
    else if (word == "--rows")
      options.rows = true;
    else if (word == "--help" || word == "-h")
      options.help = true;
    else if (file != nullptr && i + 1 < argc)
      *file = argv[++i];
    else
      return fail(ErrorCode::invalid_argument, fmt::format("'{}' is no option, or its file is missing", word),
                  std::string(kUsage));
  }
  if (options.truth.empty() && !options.help) {
    return fail(ErrorCode::not_found, "no table of measurements", "set GPUWARDEN_CORPUS, or give --truth FILE");
  }
  return options;
}

json spread_json(const Spread& spread) {
  return {{"rows", spread.rows},
          {"median_abs_percent", spread.median},
          {"p90_abs_percent", spread.p90},
          {"worst_abs_percent", spread.worst}};
}

void print_spread(std::string_view name, const Spread& spread) {
  fmt::print("  {:<34} {:>5} rows   median {:>5.1f}%   p90 {:>5.1f}%   worst {:>6.1f}%\n", name, spread.rows,
             spread.median, spread.p90, spread.worst);
}

void print_answers(const TruthReport& report) {
  for (const Answer& a : report.answers) {
    fmt::print("  {} {:<12} {:<18} {:<30} {:>8.2f} of {:>8.2f} GiB {:>+7.1f}% {}\n", a.id, a.group, a.source, a.model,
               a.predicted / (1ULL << 30U), a.measured / (1ULL << 30U), 100 * a.error, a.refused);
  }
}

void show_truth(const Options& options, const TruthReport& report, json& all) {
  all["skipped"] = report.skipped;
  for (const auto& [name, spread] : report.groups) all["groups"][name] = spread_json(spread);
  for (const auto& [name, spread] : report.sources) all["sources"][name] = spread_json(spread);
  for (const auto& [name, spread] : report.held_out) all["held_out"][name] = spread_json(spread);
  for (const auto& [name, spread] : report.unbounded) all["unbounded"][name] = spread_json(spread);
  all["refused"] = json::array();
  for (const Answer& a : report.answers) {
    if (!a.refused.empty()) all["refused"].push_back({{"id", a.id}, {"model", a.model}, {"why", a.refused}});
    if (options.rows) {
      all["rows"].push_back({{"id", a.id},
                             {"group", a.group},
                             {"predicted_bytes", a.predicted},
                             {"measured_bytes", a.measured},
                             {"error_percent", 100 * a.error}});
    }
  }
  for (const auto& [source, what] : coefficients_chosen_on()) all["coefficients_chosen_on"][source] = what;
  if (options.as_json) return;
  fmt::print("Measured memory ({}; {} rows without complete settings skipped)\n", options.truth.string(),
             report.skipped);
  for (const auto& [name, spread] : report.groups) print_spread(name, spread);
  fmt::print("the same, answers not bounded by the card's memory\n");
  for (const auto& [name, spread] : report.unbounded) print_spread(name, spread);
  fmt::print("of these, rows that chose no coefficient\n");
  for (const auto& [name, spread] : report.held_out) print_spread(name, spread);
  fmt::print("by source\n");
  for (const auto& [name, spread] : report.sources) print_spread(name, spread);
  for (const json& row : all["refused"]) {
    fmt::print("  refused, counted as 100%: {} {}: {}\n", row["id"].get<std::string>(), row["model"].get<std::string>(),
               row["why"].get<std::string>());
  }
  fmt::print("rows that chose coefficients\n");
  for (const auto& [source, what] : coefficients_chosen_on()) fmt::print("  {}: {}\n", source, what);
  if (options.rows) print_answers(report);
}

Result<void> show_params(const Options& options, json& all) {
  GPUWARDEN_TRY(const ParameterReport report, evaluate_parameters(options.params));
  all["params"] = {{"exact", report.exact}, {"rows", report.rows}, {"missed", report.missed}};
  if (options.as_json) return {};
  fmt::print("Parameter counts: {} of {} published ones exact\n", report.exact, report.rows);
  for (const std::string& missed : report.missed) fmt::print("  {}\n", missed);
  return {};
}

Result<void> show_fits(const Options& options, json& all) {
  GPUWARDEN_TRY(const FitReport report, evaluate_fits(options.fits));
  all["fits"] = {{"right", report.right}, {"rows", report.rows}, {"missed", report.missed}};
  if (options.as_json) return {};
  fmt::print("Fits or does not: {} of {} right (a missing result is read as out of memory, which is not proven)\n",
             report.right, report.rows);
  for (const std::string& missed : report.missed) fmt::print("  {}\n", missed);
  return {};
}

Result<void> show_peers(const Options& options, json& all) {
  GPUWARDEN_TRY(const std::vector<PeerReport> reports, evaluate_peers(options.peers));
  if (!options.as_json) fmt::print("Other planners, on the cases that each answers, and this one on the same\n");
  for (const PeerReport& report : reports) {
    all["peers"].push_back(
        {{"peer", report.peer}, {"theirs", spread_json(report.peers)}, {"ours", spread_json(report.ours)}});
    if (options.as_json) continue;
    fmt::print("  {:<36} {:>2} cases   median {:>6.1f}%   ours {:>5.1f}%   worst {:>6.1f}%   ours {:>5.1f}%\n",
               report.peer, report.peers.rows, report.peers.median, report.ours.median, report.peers.worst,
               report.ours.worst);
  }
  return {};
}

/// A default file that is not there is left out; a file that was asked for must be read.
Result<void> if_there(const fs::path& file, const Options& options, json& all,
                      Result<void> (*show)(const Options&, json&)) {
  std::error_code ignored;
  const bool asked = std::getenv("GPUWARDEN_CORPUS") == nullptr ||
                     file.parent_path() != fs::path(std::getenv("GPUWARDEN_CORPUS")) / "planner";
  if (file.empty() || (!asked && !fs::exists(file, ignored))) return {};
  return show(options, all);
}

Result<void> run(int argc, char** argv) {
  GPUWARDEN_TRY(const Options options, parse(argc, argv));
  if (options.help) {
    fmt::print("{}\nFiles that are not named are those of $GPUWARDEN_CORPUS/planner.\n", kUsage);
    return {};
  }
  json all{{"schema", 1}};
  GPUWARDEN_TRY(const TruthReport report, evaluate_truth(options.truth));
  show_truth(options, report, all);
  GPUWARDEN_CHECK(if_there(options.params, options, all, show_params));
  GPUWARDEN_CHECK(if_there(options.fits, options, all, show_fits));
  GPUWARDEN_CHECK(if_there(options.peers, options, all, show_peers));
  if (options.as_json) fmt::print("{}\n", all.dump(2));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (const Result<void> result = run(argc, argv); !result) {
    fmt::print(stderr, "planner_truth: {}\n  {}\n", result.error().message, result.error().hint);
    return 2;
  }
  return 0;
}
