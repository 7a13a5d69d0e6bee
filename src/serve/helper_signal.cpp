// SPDX-License-Identifier: Apache-2.0
// A signal in the name of the user who asks for it.
#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "serve/helper_request.hpp"

namespace gpuwarden::serve {
namespace {

/// In a process of its own, which is that user's and nobody else's: the kernel judges. Gives 0 or an errno.
int send_as(std::uint32_t user, Pid pid, int signal) {
  // Anyone may send SIGCONT within his own session (kill(2)), and the server's session is not the user's.
  if (::setsid() < 0) return errno;
  if (::setresuid(user, user, user) != 0) return errno;
  // The descriptor holds on to the process where there are such.
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, pid.value, 0));
  if (process < 0 && errno != ENOSYS) return errno;
  const long sent =
      process >= 0 ? ::syscall(SYS_pidfd_send_signal, process, signal, nullptr, 0) : ::kill(pid.value, signal);
  return sent == 0 ? 0 : errno;
}

}  // namespace

Result<void> signal_as(std::uint32_t user, Pid pid, int signal) {
  const pid_t child = ::fork();
  if (child < 0) return std::unexpected(error_from_errno(errno, "cannot start a process that sends the signal"));
  if (child == 0) ::_exit(send_as(user, pid, signal));
  int status = 0;
  // It is that user's, who may stop it: nobody else's request waits for that.
  while (::waitpid(child, &status, WUNTRACED) < 0 && errno == EINTR) continue;
  if (!WIFEXITED(status)) return fail(ErrorCode::failed, "the process that sends the signal was killed or stopped");
  const int error_number = WEXITSTATUS(status);
  if (error_number == 0) return {};
  if (error_number == ESRCH) return fail(ErrorCode::not_found, fmt::format("process {} has ended", pid.value));
  if (error_number == EPERM)
    return fail(ErrorCode::permission_denied,
                fmt::format("process {} is not that of user {}, who asks", pid.value, user),
                "each signals his own processes");
  return std::unexpected(error_from_errno(error_number, fmt::format("cannot signal process {}", pid.value)));
}

}  // namespace gpuwarden::serve
