// SPDX-License-Identifier: Apache-2.0
// How far planned speeds are off from published ones: MosaicML's llm-foundry, MPT models under FSDP.
//   planner_speed [--table FILE] [--json] [--rows]
// The file defaults to planner/throughput.csv in the folder that GPUWARDEN_CORPUS names. --rows lists every row.
// The ranges of utilization were chosen on these very rows (knowledge/planning_figures.csv, mfu_*): what is told of one
// node is in-sample. What links between nodes reach was chosen on none of them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/planning/throughput.hpp"
#include "planner/table.hpp"

namespace {

using namespace gpuwarden;
using namespace gpuwarden::bench;
using namespace gpuwarden::planning;
namespace fs = std::filesystem;

constexpr std::uint32_t kNode = 8;

/// llm-foundry, scripts/train/yamls/pretrain/mpt-*.yaml; vocabulary as in its table's parameter counts.
struct Mpt {
  std::string_view name;
  std::uint32_t hidden, heads, layers;
};
constexpr std::array kMpt{
    Mpt{"125m", 768, 12, 12}, Mpt{"350m", 1024, 16, 24}, Mpt{"760m", 1536, 12, 24},
    Mpt{"1b", 2048, 16, 24},  Mpt{"3b", 2560, 20, 32},   Mpt{"7b", 4096, 32, 32},
    Mpt{"13b", 5120, 40, 40}, Mpt{"30b", 7168, 56, 48},  Mpt{"70b", 8192, 64, 80},
};

Result<ModelFigures> model_of(const Row& row) {
  const auto* found = std::ranges::find(kMpt, row["model"], &Mpt::name);
  if (found == kMpt.end())
    return fail(ErrorCode::not_found, fmt::format("model '{}'", row["model"]), "the table names MPT models by size");
  ModelShape shape{.name = row["model"], .family = "mpt", .hidden = found->hidden, .layers = found->layers};
  shape.heads = shape.kv_heads = found->heads;
  shape.head_dim = found->hidden / found->heads;
  shape.intermediate = 4 * found->hidden;
  shape.vocab = 50368;
  shape.tied_embeddings = true;
  shape.norm = NormKind::layer_norm;
  shape.gated_mlp = false;
  shape.stated_parameters = static_cast<std::uint64_t>(leading_number(row["params"]));
  return figures_of(shape);
}

std::uint32_t count(const Row& row, std::string_view column) {
  return static_cast<std::uint32_t>(leading_number(row[column]));
}

Settings settings_of(const Row& row) {
  Settings settings;
  settings.precision = row["precision"] == "bf16" ? Precision::bf16 : Precision::mixed;
  if (row["precision"] == "amp_fp8") settings.fp8 = Fp8::matrices;
  settings.sequence = count(row, "seq_len");
  settings.micro_batch = count(row, "micro_batch");
  settings.accumulation = std::max(1U, count(row, "grad_accum"));
  settings.recompute = row["act_ckpt"] == "True" ? Recompute::full : Recompute::none;
  // FSDP's SHARD_GRAD_OP sends what ZeRO-2 sends: one gather and one reduction.
  const bool gathers_once = row["sharding"] == "SHARD_GRAD_OP";
  settings.parallel = {.data = count(row, "n_gpus"), .sharding = gathers_once ? Sharding::zero2 : Sharding::fsdp1};
  return settings;
}

Result<GpuGroup> gpus_of_row(const Row& row) {
  const std::string& gpu = row["gpu"];
  return gpus_named(gpu == "h100_80gb"   ? "h100"
                    : gpu == "a100_80gb" ? "a100-80gb"
                    : gpu == "a100_40gb" ? "a100-40gb"
                                         : gpu);
}

struct Planned {
  std::string group;
  std::string words;
  double measured = 0;
  Speed speed;
  double ratio() const { return speed.expected / measured; }
  bool inside() const { return speed.low <= measured && measured <= speed.high; }
};

Result<Planned> planned(const Row& row) {
  GPUWARDEN_TRY(const ModelFigures model, model_of(row));
  GPUWARDEN_TRY(const GpuGroup gpus, gpus_of_row(row));
  const Settings settings = settings_of(row);
  const bool eight = settings.fp8 != Fp8::none;
  Planned answer;
  answer.measured = leading_number(row["tok_per_s"]);
  if (!(answer.measured > 0))
    return fail(ErrorCode::corrupt, fmt::format("{} tokens a second", row["tok_per_s"]),
                "tok_per_s is a number above 0");
  GPUWARDEN_TRY(answer.speed, speed_of(model, settings, gpus.name, 1e12 * (eight ? gpus.fp8_tflops : gpus.bf16_tflops),
                                       {}, 0, links_of(gpus, kNode)));
  const std::uint32_t ranks = settings.parallel.data;
  answer.group = fmt::format("{}{}, {}", row["gpu"], eight ? " fp8" : "",
                             ranks <= kNode ? "one node"
                             : ranks < 128  ? "2 to 8 nodes"
                                            : "16 to 64 nodes");
  answer.words = fmt::format("{} {} tokens x {} on {}{}", row["model"], settings.sequence, settings.micro_batch, ranks,
                             settings.recompute == Recompute::full ? ", recomputed" : "");
  return answer;
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

struct Group {
  std::vector<double> ratios;
  std::size_t inside = 0;
};

struct Options {
  fs::path table;
  bool as_json = false;
  bool rows = false;
};

Result<Options> parse(int argc, char** argv) {
  Options options;
  if (const char* corpus = std::getenv("GPUWARDEN_CORPUS"); corpus != nullptr)
    options.table = fs::path(corpus) / "planner" / "throughput.csv";
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--json")
      options.as_json = true;
    else if (word == "--rows")
      options.rows = true;
    else if (word == "--table" && i + 1 < argc)
      options.table = argv[++i];
    else
      return fail(ErrorCode::invalid_argument, fmt::format("'{}' is no option, or its file is missing", word),
                  "planner_speed [--table FILE] [--json] [--rows]");
  }
  if (options.table.empty())
    return fail(ErrorCode::not_found, "no table of measurements", "set GPUWARDEN_CORPUS, or give --table FILE");
  return options;
}

void show(const std::map<std::string, Group>& groups, bool as_json) {
  nlohmann::json all{{"schema", 1}};
  for (const auto& [name, group] : groups) {
    std::vector<double> errors;
    for (const double ratio : group.ratios) errors.push_back(100 * std::abs(ratio - 1));
    const double median = quantile(group.ratios, 0.5);
    all["groups"][name] = {{"rows", group.ratios.size()},
                           {"inside_range", group.inside},
                           {"median_ratio", median},
                           {"median_abs_percent", quantile(errors, 0.5)},
                           {"p90_abs_percent", quantile(errors, 0.9)}};
    if (as_json) continue;
    fmt::print(
        "  {:<28} {:>4} rows   {:>4} within the range   planned / measured {:.2f}   |error| median {:>4.1f}%  p90 "
        "{:>4.1f}%\n",
        name, group.ratios.size(), group.inside, median, quantile(errors, 0.5), quantile(errors, 0.9));
  }
  if (as_json) fmt::print("{}\n", all.dump(2));
}

Result<void> run(int argc, char** argv) {
  GPUWARDEN_TRY(const Options options, parse(argc, argv));
  GPUWARDEN_TRY(const std::vector<Row> rows, read_table(options.table));
  std::map<std::string, Group> groups;
  for (const Row& row : rows) {
    GPUWARDEN_TRY(const Planned answer, planned(row));
    for (const std::string& name : {answer.group, std::string("all")}) {
      groups[name].ratios.push_back(answer.ratio());
      groups[name].inside += answer.inside() ? 1 : 0;
    }
    if (options.rows && !options.as_json)
      fmt::print("{} {:<28} {:<38} measured {:>9.0f}   planned {:>9.0f} ({:.0f} to {:.0f}) {:.2f}\n",
                 answer.inside() ? "   " : "OUT", answer.group, answer.words, answer.measured, answer.speed.expected,
                 answer.speed.low, answer.speed.high, answer.ratio());
  }
  show(groups, options.as_json);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (const Result<void> result = run(argc, argv); !result) {
    fmt::print(stderr, "planner_speed: {}\n  {}\n", result.error().message, result.error().hint);
    return 2;
  }
  return 0;
}
