// SPDX-License-Identifier: Apache-2.0
// Hosts behind an ssh that is none: each answers a launcher's messages as an agent does, in a time of the test's own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/hosts/links.hpp"
#include "hosts/message.hpp"
#include "hosts/protocol.hpp"
#include "support/fake_clock.hpp"

namespace gpuwarden::hosts::testing {

using std::chrono::milliseconds;

class FakeHosts;

struct FakeHost {
  std::string machine;
  std::string version = "0.1.0";
  std::string noise;                 ///< what its shell's start file prints
  std::optional<int> ssh_exit_code;  ///< ssh ends with it instead of an answer
  std::string ssh_words;
  Held held{{0}, "H100", 1, true};
  std::optional<Error> refuses;  ///< the order
  std::string unreachable;       ///< why it does not reach the first host; empty: it does
  /// What its ranks do from now on.
  std::function<void(FakeHosts&, std::size_t link, const Start&)> runs;
  std::vector<Message> heard;  ///< without beats
  std::vector<Start> starts;
  bool silent = false;
  bool input_closed = false;
  bool cut_off = false;
};

class FakeHosts final : public Links {
 public:
  explicit FakeHosts(gpuwarden::testing::FakeClock& clock) : clock_(clock) {}

  /// By the name that ssh is called with.
  std::map<std::string, FakeHost> hosts;
  FakeHost& host(std::size_t link) { return hosts.at(names_.at(link)); }
  std::vector<std::string> calls;  ///< "a:order", in the order in which they came

  Result<void> start(const Command& command) override {
    const auto& argv = command.argv;
    EXPECT_GE(argv.size(), 3U);
    EXPECT_TRUE(argv.back().ends_with(" host-agent")) << argv.back();
    names_.push_back(argv[argv.size() - 2]);
    readers_.emplace_back();
    if (!hosts.contains(names_.back())) ADD_FAILURE() << "nobody expected " << names_.back();
    const FakeHost& there = hosts[names_.back()];
    const std::size_t link = names_.size() - 1;
    if (there.ssh_exit_code) {
      say(link, News::Kind::errors, there.ssh_words);
      news_.push_back(
          {clock_.now(),
           {.kind = News::Kind::ended, .link = link, .text = {}, .exit_code = there.ssh_exit_code, .signal = {}}});
      return {};
    }
    say(link, News::Kind::output, there.noise + "gpuwarden " + there.version + "\n");
    send_back(link, kHello, {{"machine", there.machine.empty() ? names_.back() : there.machine}});
    return {};
  }

  void send(std::size_t link, std::string_view text) override {
    readers_[link].add(text);
    for (;;) {
      auto message = readers_[link].next();
      ASSERT_TRUE(message.has_value());
      if (!*message) return;
      answer(link, **message);
    }
  }
  void close_input(std::size_t link) override {
    host(link).input_closed = true;
    news_.push_back(
        {clock_.now(), {.kind = News::Kind::ended, .link = link, .text = {}, .exit_code = 0, .signal = {}}});
  }
  void end(std::size_t link) override { host(link).cut_off = true; }

  std::vector<News> wait(milliseconds most, bool /*listening*/) override {
    std::ranges::stable_sort(news_, {}, &std::pair<Clock::SteadyTime, News>::first);
    const auto now = clock_.now();
    if (news_.empty() || news_.front().first > now) {
      const auto until = news_.empty() ? now + most : std::min<Clock::SteadyTime>(news_.front().first, now + most);
      clock_.advance(until - now);
    }
    std::vector<News> due;
    while (!news_.empty() && news_.front().first <= clock_.now()) {
      due.push_back(std::move(news_.front().second));
      news_.erase(news_.begin());
    }
    return due;
  }

  void send_back(std::size_t link, std::string_view type, Json head = Json::object(), std::string_view body = {},
                 milliseconds later = milliseconds(0)) {
    say(link, News::Kind::output, encode(type, std::move(head), body), later);
  }
  void say(std::size_t link, News::Kind kind, std::string text, milliseconds later = milliseconds(0)) {
    news_.push_back(
        {clock_.now() + later, {.kind = kind, .link = link, .text = std::move(text), .exit_code = {}, .signal = {}}});
  }
  void signal(int number, milliseconds later) {
    news_.push_back(
        {clock_.now() + later, {.kind = News::Kind::signal, .text = {}, .exit_code = {}, .signal = number}});
  }
  /// Its ranks end.
  void done(std::size_t link, int exit_code, milliseconds later, bool interrupted = false) {
    Done done;
    done.exit_code = exit_code;
    done.interrupted = interrupted;
    send_back(link, kDone, to_json(done), {}, later);
  }
  void failed(std::size_t link, std::uint32_t rank, int exit_code, milliseconds later) {
    const auto when = clock_.now() + later;
    const auto now = std::chrono::duration_cast<std::chrono::microseconds>(when.time_since_epoch()).count();
    send_back(link, kFailed, {{"rank", rank}, {"exit_code", exit_code}, {"now", now}}, {}, later);
    Done done;
    done.exit_code = exit_code;
    done.first_failure = rank;
    send_back(link, kDone, to_json(done), {}, later + milliseconds(1));
  }

 private:
  void answer(std::size_t link, const Message& message) {
    FakeHost& there = host(link);
    if (there.silent) return;
    if (message.type == kBeat) {
      const auto now = std::chrono::duration_cast<std::chrono::microseconds>(clock_.now().time_since_epoch()).count();
      return send_back(link, kBeat, {{"echo", message.head.value("sent", std::int64_t{0})}, {"now", now}});
    }
    there.heard.push_back(message);
    calls.push_back(names_[link] + ":" + message.type);
    if (message.type == kOrder) {
      if (there.refuses) return send_back(link, kProblem, facts::to_json(*there.refuses));
      return send_back(link, kHeld, to_json(there.held));
    }
    if (message.type == kMeet)
      return send_back(link, kMeeting, to_json(Meeting{15001, {"10.9.9.9", "10.0.0.1"}, "word"}));
    if (message.type == kTry)
      return send_back(link, kReached,
                       {{"reached", Json::array({to_json(Reach{"10.9.9.9", "No route to host"}),
                                                 to_json(Reach{"10.0.0.1", there.unreachable})})}});
    if (message.type == kSignal) return done(link, 143, milliseconds(5), true);
    if (message.type == kStart) {
      there.starts.push_back(start_from_json(message.head).value());
      if (there.runs) return there.runs(*this, link, there.starts.back());
      return done(link, 0, milliseconds(100));
    }
  }

  gpuwarden::testing::FakeClock& clock_;
  std::vector<std::string> names_;
  std::vector<MessageReader> readers_;
  std::vector<std::pair<Clock::SteadyTime, News>> news_;
};

}  // namespace gpuwarden::hosts::testing
