// SPDX-License-Identifier: Apache-2.0
// What live views cost on a terminal: how long until the first GPU is on it, the share of a core that they take at one
// reading a second (with all processes of theirs), and their memory. `gpuwarden top` beside nvtop and nvitop where they
// are installed.
//   bench_top [--real] [--peers FOLDER] [--seconds N] [ROUNDS]
// --real: this machine's own GPUs instead of a simulated h100x8; --peers: a folder with other versions of the peers, as
// the bin of a virtual environment: python3 -m venv V && V/bin/pip install nvitop && bench_top --peers V/bin.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "contender.hpp"

namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Settings {
  bool real = false;
  std::string peers;
  std::string awaited = "H100";  ///< what is on the terminal when a GPU is
  int seconds = 20;
  int rounds = 5;
};

struct View {
  std::string name;
  std::vector<std::string> argv;
};

/// Processor time and memory of a session's processes.
struct Cost {
  double cpu_ms = 0;
  double resident_mib = 0;
};

Cost cost_of_session(pid_t session) {
  Cost cost;
  const double tick_ms = 1000.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  const double page_mib = static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "stat");
    std::string line;
    if (!std::getline(file, line) || line.rfind(')') == std::string::npos) continue;
    std::istringstream words(line.substr(line.rfind(')') + 1));
    std::vector<std::string> fields;
    for (std::string word; words >> word;) fields.push_back(word);
    constexpr std::size_t kSession = 3, kFirstTime = 11, kLastTime = 14, kResident = 21;
    if (fields.size() <= kResident || fields[kSession] != std::to_string(session)) continue;
    for (std::size_t i = kFirstTime; i <= kLastTime; ++i) cost.cpu_ms += std::stod(fields[i]) * tick_ms;
    cost.resident_mib += std::stod(fields[kResident]) * page_mib;
  }
  return cost;
}

/// A program on a terminal of its own.
class OnTerminal {
 public:
  explicit OnTerminal(const std::vector<std::string>& words) {
    std::vector<std::string> copy = words;
    std::vector<char*> argv;
    for (std::string& word : copy) argv.push_back(word.data());
    argv.push_back(nullptr);
    winsize size{.ws_row = 50, .ws_col = 160};
    pid_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
    if (pid_ != 0) return;
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;
  ~OnTerminal() {
    ::kill(pid_, SIGTERM);
    read_for(milliseconds(300), "");
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(terminal_);
  }
  pid_t pid() const { return pid_; }

  /// Reads what it writes until this text came, or for so long; whether it came.
  bool read_for(milliseconds time, std::string_view awaited) {
    const auto end = SteadyClock::now() + time;
    std::string seen;
    while (SteadyClock::now() < end) {
      const auto left = std::chrono::duration_cast<milliseconds>(end - SteadyClock::now());
      pollfd source{terminal_, POLLIN, 0};
      if (::poll(&source, 1, static_cast<int>(left.count()) + 1) <= 0) continue;
      std::array<char, 65536> buffer{};
      const ssize_t count = ::read(terminal_, buffer.data(), buffer.size());
      if (count <= 0) return false;
      written_ += static_cast<std::size_t>(count);
      if (awaited.empty()) continue;
      seen.append(buffer.data(), static_cast<std::size_t>(count));
      if (seen.find(awaited) != std::string::npos) return true;
    }
    return false;
  }
  std::size_t written() const { return written_; }

 private:
  int terminal_ = -1;
  pid_t pid_ = -1;
  std::size_t written_ = 0;
};

void measure(const View& view, const Settings& settings) {
  std::vector<double> first;
  for (int round = 0; round < settings.rounds; ++round) {
    const auto begin = SteadyClock::now();
    OnTerminal program(view.argv);
    if (!program.read_for(std::chrono::seconds(20), settings.awaited)) {
      fmt::print("{:<28} showed no GPU within 20 s\n", view.name);
      return;
    }
    first.push_back(std::chrono::duration<double, std::milli>(SteadyClock::now() - begin).count());
  }
  std::ranges::sort(first);
  OnTerminal program(view.argv);
  // What a start costs is not what goes on costing.
  program.read_for(std::chrono::seconds(3), "");
  const Cost before = cost_of_session(program.pid());
  const std::size_t bytes = program.written();
  program.read_for(std::chrono::seconds(settings.seconds), "");
  const Cost after = cost_of_session(program.pid());
  fmt::print("{:<28} {:>9.1f} {:>9.1f} {:>9.2f} {:>9.1f} {:>9.0f}\n", view.name, first.front(), first[first.size() / 2],
             (after.cpu_ms - before.cpu_ms) / (settings.seconds * 10.0), after.resident_mib,
             static_cast<double>(program.written() - bytes) / settings.seconds);
}

Settings read_settings(std::span<char*> words) {
  Settings settings;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--real")
      settings.real = true, settings.awaited = "NVIDIA";
    else if (word == "--peers" && i + 1 < words.size())
      settings.peers = words[++i];
    else if (word == "--seconds" && i + 1 < words.size())
      settings.seconds = std::max(1, std::atoi(words[++i]));
    else
      settings.rounds = std::max(1, std::atoi(words[i]));
  }
  return settings;
}

/// Each at one reading a second.
std::vector<View> field_of(const Settings& settings) {
  std::vector<View> field{
      {"gpuwarden top", {std::string(GPUWARDEN_BIN_DIR) + "/gpuwarden", "top", "--interval", "1s"}}};
  const std::vector<std::pair<std::string, std::vector<std::string>>> peers{{"nvtop", {"-d", "10"}},
                                                                            {"nvitop", {"--interval", "1"}}};
  for (const auto& [name, arguments] : peers) {
    std::vector<std::string> found{gpuwarden::bench::find_program(name)};
    if (!settings.peers.empty()) found.push_back(gpuwarden::bench::find_program(name, settings.peers));
    std::erase(found, "");
    if (found.empty()) fmt::print("not installed: {}\n", name);
    for (const std::string& program : found) {
      View view{fmt::format("{} {}", name, gpuwarden::bench::version_of(program)), {program}};
      view.argv.insert(view.argv.end(), arguments.begin(), arguments.end());
      field.push_back(std::move(view));
    }
  }
  return field;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = read_settings({argv, static_cast<std::size_t>(argc)});
  ::setenv("TERM", "xterm-256color", 1);
  ::setenv("LC_ALL", "C.UTF-8", 1);
  if (!settings.real) {
    ::setenv("GPUWARDEN_SIM_FLEET", "h100x8", 1);
    ::setenv("GPUWARDEN_SIMULATE", "h100x8", 1);
    ::setenv("LD_LIBRARY_PATH", GPUWARDEN_SIM_LIB_DIR "/550", 1);
  }
  fmt::print("on a terminal of 160x50, {}, {} rounds, {} s\n",
             settings.real ? "this machine's GPUs" : "a simulated h100x8", settings.rounds, settings.seconds);
  fmt::print("{:<28} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "", "first ms", "median ms", "core %", "MiB", "bytes/s");
  for (const View& view : field_of(settings)) measure(view, settings);
  return 0;
}
