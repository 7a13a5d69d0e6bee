// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/hosts/agent.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <thread>
#include <utility>

#include "gpuwarden/base/child.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/launch/signals.hpp"
#include "hosts/meeting.hpp"
#include "hosts/message.hpp"
#include "hosts/protocol.hpp"
#include "hosts/rank_lines.hpp"

namespace gpuwarden::hosts {
namespace {

constexpr int kTickMs = 500;
constexpr std::size_t kReadBlock = 65536;
constexpr int kMostBlocksLeft = 16;
/// More than that waits in the ranks' pipes.
constexpr std::size_t kMostUnsent = std::size_t{1} << 20U;

/// What is sent, from any thread; the loop writes it.
class Outbox {
 public:
  Outbox() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  void put(std::string_view text) {
    const std::scoped_lock lock(mutex_);
    unsent_ += text;
    wake();
  }
  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  }
  int wake_fd() const { return wake_.get(); }
  void sleep_again() const {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof count);
  }
  std::size_t size() const {
    const std::scoped_lock lock(mutex_);
    return unsent_.size();
  }
  /// False where nobody reads any more.
  bool pump(int fd) {
    const std::scoped_lock lock(mutex_);
    while (!unsent_.empty()) {
      const ssize_t sent = ::write(fd, unsent_.data(), unsent_.size());
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) return errno == EAGAIN;
      unsent_.erase(0, static_cast<std::size_t>(sent));
    }
    return true;
  }

 private:
  mutable std::mutex mutex_;
  std::string unsent_;
  UniqueFd wake_;
};

class Agent {
 public:
  Agent(AgentStreams streams, AgentWork& work, const AgentOptions& options, Clock& clock)
      : streams_(std::move(streams)), work_(work), options_(options), clock_(clock), heard_(clock.now()) {}

  int serve() {
    send(kHello, {{"machine", options_.machine}});
    while (!over()) {
      wait_for_something();
      look_after();
    }
    // A launcher that still listens hears the last words.
    if (!launcher_gone_) outbox_.pump(streams_.out.get());
    return 0;
  }

 private:
  bool over() const { return leaving_since_ && !busy_; }

  void send(std::string_view type, Json head = Json::object(), std::string_view body = {}) {
    outbox_.put(encode(type, std::move(head), body));
  }
  void send_problem(const Error& error) { send(kProblem, facts::to_json(error)); }

  void wait_for_something() {
    std::vector<pollfd> fds{{outbox_.wake_fd(), POLLIN, 0}};
    const auto add = [&](int fd, short events) {
      fds.push_back({fd, events, 0});
      return fds.size() - 1;
    };
    const std::size_t in = add(leaving_since_ ? -1 : streams_.in.get(), POLLIN);
    if (outbox_.size() > 0 && !launcher_gone_) add(streams_.out.get(), POLLOUT);
    const bool room = outbox_.size() < kMostUnsent || launcher_gone_;
    add(room ? streams_.output.get() : -1, POLLIN);
    add(room ? streams_.errors.get() : -1, POLLIN);
    const std::size_t guest = add(place_ ? place_->fd() : -1, POLLIN);
    const std::size_t signal = add(busy_ ? -1 : signals_.fd(), POLLIN);
    ::poll(fds.data(), fds.size(), kTickMs);
    outbox_.sleep_again();
    if (fds[guest].revents != 0) place_->greet();
    if (fds[signal].revents != 0) take_signal();
    if (fds[in].revents != 0) read_launcher();
    if (room) move_output();
    if (!launcher_gone_ && !outbox_.pump(streams_.out.get())) {
      launcher_gone_ = true;
      leave();
    }
  }

  void look_after() {
    if (finished()) end_work();
    const auto now = clock_.now();
    if (!leaving_since_ && now - heard_ > kDeadMan) leave();
    // The guardians end what does not end by itself; nobody waits for a driver that hangs.
    if (leaving_since_ && busy_ && now - *leaving_since_ > kLastGrace) options_.abandon();
  }

  /// Nothing is begun any more, and what runs is to end.
  void leave() {
    if (leaving_since_) return;
    leaving_since_ = clock_.now();
    stop_.request_stop();
    if (!busy_) place_.reset();
  }

  void take_signal() {
    signalfd_siginfo info{};
    while (::read(signals_.fd(), &info, sizeof info) == sizeof info) {
      const auto signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT) leave();
    }
  }

  void read_launcher() {
    std::array<char, kReadBlock> block{};
    const ssize_t got = ::read(streams_.in.get(), block.data(), block.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) return leave();
    heard_ = clock_.now();
    reader_.add(std::string_view(block.data(), static_cast<std::size_t>(got)));
    for (;;) {
      auto message = reader_.next();
      if (!message) {
        send_problem(message.error());
        return leave();
      }
      if (!*message) return;
      obey(**message);
    }
  }

  void obey(const Message& message) {
    const Json& head = message.head;
    if (message.type == kBeat) return answer_beat(head);
    if (message.type == kSignal) return pass_signal(static_cast<int>(number_in(head, "signal").value_or(SIGTERM)));
    if (busy_) return send_problem({ErrorCode::failed, "the launcher asks for two things at once", ""});
    if (message.type == kOrder) return begin_order(order_from_json(head));
    if (message.type == kStart) return begin_ranks(start_from_json(head));
    if (message.type == kMeet) return open_meeting(number_in(head, "port").value_or(0));
    if (message.type == kTry) return begin_try(meeting_from_json(head.value("meeting", Json())));
    if (message.type == kLook) return begin_look(head.value("options", Json::array()));
    send_problem({ErrorCode::invalid_argument, fmt::format("unknown message '{}'", printable(message.type)), ""});
  }

  void answer_beat(const Json& head) {
    const auto now = std::chrono::duration_cast<std::chrono::microseconds>(clock_.now().time_since_epoch()).count();
    send(kBeat, {{"echo", number_in(head, "sent").value_or(0)}, {"now", now}});
  }

  /// run_job reads the process's signals while ranks run.
  void pass_signal(int signal) const {
    if (!runs_ranks_) return;
    for (const int one : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
      if (one == signal) ::kill(::getpid(), signal);
    }
  }

  /// In a thread of its own; what it sends at its end comes behind all output.
  void begin(std::function<std::string()> task) {
    busy_ = true;
    stop_ = std::stop_source();
    worker_ = std::jthread([this, task = std::move(task)] {
      std::string last = task();
      const std::scoped_lock lock(mutex_);
      last_ = std::move(last);
      outbox_.wake();
    });
  }

  /// Signals for ranks that have ended meanwhile are not for the agent.
  void forget_signals() const {
    signalfd_siginfo info{};
    while (::read(signals_.fd(), &info, sizeof info) == sizeof info) continue;
  }

  bool finished() {
    const std::scoped_lock lock(mutex_);
    return busy_ && last_.has_value();
  }

  void end_work() {
    worker_.join();
    if (runs_ranks_) {
      // What is in the pipes; not what somebody goes on to write.
      for (int block = 0; block < kMostBlocksLeft && move_output(); ++block) continue;
      forget_signals();
      for (RankLines* lines : {&output_lines_, &error_lines_}) pass_on(lines->finish(), lines == &error_lines_);
    }
    outbox_.put(*std::exchange(last_, std::nullopt));
    busy_ = runs_ranks_ = false;
  }

  template <class T>
  bool refuse(const Result<T>& asked) {
    if (!asked) send_problem(asked.error());
    return !asked;
  }

  RunEars ears() {
    return {.first_failed =
                [this](std::uint32_t rank, int code) {
                  const auto now =
                      std::chrono::duration_cast<std::chrono::microseconds>(clock_.now().time_since_epoch());
                  send(kFailed, {{"rank", rank}, {"exit_code", code}, {"now", now.count()}});
                },
            .warning = [this](const std::string& text) { send(kSaid, {{"text", text}}); }};
  }

  void begin_order(Result<Order> order) {
    if (refuse(order)) return;
    output_lines_.begin(std::nullopt);
    error_lines_.begin(std::nullopt);
    begin([this, order = std::move(*order)] {
      const auto held = work_.hold(order, stop_.get_token(), ears());
      if (held) ranks_ = held->ranks;
      return held ? encode(kHeld, to_json(*held)) : encode(kProblem, facts::to_json(held.error()));
    });
  }

  void begin_ranks(Result<Start> start) {
    if (refuse(start)) return;
    runs_ranks_ = true;
    const auto alone = ranks_ == 1 ? std::optional(start->first_rank) : std::nullopt;
    output_lines_.begin(alone);
    error_lines_.begin(alone);
    if (place_) place_->hand_over();
    begin([this, start = std::move(*start)] {
      return encode(kDone, to_json(work_.run(start, stop_.get_token(), ears())));
    });
  }

  void open_meeting(std::int64_t port) {
    place_.reset();
    auto place =
        MeetingPlace::open(port > 0 && port < 65536 ? std::optional(static_cast<std::uint16_t>(port)) : std::nullopt,
                           options_.ssh_connection);
    if (refuse(place)) return;
    place_.emplace(std::move(*place));
    send(kMeeting, to_json(place_->meeting()));
  }

  void begin_try(Result<Meeting> meeting) {
    if (refuse(meeting)) return;
    begin([meeting = std::move(*meeting)] {
      Json all = Json::array();
      for (const Reach& one : try_to_reach(meeting)) all.push_back(to_json(one));
      return encode(kReached, {{"reached", std::move(all)}});
    });
  }

  void begin_look(const Json& asked) {
    std::vector<std::string> options;
    for (const Json& word : asked) {
      if (word.is_string()) options.push_back(word.get<std::string>());
    }
    begin([this, options = std::move(options)] {
      auto node = work_.look(options);
      return node ? encode(kNode, {{"node", std::move(*node)}}) : encode(kProblem, facts::to_json(node.error()));
    });
  }

  /// Whether something came.
  bool move_output() {
    bool came = false;
    for (const auto& [fd, lines] :
         {std::pair(streams_.output.get(), &output_lines_), std::pair(streams_.errors.get(), &error_lines_)}) {
      std::array<char, kReadBlock> block{};
      const ssize_t got = ::read(fd, block.data(), block.size());
      if (got <= 0) continue;
      came = true;
      pass_on(lines->add(std::string_view(block.data(), static_cast<std::size_t>(got))), lines == &error_lines_);
    }
    return came;
  }

  void pass_on(const std::vector<RankText>& texts, bool error) {
    if (launcher_gone_) return;
    for (const RankText& one : texts)
      send(kOutput, {{"rank", one.rank ? Json(*one.rank) : Json()}, {"stream", error ? 2 : 1}}, one.text);
  }

  /// Blocks them in the threads made later, too, and SIGPIPE with them.
  launch::SignalScope signals_{true};
  AgentStreams streams_;
  AgentWork& work_;
  const AgentOptions& options_;
  Clock& clock_;
  Outbox outbox_;
  MessageReader reader_;
  RankLines output_lines_;
  RankLines error_lines_;
  std::optional<MeetingPlace> place_;
  Clock::SteadyTime heard_;
  std::optional<Clock::SteadyTime> leaving_since_;
  bool launcher_gone_ = false;
  bool busy_ = false;
  bool runs_ranks_ = false;
  std::uint32_t ranks_ = 0;
  std::stop_source stop_;
  std::mutex mutex_;
  std::optional<std::string> last_;  ///< what the worker's task sends at its end
  std::jthread worker_;
};

}  // namespace

Result<AgentStreams> AgentStreams::take_over() {
  AgentStreams streams;
  streams.in.reset(::fcntl(0, F_DUPFD_CLOEXEC, 3));
  streams.out.reset(::fcntl(1, F_DUPFD_CLOEXEC, 3));
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  GPUWARDEN_TRY(Pipe output, make_pipe());
  GPUWARDEN_TRY(Pipe errors, make_pipe());
  if (!streams.in || !streams.out || ::dup2(nothing.get(), 0) < 0 || ::dup2(output.write_end.get(), 1) < 0 ||
      ::dup2(errors.write_end.get(), 2) < 0)
    return std::unexpected(error_from_errno(errno, "cannot set up the agent's streams"));
  for (const int fd : {streams.in.get(), streams.out.get(), output.read_end.get(), errors.read_end.get()})
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  streams.output = std::move(output.read_end);
  streams.errors = std::move(errors.read_end);
  return streams;
}

int serve_launcher(AgentStreams streams, AgentWork& work, const AgentOptions& options, Clock& clock) {
  return Agent(std::move(streams), work, options, clock).serve();
}

}  // namespace gpuwarden::hosts
