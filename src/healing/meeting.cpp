// SPDX-License-Identifier: Apache-2.0
#include "healing/meeting.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>

#include "gpuwarden/base/text.hpp"
#include "healing/meeting_host.hpp"

namespace gpuwarden::healing {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kLongestLine = 4096;
constexpr milliseconds kConnectPatience{2000};
constexpr milliseconds kBetweenTries{200};
/// Whether to wait any longer.
constexpr milliseconds kBetweenLooks{100};

/// What programs wrote must not end a line, nor make it too long.
std::string in_one_line(const std::string& text) {
  std::string line = printable(text);
  if (line.size() > kLongestLine / 2) line.resize(kLongestLine / 2);
  return line;
}

bool wait_for(int fd, short what, milliseconds time) {
  pollfd poll{fd, what, 0};
  return ::poll(&poll, 1, static_cast<int>(time.count())) == 1;
}

UniqueFd connect_to(const addrinfo& address) {
  UniqueFd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return {};
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS || !wait_for(fd.get(), POLLOUT, kConnectPatience)) return {};
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) return {};
  }
  keep_alive(fd.get());
  return fd;
}

/// A line to whoever listens there, if it is this job's first node.
std::optional<Line> greet(const std::string& host, std::uint16_t port, const std::string& key) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
    UniqueFd fd = connect_to(*one);
    if (!fd) continue;
    Line line(std::move(fd));
    if (!line.say(meeting_greeting(key)) || !wait_for(line.fd(), POLLIN, kConnectPatience)) continue;
    line.take();
    if (line.next() == "welcome") return line;
  }
  return std::nullopt;
}

}  // namespace

void keep_alive(int fd) {
  const int yes = 1;
  const int seconds = 5;
  const int times = 4;
  // Where something was sent that nobody acknowledges the kernel does not probe, but sends it again for a quarter of an
  // hour (tcp(7)).
  const unsigned int unheard_ms = 25000;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unheard_ms, sizeof unheard_ms);
}

std::vector<std::string> words_of_line(std::string_view line, std::size_t most) {
  std::vector<std::string> words;
  while (words.size() + 1 < most) {
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos) break;
    words.emplace_back(line.substr(0, blank));
    line.remove_prefix(blank + 1);
  }
  words.emplace_back(line);
  return words;
}

bool Line::say(const std::string& line) {
  const std::string whole = line + "\n";
  return ::send(fd_.get(), whole.data(), whole.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(whole.size());
}

bool Line::take() {
  std::array<char, kLongestLine> block{};
  for (;;) {
    const ssize_t got = ::recv(fd_.get(), block.data(), block.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    come_.append(block.data(), static_cast<std::size_t>(got));
    if (come_.size() > 4 * kLongestLine) return false;
  }
}

std::optional<std::string> Line::next() {
  const std::size_t end = come_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = come_.substr(0, end);
  come_.erase(0, end + 1);
  return line;
}

Meeting::Meeting(MeetingPlace place, Clock& clock) : place_(std::move(place)), clock_(clock) {}
Meeting::~Meeting() = default;

Result<std::unique_ptr<Meeting>> Meeting::open(const MeetingPlace& place, Clock& clock) {
  std::unique_ptr<Meeting> meeting(new Meeting(place, clock));
  if (place.node == 0) {
    GPUWARDEN_TRY(meeting->host_, MeetingHost::open(place, clock));
  }
  return meeting;
}

Result<void> Meeting::may_wait(const Waiting& waiting) const {
  if (waiting.stop.stop_requested()) return fail(ErrorCode::interrupted, "interrupted while waiting for other nodes");
  if (waiting.end && clock_.now() >= *waiting.end)
    return fail(ErrorCode::timed_out, "the job's time was over while waiting for other nodes");
  return {};
}

Result<void> Meeting::connect(const Waiting& waiting) {
  const auto start = clock_.now();
  const std::string host = place_.node == 0 ? "127.0.0.1" : place_.address;
  while (!line_) {
    for (const std::uint16_t port : meeting_ports(place_.key)) {
      GPUWARDEN_CHECK(may_wait(waiting));
      line_ = greet(host, port, place_.key);
      if (line_) return {};
    }
    if (clock_.now() - start >= place_.patience)
      return fail(ErrorCode::timed_out,
                  fmt::format("timed out after {}: no gpuwarden of this job answers on {}",
                              format_duration(place_.patience), printable(place_.address)),
                  "start the first node (--node-rank 0), with the same --rdzv-id or --master-port");
    clock_.sleep_for(kBetweenTries, waiting.stop);
  }
  return {};
}

Summons Meeting::host_is_gone() {
  over_ = true;
  return {.ends = true, .exit_code = 1, .why = "the first node is gone"};
}

std::optional<Summons> Meeting::heed(const std::string& line) {
  const auto words = words_of_line(line, 3);
  if (words[0] == "newcomer") newcomer_ = true;
  if (words[0] == "stop") return Summons{.ends = false, .exit_code = 0, .why = line.substr(line.find(' ') + 1)};
  if (words[0] == "end" && words.size() == 3) {
    over_ = true;
    return Summons{.ends = true, .exit_code = static_cast<int>(parse_integer(words[1]).value_or(1)), .why = words[2]};
  }
  if (words[0] != "go") return std::nullopt;
  const auto numbers = words_of_line(line, 7);
  if (numbers.size() != 7) return std::nullopt;
  const auto number = [&](std::size_t i) { return static_cast<std::uint32_t>(parse_integer(numbers[i]).value_or(0)); };
  round_ = Round{number(1), number(2), number(3), number(4), number(5), number(6)};
  return std::nullopt;
}

std::optional<Summons> Meeting::wait(milliseconds time) {
  if (!line_) return host_is_gone();
  while (const auto said = line_->next()) {
    if (auto summons = heed(*said)) return summons;
  }
  if (time.count() > 0) wait_for(line_->fd(), POLLIN, time);
  const bool there = line_->take();
  while (const auto said = line_->next()) {
    if (auto summons = heed(*said)) return summons;
  }
  if (there) return std::nullopt;
  return host_is_gone();
}

Result<Round> Meeting::join(std::uint32_t ranks, const Waiting& waiting) {
  GPUWARDEN_CHECK(connect(waiting));
  newcomer_ = false;
  round_.reset();
  if (!line_->say(fmt::format("join {} {}", place_.node, ranks)))
    return fail(ErrorCode::unsatisfied, host_is_gone().why);
  for (;;) {
    // A "stop" that crossed our word is about the round before.
    const auto summons = wait(kBetweenLooks);
    if (summons && summons->ends) return fail(ErrorCode::unsatisfied, summons->why);
    if (round_) return *round_;
    GPUWARDEN_CHECK(may_wait(waiting));
  }
}

std::optional<Summons> Meeting::summons() {
  if (over_) return std::nullopt;
  return wait(milliseconds(0));
}

void Meeting::failed(bool restarts, bool counts, int exit_code, const std::string& why) {
  if (line_ && !over_)
    line_->say(fmt::format("failed {} {} {} {}", restarts ? 1 : 0, counts ? 1 : 0, exit_code, in_one_line(why)));
}

void Meeting::regroup(const std::string& why) {
  if (line_ && !over_) line_->say("regroup " + in_one_line(why));
}

Result<Summons> Meeting::done(const Waiting& waiting) {
  if (line_ && !over_) line_->say("done");
  for (;;) {
    if (auto summons = wait(kBetweenLooks)) return *summons;
    GPUWARDEN_CHECK(may_wait(waiting));
  }
}

bool Meeting::has_newcomer() { return newcomer_; }

}  // namespace gpuwarden::healing
