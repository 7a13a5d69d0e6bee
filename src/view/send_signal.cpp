// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/view/host_processes.hpp"

namespace gpuwarden::view {
namespace {

std::unexpected<Error> refused(Pid pid, int error_number) {
  if (error_number == ESRCH) return fail(ErrorCode::not_found, fmt::format("process {} has ended", pid.value));
  if (error_number == EPERM)
    return fail(ErrorCode::permission_denied,
                fmt::format("no permission to signal process {}: it is another user's", pid.value),
                "ask its owner, or use sudo");
  return std::unexpected(error_from_errno(error_number, fmt::format("cannot signal process {}", pid.value)));
}

}  // namespace

Result<void> send_signal(Pid pid, std::optional<std::uint64_t> start_ticks, int signal) {
  if (pid.value <= 1) return fail(ErrorCode::invalid_argument, fmt::format("process {} gets no signal", pid.value));
  // The descriptor holds on to the process, so that the pid cannot become another's between the check and the signal.
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid.value, 0)));
  if (process.get() < 0 && errno != ENOSYS) return refused(pid, errno);
  const auto text = read_file(fmt::format("/proc/{}/stat", pid.value));
  const auto stat = text ? parse_proc_stat(*text) : std::nullopt;
  if (!stat || (start_ticks && stat->start_ticks != *start_ticks)) return refused(pid, ESRCH);
  const long sent = process.get() >= 0 ? ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0)
                                       : ::kill(pid.value, signal);
  if (sent != 0) return refused(pid, errno);
  return {};
}

}  // namespace gpuwarden::view
