// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "launch/parts.hpp"

namespace gpuwarden::launch {
namespace {

/// The process's state letter, or nothing when it is gone.
std::optional<char> state_of(const std::filesystem::path& folder) {
  const auto stat = read_line(folder / "stat");
  const std::size_t name_end = stat ? stat->rfind(')') : std::string::npos;
  if (name_end == std::string::npos || name_end + 2 >= stat->size()) return std::nullopt;
  return (*stat)[name_end + 2];
}

bool carries(std::string_view environment, std::string_view entry) {
  for (const auto text : split(environment, '\0')) {
    if (text == entry) return true;
  }
  return false;
}

}  // namespace

std::vector<pid_t> processes_of_run(const std::string& run_id) {
  const std::string entry = "GPUWARDEN_RUN_ID=" + run_id;
  std::vector<pid_t> found;
  for (const auto& folder : list_directory("/proc")) {
    const auto pid = parse_integer(folder.filename().string());
    if (!pid || *pid == ::getpid()) continue;
    const auto environment = read_file(folder / "environ", std::size_t{8} << 20U);
    if (!environment || !carries(*environment, entry)) continue;
    const auto state = state_of(folder);
    if (state && *state != 'Z' && *state != 'X') found.push_back(static_cast<pid_t>(*pid));
  }
  return found;
}

std::vector<pid_t> sweep_run(const std::string& run_id, std::chrono::milliseconds grace,
                             std::chrono::milliseconds patience) {
  using SteadyClock = std::chrono::steady_clock;
  const auto start = SteadyClock::now();
  std::vector<pid_t> left = processes_of_run(run_id);
  bool told = false;
  while (!left.empty() && SteadyClock::now() - start < patience) {
    const bool kill_now = SteadyClock::now() - start >= grace;
    for (const pid_t pid : left) {
      if (kill_now || !told) ::kill(pid, kill_now ? SIGKILL : SIGTERM);
    }
    told = true;
    ::usleep(10000);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;  // orphans that came to us
    left = processes_of_run(run_id);
  }
  return left;
}

}  // namespace gpuwarden::launch
