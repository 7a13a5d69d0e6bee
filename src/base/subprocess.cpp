// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/subprocess.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>

#include "gpuwarden/base/child.hpp"
#include "gpuwarden/base/text.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace gpuwarden {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// Our ends of the child's three streams, and the child.
struct Running {
  pid_t pid = -1;
  UniqueFd in;
  UniqueFd out;
  UniqueFd err;
};

/// In the child between fork and exec only async-signal-safe calls are made; everything was prepared before.
[[noreturn]] void become(const std::array<int, 3>& streams, int report, char* const* argv, char* const* envp) {
  for (int i = 0; i < 3; ++i) ::dup2(streams[static_cast<std::size_t>(i)], i);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::execvpe(argv[0], argv, envp);
  const int error = errno;
  [[maybe_unused]] const ssize_t sent = ::write(report, &error, sizeof error);
  ::_exit(127);
}

Result<Running> start(const Command& command) {
  GPUWARDEN_TRY(Pipe in, make_pipe());
  GPUWARDEN_TRY(Pipe out, make_pipe());
  GPUWARDEN_TRY(Pipe err, make_pipe());
  GPUWARDEN_TRY(Pipe report, make_pipe());
  const ExecArray argv(command.argv);
  const ExecArray env(command.environment.value_or(Environment{}));
  char* const* envp = command.environment ? env.get() : environ;
  const pid_t caller = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return std::unexpected(error_from_errno(errno, "cannot start a process"));
  if (pid == 0) {
    ::setpgid(0, 0);
    if (command.dies_with_caller) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (command.dies_with_caller && ::getppid() != caller) ::_exit(127);
    become({in.read_end.get(), out.write_end.get(), err.write_end.get()}, report.write_end.get(), argv.get(), envp);
  }
  ::setpgid(pid, pid);
  report.write_end.reset();
  int error = 0;
  if (::read(report.read_end.get(), &error, sizeof error) == sizeof error) {
    ::waitpid(pid, nullptr, 0);
    return std::unexpected(error_from_errno(error, "cannot run " + command.argv[0]));
  }
  return Running{pid, std::move(in.write_end), std::move(out.read_end), std::move(err.read_end)};
}

/// Moves what is ready from `fd` into `text`, up to `cap` bytes in all; closes `fd` at its end.
void drain(UniqueFd& fd, std::string& text, std::size_t cap, bool& truncated) {
  std::array<char, 65536> block;
  const ssize_t got = ::read(fd.get(), block.data(), block.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) return fd.reset();
  const std::size_t room = cap - std::min(cap, text.size());
  text.append(block.data(), std::min(room, static_cast<std::size_t>(got)));
  truncated = truncated || room < static_cast<std::size_t>(got);
}

void feed(UniqueFd& fd, std::string_view& input) {
  const ssize_t sent = input.empty() ? 0 : ::write(fd.get(), input.data(), input.size());
  if (sent > 0) input.remove_prefix(static_cast<std::size_t>(sent));
  if (input.empty() || (sent < 0 && errno != EINTR && errno != EAGAIN)) fd.reset();
}

/// Serves the three streams until the child has closed its outputs or the deadline passes; false at the deadline.
bool serve(Running& child, const Command& command, SteadyClock::time_point end, Completed& result) {
  std::string_view input = command.standard_input;
  for (const int fd : {child.in.get(), child.out.get(), child.err.get()}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
  while (child.out || child.err) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - SteadyClock::now()).count();
    if (left <= 0) return false;
    std::array<pollfd, 3> fds{
        {{child.in.get(), POLLOUT, 0}, {child.out.get(), POLLIN, 0}, {child.err.get(), POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), static_cast<int>(std::min<std::int64_t>(left, 60000))) < 0) continue;
    if (fds[0].revents != 0) feed(child.in, input);
    if (fds[1].revents != 0) drain(child.out, result.standard_output, command.output_cap, result.truncated);
    if (fds[2].revents != 0) drain(child.err, result.standard_error, command.output_cap, result.truncated);
  }
  return true;
}

/// Waits for the child's end until the deadline; nothing when it did not come.
std::optional<int> wait_until(pid_t pid, SteadyClock::time_point end) {
  int status = 0;
  auto pause = std::chrono::microseconds(200);
  for (;;) {
    const pid_t done = ::waitpid(pid, &status, WNOHANG);
    if (done == pid) return status;
    if (done < 0 && errno != EINTR) return 0;
    if (SteadyClock::now() >= end) return std::nullopt;
    ::usleep(static_cast<useconds_t>(pause.count()));
    pause = std::min(pause * 2, std::chrono::microseconds(20000));
  }
}

}  // namespace

Result<Completed> run_command(const Command& command) {
  if (command.argv.empty()) return fail(ErrorCode::invalid_argument, "no program to run was given");
  GPUWARDEN_TRY(Running child, start(command));
  struct sigaction ignore{};
  struct sigaction before{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &before);
  Completed result;
  const auto end = SteadyClock::now() + command.deadline;
  std::optional<int> status;
  if (serve(child, command, end, result)) status = wait_until(child.pid, end);
  if (!status) {
    result.timed_out = true;
    ::kill(-child.pid, SIGKILL);
    // A process in uninterruptible sleep cannot die yet; it is left behind rather than waited for.
    wait_until(child.pid, SteadyClock::now() + std::chrono::seconds(1));
  } else if (WIFSIGNALED(*status)) {
    result.signal = WTERMSIG(*status);
  } else {
    result.exit_code = WEXITSTATUS(*status);
  }
  if (command.dies_with_caller) ::kill(-child.pid, SIGKILL);
  ::sigaction(SIGPIPE, &before, nullptr);
  return result;
}

std::vector<std::string> program_files(const std::string& program, const Environment& environment) {
  if (program.empty()) return {};
  if (program.contains('/')) return {program};
  const auto path = environment.find("PATH");
  std::vector<std::string> files;
  for (const auto folder : split(path == environment.end() ? "/bin:/usr/bin" : std::string_view(path->second), ':'))
    files.push_back(std::string(folder.empty() ? "." : folder) + "/" + program);
  return files;
}

Environment current_environment() {
  Environment result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) result.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

}  // namespace gpuwarden
