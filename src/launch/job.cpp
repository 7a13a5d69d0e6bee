// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/job.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <random>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/launch/signals.hpp"
#include "launch/crew.hpp"

namespace gpuwarden::launch {
namespace {

constexpr auto kPartialLineDelay = std::chrono::milliseconds(200);
constexpr int kTickMs = 1000;
/// Ranks that end sooner than this after they were asked to are no matter for words.
constexpr auto kPatienceBeforeWords = std::chrono::milliseconds(500);
constexpr int kStoppingTickMs = 50;
/// So many looks a second apart may find a rank ended that its guardian has not told of.
constexpr int kSilentTicks = 3;
/// As much as the largest pipe holds; a grandchild that goes on writing is not listened to for ever.
constexpr int kMostBlocksLeft = 16;

/// Becomes readable when a stop is requested.
class StopDescriptor {
 public:
  explicit StopDescriptor(const std::stop_token& stop)
      : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), callback_(stop, Write{fd_.get()}) {}
  int fd() const { return fd_.get(); }
  bool take() const {
    std::uint64_t count = 0;
    return ::read(fd_.get(), &count, sizeof count) == sizeof count;
  }

 private:
  struct Write {
    int fd;
    void operator()() const {
      const std::uint64_t one = 1;
      [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof one);
    }
  };
  UniqueFd fd_;
  std::stop_callback<Write> callback_;
};

/// A sentence where ranks that should have a GPU each have to share them, or nothing.
std::string doubled_devices(const JobSpec& spec) {
  const auto devices = split(spec.visible_devices, ',').size();
  if (!spec.one_device_per_rank || spec.visible_devices.empty() || spec.ranks <= devices) return {};
  return fmt::format("{} ranks share {}: rank {} gets the same as rank 0", spec.ranks,
                     devices == 1 ? "1 GPU" : fmt::format("{} GPUs", devices), devices);
}

class Supervisor {
 public:
  Supervisor(const JobSpec& spec, Clock& clock, const JobHooks& hooks, Crew& crew)
      : spec_(spec), clock_(clock), hooks_(hooks), crew_(crew), stop_(hooks.stop) {}

  void warn(std::string text) {
    if (hooks_.warning) hooks_.warning(text);
    end_.warnings.push_back(std::move(text));
  }
  void lose_output(std::string text) {
    end_.lost_output = true;
    warn(std::move(text));
  }

  void run(int signal_fd) {
    look_at_ranks();
    while (any_alive() && !abandoned_) {
      wait_for_something(signal_fd);
      hear_guardians();
      look_at_ranks();
      look_after();
      look_at_time();
      look_whether_to_end();
      escalate();
    }
    if (hooks_.ranks_ended) hooks_.ranks_ended();
    // Grandchildren may hold our pipes open for ever: take what is there, then stop.
    for_each_stream([&](Stream& stream) {
      for (int block = 0; block < kMostBlocksLeft && stream.from && drain(stream); ++block) write_out(signal_fd);
      stream.writer.flush();
      stream.writer.close_log();
    });
    write_out(signal_fd);
    note_lost_output();
  }

  JobEnd finish() {
    hear_guardians();
    std::vector<pid_t> left = crew_.finish();
    if (damaged_) {
      const auto strays = crew_.end_strays(clock_);
      left.insert(left.end(), strays.begin(), strays.end());
    }
    for (const pid_t pid : left) warn(fmt::format("process {} of the job could not be ended", pid));
    for (const Member& member : crew_.members) {
      const auto status = status_of(member);
      RankEnd rank{.rank = member.number, .pid = crew_.pid(member)};
      rank.last_output = member.out.writer.end();
      rank.last_words = member.err.writer.end();
      if (WIFSIGNALED(status))
        rank.signal = WTERMSIG(status);
      else
        rank.exit_code = WEXITSTATUS(status);
      end_.ranks.push_back(rank);
    }
    end_.exit_code = exit_code();
    return std::move(end_);
  }

 private:
  void for_each_stream(const std::function<void(Stream&)>& action) {
    for (Member& member : crew_.members) {
      action(member.out);
      action(member.err);
    }
  }

  bool any_alive() const {
    return std::ranges::any_of(crew_.members, [&](const Member& member) { return !crew_.status(member); });
  }

  /// One whose end nobody could tell us of was killed with its guardians.
  int status_of(const Member& member) const { return crew_.status(member).value_or(SIGKILL); }

  /// Polls signals, guardians and outputs until something happens, or a line or a deadline is due.
  void wait_for_something(int signal_fd) {
    std::vector<pollfd> fds{{signal_fd, POLLIN, 0}, {stop_.fd(), POLLIN, 0}};
    for (const int socket : crew_.guardians->sockets()) fds.push_back({socket, POLLIN, 0});
    for (const Outlet* outlet : {&crew_.standard_output, &crew_.standard_error}) {
      if (outlet->waiting()) fds.push_back({outlet->fd(), POLLOUT, 0});
    }
    bool partial = false;
    for_each_stream([&](const Stream& stream) {
      // Who reads slowly slows the ranks down, as if they wrote to him themselves.
      if (!stream.from || stream.writer.target().waiting()) return;
      fds.push_back({stream.from.get(), POLLIN, 0});
      partial = partial || stream.writer.has_partial();
    });
    int timeout = stopping_since_ ? kStoppingTickMs : kTickMs;
    if (partial) timeout = std::min<int>(timeout, kPartialLineDelay.count());
    if (const auto due = time_event()) timeout = std::clamp<int>(milliseconds_until(*due), 0, timeout);
    const int ready = ::poll(fds.data(), fds.size(), timeout);
    if (ready == 0) {
      for_each_stream([](Stream& stream) { stream.writer.flush(); });
      if (timeout == kTickMs) look_for_silence();
    }
    if (fds[0].revents != 0) take_signals(signal_fd);
    if (stop_.take()) take_signal(SIGTERM, false);
    move_output();
  }

  void move_output() {
    for_each_stream([&](Stream& stream) {
      if (stream.from && !stream.writer.target().waiting()) drain(stream);
    });
    for (Outlet* outlet : {&crew_.standard_output, &crew_.standard_error}) outlet->pump();
    for_each_stream([&](Stream& stream) {
      // As if piped directly, a rank hears that nobody reads any more when it writes next; unless a log keeps it.
      if (stream.writer.target().reader_gone() && !stream.writer.has_log()) stream.from.reset();
    });
    note_lost_output();
  }

  /// Takes what has come; false when there is no more at the moment, or its way out is full.
  bool drain(Stream& stream) {
    std::array<char, 65536> block{};
    for (;;) {
      const ssize_t got = ::read(stream.from.get(), block.data(), block.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return false;
      if (got <= 0) {
        stream.from.reset();
        return false;
      }
      stream.writer.add(std::string_view(block.data(), static_cast<std::size_t>(got)));
      if (hooks_.output) hooks_.output();
      return true;
    }
  }

  /// Waits until all output is written, or until somebody is tired of waiting for its reader.
  void write_out(int signal_fd) {
    for (Outlet* outlet : {&crew_.standard_output, &crew_.standard_error}) {
      outlet->pump();
      while (outlet->waiting() && !tired_) {
        std::array<pollfd, 3> fds{{{outlet->fd(), POLLOUT, 0}, {signal_fd, POLLIN, 0}, {stop_.fd(), POLLIN, 0}}};
        ::poll(fds.data(), fds.size(), -1);
        tired_ = stop_.take() || (fds[1].revents != 0 && is_end_wanted(signal_fd));
        outlet->pump();
      }
    }
  }

  bool is_end_wanted(int signal_fd) {
    signalfd_siginfo info{};
    bool wanted = false;
    while (::read(signal_fd, &info, sizeof info) == sizeof info) {
      const auto signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGTSTP) SignalScope::stop_self();
      if (signal == SIGTSTP || signal == SIGCONT || SignalScope::is_programs_own(signal)) continue;
      wanted = true;
      if (!end_.interrupted_by) end_.interrupted_by = signal;
    }
    return wanted;
  }

  void note_lost_output() {
    for (const auto& [outlet, told, name] : {std::tuple(&crew_.standard_output, &told_output_, "standard output"),
                                             std::tuple(&crew_.standard_error, &told_error_, "standard error")}) {
      if (outlet->error() && !std::exchange(*told, true))
        lose_output(fmt::format("cannot write {}: {}; the rest is lost", name, std::strerror(*outlet->error())));
    }
    for (Member& member : crew_.members) {
      for (LineWriter* writer : {&member.out.writer, &member.err.writer}) {
        const auto error = writer->log_error();
        if (!error || std::exchange(told_log_, true)) continue;
        lose_output(fmt::format("cannot write the log of rank {} in {}: {}; the logs there are incomplete",
                                member.number, spec_.log_directory->string(), std::strerror(*error)));
      }
    }
  }

  void take_signals(int signal_fd) {
    signalfd_siginfo info{};
    while (::read(signal_fd, &info, sizeof info) == sizeof info)
      take_signal(static_cast<int>(info.ssi_signo), info.ssi_code == SI_KERNEL);
  }

  void take_signal(int signal, bool from_terminal) {
    // A terminal has sent it to a rank in our group already.
    const bool heard = from_terminal && !crew_.own_groups();
    if (signal == SIGTSTP) return stop_with_ranks(heard);
    if (signal == SIGCONT) return crew_.signal_ranks(SIGCONT);
    if (SignalScope::is_programs_own(signal)) return crew_.signal_programs(signal);
    const bool again = end_.interrupted_by.has_value();
    if (!again) end_.interrupted_by = signal;
    if (again && signal == SIGINT) return kill_impatiently();
    if (!heard) crew_.signal_ranks(signal);
    // What is stopped hears nothing but this and SIGKILL.
    crew_.signal_ranks(SIGCONT);
    begin_stopping();
  }

  void kill_impatiently() {
    if (!std::exchange(told_kill_, true)) warn("the second Ctrl-C killed the ranks");
    crew_.signal_ranks(SIGKILL);
  }

  /// Ctrl-Z is meant for the whole job, and so is `fg`.
  void stop_with_ranks(bool heard) {
    if (!heard) crew_.signal_ranks(SIGTSTP);
    SignalScope::stop_self();
    crew_.signal_ranks(SIGCONT);
  }

  void begin_stopping() {
    if (!stopping_since_) stopping_since_ = clock_.now();
  }

  void hear_guardians() {
    for (std::string& sentence : crew_.guardians->take_news()) {
      damaged_ = true;
      warn(std::move(sentence));
    }
    if (crew_.guardians->watching()) return;
    abandoned_ = true;
    crew_.signal_ranks(SIGKILL);
  }

  void look_at_ranks() {
    if (end_.first_failure || end_.interrupted_by || end_.early || !end_.given_up.empty()) return;
    const Member* first = nullptr;
    for (const Member& member : crew_.members) {
      const auto status = crew_.status(member);
      if (!status || (WIFEXITED(*status) && WEXITSTATUS(*status) == 0)) continue;
      if (first == nullptr || crew_.order(member) < crew_.order(*first)) first = &member;
    }
    if (first == nullptr) return;
    end_.first_failure = first->number;
    if (hooks_.first_failed) hooks_.first_failed(first->number, code_of(status_of(*first)));
    if (crew_.members.size() == 1) return;
    crew_.signal_ranks(SIGTERM);
    begin_stopping();
  }

  /// A guardian that was stopped tells nothing: a rank that has ended would be waited for in vain.
  void look_for_silence() {
    const bool silent = std::ranges::any_of(crew_.members, [&](const Member& member) {
      return member.process && !crew_.status(member) && !member.process->is_running();
    });
    silent_ticks_ = silent ? silent_ticks_ + 1 : 0;
    if (silent_ticks_ > 0) crew_.guardians->rouse(silent_ticks_ > kSilentTicks);
  }

  void look_after() {
    if (!hooks_.look_after || clock_.now() - looked_after_ < kLookAfterPeriod) return;
    for (std::string& sentence : hooks_.look_after()) warn(std::move(sentence));
    looked_after_ = clock_.now();
  }

  /// When something is to be done about the time next.
  std::optional<Clock::SteadyTime> time_event() const {
    const TimeLimit& limit = spec_.time_limit;
    if (!limit.end || stopping_since_) return std::nullopt;
    if (limit.signal != 0 && !told_time_) return *limit.end - limit.before;
    return limit.ends_job ? limit.end : std::nullopt;
  }

  int milliseconds_until(Clock::SteadyTime when) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - clock_.now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, kTickMs));
  }

  void look_at_time() {
    const auto due = time_event();
    if (!due || clock_.now() < *due) return;
    const TimeLimit& limit = spec_.time_limit;
    if (limit.signal == 0 || told_time_) return end_early({EarlyEnd::Kind::out_of_time, "the time limit is reached"});
    told_time_ = true;
    const auto left = std::max(*limit.end - clock_.now(), Clock::SteadyTime::duration::zero());
    const char* name = sigabbrev_np(limit.signal);
    warn(fmt::format("the time is over in {}: the ranks were sent {}",
                     format_duration(std::chrono::round<std::chrono::seconds>(left)),
                     name == nullptr ? fmt::format("signal {}", limit.signal) : fmt::format("SIG{}", name)));
    crew_.signal_programs(limit.signal);
  }

  void look_whether_to_end() {
    if ((!hooks_.give_up && !hooks_.end_early) || stopping_since_ || clock_.now() - asked_ < kGiveUpPeriod) return;
    asked_ = clock_.now();
    std::vector<RankEnd> running;
    for (const Member& member : crew_.members) {
      if (!crew_.status(member)) running.push_back({.rank = member.number, .pid = crew_.pid(member)});
    }
    if (running.empty()) return;
    if (auto early = hooks_.end_early ? hooks_.end_early(running) : std::nullopt) return end_early(std::move(*early));
    if (hooks_.give_up) end_.given_up = hooks_.give_up(running);
    if (!end_.given_up.empty()) end_in_order(end_.given_up);
  }

  void end_early(EarlyEnd early) {
    end_.early = std::move(early);
    // Who asked for other ranks tells it himself.
    end_in_order(end_.early->kind == EarlyEnd::Kind::regroup ? "" : end_.early->why);
  }

  void end_in_order(const std::string& why) {
    if (!why.empty()) warn(why);
    crew_.signal_ranks(SIGTERM);
    crew_.signal_ranks(SIGCONT);
    begin_stopping();
  }

  /// After the grace period nobody is asked any more.
  void escalate() {
    if (!stopping_since_) return;
    const auto stopping = clock_.now() - *stopping_since_;
    if (stopping >= spec_.grace) {
      if (end_.interrupted_by && !std::exchange(told_kill_, true))
        warn(fmt::format("the ranks were killed: they did not end within {}", format_duration(spec_.grace)));
      return crew_.signal_ranks(SIGKILL);
    }
    if (stopping < kPatienceBeforeWords || !end_.interrupted_by || !any_alive() || std::exchange(told_grace_, true))
      return;
    warn(fmt::format("the ranks were asked to end, and are killed after {}{}", format_duration(spec_.grace),
                     end_.interrupted_by == SIGINT ? "; Ctrl-C again kills them now" : ""));
  }

  static int code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

  /// Of a job that was ended early: a rank's own word, if there is one.
  int code_of_early_end() const {
    if (end_.early->kind == EarlyEnd::Kind::out_of_time) return kGivenUp;
    for (const Member& member : crew_.members) {
      if (const int code = code_of(status_of(member)); code != 0) return code;
    }
    return 1;
  }

  int exit_code() const {
    if (!end_.given_up.empty()) return kGivenUp;
    if (end_.early && !end_.interrupted_by) return code_of_early_end();
    if (end_.first_failure) {
      const auto failed = std::ranges::find(crew_.members, *end_.first_failure, &Member::number);
      return code_of(status_of(*failed));
    }
    // A job that ended by itself after the signal has the last word; one that had to be ended has not.
    int own = 0;
    for (const Member& member : crew_.members) {
      const int status = status_of(member);
      if (WIFSIGNALED(status)) return 128 + end_.interrupted_by.value_or(WTERMSIG(status));
      if (own == 0) own = WEXITSTATUS(status);
    }
    return own == 0 && end_.lost_output ? 1 : own;
  }

  const JobSpec& spec_;
  Clock& clock_;
  const JobHooks& hooks_;
  Crew& crew_;
  StopDescriptor stop_;
  JobEnd end_;
  Clock::SteadyTime looked_after_ = clock_.now();
  Clock::SteadyTime asked_ = clock_.now();
  std::optional<Clock::SteadyTime> stopping_since_;
  bool damaged_ = false;    ///< a guardian was killed
  bool abandoned_ = false;  ///< and no other is left
  bool tired_ = false;
  bool told_output_ = false;
  bool told_error_ = false;
  bool told_log_ = false;
  bool told_time_ = false;
  bool told_grace_ = false;
  bool told_kill_ = false;
  int silent_ticks_ = 0;
};

}  // namespace

std::string_view to_string(EarlyEnd::Kind kind) {
  switch (kind) {
    case EarlyEnd::Kind::gpus_lost:
      return "gpus_lost";
    case EarlyEnd::Kind::straggler:
      return "straggler";
    case EarlyEnd::Kind::no_resources:
      return "no_resources";
    case EarlyEnd::Kind::out_of_time:
      return "out_of_time";
    case EarlyEnd::Kind::regroup:
      return "regroup";
  }
  return "unknown";
}

Result<JobEnd> run_job(const JobSpec& spec, Clock& clock, const JobHooks& hooks) {
  if (spec.argv.empty() || spec.ranks == 0) return fail(ErrorCode::invalid_argument, "no command to run was given");
  const auto start = clock.now();
  const SignalScope signals(spec.takes_signals);
  GPUWARDEN_TRY(Board board, Board::make(spec.ranks));
  Crew crew(spec, std::move(board));
  std::vector<std::string> unopened_logs;
  if (auto started = crew.start(signals.ignored(), unopened_logs); !started)
    return std::unexpected(std::move(started).error());
  Supervisor supervisor(spec, clock, hooks, crew);
  for (std::string& warning : unopened_logs) supervisor.lose_output(std::move(warning));
  if (const auto doubling = doubled_devices(spec); !doubling.empty()) supervisor.warn(doubling);
  for (const Member& member : crew.members) {
    if (hooks.rank_started) hooks.rank_started(member.number, crew.pid(member));
  }
  supervisor.run(signals.fd());
  JobEnd end = supervisor.finish();
  end.wall_time = std::chrono::duration_cast<std::chrono::milliseconds>(clock.now() - start);
  return end;
}

std::string make_run_id() {
  std::random_device random;
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  return fmt::format("{:x}-{}-{:08x}", now.count(), ::getpid(), random());
}

}  // namespace gpuwarden::launch
