// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/job.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <random>

#include "gpuwarden/base/scope_guard.hpp"
#include "launch/parts.hpp"

namespace gpuwarden::launch {
namespace {

constexpr auto kPartialLineDelay = std::chrono::milliseconds(200);
constexpr auto kSweepGrace = std::chrono::milliseconds(500);
constexpr auto kSweepPatience = std::chrono::seconds(10);

sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD}) sigaddset(&set, signal);
  return set;
}

/// Blocks the signals the loop reads from a descriptor, and restores everything at its end.
class SignalScope {
 public:
  SignalScope() {
    const sigset_t set = handled_signals();
    ::pthread_sigmask(SIG_BLOCK, &set, &before_);
    struct sigaction ignore{};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignore, &pipe_before_);
    ::prctl(PR_GET_CHILD_SUBREAPER, &subreaper_before_);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    fd_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;
  ~SignalScope() {
    ::prctl(PR_SET_CHILD_SUBREAPER, subreaper_before_);
    ::sigaction(SIGPIPE, &pipe_before_, nullptr);
    // Signals that came too late for the job are not for the caller either.
    const timespec none{};
    const sigset_t set = handled_signals();
    while (::sigtimedwait(&set, nullptr, &none) > 0) continue;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  int fd() const { return fd_.get(); }

 private:
  sigset_t before_{};
  struct sigaction pipe_before_{};
  int subreaper_before_ = 0;
  UniqueFd fd_;
};

/// A rank with the writers of its two streams.
struct Member {
  Rank rank;
  LineWriter out;
  LineWriter err;
};

class Supervisor {
 public:
  Supervisor(const JobSpec& spec, Clock& clock, pid_t guardian) : spec_(spec), clock_(clock), guardian_(guardian) {}

  Result<void> start_all(std::uint16_t port, const OnRankStarted& on_started) {
    const bool alone = spec_.ranks == 1;
    const bool capture = !alone || spec_.log_directory.has_value();
    const Launchpad pad{spec_, port, capture, alone && ::isatty(0) != 0};
    for (std::uint32_t local = 0; local < spec_.ranks; ++local) {
      auto rank = start_rank(pad, local);
      if (!rank) {
        stop_everything();
        return std::unexpected(rank.error());
      }
      const pid_t pid = rank->pid;
      members_.push_back(make_member(std::move(*rank), alone));
      if (on_started) on_started(members_.back().rank.number, Pid{pid});
    }
    return {};
  }

  void run(int signal_fd) {
    while (any_alive()) {
      wait_for_something(signal_fd);
      reap();
      escalate();
    }
    // Grandchildren may hold our pipes open for ever: take what is there, then stop.
    for (Member& member : members_) {
      drain(member.rank.out, member.out);
      drain(member.rank.err, member.err);
      member.out.flush();
      member.err.flush();
    }
  }

  JobEnd finish() {
    JobEnd end;
    for (const pid_t pid : sweep_run(spec_.run_id, kSweepGrace, kSweepPatience)) {
      end.warnings.push_back(fmt::format("process {} of the job could not be ended", pid));
    }
    for (const Member& member : members_) {
      const int status = member.rank.status.value_or(0);
      RankEnd rank{member.rank.number, Pid{member.rank.pid}, std::nullopt, std::nullopt};
      if (WIFSIGNALED(status))
        rank.signal = WTERMSIG(status);
      else
        rank.exit_code = WEXITSTATUS(status);
      end.ranks.push_back(rank);
    }
    end.first_failure = first_failure_;
    end.interrupted_by = interrupted_by_;
    end.exit_code = exit_code();
    return end;
  }

 private:
  Member make_member(Rank rank, bool alone) const {
    const std::string prefix = alone || !spec_.prefix_lines ? "" : fmt::format("[rank {}] ", rank.number);
    const auto log = [&](const char* ending) {
      if (!spec_.log_directory) return UniqueFd();
      const auto path = *spec_.log_directory / fmt::format("rank-{}.{}", rank.number, ending);
      return UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    };
    for (const UniqueFd* fd : {&rank.out, &rank.err}) {
      if (*fd) ::fcntl(fd->get(), F_SETFL, O_NONBLOCK);
    }
    UniqueFd out_log = log("out");
    UniqueFd err_log = log("err");
    return Member{std::move(rank), LineWriter(prefix, 1, std::move(out_log)),
                  LineWriter(prefix, 2, std::move(err_log))};
  }

  bool any_alive() const {
    return std::ranges::any_of(members_, [](const Member& member) { return !member.rank.status; });
  }

  /// Polls signals and outputs until something happens, or a line or a deadline is due.
  void wait_for_something(int signal_fd) {
    std::vector<pollfd> fds{{signal_fd, POLLIN, 0}};
    std::vector<std::pair<UniqueFd*, LineWriter*>> streams;
    for (Member& member : members_) {
      for (const auto& [fd, writer] :
           {std::pair(&member.rank.out, &member.out), std::pair(&member.rank.err, &member.err)}) {
        if (!*fd) continue;
        fds.push_back({fd->get(), POLLIN, 0});
        streams.emplace_back(fd, writer);
      }
    }
    const bool partial = std::ranges::any_of(streams, [](const auto& stream) { return stream.second->has_partial(); });
    int timeout = stopping_since_ ? 50 : 1000;
    if (partial) timeout = std::min<int>(timeout, kPartialLineDelay.count());
    const int ready = ::poll(fds.data(), fds.size(), timeout);
    if (ready == 0) {
      for (const auto& [fd, writer] : streams) writer->flush();
    }
    if (ready <= 0) return;
    if (fds[0].revents != 0) take_signals(signal_fd);
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (fds[i + 1].revents != 0) drain(*streams[i].first, *streams[i].second);
    }
  }

  static void drain(UniqueFd& fd, LineWriter& writer) {
    std::array<char, 65536> block{};
    while (fd) {
      const ssize_t got = ::read(fd.get(), block.data(), block.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) return fd.reset();
      writer.add(std::string_view(block.data(), static_cast<std::size_t>(got)));
      if (static_cast<std::size_t>(got) < block.size()) return;
    }
  }

  void take_signals(int signal_fd) {
    signalfd_siginfo info{};
    while (::read(signal_fd, &info, sizeof info) == sizeof info) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) continue;
      const bool again = interrupted_by_.has_value();
      if (!interrupted_by_) interrupted_by_ = signal;
      if (again && signal == SIGINT) {
        signal_ranks(SIGKILL, false);
        continue;
      }
      // A terminal has sent it to a rank in our group already.
      signal_ranks(signal, info.ssi_code == SI_KERNEL);
      begin_stopping();
    }
  }

  /// To whole process groups, so that a rank's helpers hear it as well.
  void signal_ranks(int signal, bool from_terminal) {
    for (const Member& member : members_) {
      if (member.rank.status || (from_terminal && !member.rank.own_group)) continue;
      ::kill(member.rank.own_group ? -member.rank.pid : member.rank.pid, signal);
    }
  }

  void begin_stopping() {
    if (!stopping_since_) stopping_since_ = clock_.now();
  }

  void reap() {
    for (;;) {
      int status = 0;
      siginfo_t info{};
      // Look before reaping: the guardian is waited for by its owner.
      if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
      const auto found =
          std::ranges::find_if(members_, [&](const Member& member) { return member.rank.pid == info.si_pid; });
      if (info.si_pid == guardian_) return;
      if (::waitpid(info.si_pid, &status, 0) != info.si_pid) return;
      if (found == members_.end()) continue;  // an orphan that came to us as subreaper
      found->rank.status = status;
      const bool failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
      if (!failed || first_failure_ || interrupted_by_) continue;
      first_failure_ = found->rank.number;
      if (members_.size() > 1) {
        signal_ranks(SIGTERM, false);
        begin_stopping();
      }
    }
  }

  /// After the grace period nobody is asked any more.
  void escalate() {
    if (!stopping_since_ || clock_.now() - *stopping_since_ < spec_.grace) return;
    signal_ranks(SIGKILL, false);
  }

  void stop_everything() {
    signal_ranks(SIGKILL, false);
    for (const Member& member : members_) ::waitpid(member.rank.pid, nullptr, 0);
  }

  static int code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

  int exit_code() const {
    const auto status_of = [&](std::uint32_t number) {
      const auto found =
          std::ranges::find_if(members_, [&](const Member& member) { return member.rank.number == number; });
      return found->rank.status.value_or(0);
    };
    if (first_failure_) return code_of(status_of(*first_failure_));
    if (!interrupted_by_) return 0;
    // A job that ended by itself after the signal has the last word; one that had to be ended has not.
    int own = 0;
    for (const Member& member : members_) {
      const int status = member.rank.status.value_or(0);
      if (WIFSIGNALED(status)) return 128 + *interrupted_by_;
      if (own == 0) own = WEXITSTATUS(status);
    }
    return own;
  }

  const JobSpec& spec_;
  Clock& clock_;
  std::vector<Member> members_;
  std::optional<std::uint32_t> first_failure_;
  std::optional<int> interrupted_by_;
  std::optional<Clock::SteadyTime> stopping_since_;
  pid_t guardian_;
};

}  // namespace

Result<JobEnd> run_job(const JobSpec& spec, Clock& clock, const OnRankStarted& on_rank_started) {
  if (spec.argv.empty() || spec.ranks == 0) return fail(ErrorCode::invalid_argument, "no command to run was given");
  const auto start = clock.now();
  const SignalScope signals;
  GPUWARDEN_TRY(const Guardian guardian, Guardian::start(spec));
  GPUWARDEN_TRY(const std::uint16_t port, spec.master_port ? *spec.master_port : find_free_port());
  Supervisor supervisor(spec, clock, guardian.pid());
  if (auto started = supervisor.start_all(port, on_rank_started); !started) return std::unexpected(started.error());
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
