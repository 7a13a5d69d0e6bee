// SPDX-License-Identifier: Apache-2.0
#include "hosts/meeting.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::hosts {
namespace {

constexpr int kPatienceMs = 3000;
/// More than other hosts are named; anybody may knock.
constexpr std::size_t kMostGuests = 128;
constexpr std::string_view kLoopback = "127.0.0.1";

std::string fresh_word() {
  std::random_device random;
  return fmt::format("gpuwarden-{:08x}{:08x}\n", random(), random());
}

/// Why the connection did not come about; empty: it is there.
std::string wait_for_connection(int fd) {
  pollfd poll{fd, POLLOUT, 0};
  if (::poll(&poll, 1, kPatienceMs) <= 0) return fmt::format("timed out after {} s", kPatienceMs / 1000);
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? "" : std::strerror(error);
}

std::string try_address(const std::string& address, std::uint16_t port, const std::string& word) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(port);
  if (::inet_pton(AF_INET, address.c_str(), &place.sin_addr) != 1) return "not an IPv4 address";
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return std::strerror(errno);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0 && errno != EINPROGRESS)
    return std::strerror(errno);
  if (auto problem = wait_for_connection(fd.get()); !problem.empty()) return problem;
  std::array<char, 64> block{};
  std::string heard;
  pollfd poll{fd.get(), POLLIN, 0};
  while (heard.size() < word.size() && ::poll(&poll, 1, kPatienceMs) > 0) {
    const ssize_t got = ::read(fd.get(), block.data(), block.size());
    if (got <= 0) break;
    heard.append(block.data(), static_cast<std::size_t>(got));
  }
  return heard == word ? "" : "another program answers there";
}

}  // namespace

std::vector<std::string> addresses_to_try(std::string_view ssh_connection, const std::vector<std::string>& own) {
  std::vector<std::string> all;
  const auto add = [&](std::string_view address) {
    if (std::ranges::find(all, address) == all.end()) all.emplace_back(address);
  };
  const auto words = split_words(ssh_connection);
  // Reached over loopback the launcher is on this machine, which tells nothing of the others.
  if (words.size() == 4 && !words[2].contains(':') && !words[2].starts_with("127.")) add(words[2]);
  for (const std::string& address : own) add(address);
  constexpr std::size_t kMost = 8;
  if (all.size() > kMost) all.resize(kMost);
  add(kLoopback);
  return all;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    sockaddr_in address{};
    std::memcpy(&address, one->ifa_addr, sizeof address);
    if (::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size()) != nullptr) found.emplace_back(text.data());
  }
  ::freeifaddrs(list);
  return found;
}

Result<MeetingPlace> MeetingPlace::open(std::optional<std::uint16_t> port, std::string_view ssh_connection) {
  GPUWARDEN_TRY(auto held, port ? launch::HeldPort::at(*port) : launch::HeldPort::any());
  GPUWARDEN_TRY(const int fd, held.listen());
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  Meeting meeting{held.number(), addresses_to_try(ssh_connection, own_addresses()), fresh_word()};
  return MeetingPlace(std::move(held), std::move(meeting), fd);
}

void MeetingPlace::let_go() {
  std::erase_if(guests_, [](const UniqueFd& guest) {
    char byte = 0;
    return ::recv(guest.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
  });
  if (guests_.size() < kMostGuests) return;
  // Closed with a reset the connection does not keep the port.
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(guests_.front().get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  guests_.erase(guests_.begin());
}

void MeetingPlace::greet() {
  for (;;) {
    UniqueFd guest(::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!guest) return;
    [[maybe_unused]] const ssize_t sent = ::send(guest.get(), meeting_.word.data(), meeting_.word.size(), MSG_NOSIGNAL);
    if (guests_.size() >= kMostGuests) let_go();
    guests_.push_back(std::move(guest));
  }
}

void MeetingPlace::hand_over() {
  guests_.clear();
  port_.hand_over();
  fd_ = -1;
}

std::vector<Reach> try_to_reach(const Meeting& meeting) {
  std::vector<Reach> tries;
  for (const std::string& address : meeting.addresses)
    tries.push_back({address, try_address(address, meeting.port, meeting.word)});
  return tries;
}

}  // namespace gpuwarden::hosts
