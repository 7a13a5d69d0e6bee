// SPDX-License-Identifier: Apache-2.0
// The peers, what each said last, and when each is asked next. Pure: time and answers are handed in.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/cluster/node.hpp"
#include "gpuwarden/net/http.hpp"

namespace gpuwarden::cluster {

/// What a peer said of itself, or why that is not known.
Result<Node> read_peer_answer(const Result<net::HttpAnswer>& answer);

class PeerBook {
 public:
  /// Those that answered last time, or were never asked; and the others.
  enum class Lane { answering, silent };

  PeerBook(std::chrono::milliseconds interval, unsigned seed) : interval_(interval), random_(seed) {}

  /// The list from now on; what is known of those that stay is kept. New ones are asked within one interval from `now`.
  void set_peers(const std::vector<std::string>& urls, Clock::SteadyTime now);
  /// The URLs that are due, which then count as asked.
  std::vector<std::string> take_due(Lane lane, Clock::SteadyTime now);
  /// When the next one is due; nothing where the lane is empty.
  std::optional<Clock::SteadyTime> next_due(Lane lane) const;
  /// What a peer answered; nothing happens for one that is not in the list any more.
  void absorb(const std::string& url, Result<Node> answer, Clock::SteadyTime now, Clock::WallTime wall);
  std::vector<Node> nodes() const;

 private:
  struct Peer {
    Node node;
    Clock::SteadyTime due{};
    Lane lane = Lane::answering;
    bool asked = false;
  };
  std::chrono::milliseconds interval_;
  std::minstd_rand random_;
  std::vector<std::string> order_;
  std::map<std::string, Peer> peers_;
};

}  // namespace gpuwarden::cluster
