// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "gpuwarden/base/child.hpp"
#include "launch/parts.hpp"

namespace gpuwarden::launch {
namespace {

constexpr auto kGrace = std::chrono::milliseconds(500);
constexpr auto kPatience = std::chrono::seconds(10);

/// Keeps the pipe and the lease locks, and nothing else that could hold something up.
void shed(int pipe, const std::vector<int>& kept) {
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
  std::vector<int> keep = kept;
  keep.push_back(pipe);
  std::ranges::sort(keep);
  unsigned next = 3;
  for (const int fd : keep) {
    if (static_cast<unsigned>(fd) > next) ::close_range(next, static_cast<unsigned>(fd) - 1, 0);
    next = std::max(next, static_cast<unsigned>(fd) + 1);
  }
  ::close_range(next, ~0U, 0);
}

[[noreturn]] void guard(int pipe, const JobSpec& spec) {
  ::setsid();
  ::prctl(PR_SET_NAME, "gpuwarden-guard");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) ::signal(signal, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGCHLD, SIG_DFL);
  shed(pipe, spec.held_descriptors);
  char word = 0;
  ssize_t got = 0;
  do {
    got = ::read(pipe, &word, 1);
  } while (got < 0 && errno == EINTR);
  if (got != 1) sweep_run(spec.run_id, kGrace, kPatience);  // the launcher died without a word
  ::_exit(0);
}

}  // namespace

Result<Guardian> Guardian::start(const JobSpec& spec) {
  GPUWARDEN_TRY(Pipe pipe, make_pipe());
  const pid_t pid = ::fork();
  if (pid < 0) return std::unexpected(error_from_errno(errno, "cannot start the guardian process"));
  if (pid == 0) {
    pipe.write_end.reset();
    guard(pipe.read_end.get(), spec);
  }
  return Guardian(pid, std::move(pipe.write_end));
}

Guardian::~Guardian() {
  if (!pipe_) return;
  const char word = 'd';
  [[maybe_unused]] const ssize_t told = ::write(pipe_.get(), &word, 1);
  pipe_.reset();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
}

}  // namespace gpuwarden::launch
