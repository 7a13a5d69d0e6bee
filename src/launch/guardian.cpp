// SPDX-License-Identifier: Apache-2.0
#include "launch/guardian.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace gpuwarden::launch {
namespace {

/// The inner guardian, then the outer one, take their time to end what is left; beyond that they do not answer.
constexpr auto kLongestFarewell = 3 * kSweepPatience;
constexpr std::size_t kInner = 1;
constexpr std::size_t kStandIn = 2;

struct SocketPair {
  UniqueFd ours;
  UniqueFd theirs;
};

Result<SocketPair> make_socket_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    return std::unexpected(error_from_errno(errno, "cannot make a socket for a guardian process"));
  return SocketPair{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/// Reads what a guardian sent; false when it is gone.
bool drain(int socket) {
  std::array<char, 256> words{};
  for (;;) {
    const ssize_t got = ::recv(socket, words.data(), words.size(), MSG_DONTWAIT);
    if (got > 0 || (got < 0 && errno == EINTR)) continue;
    return got < 0 && errno == EAGAIN;
  }
}

}  // namespace

Result<void> Guardians::start() {
  GPUWARDEN_TRY(SocketPair outer, make_socket_pair());
  GPUWARDEN_TRY(SocketPair inner, make_socket_pair());
  const pid_t pid = ::fork();
  if (pid < 0) return std::unexpected(error_from_errno(errno, "cannot start the guardian process"));
  if (pid == 0) guard_outside(*plan_, std::move(outer.theirs), std::move(inner.theirs));
  posts_[0] = {pid, true, std::move(outer.ours)};
  posts_[kInner] = {0, false, std::move(inner.ours)};
  plan_->exec_report.write_end.reset();
  plan_->hangup = {};
  for (RankPlan& rank : plan_->ranks) {
    rank.in.reset();
    rank.out.reset();
    rank.err.reset();
  }
  return {};
}

Guardians::~Guardians() {
  for (Post& post : posts_) post.socket.reset();
  for (Post& post : posts_) bury(post);
}

/// Waits for this one process; whoever runs a loop of his own around us keeps his children.
void Guardians::bury(Post& post) {
  if (!post.child) return;
  while (::waitpid(post.pid, nullptr, 0) < 0 && errno == EINTR) continue;
  post.child = false;
}

std::vector<int> Guardians::sockets() const {
  std::vector<int> fds;
  for (const Post& post : posts_) {
    if (post.socket) fds.push_back(post.socket.get());
  }
  return fds;
}

std::vector<std::string> Guardians::take_news() {
  posts_[kInner].pid = plan_->board->head().guardians[kInner].load();
  std::vector<std::string> sentences;
  for (Post& post : posts_) {
    if (!post.socket || drain(post.socket.get())) continue;
    post.socket.reset();
    bury(post);
    const pid_t lost = post.pid;
    if (!watching()) {
      sentences.push_back(
          fmt::format("the job's guardian process {} was killed, and no other one is left: ending the job", lost));
      continue;
    }
    const auto started = start_stand_in();
    sentences.push_back(
        started
            ? fmt::format("the job's guardian process {} was killed; started {} instead", lost, posts_[kStandIn].pid)
            : fmt::format("the job's guardian process {} was killed: {}", lost, started.error().message));
  }
  return sentences;
}

Result<void> Guardians::start_stand_in() {
  if (posts_[kStandIn].socket) return {};
  GPUWARDEN_TRY(SocketPair pair, make_socket_pair());
  const pid_t watched = posts_[kInner].socket ? posts_[kInner].pid : posts_[0].pid;
  const pid_t pid = ::fork();
  if (pid < 0) return std::unexpected(error_from_errno(errno, "cannot start another"));
  if (pid == 0) stand_in(*plan_, std::move(pair.theirs), watched);
  posts_[kStandIn] = {pid, true, std::move(pair.ours)};
  return {};
}

void Guardians::rouse(bool kill_inner) {
  posts_[kInner].pid = plan_->board->head().guardians[kInner].load();
  for (const Post& post : posts_) {
    if (post.socket && post.pid > 0) ::kill(post.pid, SIGCONT);
  }
  // Only while the outer one is there to inherit: alone, a guardian that does not answer is better than none.
  if (kill_inner && posts_[0].socket && posts_[kInner].socket) ::kill(posts_[kInner].pid, SIGKILL);
}

std::vector<pid_t> Guardians::finish() {
  const Clock& clock = system_clock();
  const auto start = clock.now();
  for (const Post& post : posts_) {
    if (post.socket) ::send(post.socket.get(), &kFinish, 1, MSG_NOSIGNAL);
    if (post.socket && post.pid > 0) ::kill(post.pid, SIGCONT);
  }
  for (Post& post : posts_) {
    while (post.socket && drain(post.socket.get())) {
      pollfd wait{post.socket.get(), POLLIN, 0};
      const auto left = kLongestFarewell - (clock.now() - start);
      if (left <= std::chrono::seconds(0)) {
        if (post.pid > 0) ::kill(post.pid, SIGKILL);
        break;
      }
      ::poll(&wait, 1, static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(left).count()) + 1);
    }
    post.socket.reset();
    bury(post);
  }
  std::vector<pid_t> left;
  for (const auto& pid : plan_->board->head().leftover) {
    if (pid.load() > 0) left.push_back(pid.load());
  }
  return left;
}

}  // namespace gpuwarden::launch
