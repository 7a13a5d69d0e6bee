// SPDX-License-Identifier: Apache-2.0
// What `gpuwarden list` costs as a whole process, beside a ten-line C program on the same library and beside the peers
// that are installed. All rounds are interleaved, so that the machine's moods hit everybody alike.
//   bench_list [--real] [ROUNDS]      --real: this machine's own GPUs instead of a simulated h100x8
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct Contender {
  std::string name;
  std::vector<std::string> argv;
  std::vector<double> milliseconds;
  long peak_kib = 0;
  bool failed = false;
};

void run_once(Contender& contender) {
  std::vector<char*> argv;
  for (auto& text : contender.argv) argv.push_back(text.data());
  argv.push_back(nullptr);
  const auto start = std::chrono::steady_clock::now();
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int null = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  rusage usage{};
  ::wait4(pid, &status, 0, &usage);
  const auto end = std::chrono::steady_clock::now();
  contender.failed = contender.failed || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  contender.milliseconds.push_back(std::chrono::duration<double, std::milli>(end - start).count());
  contender.peak_kib = std::max(contender.peak_kib, usage.ru_maxrss);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const bool real = argc > 1 && std::string_view(argv[1]) == "--real";
  const int first = real ? 2 : 1;
  const int rounds = argc > first ? std::atoi(argv[first]) : 20;
  const std::string bin = GPUWARDEN_BIN_DIR;
  const std::string sim = GPUWARDEN_SIM_LIB_DIR "/550";
  if (!real) {
    ::setenv("GPUWARDEN_SIM_FLEET", "h100x8", 1);
    ::setenv("GPUWARDEN_SIMULATE", "h100x8", 1);
    ::setenv("LD_LIBRARY_PATH", sim.c_str(), 1);
  }
  std::vector<Contender> field{{"baseline (C, one value)", {bin + "/bench_baseline"}},
                               {"gpuwarden list", {bin + "/gpuwarden", "list"}},
                               {"gpuwarden list --json", {bin + "/gpuwarden", "list", "--json"}},
                               {"gpustat", {"gpustat", "--no-header"}}};
  // Peak memory of a fork starts at the parent's own, so this program stays small.
  for (int round = 0; round < std::max(rounds, 1); ++round) {
    for (Contender& contender : field) run_once(contender);
  }
  const double base_ms = median(field[0].milliseconds);
  const long base_kib = field[0].peak_kib;
  fmt::print("whole process on {}, median of {} interleaved rounds\n",
             real ? "this machine's GPUs" : "a simulated h100x8", std::max(rounds, 1));
  fmt::print("{:<26} {:>10} {:>14} {:>10} {:>14}\n", "", "wall ms", "above base", "peak MiB", "above base");
  for (const Contender& contender : field) {
    const double ms = median(contender.milliseconds);
    const auto mib = [](long kib) { return static_cast<double>(kib) / 1024; };
    fmt::print("{:<26} {:>10.1f} {:>14.1f} {:>10.1f} {:>14.1f}{}\n", contender.name, ms, ms - base_ms,
               mib(contender.peak_kib), mib(contender.peak_kib - base_kib), contender.failed ? "  (failed)" : "");
  }
  return field[0].failed || field[1].failed ? 1 : 0;
}
