// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/foreground.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "gpuwarden/base/child.hpp"
#include "gpuwarden/base/scope_guard.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::launch {
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

constexpr auto kSignals = std::to_array<ProgramSignal>(
    {{SIGINT, false}, {SIGQUIT, false}, {SIGTERM, true}, {SIGHUP, true}, {SIGUSR1, true}, {SIGUSR2, true}});

using Dispositions = std::array<struct sigaction, kSignals.size()>;

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

/// The errno of an exec that failed. The first file that is there counts, one that can be run before all others.
int exec(const std::vector<std::string>& argv, const Environment& environment) {
  const ExecArray words(argv);
  const ExecArray variables(environment);
  std::fflush(nullptr);
  int error = ENOENT;
  for (const std::string& file : program_files(argv[0], environment)) {
    // With a folder in its name execvpe looks nowhere else; a script without #! is run by sh.
    ::execvpe(file.c_str(), words.get(), variables.get());
    const bool absent = errno == ENOENT || errno == ENOTDIR || errno == ENODEV || errno == ESTALE || errno == ETIMEDOUT;
    if (!absent) error = errno;
    if (!absent && error != EACCES) return error;
  }
  return error;
}

Error no_program() { return {ErrorCode::invalid_argument, "no program to run was given", {}}; }

Error cannot_run(int error, const std::string& program) {
  Error told = error_from_errno(error, "cannot run " + printable(program));
  if (told.code == ErrorCode::failed) told.code = ErrorCode::permission_denied;  // ENOEXEC and the like
  return told;
}

}  // namespace

Error become_program(const std::vector<std::string>& argv, const Environment& environment) {
  return argv.empty() ? no_program() : cannot_run(exec(argv, environment), argv[0]);
}

Result<int> run_in_foreground(const std::vector<std::string>& argv, const Environment& environment,
                              const std::string& pid_variable) {
  if (argv.empty()) return std::unexpected(no_program());
  GPUWARDEN_TRY(Pipe report, make_pipe());
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
    if (!pid_variable.empty()) own[pid_variable] = std::to_string(::getpid());
    const int error = exec(argv, own);
    [[maybe_unused]] const ssize_t told = ::write(report.write_end.get(), &error, sizeof error);
    ::_exit(127);
  }
  g_program = child;
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  report.write_end.reset();
  int error = 0;
  ssize_t told = 0;
  do {
    told = ::read(report.read_end.get(), &error, sizeof error);
  } while (told < 0 && errno == EINTR);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  g_program = 0;
  if (told == static_cast<ssize_t>(sizeof error)) return std::unexpected(cannot_run(error, argv[0]));
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace gpuwarden::launch
