// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/process.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden {
namespace {

std::unexpected<Error> signal_refused(Pid pid, int error_number) {
  if (error_number == ESRCH) return fail(ErrorCode::not_found, fmt::format("process {} has ended", pid.value));
  if (error_number == EPERM)
    return fail(ErrorCode::permission_denied,
                fmt::format("no permission to signal process {}: it is another user's", pid.value),
                "ask its owner, or use sudo");
  return std::unexpected(error_from_errno(error_number, fmt::format("cannot signal process {}", pid.value)));
}

}  // namespace

std::optional<ProcStat> parse_proc_stat(std::string_view text) {
  // The command may hold blanks and parentheses: what counts is behind the last one.
  const std::size_t behind = text.rfind(')');
  if (behind == std::string_view::npos) return std::nullopt;
  const auto words = split_words(text.substr(behind + 1));
  constexpr std::size_t kParent = 1, kUser = 11, kSystem = 12, kStart = 19, kResident = 21;
  if (words.size() <= kResident) return std::nullopt;
  const auto number = [&](std::size_t word) { return parse_integer(words[word]); };
  const auto parent = number(kParent), user = number(kUser), system = number(kSystem), start = number(kStart),
             resident = number(kResident);
  if (!parent || !user || !system || !start || !resident) return std::nullopt;
  return ProcStat{.parent = Pid{static_cast<std::int32_t>(*parent)},
                  .cpu_ticks = static_cast<std::uint64_t>(*user + *system),
                  .start_ticks = static_cast<std::uint64_t>(*start),
                  .resident_pages = static_cast<std::uint64_t>(*resident)};
}

Result<void> send_signal(Pid pid, std::optional<std::uint64_t> start_ticks, int signal) {
  if (pid.value <= 1) return fail(ErrorCode::invalid_argument, fmt::format("process {} gets no signal", pid.value));
  // The descriptor holds on to the process, so that the pid cannot become another's between the check and the signal.
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid.value, 0)));
  if (process.get() < 0 && errno != ENOSYS) return signal_refused(pid, errno);
  const auto text = read_file(fmt::format("/proc/{}/stat", pid.value));
  const auto stat = text ? parse_proc_stat(*text) : std::nullopt;
  if (!stat || (start_ticks && stat->start_ticks != *start_ticks)) return signal_refused(pid, ESRCH);
  const long sent = process.get() >= 0 ? ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0)
                                       : ::kill(pid.value, signal);
  if (sent != 0) return signal_refused(pid, errno);
  return {};
}

}  // namespace gpuwarden
