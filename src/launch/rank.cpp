// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "launch/parts.hpp"

namespace gpuwarden::launch {
namespace {

/// A descriptor of the hangup pipe of the rank's own: the kernel kills the rank's process group when the last guardian
/// is gone. A rank that closes it, or that leaves its group, does without.
void die_with_guardians(const Plan& plan) {
  const int fd = ::open(plan.hangup_path.c_str(), O_RDONLY | O_NONBLOCK);
  if (fd < 0) return;
  const pid_t self = ::getpid();
  ::fcntl(fd, F_SETSIG, SIGKILL);
  ::fcntl(fd, F_SETOWN, plan.own_groups ? -self : self);
  ::fcntl(fd, F_SETFL, O_NONBLOCK | O_ASYNC);
}

void restore_signals(const sigset_t& ignored) {
  for (int signal = 1; signal < NSIG; ++signal)
    ::signal(signal, sigismember(&ignored, signal) == 1 ? SIG_IGN : SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void take_stream(const UniqueFd& fd, int as) {
  if (fd) ::dup2(fd.get(), as);
}

}  // namespace

std::vector<unsigned long> affinity_mask(const std::vector<unsigned>& cpus) {
  constexpr unsigned kBits = 8 * sizeof(unsigned long);
  std::vector<unsigned long> mask;
  for (const unsigned cpu : cpus) {
    if (mask.size() <= cpu / kBits) mask.resize(cpu / kBits + 1);
    mask[cpu / kBits] |= 1UL << (cpu % kBits);
  }
  return mask;
}

void become_rank(const Plan& plan, std::uint32_t local_rank) {
  Seat& seat = plan.board->seat(local_rank);
  seat.pid.store(::getpid());
  ::setpgid(0, plan.own_groups ? 0 : plan.launcher_group);
  die_with_guardians(plan);
  restore_signals(plan.ignored);
  ::setrlimit(RLIMIT_NOFILE, &plan.files);
  const RankPlan& rank = plan.ranks[local_rank];
  // The system call, since cpu_set_t ends at 1024 CPUs.
  if (!rank.cpus.empty())
    ::syscall(SYS_sched_setaffinity, 0, rank.cpus.size() * sizeof(unsigned long), rank.cpus.data());
  take_stream(rank.in, 0);
  take_stream(rank.out, 1);
  take_stream(rank.err, 2);
  for (const int descriptor : plan.outer_leases) ::close(descriptor);
  ::execvpe(plan.argv.get()[0], plan.argv.get(), rank.envp.get());
  seat.exec_error.store(errno);
  ::_exit(127);
}

pid_t fork_rank(const Plan& plan) {
  if (plan.group >= 0) {
    clone_args args{};
    args.flags = CLONE_INTO_CGROUP;
    args.exit_signal = SIGCHLD;
    args.cgroup = static_cast<std::uint64_t>(plan.group);
    const auto pid = static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args));
    if (pid >= 0) return pid;
  }
  return ::fork();
}

Error exec_error(int error, const std::string& program) {
  Error told = error_from_errno(error, fmt::format("cannot run '{}'", program));
  if (told.code == ErrorCode::failed) told.code = ErrorCode::permission_denied;  // ENOEXEC and the like
  told.hint =
      told.code == ErrorCode::not_found ? "check the command's name and PATH" : "check that the file is executable";
  return told;
}

}  // namespace gpuwarden::launch
