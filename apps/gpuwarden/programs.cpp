// SPDX-License-Identifier: Apache-2.0
#include "programs.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "command.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/child.hpp"
#include "gpuwarden/base/scope_guard.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::cli {
namespace {

volatile std::sig_atomic_t g_program = 0;

void pass_on(int signal) {
  if (g_program > 0) ::kill(g_program, signal);
}

/// Signals that mean the program. What a terminal sends both of them is ignored here, what only this process gets is
/// passed on.
struct ProgramSignal {
  int number;
  bool passed_on;
};

constexpr auto kSignals =
    std::to_array<ProgramSignal>({{SIGINT, false}, {SIGQUIT, false}, {SIGTERM, true}, {SIGHUP, true}});

using Dispositions = std::array<struct sigaction, kSignals.size()>;

/// What was ignored before (nohup) stays ignored.
Dispositions take_signals() {
  Dispositions before{};
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i].number, nullptr, &before[i]);
    if (before[i].sa_handler == SIG_IGN) continue;
    struct sigaction action{};
    action.sa_handler = kSignals[i].passed_on ? pass_on : SIG_IGN;
    ::sigaction(kSignals[i].number, &action, nullptr);
  }
  return before;
}

void give_signals_back(const Dispositions& before) {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i].number, &before[i], nullptr);
}

}  // namespace

int exec_program(const std::vector<std::string>& argv, const Environment& environment) {
  const ExecArray words(argv);
  const ExecArray variables(environment);
  // execvpe looks on this process's PATH.
  if (const auto path = environment.find("PATH"); path != environment.end()) ::setenv("PATH", path->second.c_str(), 1);
  std::fflush(nullptr);
  ::execvpe(words.get()[0], words.get(), variables.get());
  const int error = errno;
  complain(error_from_errno(error, "cannot run " + printable(argv[0])));
  return error == ENOENT ? kNotFound : kNotExecutable;
}

Result<int> run_program(const std::vector<std::string>& argv, const Environment& environment,
                        const std::function<void(Environment&)>& in_child) {
  std::fflush(nullptr);
  const Dispositions before = take_signals();
  const ScopeGuard restore([&] { give_signals_back(before); });
  // A signal that comes before its receiver is known waits until it is.
  sigset_t passed_on;
  sigset_t mask;
  sigemptyset(&passed_on);
  for (const ProgramSignal& signal : kSignals) sigaddset(&passed_on, signal.number);
  ::sigprocmask(SIG_BLOCK, &passed_on, &mask);
  const ScopeGuard unmask([&] { ::sigprocmask(SIG_SETMASK, &mask, nullptr); });
  const pid_t child = ::fork();
  if (child < 0) return std::unexpected(error_from_errno(errno, "cannot start " + printable(argv[0])));
  if (child == 0) {
    give_signals_back(before);
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
    Environment own = environment;
    if (in_child) in_child(own);
    ::_exit(exec_program(argv, own));
  }
  g_program = child;
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  g_program = 0;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace gpuwarden::cli
