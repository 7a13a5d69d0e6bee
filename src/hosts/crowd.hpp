// SPDX-License-Identifier: Apache-2.0
// All hosts of one command: connects to them, keeps them alive, notices who falls silent, waits for their answers.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "hosts/session.hpp"

namespace gpuwarden::hosts {

class Crowd {
 public:
  struct Options {
    std::string version;
    SshOptions ssh;
    Session::Ears ears;
    std::function<bool()> slow;       ///< our own reader is: hosts have to wait
    std::function<void(bool)> moved;  ///< after each round; whether nothing came in it
  };
  Crowd(std::span<const Host> hosts, Options options, Links& links, Clock& clock);

  /// Goes on until `done`, or until `time` is over; whether it was done. A signal ends it where `ends_on_signal`.
  bool until(const std::function<bool()>& done, std::optional<milliseconds> time, bool ends_on_signal = true);
  void send(Session& session, std::string_view type, Json head = Json::object());
  /// To each that is well.
  void send_all(std::string_view type, const Json& head = Json::object());
  /// Lets all go and waits for them a little; who does not go is cut off.
  void leave();
  /// Cuts one off, which is lost.
  void cut_off(Session& session, Error why);

  std::vector<Session> sessions;
  std::optional<int> signal;           ///< the last one that came and asks for an end
  std::function<void(int)> on_signal;  ///< each, where until() does not end on it

 private:
  void round(milliseconds most, bool ends_on_signal);
  void beat();
  void look_for_silence();

  Options options_;
  Links& links_;
  Clock& clock_;
  std::optional<Clock::SteadyTime> beaten_;
};

/// All problems of the crowd as one error, a line each where there are several; nothing where there is none.
std::optional<Error> problems_of(std::span<const Session> sessions);

}  // namespace gpuwarden::hosts
