// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/probe/child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "gpuwarden/base/child.hpp"
#include "gpuwarden/base/clock.hpp"

namespace gpuwarden::probe {
namespace {

/// Killed children that did not end while anybody waited: a call into the driver may hold one up for hours. Each is
/// reaped once it has ended, when the next child is started.
class Stragglers {
 public:
  void add(pid_t pid) {
    const std::scoped_lock lock(mutex_);
    pids_.push_back(pid);
  }
  void reap() {
    const std::scoped_lock lock(mutex_);
    std::erase_if(pids_, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
  }

 private:
  std::mutex mutex_;
  std::vector<pid_t> pids_;
};

Stragglers& stragglers() {
  // Never destroyed: threads may end children while the program ends.
  static auto* const all = new Stragglers();
  return *all;
}

/// In the child: nothing of the parent's is kept but the socket, least of all its locks.
void shed(int socket_fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, kChildName);
  // Ctrl-C, and the SIGTERM that Slurm, systemd and kill send to a whole group, are for the parent, which decides what
  // they mean: a child that died of them would look like a driver that crashed. It ends with its socket, with SIGKILL,
  // or with its parent (above). Nor is the parent's answer to Ctrl-Z, which concerns a terminal, the child's.
  for (const int signal : {SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGTSTP}) ::signal(signal, SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  keep_descriptors({socket_fd});
}

}  // namespace

std::unique_ptr<ChildProcess> ChildProcess::start(const std::function<void(int fd)>& work) {
  stragglers().reap();
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return nullptr;
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    // A program without standard streams has the socket where they would be.
    const int socket = ends[1] > 2 ? ends[1] : ::fcntl(ends[1], F_DUPFD, 3);
    shed(socket);
    if (::getppid() != parent) ::_exit(0);
    work(socket);
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

std::optional<nlohmann::json> ChildProcess::receive(std::chrono::milliseconds timeout, const std::stop_token& stop) {
  closed_ = false;
  const std::stop_callback wake(stop, [this] { hang_up(); });
  auto message = receive_message(socket_.get(), timeout, &closed_);
  if (!stop.stop_requested() && !hung_up_) return message;
  // It was not the child that closed: nobody waits for it to end by itself.
  closed_ = false;
  return std::nullopt;
}

bool ChildProcess::has_news() const {
  pollfd ready{socket_.get(), POLLIN, 0};
  return ::poll(&ready, 1, 0) > 0;
}

void ChildProcess::hang_up() {
  hung_up_ = true;
  ::shutdown(socket_.get(), SHUT_RDWR);
}

bool ChildProcess::await_end(std::chrono::milliseconds time) const {
  const auto ended = [this] {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid_;
  };
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (handle) {
    pollfd ready{handle.get(), POLLIN, 0};
    while (::poll(&ready, 1, static_cast<int>(time.count())) < 0 && errno == EINTR) continue;
    return ended();
  }
  // Sandboxes without pidfd_open.
  const auto deadline = system_clock().now() + time;
  while (!ended() && system_clock().now() < deadline) system_clock().sleep_for(std::chrono::milliseconds(1));
  return ended();
}

ChildEnd ChildProcess::end() {
  constexpr std::chrono::milliseconds kByItself{1000};
  constexpr std::chrono::milliseconds kKilled{100};
  if (pid_ <= 0) return {};
  socket_.reset();
  int status = 0;
  const bool by_itself = await_end(closed_ ? kByItself : std::chrono::milliseconds(0));
  if (!by_itself) ::kill(pid_, SIGKILL);
  if (by_itself || await_end(kKilled))
    ::waitpid(pid_, &status, WNOHANG);
  else
    stragglers().add(pid_);
  pid_ = -1;
  if (!by_itself) return {};
  if (WIFSIGNALED(status)) return {.signal = WTERMSIG(status), .exit_code = {}};
  return {.signal = {}, .exit_code = WEXITSTATUS(status)};
}

}  // namespace gpuwarden::probe
