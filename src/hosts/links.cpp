// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/hosts/links.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "gpuwarden/base/child.hpp"
#include "gpuwarden/launch/signals.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace gpuwarden::hosts {
namespace {

constexpr std::size_t kBlock = 65536;

struct Linked {
  pid_t pid = -1;
  UniqueFd in;  ///< a socket, since a write into one without reader can be kept from raising SIGPIPE
  UniqueFd out;
  UniqueFd err;
  std::string unsent;
  bool closing = false;  ///< the input ends behind what is unsent
};

/// In the child only async-signal-safe calls are made.
[[noreturn]] void become_linked(const std::array<int, 3>& streams, int report, char* const* argv, char* const* envp) {
  for (int i = 0; i < 3; ++i) ::dup2(streams[static_cast<std::size_t>(i)], i);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvpe(argv[0], argv, envp);
  const int error = errno;
  [[maybe_unused]] const ssize_t sent = ::write(report, &error, sizeof error);
  ::_exit(127);
}

Result<Linked> start_linked(const Command& command) {
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0)
    return std::unexpected(error_from_errno(errno, "cannot make a socket"));
  UniqueFd ours(pair[0]);
  const UniqueFd theirs(pair[1]);
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
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != caller) ::_exit(127);
    become_linked({theirs.get(), out.write_end.get(), err.write_end.get()}, report.write_end.get(), argv.get(), envp);
  }
  ::setpgid(pid, pid);
  report.write_end.reset();
  int error = 0;
  if (::read(report.read_end.get(), &error, sizeof error) == sizeof error) {
    ::waitpid(pid, nullptr, 0);
    return std::unexpected(error_from_errno(error, "cannot run " + command.argv[0]));
  }
  for (const int fd : {out.read_end.get(), err.read_end.get()}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
  return Linked{pid, std::move(ours), std::move(out.read_end), std::move(err.read_end), {}, false};
}

void pump(Linked& link) {
  while (link.in && !link.unsent.empty()) {
    const ssize_t sent = ::send(link.in.get(), link.unsent.data(), link.unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent < 0) link.in.reset();  // its end is news of its own
    if (sent > 0) link.unsent.erase(0, static_cast<std::size_t>(sent));
  }
  if (link.closing) link.in.reset();
}

/// What is there to be read; closes the descriptor at its end.
std::string take(UniqueFd& fd) {
  std::string text(kBlock, '\0');
  const ssize_t got = ::read(fd.get(), text.data(), text.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return "";
  if (got <= 0) fd.reset();
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

class ProcessLinks final : public Links {
 public:
  ~ProcessLinks() override {
    for (std::size_t i = 0; i < links_.size(); ++i) ProcessLinks::end(i);
  }

  Result<void> start(const Command& command) override {
    auto link = start_linked(command);
    links_.push_back(link ? std::move(*link) : Linked{});
    if (!link) return std::unexpected(std::move(link).error());
    return {};
  }

  void send(std::size_t link, std::string_view text) override {
    if (!links_[link].in || links_[link].closing) return;
    links_[link].unsent += text;
    pump(links_[link]);
  }

  void close_input(std::size_t link) override {
    links_[link].closing = true;
    pump(links_[link]);
  }

  void end(std::size_t link) override {
    Linked& gone = links_[link];
    if (gone.pid > 0) {
      ::kill(-gone.pid, SIGKILL);
      ::kill(gone.pid, SIGKILL);
      ::waitpid(gone.pid, nullptr, 0);
    }
    gone = Linked{};
  }

  std::vector<News> wait(std::chrono::milliseconds most, bool listening) override {
    std::vector<pollfd> fds{{signals_.fd(), POLLIN, 0}};
    constexpr std::chrono::milliseconds kUntilGone(50);
    for (const Linked& link : links_) {
      // What has said all will end in a moment, of which no descriptor tells.
      if (link.pid > 0 && !link.out) most = std::min(most, kUntilGone);
      if (link.in && !link.unsent.empty()) fds.push_back({link.in.get(), POLLOUT, 0});
      for (const UniqueFd* fd : {&link.out, &link.err}) {
        if (*fd && listening) fds.push_back({fd->get(), POLLIN, 0});
      }
    }
    ::poll(fds.data(), fds.size(), static_cast<int>(most.count()));
    std::vector<News> news;
    take_signals(news);
    for (std::size_t i = 0; i < links_.size(); ++i) {
      pump(links_[i]);
      if (listening) look_at(i, news);
    }
    return news;
  }

 private:
  void take_signals(std::vector<News>& news) const {
    signalfd_siginfo info{};
    while (::read(signals_.fd(), &info, sizeof info) == sizeof info)
      news.push_back(
          {.kind = News::Kind::signal, .text = {}, .exit_code = {}, .signal = static_cast<int>(info.ssi_signo)});
  }

  void look_at(std::size_t index, std::vector<News>& news) {
    Linked& link = links_[index];
    if (link.pid < 0) return;
    for (const auto& [fd, kind] :
         {std::pair(&link.out, News::Kind::output), std::pair(&link.err, News::Kind::errors)}) {
      if (!*fd) continue;
      std::string text = take(*fd);
      if (!text.empty())
        news.push_back({.kind = kind, .link = index, .text = std::move(text), .exit_code = {}, .signal = {}});
    }
    if (link.out) return;  // all it said comes before its end
    int status = 0;
    if (::waitpid(link.pid, &status, WNOHANG) != link.pid) return;
    link.pid = -1;
    while (link.err) {
      std::string text = take(link.err);
      if (text.empty()) break;
      news.push_back(
          {.kind = News::Kind::errors, .link = index, .text = std::move(text), .exit_code = {}, .signal = {}});
    }
    news.push_back({.kind = News::Kind::ended,
                    .link = index,
                    .text = {},
                    .exit_code = WIFEXITED(status) ? std::optional(WEXITSTATUS(status)) : std::nullopt,
                    .signal = WIFSIGNALED(status) ? std::optional(WTERMSIG(status)) : std::nullopt});
  }

  launch::SignalScope signals_{true};
  std::vector<Linked> links_;
};

}  // namespace

std::unique_ptr<Links> start_links() { return std::make_unique<ProcessLinks>(); }

}  // namespace gpuwarden::hosts
