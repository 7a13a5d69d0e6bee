// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "gpuwarden/base/child.hpp"
#include "launch/parts.hpp"

namespace gpuwarden::launch {
namespace {

/// Everything the child needs, made before the fork: after it only async-signal-safe calls are allowed.
struct Plan {
  ExecArray argv;
  ExecArray envp;
  int in = 0;
  int out = 1;
  int err = 2;
  int report = -1;
  bool own_group = true;
  pid_t parent = 0;
};

[[noreturn]] void become(const Plan& plan) {
  if (plan.own_group) ::setpgid(0, 0);
  // If the launcher dies, its ranks hear of it; if it died before this line, they end here.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != plan.parent) ::_exit(143);
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(plan.in, 0);
  ::dup2(plan.out, 1);
  ::dup2(plan.err, 2);
  ::execvpe(plan.argv.get()[0], plan.argv.get(), plan.envp.get());
  const int error = errno;
  [[maybe_unused]] const ssize_t sent = ::write(plan.report, &error, sizeof error);
  ::_exit(127);
}

/// Rank 0 reads our standard input; a terminal only if it is alone with it (a background group would be stopped).
UniqueFd choose_input(const Launchpad& pad, std::uint32_t local_rank) {
  const bool ours = local_rank == 0 && (pad.foreground || ::isatty(0) == 0);
  if (ours) return {};
  return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

Error exec_error(int error, const std::string& program) {
  Error told = error_from_errno(error, fmt::format("cannot run '{}'", program));
  if (told.code == ErrorCode::failed) told.code = ErrorCode::permission_denied;  // ENOEXEC and the like
  told.hint =
      told.code == ErrorCode::not_found ? "check the command's name and PATH" : "check that the file is executable";
  return told;
}

}  // namespace

Result<Rank> start_rank(const Launchpad& pad, std::uint32_t local_rank) {
  Rank rank;
  rank.number = pad.spec.node_rank * pad.spec.ranks + local_rank;
  rank.own_group = !pad.foreground;
  Plan plan{ExecArray(pad.spec.argv), ExecArray(rank_environment(pad.spec, local_rank, pad.port))};
  plan.own_group = rank.own_group;
  plan.parent = ::getpid();
  const UniqueFd input = choose_input(pad, local_rank);
  if (input) plan.in = input.get();
  GPUWARDEN_TRY(Pipe report, make_pipe());
  plan.report = report.write_end.get();
  Pipe out;
  Pipe err;
  if (pad.capture) {
    GPUWARDEN_TRY(out, make_pipe());
    GPUWARDEN_TRY(err, make_pipe());
    plan.out = out.write_end.get();
    plan.err = err.write_end.get();
  }
  rank.pid = ::fork();
  if (rank.pid < 0) return std::unexpected(error_from_errno(errno, "cannot start a process"));
  if (rank.pid == 0) become(plan);
  if (rank.own_group) ::setpgid(rank.pid, rank.pid);
  report.write_end.reset();
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(report.read_end.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof error) {
    ::waitpid(rank.pid, nullptr, 0);
    return std::unexpected(exec_error(error, pad.spec.argv[0]));
  }
  rank.out = std::move(out.read_end);
  rank.err = std::move(err.read_end);
  return rank;
}

}  // namespace gpuwarden::launch
