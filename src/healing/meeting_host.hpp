// SPDX-License-Identifier: Apache-2.0
// The first node's side of a meeting: who is there, and what follows for all.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "healing/meeting.hpp"

namespace gpuwarden::healing {

/// The ports on which a job's nodes look for each other, in this order.
std::vector<std::uint16_t> meeting_ports(const std::string& key);
/// The first line that a node says, so that it meets nobody else's.
std::string meeting_greeting(const std::string& key);

class MeetingHost {
 public:
  /// Fails with unavailable where all ports are taken.
  static Result<std::unique_ptr<MeetingHost>> open(const MeetingPlace& place, Clock& clock);
  ~MeetingHost();
  MeetingHost(const MeetingHost&) = delete;
  MeetingHost& operator=(const MeetingHost&) = delete;

 private:
  enum class State { gathering, running, over };
  struct Guest {
    Guest(UniqueFd fd, bool own, Clock::SteadyTime now) : line(std::move(fd)), of_own_host(own), since(now) {}
    Line line;
    bool of_own_host;
    Clock::SteadyTime since;
    bool greeted = false;
    bool gone = false;
    std::optional<std::uint32_t> node;
    std::optional<std::uint32_t> ready;  ///< to start so many ranks
    bool takes_part = false;             ///< in the round that runs
    bool done = false;
    bool told = false;  ///< that the round ends
  };

  MeetingHost(MeetingPlace place, Clock& clock, UniqueFd listener);
  void serve(const std::stop_token& stop);
  void accept();
  void hear(Guest& guest);
  void heed(Guest& guest, const std::string& line);
  /// Why nobody can have this number of a node; empty: it is free.
  std::string objection(const Guest& guest, std::optional<std::uint32_t> node) const;
  void seat(Guest& guest, const std::vector<std::string>& words);
  void see_off(Guest& guest);
  void start_if_complete();
  void start(std::vector<Guest*> ready);
  void stop_round(const std::string& why);
  void end(int exit_code, const std::string& why);

  const MeetingPlace place_;
  Clock& clock_;
  UniqueFd listener_;
  std::list<Guest> guests_;
  State state_ = State::gathering;
  Clock::SteadyTime gathering_since_;
  Clock::SteadyTime last_ready_;
  std::uint32_t rounds_ = 0;
  std::uint32_t restarts_ = 0;
  std::string last_words_;
  std::jthread thread_;
};

}  // namespace gpuwarden::healing
