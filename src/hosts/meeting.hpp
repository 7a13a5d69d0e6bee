// SPDX-License-Identifier: Apache-2.0
// Where hosts meet: addresses of a machine, and whether others reach them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/hosts/values.hpp"
#include "gpuwarden/launch/port.hpp"

namespace gpuwarden::hosts {

/// The address at which ssh's server was reached ("CLIENT PORT SERVER PORT", ssh(1)) first, then `own`, then loopback,
/// which is the right one where all hosts are one machine; each once. Pure.
std::vector<std::string> addresses_to_try(std::string_view ssh_connection, const std::vector<std::string>& own);

/// The IPv4 addresses of this machine's interfaces that are up, without loopback: at them rank 0's port is held.
std::vector<std::string> own_addresses();

/// A port that is held and tells whoever connects a word that no other program knows.
class MeetingPlace {
 public:
  static Result<MeetingPlace> open(std::optional<std::uint16_t> port, std::string_view ssh_connection);
  const Meeting& meeting() const { return meeting_; }
  /// Readable when somebody comes; -1 after hand_over().
  int fd() const { return fd_; }
  void greet();
  /// From here on rank 0 may bind the port; its name among launchers stays held.
  void hand_over();

 private:
  void let_go();
  MeetingPlace(launch::HeldPort port, Meeting meeting, int fd)
      : port_(std::move(port)), meeting_(std::move(meeting)), fd_(fd) {}
  launch::HeldPort port_;
  Meeting meeting_;
  int fd_;
  std::vector<UniqueFd> guests_;  ///< they close first, so that the port is not kept by closing connections
};

/// Tries all addresses of a meeting, some seconds each.
std::vector<Reach> try_to_reach(const Meeting& meeting);

}  // namespace gpuwarden::hosts
