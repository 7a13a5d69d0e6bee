// SPDX-License-Identifier: Apache-2.0
// The memory pool beside other allocators, in one process and in interleaved rounds: memory_bench --help.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "memory/benchmarks.hpp"

namespace {

using namespace gpuwarden::bench;

constexpr std::string_view kHelp =
    R"(memory_bench BENCHMARK [OPTIONS] [TRACES]

BENCHMARK
  validate   every peer against published figures for what it stands for; code 1 if one is more than 2 % apart
  traces     recorded traces, once and six times over
  symbolic   a training step with random lengths, without and with recomputation
  grid       RMM's random_allocations: 1,000 to 100,000 operations, sizes up to 1 to 4,096 MiB
  serving    a server of a language model with a growing cache (synthetic)
  inference  synthetic inference of several kinds; the pool was not tuned on the ones kept back
  threads    CPU time of an operation with 1 to 16 threads
  pingpong   memory that crosses streams (simulated streams, priced driver calls)
  capped     the smallest device that completes, and how long single operations take near it
  soak       100 million operations; metadata by live block
  all        all of these

OPTIONS
  --rounds N       interleaved rounds, of which the best counts (3)
  --only A|B       contenders whose name contains A or B
  --workload W     workloads whose name contains W
  --steps N        steps of the traces with random lengths (60)
  --operations N   operations (soak, threads), steps (serving, pingpong)
  --threads LIST   numbers of threads (1,2,4,8,16)
  --upstream U     simulated (default) or cuda: the pool on a CUDA device, beside the driver's stream-ordered allocator
  --device N       which CUDA device (0)
  --json           one object for each benchmark and nothing else
TRACES             folder of traces; else memtraces below the environment's GPUWARDEN_CORPUS
)";

struct Benchmark {
  std::string_view name;
  Report (*run)(const Options&);
  bool needs_traces;
  bool on_cuda;  ///< makes sense with a real driver
};
constexpr Benchmark kBenchmarks[] = {
    {"validate", bench_validate, true, false}, {"traces", bench_traces, true, true},
    {"symbolic", bench_symbolic, true, true},  {"grid", bench_grid, false, true},
    {"serving", bench_serving, false, true},   {"inference", bench_inference, false, true},
    {"threads", bench_threads, false, true},   {"pingpong", bench_pingpong, false, false},
    {"capped", bench_capped, true, false},     {"soak", bench_soak, false, true},
};

struct Usage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Arguments {
  std::string benchmark;
  Options options;
  bool cuda = false;
  int device = 0;
};

std::uint64_t number(std::string_view option, std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > 1'000'000'000'000)
    throw Usage(fmt::format("{} wants a whole number, not '{}'", option, text));
  return value;
}

std::vector<unsigned> numbers(std::string_view option, std::string_view text) {
  std::vector<unsigned> all;
  while (true) {
    const std::size_t comma = text.find(',');
    const auto one = number(option, text.substr(0, comma));
    if (one == 0 || one > 1024) throw Usage(fmt::format("{} wants numbers from 1 to 1024", option));
    all.push_back(static_cast<unsigned>(one));
    if (comma == std::string_view::npos) return all;
    text.remove_prefix(comma + 1);
  }
}

/// Whether `option` was one with a value.
bool set_option(Arguments& arguments, std::string_view option, std::string_view value) {
  Options& options = arguments.options;
  if (option == "--rounds") {
    options.rounds = static_cast<unsigned>(std::max<std::uint64_t>(1, number(option, value)));
  } else if (option == "--steps") {
    options.steps = static_cast<unsigned>(std::max<std::uint64_t>(1, number(option, value)));
  } else if (option == "--operations") {
    options.operations = number(option, value);
  } else if (option == "--threads") {
    options.threads = numbers(option, value);
  } else if (option == "--only") {
    options.only = value;
  } else if (option == "--workload") {
    options.workload = value;
  } else if (option == "--device") {
    arguments.device = static_cast<int>(number(option, value));
  } else if (option == "--upstream") {
    if (value != "simulated" && value != "cuda") throw Usage("--upstream is 'simulated' or 'cuda'");
    arguments.cuda = value == "cuda";
  } else {
    return false;
  }
  return true;
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  if (const char* corpus = std::getenv("GPUWARDEN_CORPUS"); corpus != nullptr && *corpus != 0)
    arguments.options.traces = std::filesystem::path(corpus) / "memtraces";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json") {
      arguments.options.json = true;
    } else if (argument.starts_with("--")) {
      if (i + 1 == argc) throw Usage(fmt::format("{} is unknown or lacks its value", argument));
      if (!set_option(arguments, argument, argv[++i])) throw Usage(fmt::format("{} is unknown", argument));
    } else if (arguments.benchmark.empty()) {
      arguments.benchmark = argument;
    } else {
      arguments.options.traces = argument;
    }
  }
  if (arguments.benchmark.empty()) throw Usage("which benchmark?");
  return arguments;
}

/// Whether validation held; other benchmarks only report how they stand beside their goals.
bool run_one(const Benchmark& benchmark, const Arguments& arguments) {
  const Options& options = arguments.options;
  const char* const device = !arguments.cuda       ? "a simulated device that only counts"
                             : cuda_is_simulated() ? "CUDA, simulated driver"
                                                   : "CUDA";
  if (!options.json) fmt::print("\n== {}, on {} ==\n", benchmark.name, device);
  Report report = benchmark.run(options);
  report.device = device;
  if (options.json) {
    fmt::print("{}", to_json(report));
  } else {
    fmt::print("{}", to_text(report.goals));
  }
  return benchmark.run != bench_validate || std::ranges::all_of(report.goals, &Goal::met);
}

int run(const Arguments& arguments) {
  bool known = false;
  bool fine = true;
  for (const Benchmark& benchmark : kBenchmarks) {
    const bool all = arguments.benchmark == "all";
    if (!all && benchmark.name != arguments.benchmark) continue;
    known = true;
    if (arguments.cuda && !benchmark.on_cuda) {
      if (!all) throw Usage(fmt::format("{} runs on simulated devices only", benchmark.name));
      continue;
    }
    if (benchmark.needs_traces && arguments.options.traces.empty()) {
      if (!all) throw Usage("which traces? name their folder, or set GPUWARDEN_CORPUS");
      fmt::print(stderr, "{}: left out, no folder of traces was named\n", benchmark.name);
      continue;
    }
    fine = run_one(benchmark, arguments) && fine;
  }
  if (!known) throw Usage(fmt::format("there is no benchmark '{}'", arguments.benchmark));
  return fine ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc > 1 && (std::string_view(argv[1]) == "--help" || std::string_view(argv[1]) == "-h")) {
      fmt::print("{}", kHelp);
      return 0;
    }
    Arguments arguments = parse(argc, argv);
    arguments.options.contenders = arguments.cuda ? cuda_contenders(arguments.device) : contenders();
    return run(arguments);
  } catch (const Usage& error) {
    fmt::print(stderr, "memory_bench: {}\nmemory_bench --help says more\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "memory_bench: {}\n", error.what());
    return 2;
  }
}
