// SPDX-License-Identifier: Apache-2.0
#include "strangers/terminal.hpp"

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace gpuwarden::testing {
namespace {

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& one : strings) result.push_back(one.data());
  result.push_back(nullptr);
  return result;
}

using Clock = std::chrono::steady_clock;

}  // namespace

Terminal::Terminal(const std::vector<std::string>& argv, const Environment& environment) {
  // Everything is ready before the fork: the child only starts the program.
  std::vector<std::string> arguments = argv;
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  const auto argument_pointers = pointers(arguments);
  const auto variable_pointers = pointers(variables);
  const winsize size{kRows, kColumns, 0, 0};
  int master = -1;
  pid_ = ::forkpty(&master, nullptr, nullptr, &size);
  if (pid_ == 0) {
    ::execvpe(argument_pointers[0], argument_pointers.data(), variable_pointers.data());
    ::_exit(127);
  }
  master_.reset(master);
}

Terminal::~Terminal() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool Terminal::read_some(int timeout_ms) {
  pollfd waiting{master_.get(), POLLIN, 0};
  if (::poll(&waiting, 1, timeout_ms) <= 0) return true;
  std::array<char, 4096> buffer{};
  const ssize_t got = ::read(master_.get(), buffer.data(), buffer.size());
  if (got > 0) screen_.feed({buffer.data(), static_cast<std::size_t>(got)});
  return got > 0 || errno == EINTR;
}

bool Terminal::shows(const std::function<bool(const Screen&)>& wanted, std::chrono::milliseconds time) {
  const auto end = Clock::now() + time;
  while (!wanted(screen_)) {
    if (Clock::now() > end || !read_some(50)) return wanted(screen_);
  }
  return true;
}

void Terminal::type(std::string_view keys) {
  [[maybe_unused]] const ssize_t written = ::write(master_.get(), keys.data(), keys.size());
}

int Terminal::exit_code(std::chrono::milliseconds time) {
  const auto end = Clock::now() + time;
  while (Clock::now() < end) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    // What nobody reads would block the program on its way out.
    if (!read_some(20)) ::usleep(5000);
  }
  return -1;
}

}  // namespace gpuwarden::testing
