// SPDX-License-Identifier: Apache-2.0
// What a launcher costs: eight ranks that do nothing, started bare, by `gpuwarden run` on a simulated h100x8, and by
// torchrun where it is installed.
//   bench_run [--peers FOLDER] [ROUNDS]
// --peers: a folder with a newer torchrun than that on PATH.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "contender.hpp"

namespace {

using gpuwarden::bench::Contender;

/// torchrun's own command, or its module where a Python has it.
std::vector<std::string> torchrun(const std::string& peers) {
  for (const std::string& folder : {peers, std::string()}) {
    if (const auto program = gpuwarden::bench::find_program("torchrun", folder); !program.empty()) return {program};
  }
  if (gpuwarden::bench::succeeds({"python3", "-c", "import torch.distributed.run"}))
    return {"python3", "-m", "torch.distributed.run"};
  return {};
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
  if (auto command = torchrun(peers); !command.empty()) {
    for (const char* word : {"--standalone", "--nproc_per_node", "8", "--no_python", "/bin/true"})
      command.emplace_back(word);
    // Seconds a round: a few are enough.
    field.push_back({.name = "torchrun, 8 ranks", .argv = std::move(command), .most_rounds = 3});
  } else {
    fmt::print("not installed: torchrun\n");
  }
  fmt::print("8 ranks of /bin/true, {} interleaved rounds\n", rounds);
  gpuwarden::bench::compete(field, rounds);
  gpuwarden::bench::print_field(field);
  return field[0].failed || field[1].failed ? 1 : 0;
}
