// SPDX-License-Identifier: Apache-2.0
#include "hosts/session.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "hosts/protocol.hpp"

namespace gpuwarden::hosts {
namespace {

constexpr std::size_t kMostErrors = 16384;
/// What may stand before the agent's first message: start files of a shell are talkative, but not more.
constexpr std::size_t kMostNoise = 65536;
/// Microseconds that no machine has been up: a hundred years.
constexpr std::int64_t kMostMicros = std::int64_t{100} * 366 * 24 * 3600 * 1'000'000;
/// Of a failure.
constexpr std::int64_t kMostExitCode = 255;

bool is_time(std::int64_t micros) { return micros >= 0 && micros <= kMostMicros; }

template <class T>
Result<void> take_into(std::optional<T>& field, Result<T> value) {
  if (!value) return std::unexpected(std::move(value).error());
  field = std::move(*value);
  return {};
}

}  // namespace

void ClockOffset::add(std::int64_t sent, std::int64_t theirs, std::int64_t received) {
  // Theirs and the echo are another program's word.
  if (!is_time(sent) || !is_time(theirs) || !is_time(received)) return;
  const std::int64_t took = received - sent;
  if (took < 0 || (took_ && *took_ <= took)) return;
  took_ = took;
  ahead_ = theirs - (sent + took / 2);
}

std::optional<Clock::SteadyTime> ClockOffset::to_ours(std::int64_t theirs) const {
  if (!took_ || !is_time(theirs)) return std::nullopt;
  return Clock::SteadyTime(std::chrono::duration_cast<Clock::SteadyTime::duration>(microseconds(theirs - ahead_)));
}

void Session::fail_with(Error error) {
  if (!problem) problem = std::move(error);
}

void Session::begin_try() {
  meeting.reset();
  reached.reset();
  failure.reset();
  done.reset();
}

void Session::take(const News& news, Clock::SteadyTime now, std::string_view version, const SshOptions& ssh,
                   const Ears& ears) {
  if (gone) return;
  if (news.kind == News::Kind::errors) return hear_errors(news.text, ears);
  if (news.kind == News::Kind::ended) {
    gone = true;
    if (leaving || problem) return;
    // One of another version may not even know what it is asked for.
    if (!greeted && !their_version_.empty() && their_version_ != version)
      return fail_with(*version_problem(host, their_version_, version));
    if (greeted) return fail_with(explain_loss(host, {news.exit_code, news.signal, errors_}));
    return fail_with(explain(host, {news.exit_code, news.signal, errors_.empty() ? noise_ : errors_}, ssh));
  }
  heard = now;
  if (!greeted && (before_greeting_ += news.text.size()) > kMostNoise)
    return fail_with({ErrorCode::corrupt,
                      fmt::format("{}: no agent answers in {} KiB of output", host.name, kMostNoise / 1024),
                      "does a start file of the shell there print something?"});
  reader_.add(news.text);
  if (!greeted) greet(version);
  while (is_well()) {
    auto message = reader_.next();
    if (!message)
      return fail_with({message.error().code, host.name + ": " + message.error().message, message.error().hint});
    if (!*message) return;
    hear(**message, now, ears);
  }
}

/// Whatever the start files of a shell print stands before the version.
void Session::greet(std::string_view version) {
  while (!reader_.at_message() || their_version_.empty()) {
    const auto line = reader_.next_line();
    if (!line) return;
    if (const auto told = version_in(*line); !told.empty())
      their_version_ = told;
    else if (noise_.size() < kMostErrors)
      noise_ += *line + "\n";
  }
  if (const auto other = version_problem(host, their_version_, version)) return fail_with(*other);
  auto first = reader_.next();
  if (first && !*first) return;
  if (!first || (*first)->type != kHello)
    return fail_with({ErrorCode::corrupt, host.name + ": the agent does not greet", ""});
  machine = text_in((*first)->head, "machine");
  greeted = true;
}

void Session::hear(const Message& message, Clock::SteadyTime now, const Ears& ears) {
  const Json& head = message.head;
  const auto rank = number_in(head, "rank");
  const auto as_rank = rank ? std::optional(static_cast<std::uint32_t>(*rank)) : std::nullopt;
  if (message.type == kBeat) {
    const auto echo = number_in(head, "echo");
    const auto theirs = number_in(head, "now");
    if (echo && theirs) offset_.add(*echo, *theirs, micros(now));
  } else if (message.type == kOutput) {
    if (ears.output) ears.output(*this, as_rank, number_in(head, "stream") == 2, message.body);
  } else if (message.type == kSaid) {
    if (ears.said) ears.said(*this, text_in(head, "text"));
  } else if (message.type == kFailed) {
    const auto when = number_in(head, "now");
    failure = Failure{
        as_rank, static_cast<int>(std::clamp<std::int64_t>(number_in(head, "exit_code").value_or(1), 1, kMostExitCode)),
        when ? offset_.to_ours(*when).value_or(now) : now};
  } else if (message.type == kProblem) {
    Error told = error_from_json(head);
    told.message = fmt::format("{}: {}", host.name, told.message);
    fail_with(std::move(told));
  } else if (auto kept = keep(message); !kept) {
    fail_with({kept.error().code, fmt::format("{}: {}", host.name, kept.error().message), ""});
  } else if (done && done->exit_code != 0 && !done->interrupted && !failure) {
    failure = Failure{done->first_failure, done->exit_code, now};
  }
}

Result<void> Session::keep(const Message& message) {
  if (message.type == kHeld) return take_into(held, held_from_json(message.head));
  if (message.type == kMeeting) return take_into(meeting, meeting_from_json(message.head));
  if (message.type == kDone) return take_into(done, done_from_json(message.head));
  if (message.type == kNode) {
    node = message.head.value("node", Json());
    return {};
  }
  if (message.type != kReached) return {};  // what a later version may add
  std::vector<Reach> all;
  for (const Json& one : message.head.value("reached", Json::array())) {
    GPUWARDEN_TRY(Reach reach, reach_from_json(one));
    all.push_back(std::move(reach));
  }
  reached = std::move(all);
  return {};
}

void Session::hear_errors(const std::string& text, const Ears& ears) {
  errors_ += text;
  if (errors_.size() > kMostErrors) errors_.erase(0, errors_.size() - kMostErrors);
  line_ += text;
  for (std::size_t end = line_.find('\n'); end != std::string::npos; end = line_.find('\n')) {
    const std::string line = printable(trim(std::string_view(line_).substr(0, end)));
    line_.erase(0, end + 1);
    if (greeted && !leaving && ears.said && !line.empty()) ears.said(*this, line);
  }
  if (line_.size() > kMostErrors) line_.clear();
}

}  // namespace gpuwarden::hosts
