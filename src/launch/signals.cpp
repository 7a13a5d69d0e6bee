// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/signals.hpp"

#include <sys/signalfd.h>

namespace gpuwarden::launch {
namespace {

sigset_t ignored_signals() {
  sigset_t ignored;
  sigemptyset(&ignored);
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action{};
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) sigaddset(&ignored, signal);
  }
  return ignored;
}

sigset_t only(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return set;
}

}  // namespace

SignalScope::SignalScope(bool take) : ignored_(ignored_signals()) {
  sigemptyset(&taken_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGUSR1, SIGUSR2}) {
    if (take && sigismember(&ignored_, signal) == 0) sigaddset(&taken_, signal);
  }
  sigset_t blocked = taken_;
  sigaddset(&blocked, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  if (take) fd_.reset(::signalfd(-1, &taken_, SFD_CLOEXEC | SFD_NONBLOCK));
}

SignalScope::~SignalScope() {
  const timespec none{};
  // Signals that came too late for the job are not for the caller either; nor is the news of our own pipe.
  while (::sigtimedwait(&taken_, nullptr, &none) > 0) continue;
  const sigset_t pipe = only(SIGPIPE);
  if (sigismember(&before_, SIGPIPE) == 0) {
    while (::sigtimedwait(&pipe, nullptr, &none) > 0) continue;
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void SignalScope::stop_self() {
  const sigset_t stop = only(SIGTSTP);
  // Still blocked, so it waits for the next line, which is where we stop.
  ::raise(SIGTSTP);
  ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
  ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
}

}  // namespace gpuwarden::launch
