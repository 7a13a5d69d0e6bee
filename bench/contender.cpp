// SPDX-License-Identifier: Apache-2.0
#include "contender.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>

namespace gpuwarden::bench {
namespace {

pid_t start(const std::vector<std::string>& words) {
  std::vector<std::string> copy = words;
  std::vector<char*> argv;
  for (auto& text : copy) argv.push_back(text.data());
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

double milliseconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) * 1000 + static_cast<double>(time.tv_usec) / 1000;
}

bool ended_well(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

void run_once(Contender& contender) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<pid_t> pids;
  for (int i = 0; i < contender.copies; ++i) pids.push_back(start(contender.argv));
  Round round;
  for (const pid_t pid : pids) {
    int status = 0;
    rusage usage{};
    ::wait4(pid, &status, 0, &usage);
    contender.failed = contender.failed || !ended_well(status);
    round.cpu_ms += milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime);
    round.faults += static_cast<double>(usage.ru_minflt);
    round.peak_mib = std::max(round.peak_mib, static_cast<double>(usage.ru_maxrss) / 1024);
  }
  const auto end = std::chrono::steady_clock::now();
  round.wall_ms = std::chrono::duration<double, std::milli>(end - begin).count();
  contender.rounds.push_back(round);
}

std::vector<double> column(const Contender& contender, double Round::* value) {
  std::vector<double> values;
  for (const Round& round : contender.rounds) values.push_back(round.*value);
  std::ranges::sort(values);
  return values;
}

double best(const Contender& contender, double Round::* value) { return column(contender, value).front(); }

double median(const Contender& contender, double Round::* value) {
  const auto values = column(contender, value);
  return values[values.size() / 2];
}

struct Column {
  const char* name;
  double (*of)(const Contender&);
  int digits;
};

constexpr std::array kColumns{Column{"best ms", [](const Contender& c) { return best(c, &Round::wall_ms); }, 1},
                              Column{"median ms", [](const Contender& c) { return median(c, &Round::wall_ms); }, 1},
                              Column{"cpu ms", [](const Contender& c) { return median(c, &Round::cpu_ms); }, 1},
                              Column{"faults", [](const Contender& c) { return median(c, &Round::faults); }, 0},
                              Column{"peak MiB", [](const Contender& c) { return median(c, &Round::peak_mib); }, 1}};

}  // namespace

void compete(std::vector<Contender>& field, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (Contender& contender : field) {
      if (contender.most_rounds == 0 || round < contender.most_rounds) run_once(contender);
    }
  }
}

void print_field(const std::vector<Contender>& field) {
  fmt::print("{:<34}", "");
  for (const Column& column : kColumns) fmt::print(" {:>9} {:>7}", column.name, "above");
  fmt::print("\n");
  for (const Contender& contender : field) {
    fmt::print("{:<34}", contender.name);
    for (const Column& column : kColumns) {
      const double value = column.of(contender);
      fmt::print(" {0:>9.{2}f} {1:>7.{2}f}", value, value - column.of(field.front()), column.digits);
    }
    fmt::print("{}\n", contender.failed ? "  (failed)" : "");
  }
}

std::string find_program(const std::string& name, const std::string& folder) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(!folder.empty() ? folder : path != nullptr ? path : "");
  for (std::string at; std::getline(folders, at, ':');) {
    const std::string file = fmt::format("{}/{}", at, name);
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

std::string version_of(const std::string& program) {
  const std::unique_ptr<FILE, int (*)(FILE*)> answer(::popen((program + " --version 2>&1").c_str(), "r"), ::pclose);
  std::array<char, 256> line{};
  if (!answer || std::fgets(line.data(), line.size(), answer.get()) == nullptr) return "";
  std::istringstream words(line.data());
  std::string last;
  while (words >> last) continue;
  return last;
}

bool succeeds(const std::vector<std::string>& argv) {
  int status = 0;
  return ::waitpid(start(argv), &status, 0) > 0 && ended_well(status);
}

}  // namespace gpuwarden::bench
