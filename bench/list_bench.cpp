// SPDX-License-Identifier: Apache-2.0
// What `gpuwarden list` and `gpuwarden --help` cost as whole processes, beside a ten-line C program on the same library
// and beside the peers that are installed.
//   bench_list [--real] [--peers FOLDER] [ROUNDS]
// --real: this machine's own GPUs instead of a simulated h100x8; --peers: a folder with newer versions of the peers
// than those on PATH.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string_view>

#include "contender.hpp"

namespace {

using gpuwarden::bench::Contender;

/// Peers take up to a second a round.
constexpr int kMostRoundsOfPeers = 5;

struct Settings {
  bool real = false;
  std::string peers;
  int rounds = 20;
};

Settings read_settings(std::span<char*> words) {
  Settings settings;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--real")
      settings.real = true;
    else if (word == "--peers" && i + 1 < words.size())
      settings.peers = words[++i];
    else
      settings.rounds = std::max(1, std::atoi(words[i]));
  }
  return settings;
}

/// What makes a peer print once and end. An nvtop before 3.1 wants a terminal, and a key to end.
std::vector<std::string> command_of(const std::string& peer, const std::string& program) {
  if (peer == "gpustat") return {program, "--no-header"};
  if (peer == "nvitop") return {program, "--once"};
  if (gpuwarden::bench::succeeds({"sh", "-c", program + " --help | grep -q snapshot"})) return {program, "--snapshot"};
  return {"sh", "-c", "printf q | TERM=xterm script -qec " + program + " /dev/null"};
}

void add_peers(const Settings& settings, std::vector<Contender>& field) {
  for (const std::string peer : {"gpustat", "nvitop", "nvtop"}) {
    std::vector<std::string> found{gpuwarden::bench::find_program(peer)};
    if (!settings.peers.empty()) found.push_back(gpuwarden::bench::find_program(peer, settings.peers));
    std::erase(found, "");
    if (found.empty()) fmt::print("not installed: {}\n", peer);
    for (const std::string& program : found) {
      field.push_back({.name = fmt::format("{} {}", peer, gpuwarden::bench::version_of(program)),
                       .argv = command_of(peer, program),
                       .most_rounds = kMostRoundsOfPeers});
    }
  }
}

void use_simulated_fleet() {
  ::setenv("GPUWARDEN_SIM_FLEET", "h100x8", 1);
  ::setenv("GPUWARDEN_SIMULATE", "h100x8", 1);
  ::setenv("LD_LIBRARY_PATH", GPUWARDEN_SIM_LIB_DIR "/550", 1);
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = read_settings({argv, static_cast<std::size_t>(argc)});
  const std::string bin = GPUWARDEN_BIN_DIR;
  const std::string gpuwarden = bin + "/gpuwarden";
  if (!settings.real) use_simulated_fleet();
  fmt::print("whole processes on {}, {} interleaved rounds\n",
             settings.real ? "this machine's GPUs" : "a simulated h100x8", settings.rounds);
  std::vector<Contender> field{{.name = "baseline (C, one value)", .argv = {bin + "/bench_baseline"}},
                               {.name = "gpuwarden list", .argv = {gpuwarden, "list"}},
                               {.name = "gpuwarden list --json", .argv = {gpuwarden, "list", "--json"}}};
  add_peers(settings, field);
  gpuwarden::bench::compete(field, settings.rounds);
  gpuwarden::bench::print_field(field);
  std::vector<Contender> help{{.name = "/bin/true", .argv = {"/bin/true"}},
                              {.name = "gpuwarden --help", .argv = {gpuwarden, "--help"}}};
  gpuwarden::bench::compete(help, settings.rounds);
  gpuwarden::bench::print_field(help);
  return field[0].failed || field[1].failed || help[1].failed ? 1 : 0;
}
