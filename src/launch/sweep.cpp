// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "launch/parts.hpp"
#include "launch/process.hpp"

namespace gpuwarden::launch {
namespace {

bool carries(pid_t pid, std::string_view entry) {
  const auto environment = read_file(fmt::format("/proc/{}/environ", pid), std::size_t{8} << 20U);
  if (!environment) return false;
  for (const auto text : split(*environment, '\0')) {
    if (text == entry) return true;
  }
  return false;
}

/// Taken hold of before it is looked at: what is signalled is what was looked at.
std::vector<Process> carriers(const std::string& run_id, std::optional<uid_t> owner) {
  const std::string entry = "GPUWARDEN_RUN_ID=" + run_id;
  std::vector<Process> found;
  for (const pid_t pid : all_pids()) {
    if (pid == ::getpid() || !belongs_to(pid, owner) || !carries(pid, entry)) continue;
    auto process = Process::open(pid);
    if (process && carries(pid, entry) && process->is_running()) found.push_back(std::move(*process));
  }
  return found;
}

}  // namespace

bool belongs_to(pid_t pid, std::optional<uid_t> owner) {
  struct stat info{};
  return !owner || (::stat(fmt::format("/proc/{}", pid).c_str(), &info) == 0 && info.st_uid == *owner);
}

std::vector<pid_t> processes_of_run(const std::string& run_id, std::optional<uid_t> owner) {
  std::vector<pid_t> pids;
  for (const Process& process : carriers(run_id, owner)) pids.push_back(process.pid());
  return pids;
}

bool end_processes(const std::function<std::vector<Process>()>& find, const EndPatience& patience, Clock& clock) {
  const auto start = clock.now();
  bool told = false;
  for (;;) {
    const std::vector<Process> left = find();
    const auto passed = clock.now() - start;
    if (left.empty()) return true;
    if (passed >= patience.whole) return false;
    const bool kill_now = passed >= patience.grace;
    for (const Process& process : left) {
      if (kill_now || !told) process.signal(kill_now ? SIGKILL : SIGTERM);
    }
    told = true;
    clock.sleep_for(patience.pause);
  }
}

std::vector<pid_t> sweep_run(const std::string& run_id, std::chrono::milliseconds grace,
                             std::chrono::milliseconds patience, Clock& clock, std::optional<uid_t> owner) {
  const bool ended =
      end_processes([&] { return carriers(run_id, owner); }, {grace, patience, std::chrono::milliseconds(10)}, clock);
  return ended ? std::vector<pid_t>{} : processes_of_run(run_id, owner);
}

}  // namespace gpuwarden::launch
