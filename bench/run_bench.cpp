// SPDX-License-Identifier: Apache-2.0
// What a launcher costs: eight ranks that do nothing, started bare, by `gpuwarden run` on a simulated h100x8, and by
// torchrun where it is installed; and how long a restart takes.
//   bench_run [--peers FOLDER] [ROUNDS]
// --peers: a folder with a newer torchrun than that on PATH.
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string_view>

#include "contender.hpp"

namespace {

using gpuwarden::bench::Contender;

/// Debian's PyTorch 1.13 under Python 3.11: torchrun looks its default of --redirects, "0", up among the members of an
/// enum.Flag, which leave out the one that is 0 since Python 3.11, and ends with "'NoneType' object has no attribute
/// 'get'" whatever it is to run. Mended here, so that there is something to compare with.
constexpr const char* kMendedTorchrun =
    "import torch.distributed.elastic.multiprocessing.api as a\n"
    "a.Std.from_str = classmethod(lambda c, v: a.Std(int(v)) if ':' not in v else {int(p.split(':')[0]): "
    "a.Std(int(p.split(':')[1])) for p in v.split(',')})\n"
    "from torch.distributed.run import main\n"
    "main()\n";

using Words = std::vector<std::string>;

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The first torchrun that works: its own command, its module where a Python has it, or Debian's, mended.
Words torchrun(const std::string& peers) {
  std::vector<Words> candidates;
  for (const std::string& folder : {peers, std::string()}) {
    if (const auto program = gpuwarden::bench::find_program("torchrun", folder); !program.empty())
      candidates.push_back({program});
  }
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    candidates.push_back({python, "-m", "torch.distributed.run"});
    candidates.push_back({python, "-c", kMendedTorchrun});
  }
  for (const Words& one : candidates) {
    if (gpuwarden::bench::succeeds(joined(one, {"--standalone", "--nproc_per_node", "1", "--no_python", "/bin/true"})))
      return one;
  }
  return {};
}

/// Milliseconds from the end of the last rank of a try to the start of the first one of the next: each rank notes both
/// down. Nothing where the job did not end as it should.
std::optional<double> restart_gap(const Words& launcher) {
  const std::string file = "/tmp/bench-restart-" + std::to_string(::getpid());
  std::remove(file.c_str());
  const std::string script = "t=$TORCHELASTIC_RESTART_COUNT; echo $t begin $(date +%s%N) >>" + file + "; sleep 0.2; " +
                             "echo $t end $(date +%s%N) >>" + file + "; [ $t = 1 ]";
  if (!gpuwarden::bench::succeeds(joined(launcher, {"/bin/sh", "-c", script}))) return std::nullopt;
  std::ifstream notes(file);
  long long ended = 0;
  long long begun = 0;
  std::string count;
  std::string what;
  for (long long time = 0; notes >> count >> what >> time;) {
    if (count == "0" && what == "end") ended = std::max(ended, time);
    if (count == "1" && what == "begin") begun = begun == 0 ? time : std::min(begun, time);
  }
  std::remove(file.c_str());
  if (ended == 0 || begun == 0) return std::nullopt;
  return static_cast<double>(begun - ended) / 1e6;
}

void print_gaps(const std::string& name, const Words& launcher, int rounds) {
  std::vector<double> gaps;
  for (int i = 0; i < rounds; ++i) {
    if (const auto gap = restart_gap(launcher)) gaps.push_back(*gap);
  }
  std::ranges::sort(gaps);
  if (gaps.empty())
    fmt::print("{:<34} (failed)\n", name);
  else
    fmt::print("{:<34} {:>9.1f} best {:>9.1f} median\n", name, gaps.front(), gaps[gaps.size() / 2]);
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 20;
  std::string peers;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--peers" && i + 1 < argc)
      peers = argv[++i];
    else
      rounds = std::max(1, std::atoi(argv[i]));
  }
  ::setenv("GPUWARDEN_SIMULATE", "h100x8", 1);
  const std::string program = GPUWARDEN_BIN_DIR "/gpuwarden";
  std::vector<Contender> field{
      {.name = "8 x /bin/true", .argv = {"/bin/true"}, .copies = 8},
      {.name = "gpuwarden run, 8 ranks",
       .argv = {program, "run", "-n", "8", "--nproc-per-node", "gpu", "-q", "--", "/bin/true"}}};
  const Words peer = torchrun(peers);
  const Words eight{"--standalone", "--nproc_per_node", "8", "--no_python"};
  if (!peer.empty()) {
    // Seconds a round: a few are enough.
    field.push_back(
        {.name = "torchrun, 8 ranks", .argv = joined(joined(peer, eight), {"/bin/true"}), .most_rounds = 3});
  } else {
    fmt::print("not installed, or does not run: torchrun\n");
  }
  fmt::print("8 ranks of /bin/true, {} interleaved rounds\n", rounds);
  gpuwarden::bench::compete(field, rounds);
  gpuwarden::bench::print_field(field);
  fmt::print("\nfrom the last rank's end to the first one's start in the next try, 8 ranks, in ms\n");
  print_gaps("gpuwarden run, --restart-delay 0s",
             {program, "run", "-n", "8", "--nproc-per-node", "gpu", "-q", "--max-restarts", "1", "--restart-delay",
              "0s", "--"},
             std::min(rounds, 5));
  if (!peer.empty()) print_gaps("torchrun", joined(joined(peer, {"--max_restarts", "1"}), eight), std::min(rounds, 3));
  return field[0].failed || field[1].failed ? 1 : 0;
}
