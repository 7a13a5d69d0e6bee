// SPDX-License-Identifier: Apache-2.0
// What runs in the guardians' processes. They are forked from a program that may have threads: nothing here takes a
// lock that such a thread could have held, but for the allocator's, which the C library makes whole after a fork.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "gpuwarden/base/child.hpp"
#include "launch/cgroup.hpp"
#include "launch/guardian.hpp"
#include "launch/process.hpp"

namespace gpuwarden::launch {
namespace {

constexpr int kPauseMs = 10;
constexpr auto kInnersOwnTime = std::chrono::milliseconds(50);
constexpr int kLookPeriodMs = 200;

/// Out of the way of the launcher's terminal and of what is meant for it.
void settle() {
  ::setpgid(0, 0);
  ::prctl(PR_SET_NAME, kGuardianName);
  ::prctl(PR_SET_PDEATHSIG, 0);
  // Slurm sends a job step's signals to all of its processes: those that are meant for programs end no guardian.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP, SIGTTIN, SIGTTOU, SIGUSR1, SIGUSR2})
    ::signal(signal, SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  ::sigprocmask(SIG_SETMASK, &set, nullptr);
}

std::vector<int> kept_of(const Plan& plan, int socket) {
  std::vector<int> keep = plan.spec->held_descriptors;
  keep.insert(keep.end(), {socket, plan.hangup.write_end.get(), plan.record_lock});
  return keep;
}

/// As waitpid would have given it.
int status_of(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return info.si_status << 8;
  return info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
}

/// A guardian with its children, all of which are the job's: forked for it, or orphans of it that came to us.
class Watch {
 public:
  Watch(const Plan& plan, int socket, pid_t inner) : plan_(plan), socket_(socket), inner_(inner) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    child_signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  [[noreturn]] void serve() {
    // Children that ended before the signal was blocked.
    tell_if(reap());
    for (;;) {
      std::array<pollfd, 2> fds{{{socket_, POLLIN, 0}, {child_signals_.get(), POLLIN, 0}}};
      if (::poll(fds.data(), fds.size(), -1) < 0) continue;
      if (fds[1].revents != 0) tell_if(reap());
      if (fds[0].revents == 0) continue;
      char word = 0;
      const ssize_t got = ::read(socket_, &word, 1);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      clear_up();
      if (got != 1) tidy_up_for_the_launcher();
      ::_exit(0);
    }
  }

 private:
  /// Takes leave of children that have ended; true when one was a rank.
  bool reap() {
    signalfd_siginfo drop{};
    while (::read(child_signals_.get(), &drop, sizeof drop) > 0) continue;
    bool news = false;
    for (;;) {
      siginfo_t info{};
      // How a rank ended is noted down before it is reaped: if we die in between, nothing is lost.
      if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return news;
      news = plan_.board->note_end(info.si_pid, status_of(info)) || news;
      ::waitpid(info.si_pid, nullptr, 0);
      if (info.si_pid == inner_) inner_ = 0;
    }
  }

  void tell_if(bool news) const {
    const char word = 'n';
    // Where the launcher has not read what was sent before, it will look anyway.
    if (news) ::send(socket_, &word, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  }

  static bool has_children() {
    siginfo_t info{};
    return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
  }

  void pause() const {
    pollfd wait{child_signals_.get(), POLLIN, 0};
    ::poll(&wait, 1, kPauseMs);
  }

  /// Ends all children and what is below them. An inner guardian does so itself, and is waited for.
  void clear_up() {
    const Clock& clock = system_clock();
    const auto start = clock.now();
    bool asked = false;
    for (;;) {
      reap();
      if (!has_children()) return;
      const auto passed = clock.now() - start;
      if (passed > 2 * kSweepPatience || (inner_ == 0 && passed > kSweepPatience)) return note_leftovers();
      if (passed > kSweepPatience) ::kill(inner_, SIGKILL);
      if (inner_ == 0 || passed > kInnersOwnTime) {
        if (passed >= kSweepGrace)
          kill_children();
        else if (!std::exchange(asked, true))
          ask_descendants();
      }
      pause();
    }
  }

  void ask_descendants() const {
    for (const Process& process : descendants(::getpid())) {
      if (process.pid() == inner_) continue;
      process.signal(SIGTERM);
      process.signal(SIGCONT);
    }
  }

  /// Children that are killed leave theirs to us, for the next round. A control group is faster than any of them.
  void kill_children() const {
    if (!plan_.group_folder.empty() && !processes_in_group(plan_.group_folder).empty())
      return kill_group(plan_.group_folder);
    for (const pid_t pid : own_children()) {
      if (pid != inner_) ::kill(pid, SIGKILL);
    }
  }

  void note_leftovers() const {
    std::size_t i = 0;
    for (const Process& process : descendants(::getpid())) {
      if (i < kMostLeft) plan_.board->head().leftover[i++].store(process.pid());
    }
  }

  /// The launcher died without a word. What it would have removed, and what may have got out of reach when another
  /// guardian was killed before.
  void tidy_up_for_the_launcher() const {
    sweep_run(plan_.spec->run_id, kSweepGrace, kSweepPatience, system_clock());
    if (!plan_.group_folder.empty()) {
      if (!processes_in_group(plan_.group_folder).empty()) kill_group(plan_.group_folder);
      remove_group(plan_.group_folder);
    }
    // The other guardian may be at it still; it holds the record's lock as well, and the name is not needed for that.
    if (!plan_.record.empty()) ::unlink(plan_.record.c_str());
  }

  const Plan& plan_;
  int socket_;
  pid_t inner_;
  UniqueFd child_signals_;
};

[[noreturn]] void guard_inside(const Plan& plan, const UniqueFd& socket) {
  settle();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  plan.board->head().guardians[1].store(::getpid());
  for (std::uint32_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const pid_t pid = fork_rank(plan);
    if (pid == 0) become_rank(plan, rank);
    if (pid < 0) plan.board->seat(rank).exec_error.store(errno);
  }
  keep_descriptors(kept_of(plan, socket.get()));
  Watch(plan, socket.get(), 0).serve();
}

}  // namespace

void guard_outside(const Plan& plan, UniqueFd outer, UniqueFd inner) {
  settle();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  plan.board->head().guardians[0].store(::getpid());
  const pid_t pid = ::fork();
  if (pid == 0) {
    outer.reset();
    guard_inside(plan, inner);
  }
  keep_descriptors(kept_of(plan, outer.get()));
  if (pid < 0) ::_exit(1);
  Watch(plan, outer.get(), pid).serve();
}

/// Is nobody's parent, and so cannot inherit anything: it looks again and again who is below the guardian that is left.
void stand_in(const Plan& plan, UniqueFd socket, pid_t watched) {
  settle();
  std::vector<int> keep = plan.spec->held_descriptors;
  keep.insert(keep.end(), {socket.get(), plan.record_lock});
  keep_descriptors(std::move(keep));
  const auto guardian = Process::open(watched);
  std::vector<Process> known;
  ssize_t got = -1;
  char word = 0;
  while (got < 0) {
    if (guardian && guardian->is_running()) {
      std::erase_if(known, [](const Process& process) { return !process.is_running(); });
      for (Process& process : descendants(watched)) {
        if (std::ranges::find(known, process.pid(), &Process::pid) == known.end()) known.push_back(std::move(process));
      }
    }
    pollfd wait{socket.get(), POLLIN, 0};
    if (::poll(&wait, 1, kLookPeriodMs) > 0) got = ::read(socket.get(), &word, 1);
  }
  Clock& clock = system_clock();
  const auto start = clock.now();
  while (guardian && guardian->is_running() && clock.now() - start < 2 * kSweepPatience)
    clock.sleep_for(std::chrono::milliseconds(kPauseMs));
  for (const Process& process : known) process.signal(SIGKILL);
  sweep_run(plan.spec->run_id, std::chrono::milliseconds(0), kSweepPatience, clock);
  if (!plan.group_folder.empty()) {
    if (!processes_in_group(plan.group_folder).empty()) kill_group(plan.group_folder);
    if (got != 1) remove_group(plan.group_folder);
  }
  if (got != 1 && !plan.record.empty()) ::unlink(plan.record.c_str());
  ::_exit(0);
}

}  // namespace gpuwarden::launch
