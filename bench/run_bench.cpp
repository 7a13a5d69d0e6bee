// SPDX-License-Identifier: Apache-2.0
// What a launcher costs: eight ranks that do nothing, started bare, by `gpuwarden run` on a simulated h100x8, and by
// torchrun where it is installed.
//   bench_run [ROUNDS]
#include <fmt/format.h>

#include <cstdlib>

#include "contender.hpp"

int main(int argc, char** argv) {
  using gpuwarden::bench::Contender;
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 20;
  ::setenv("GPUWARDEN_SIMULATE", "h100x8", 1);
  const std::string program = GPUWARDEN_BIN_DIR "/gpuwarden";
  std::vector<Contender> field{
      {.name = "8 x /bin/true", .argv = {"/bin/true"}, .copies = 8},
      {"gpuwarden list", {program, "list"}},
      {"gpuwarden run, 8 ranks", {program, "run", "-n", "8", "--nproc-per-node", "gpu", "-q", "--", "/bin/true"}}};
  fmt::print("8 ranks of /bin/true, {} interleaved rounds\n", rounds);
  gpuwarden::bench::compete(field, rounds);
  // Seconds a round: a few are enough.
  if (gpuwarden::bench::is_installed("torchrun")) {
    std::vector<Contender> torch{
        {"torchrun, 8 ranks", {"torchrun", "--standalone", "--nproc_per_node", "8", "--no_python", "/bin/true"}}};
    gpuwarden::bench::compete(torch, std::min(rounds, 3));
    field.push_back(std::move(torch.front()));
  }
  gpuwarden::bench::print_field(field);
  return field[0].failed || field[2].failed ? 1 : 0;
}
