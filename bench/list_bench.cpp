// SPDX-License-Identifier: Apache-2.0
// What `gpuwarden list` and `gpuwarden --help` cost as whole processes, beside a ten-line C program on the same library
// and beside the peers that are installed.
//   bench_list [--real] [--peers FOLDER] [ROUNDS]
// --real: this machine's own GPUs instead of a simulated h100x8; --peers: a Python environment's bin folder, with
// gpustat or nvitop of PyPI.
#include <fmt/format.h>

#include <cstdlib>
#include <span>
#include <string_view>

#include "contender.hpp"

namespace {

using gpuwarden::bench::Contender;

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

std::vector<Contender> contenders(const Settings& settings) {
  const std::string bin = GPUWARDEN_BIN_DIR;
  std::vector<Contender> field{{"baseline (C, one value)", {bin + "/bench_baseline"}},
                               {"gpuwarden list", {bin + "/gpuwarden", "list"}},
                               {"gpuwarden list --json", {bin + "/gpuwarden", "list", "--json"}}};
  if (gpuwarden::bench::is_installed("gpustat")) field.push_back({"gpustat", {"gpustat", "--no-header"}});
  if (!settings.peers.empty()) {
    field.push_back({"gpustat (PyPI)", {settings.peers + "/gpustat", "--no-header"}});
    field.push_back({"nvitop --once (PyPI)", {settings.peers + "/nvitop", "--once"}});
  }
  // nvtop wants a terminal, and a key to end.
  if (gpuwarden::bench::is_installed("nvtop") && gpuwarden::bench::is_installed("script"))
    field.push_back(
        {"nvtop, until its first frame", {"sh", "-c", "printf q | TERM=xterm script -qec nvtop /dev/null"}});
  return field;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = read_settings({argv, static_cast<std::size_t>(argc)});
  if (!settings.real) {
    const std::string sim = GPUWARDEN_SIM_LIB_DIR "/550";
    ::setenv("GPUWARDEN_SIM_FLEET", "h100x8", 1);
    ::setenv("GPUWARDEN_SIMULATE", "h100x8", 1);
    ::setenv("LD_LIBRARY_PATH", sim.c_str(), 1);
  }
  auto field = contenders(settings);
  fmt::print("whole process on {}, {} interleaved rounds\n",
             settings.real ? "this machine's GPUs" : "a simulated h100x8", settings.rounds);
  gpuwarden::bench::compete(field, settings.rounds);
  gpuwarden::bench::print_field(field);
  std::vector<Contender> help{{"/bin/true", {"/bin/true"}},
                              {"gpuwarden --help", {std::string(GPUWARDEN_BIN_DIR) + "/gpuwarden", "--help"}}};
  gpuwarden::bench::compete(help, settings.rounds);
  gpuwarden::bench::print_field(help);
  return field[0].failed || field[1].failed || help[1].failed ? 1 : 0;
}
