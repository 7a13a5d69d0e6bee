// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/probe/child_process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <nlohmann/json.hpp>

#include "probe/reader_child.hpp"

namespace gpuwarden::probe {
namespace {

/// In the child: nothing of the parent's is kept but the socket, least of all its locks.
void shed(int socket_fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, kChildName);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // Ctrl-C is for the parent, which decides what it means.
  for (const int signal : {SIGINT, SIGQUIT, SIGHUP, SIGTERM}) ::signal(signal, signal == SIGTERM ? SIG_DFL : SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
  if (socket_fd != 3) ::dup2(socket_fd, 3);
  ::close_range(4, ~0U, 0);
}

}  // namespace

std::unique_ptr<ChildProcess> ChildProcess::start(const std::function<void(int fd)>& work) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return nullptr;
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    shed(ends[1]);
    if (::getppid() != parent) ::_exit(0);
    work(3);
    ::_exit(0);
  }
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    return nullptr;
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid, ends[0]));
}

bool ChildProcess::send(const nlohmann::json& message) { return send_message(socket_.get(), message); }

std::optional<nlohmann::json> ChildProcess::receive(std::chrono::milliseconds timeout) {
  return receive_message(socket_.get(), timeout);
}

void ChildProcess::hang_up() { ::shutdown(socket_.get(), SHUT_RDWR); }

std::optional<int> ChildProcess::end() {
  if (pid_ <= 0) return std::nullopt;
  socket_.reset();
  int status = 0;
  pid_t done = ::waitpid(pid_, &status, WNOHANG);
  const bool by_itself = done == pid_ && WIFSIGNALED(status);
  if (done == 0) ::kill(pid_, SIGKILL);
  for (int i = 0; done == 0 && i < 200; ++i) {
    done = ::waitpid(pid_, &status, WNOHANG);
    if (done == 0) ::usleep(500);
  }
  pid_ = -1;
  return by_itself ? std::optional(WTERMSIG(status)) : std::nullopt;
}

}  // namespace gpuwarden::probe
