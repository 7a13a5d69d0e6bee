// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/stop_on_signals.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <system_error>

namespace gpuwarden {
namespace {

std::atomic<int> g_last_signal = 0;

bool is_ignored(int signal) {
  struct sigaction action{};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

StopOnSignals::StopOnSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (!is_ignored(signal)) sigaddset(&set, signal);
  }
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  end_.reset(::eventfd(0, EFD_CLOEXEC));
  if (!signals_ || !end_) return;
  // Blocked in this thread and those to come: only the descriptor tells of them.
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
  start();
}

void StopOnSignals::start() try {
  watcher_ = std::jthread([this] { watch(); });
} catch (const std::system_error&) {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

StopOnSignals::~StopOnSignals() {
  if (!watcher_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t told = ::write(end_.get(), &one, sizeof one);
  watcher_.join();
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int StopOnSignals::last_signal() { return g_last_signal; }

void StopOnSignals::watch() {
  std::array<pollfd, 2> files{{{signals_.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}}};
  for (;;) {
    if (::poll(files.data(), files.size(), -1) < 0 && errno != EINTR) return;
    if ((files[1].revents & POLLIN) != 0) return;
    if ((files[0].revents & POLLIN) == 0) continue;
    signalfd_siginfo signal{};
    if (::read(signals_.get(), &signal, sizeof signal) != static_cast<ssize_t>(sizeof signal)) continue;
    g_last_signal = static_cast<int>(signal.ssi_signo);
    source_.request_stop();
  }
}

}  // namespace gpuwarden
