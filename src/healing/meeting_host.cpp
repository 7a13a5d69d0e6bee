// SPDX-License-Identifier: Apache-2.0
#include "healing/meeting_host.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/launch/rank_environment.hpp"

namespace gpuwarden::healing {
namespace {

constexpr std::uint32_t kPorts = 8;
/// Strangers and nodes that came twice are not many.
constexpr std::size_t kMostGuestsBeside = 16;
constexpr int kTickMs = 50;
/// A node says whose it is as soon as it is connected.
constexpr auto kGreetingPatience = std::chrono::seconds(5);

UniqueFd listen_on(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return {};
  const int yes = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return {};
  if (::listen(fd.get(), 64) != 0) return {};
  return fd;
}

/// Whether the other end of a connection is on this host.
bool is_of_own_host(int fd) {
  sockaddr_in here{};
  sockaddr_in there{};
  socklen_t size = sizeof here;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &size) != 0) return false;
  size = sizeof there;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &size) != 0) return false;
  return there.sin_addr.s_addr == here.sin_addr.s_addr;
}

std::optional<std::uint32_t> small_number(const std::string& word) {
  const auto number = parse_integer(word);
  if (!number || *number < 0 || *number > 1000000) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

}  // namespace

std::vector<std::uint16_t> meeting_ports(const std::string& key) {
  std::vector<std::uint16_t> ports;
  for (std::uint32_t i = 0; i < kPorts; ++i) ports.push_back(launch::port_of_job(key + "#nodes", i));
  return ports;
}

std::string meeting_greeting(const std::string& key) { return "gpuwarden-nodes 1 " + key; }

Result<std::unique_ptr<MeetingHost>> MeetingHost::open(const MeetingPlace& place, Clock& clock) {
  for (const std::uint16_t port : meeting_ports(place.key)) {
    if (UniqueFd fd = listen_on(port))
      return std::unique_ptr<MeetingHost>(new MeetingHost(place, clock, std::move(fd)));
  }
  return fail(ErrorCode::unavailable, "the ports on which the nodes agree about restarts are all in use",
              "give the job another --rdzv-id or --master-port");
}

MeetingHost::MeetingHost(MeetingPlace place, Clock& clock, UniqueFd listener)
    : place_(std::move(place)),
      clock_(clock),
      listener_(std::move(listener)),
      gathering_since_(clock.now()),
      last_ready_(clock.now()) {
  // The thread starts with all signals blocked: they are for the launcher's loop.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

MeetingHost::~MeetingHost() = default;

void MeetingHost::serve(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<pollfd> fds{{listener_.get(), POLLIN, 0}};
    for (const Guest& guest : guests_) fds.push_back({guest.line.fd(), POLLIN, 0});
    ::poll(fds.data(), fds.size(), kTickMs);
    for (Guest& guest : guests_) hear(guest);
    if ((fds[0].revents & POLLIN) != 0) accept();
    for (Guest& guest : guests_) {
      if (guest.gone) see_off(guest);
    }
    std::erase_if(guests_, [](const Guest& guest) { return guest.gone; });
    start_if_complete();
  }
  // The last word of the first node itself is one that the others are to hear.
  for (Guest& guest : guests_) hear(guest);
}

void MeetingHost::accept() {
  UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd || guests_.size() >= place_.most + kMostGuestsBeside) return;
  keep_alive(fd.get());
  const bool own = is_of_own_host(fd.get());
  guests_.emplace_back(std::move(fd), own, clock_.now());
}

void MeetingHost::hear(Guest& guest) {
  const bool there = guest.line.take();
  while (!guest.gone) {
    const auto line = guest.line.next();
    if (!line) break;
    heed(guest, *line);
  }
  const bool silent = !guest.greeted && clock_.now() - guest.since >= kGreetingPatience;
  if (!there || silent) guest.gone = true;
}

void MeetingHost::heed(Guest& guest, const std::string& line) {
  if (!guest.greeted) {
    guest.greeted = line == meeting_greeting(place_.key);
    guest.gone = !guest.greeted;
    if (guest.greeted) guest.line.say("welcome");
    return;
  }
  const auto words = words_of_line(line, 5);
  if (words[0] == "join" && words.size() >= 3) return seat(guest, words);
  if (!guest.node) return;
  if (words[0] == "done") {
    guest.done = true;
    const bool all = std::ranges::all_of(guests_, [](const Guest& one) { return !one.takes_part || one.done; });
    if (all && state_ == State::running) end(0, "all ranks ended well");
  } else if (words[0] == "regroup" && words.size() >= 2) {
    stop_round(line.substr(line.find(' ') + 1));
  } else if (words[0] == "failed" && words.size() == 5) {
    const std::string why = fmt::format("node {}: {}", *guest.node, words[4]);
    if (words[1] != "1") return end(static_cast<int>(small_number(words[3]).value_or(1)), why);
    // What fails after the first follows from it.
    if (state_ == State::running && words[2] == "1") ++restarts_;
    stop_round(why);
  }
}

std::string MeetingHost::objection(const Guest& guest, std::optional<std::uint32_t> node) const {
  if (!node || *node >= place_.most)
    return fmt::format("there are no nodes but those numbered 0 to {}", place_.most - 1);
  // The host of the meeting is node 0.
  const bool elsewhere = *node == 0 && !guest.of_own_host;
  const bool taken = std::ranges::any_of(
      guests_, [&](const Guest& other) { return &other != &guest && !other.gone && other.node == node; });
  return elsewhere || taken ? fmt::format("another node has the number {}", *node) : "";
}

void MeetingHost::seat(Guest& guest, const std::vector<std::string>& words) {
  const auto node = small_number(words[1]);
  const auto ranks = small_number(words[2]);
  std::string why = objection(guest, node);
  if (why.empty() && ranks.value_or(0) == 0) why = "a node has at least one rank";
  if (!why.empty()) {
    guest.line.say("end 1 " + why);
    guest.gone = true;
    return;
  }
  if (state_ == State::over) {
    guest.line.say("end 1 the job is over: " + last_words_);
    return;
  }
  guest.node = node;
  guest.ready = ranks;
  guest.done = guest.told = false;
  last_ready_ = clock_.now();
  if (state_ != State::running) return;
  // Its round has been ended, or it is new: the first node may want to let it in.
  if (guest.takes_part) return stop_round(fmt::format("node {} starts again", *node));
  for (Guest& other : guests_) {
    if (other.node == 0U) other.line.say("newcomer");
  }
}

void MeetingHost::see_off(Guest& guest) {
  if (!guest.node || state_ == State::over) return;
  // Rank 0 is there, and this host.
  if (*guest.node == 0) return end(1, "the first node is gone");
  const std::string why = fmt::format("node {} is gone", *guest.node);
  const bool took_part = guest.takes_part && !guest.done;
  guest.ready.reset();
  guest.takes_part = false;
  const auto left = [&](auto counts) {
    return std::ranges::count_if(guests_, [&](const Guest& one) { return !one.gone && counts(one); });
  };
  if (state_ == State::gathering) {
    // Before the first round nodes may come late; later they have all been there.
    if (rounds_ > 0 && left([](const Guest& one) { return one.node.has_value(); }) < place_.least) end(1, why);
    return;
  }
  if (!took_part) return;
  if (left([](const Guest& one) { return one.takes_part; }) < place_.least) return end(1, why);
  stop_round(why);
}

void MeetingHost::start_if_complete() {
  if (state_ != State::gathering) return;
  std::vector<Guest*> ready;
  bool all_came_back = true;
  for (Guest& guest : guests_) {
    if (guest.ready) ready.push_back(&guest);
    if (guest.takes_part && !guest.ready) all_came_back = false;
  }
  const auto now = clock_.now();
  const bool last_call_over = all_came_back && now - last_ready_ >= place_.last_call;
  if (ready.size() >= place_.most || (ready.size() >= place_.least && last_call_over)) return start(std::move(ready));
  if (now - gathering_since_ < place_.patience) return;
  end(1, fmt::format("only {} of the {} nodes came within {}", ready.size(), place_.least,
                     format_duration(place_.patience)));
}

void MeetingHost::start(std::vector<Guest*> ready) {
  std::ranges::sort(ready, {}, [](const Guest* guest) { return *guest->node; });
  if (ready.size() > place_.most) ready.resize(place_.most);
  std::uint32_t world = 0;
  for (const Guest* guest : ready) world += *guest->ready;
  for (Guest& guest : guests_) guest.takes_part = false;
  std::uint32_t first = 0;
  for (std::size_t i = 0; i < ready.size(); ++i) {
    Guest& guest = *ready[i];
    guest.line.say(fmt::format("go {} {} {} {} {} {}", rounds_, restarts_, i, ready.size(), first, world));
    first += *guest.ready;
    guest.takes_part = true;
    guest.done = guest.told = false;
    guest.ready.reset();
  }
  ++rounds_;
  state_ = State::running;
}

void MeetingHost::stop_round(const std::string& why) {
  if (state_ != State::running) return;
  state_ = State::gathering;
  gathering_since_ = last_ready_ = clock_.now();
  for (Guest& guest : guests_) {
    if (guest.takes_part && !guest.told && !guest.ready) guest.line.say("stop " + why);
    guest.told = true;
  }
}

void MeetingHost::end(int exit_code, const std::string& why) {
  if (state_ == State::over) return;
  state_ = State::over;
  last_words_ = why;
  for (Guest& guest : guests_) {
    if (guest.node) guest.line.say(fmt::format("end {} {}", exit_code, why));
  }
}

}  // namespace gpuwarden::healing
