// SPDX-License-Identifier: Apache-2.0
#include "hosts/crowd.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "hosts/protocol.hpp"

namespace gpuwarden::hosts {
namespace {

/// So often an unfinished line is shown, and our own reader is tried again.
constexpr milliseconds kRound(200);
constexpr milliseconds kSlowRound(20);

}  // namespace

Crowd::Crowd(std::span<const Host> hosts, Options options, Links& links, Clock& clock)
    : options_(std::move(options)), links_(links), clock_(clock) {
  for (const Host& host : hosts) {
    sessions.emplace_back(host, sessions.size(), clock_.now());
    if (auto started = links_.start(ssh_command(host, options_.ssh)); !started) {
      sessions.back().fail_with(std::move(started).error());
      sessions.back().gone = true;
    }
  }
}

bool Crowd::until(const std::function<bool()>& done, std::optional<milliseconds> time, bool ends_on_signal) {
  const auto start = clock_.now();
  while (!done()) {
    if (ends_on_signal && signal) return false;
    const auto left = time ? *time - std::chrono::duration_cast<milliseconds>(clock_.now() - start) : kRound;
    if (left <= milliseconds(0)) return false;
    round(std::min(left, kRound), ends_on_signal);
  }
  return true;
}

void Crowd::round(milliseconds most, bool ends_on_signal) {
  beat();
  const bool slow = options_.slow && options_.slow();
  const auto news = links_.wait(slow ? std::min(most, kSlowRound) : most, !slow);
  const auto now = clock_.now();
  for (const News& one : news) {
    if (one.kind != News::Kind::signal) {
      sessions[one.link].take(one, now, options_.version, options_.ssh, options_.ears);
      continue;
    }
    const int number = one.signal.value_or(0);
    if (number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT) signal = number;
    if (!ends_on_signal && on_signal) on_signal(number);
  }
  for (Session& session : sessions) {
    if (slow) session.heard = now;  // nobody listened
    if (session.problem && !session.gone) cut_off(session, *session.problem);
    // Even of the shortest job it is to be known which rank failed first.
    if (session.is_well() && !std::exchange(session.timed, true))
      send(session, kBeat, {{"sent", micros(clock_.now())}});
  }
  look_for_silence();
  if (options_.moved) options_.moved(news.empty());
}

void Crowd::beat() {
  const auto now = clock_.now();
  if (beaten_ && now - *beaten_ < kBeatPeriod) return;
  beaten_ = now;
  send_all(kBeat, {{"sent", micros(now)}});
}

void Crowd::look_for_silence() {
  const auto now = clock_.now();
  for (Session& session : sessions) {
    if (!session.is_well() || session.gone || now - session.heard < kSilence) continue;
    cut_off(session, {ErrorCode::timed_out,
                      fmt::format("lost {}: nothing was heard of it for {} s", session.host.name, kSilence.count()),
                      "is the host down, or the network?"});
  }
}

void Crowd::cut_off(Session& session, Error why) {
  session.fail_with(std::move(why));
  session.gone = true;
  links_.end(session.link);
}

void Crowd::send(Session& session, std::string_view type, Json head) {
  if (session.is_well() && !session.gone) links_.send(session.link, encode(type, std::move(head)));
}

void Crowd::send_all(std::string_view type, const Json& head) {
  for (Session& session : sessions) send(session, type, head);
}

void Crowd::leave() {
  for (Session& session : sessions) {
    session.leaving = true;
    if (!session.gone) links_.close_input(session.link);
  }
  const auto all_gone = [&] { return std::ranges::all_of(sessions, &Session::gone); };
  until(all_gone, kLastGrace + std::chrono::seconds(3), false);
  for (Session& session : sessions) {
    if (!session.gone) links_.end(session.link);
    session.gone = true;
  }
}

std::optional<Error> problems_of(std::span<const Session> sessions) {
  std::vector<const Error*> problems;
  for (const Session& session : sessions) {
    if (session.problem) problems.push_back(&*session.problem);
  }
  if (problems.empty()) return std::nullopt;
  Error whole = *problems.front();
  if (problems.size() == 1) return whole;
  whole.message = fmt::format("{} hosts cannot take part:", problems.size());
  for (const Error* problem : problems) whole.message += "\n  " + problem->message;
  return whole;
}

}  // namespace gpuwarden::hosts
