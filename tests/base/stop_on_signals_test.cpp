// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/stop_on_signals.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpuwarden/base/clock.hpp"

namespace gpuwarden {
namespace {

/// In a process of its own, whose signals nobody else heeds: 0 where `test` is true.
int in_child(bool (*test)()) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(test() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(StopOnSignals, ASignalEndsAWaitAndNotTheProcess) {
  EXPECT_EQ(in_child([] {
              const StopOnSignals signals;
              ::kill(::getpid(), SIGTERM);
              return !system_clock().sleep_for(std::chrono::minutes(10), signals.token());
            }),
            0);
}

TEST(StopOnSignals, WhatWasIgnoredStaysIgnored) {
  EXPECT_EQ(in_child([] {
              std::signal(SIGHUP, SIG_IGN);
              const StopOnSignals signals;
              ::kill(::getpid(), SIGHUP);
              return system_clock().sleep_for(std::chrono::milliseconds(200), signals.token());
            }),
            0);
}

TEST(StopOnSignals, SignalsAreAsBeforeAtItsEnd) {
  EXPECT_EQ(in_child([] {
              {
                const StopOnSignals signals;
              }
              ::kill(::getpid(), SIGINT);
              return true;
            }),
            128 + SIGINT);
}

/// As in a process that has as many files open as it may.
void take_descriptors_away() {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_NOFILE, &none);
}

TEST(StopOnSignals, WithoutDescriptorsTheSignalsActAsBefore) {
  EXPECT_EQ(in_child([] {
              take_descriptors_away();
              const StopOnSignals signals;
              ::kill(::getpid(), SIGTERM);
              return true;
            }),
            128 + SIGTERM);
}

TEST(StopOnSignals, WithoutDescriptorsItEndsAtOnce) {
  EXPECT_EQ(in_child([] {
              take_descriptors_away();
              {
                const StopOnSignals signals;
                if (signals.token().stop_requested()) return false;
              }
              sigset_t blocked;
              ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
              return sigismember(&blocked, SIGTERM) == 0;
            }),
            0);
}

}  // namespace
}  // namespace gpuwarden
