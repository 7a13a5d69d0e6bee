// SPDX-License-Identifier: Apache-2.0
#include "contender.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>

namespace gpuwarden::bench {
namespace {

pid_t start(Contender& contender) {
  std::vector<char*> argv;
  for (auto& text : contender.argv) argv.push_back(text.data());
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int null = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  return pid;
}

void run_once(Contender& contender) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<pid_t> pids;
  for (int i = 0; i < contender.copies; ++i) pids.push_back(start(contender));
  for (const pid_t pid : pids) {
    int status = 0;
    rusage usage{};
    ::wait4(pid, &status, 0, &usage);
    contender.failed = contender.failed || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    contender.peak_kib = std::max(contender.peak_kib, usage.ru_maxrss);
  }
  const auto end = std::chrono::steady_clock::now();
  contender.milliseconds.push_back(std::chrono::duration<double, std::milli>(end - begin).count());
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double mib(long kib) { return static_cast<double>(kib) / 1024; }

}  // namespace

void compete(std::vector<Contender>& field, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (Contender& contender : field) run_once(contender);
  }
}

void print_field(const std::vector<Contender>& field) {
  const Contender& base = field.front();
  const double fastest_of_base = std::ranges::min(base.milliseconds);
  const double median_of_base = median(base.milliseconds);
  fmt::print("{:<36} {:>9} {:>8} {:>10} {:>8} {:>9} {:>8}\n", "", "best ms", "above", "median ms", "above", "peak MiB",
             "above");
  for (const Contender& contender : field) {
    const double fastest = std::ranges::min(contender.milliseconds);
    const double middle = median(contender.milliseconds);
    fmt::print("{:<36} {:>9.1f} {:>8.1f} {:>10.1f} {:>8.1f} {:>9.1f} {:>8.1f}{}\n", contender.name, fastest,
               fastest - fastest_of_base, middle, middle - median_of_base, mib(contender.peak_kib),
               mib(contender.peak_kib - base.peak_kib), contender.failed ? "  (failed)" : "");
  }
}

bool is_installed(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace gpuwarden::bench
