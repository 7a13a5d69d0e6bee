// SPDX-License-Identifier: Apache-2.0
// Commands that are started within a lease.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "gpuwarden/lease/grounds.hpp"
#include "lease/inherited.hpp"
#include "lease/two_containers.hpp"
#include "support/patience.hpp"

namespace gpuwarden::lease {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// This process as if it had been started by the one that it was forked from.
void be_started_anew() { forget_inherited_locks(); }

class WithinALease : public TwoContainers {
 protected:
  const pid_t test_ = ::getpid();
  /// For a process that was forked: whether it gets the device within the lease that it inherited. Keeps it.
  bool take_within() const {
    static std::optional<HeldLeases> kept;
    be_started_anew();
    auto held = take(store(), device_);
    if (held && *held) kept = std::move(**held);
    return kept.has_value();
  }
};

TEST_F(WithinALease, CommandsOfOneLeaseKeepApartWithoutAnyFileOfTheDirectory) {
  const auto held = take(store(), device_);
  ASSERT_TRUE(held->has_value());
  Other first([&] { return take_within(); });
  const Other second([&] { return !take_within(); });
  const Other third([&] {
    be_started_anew();
    const Situation seen = store().inspect({device_});
    return seen.own.size() == 1 && seen.within.size() == 1 && seen.within[0].holders.at(0).pid == first.pid();
  });
  first.end();
  const Other fourth([&] { return take_within(); });
}

TEST_F(WithinALease, ALockOfTheUsersOwnStaysOpenAndTellsOfNoLease) {
  const Other taker([&] {
    const int own = ::open((dir_ / "own.lock").c_str(), O_CREAT | O_RDWR, 0600);
    if (own < 0 || ::flock(own, LOCK_EX | LOCK_NB) != 0) return false;
    const pid_t command = ::fork();
    if (command == 0) {
      static const auto held = take(store(), device_);
      Other within([&] {
        be_started_anew();
        store().inspect({device_});
        const auto leases = inherited_descriptors();
        const auto takers = holders_above();
        leave_outer_leases();
        // The kernel's file, the directory's, and the ground.
        return leases.size() == 3 && ::fcntl(own, F_GETFD) >= 0 && ::fcntl(leases[0], F_GETFD) < 0 &&
               std::ranges::count(takers, Pid{::getppid()}) == std::ssize(takers) && inherited_descriptors().empty();
      });
      within.end();
      ::_exit(HasFailure() ? 1 : 0);
    }
    int status = 1;
    ::waitpid(command, &status, 0);
    return status == 0;
  });
}

TEST_F(WithinALease, ANumberThatWasGivenToAnotherFileIsNoLeaseAnyMore) {
  const auto held = take(store(), device_);
  ASSERT_TRUE(held->has_value());
  const Other within([&] {
    be_started_anew();
    store().inspect({device_});
    const auto leases = inherited_descriptors();
    const UniqueFd own(::open((dir_ / "own.lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    if (leases.size() != 3 || ::flock(own.get(), LOCK_EX) != 0 || ::dup2(own.get(), leases[0]) < 0) return false;
    const auto now = inherited_descriptors();
    return now.size() == 2 && std::ranges::find(now, leases[0]) == now.end();
  });
}

TEST_F(WithinALease, ThreadsLookAtOnceWhileAnotherOpensFiles) {
  const auto held = take(store(), device_);
  ASSERT_TRUE(held->has_value());
  be_started_anew();
  std::atomic<int> within = 0;
  {
    const std::jthread opening([](const std::stop_token& stop) {
      while (!stop.stop_requested()) UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    });
    std::vector<std::jthread> looking;
    for (int i = 0; i < 4; ++i)
      looking.emplace_back([&] { within += level_of({.directory = leases_}, device_).inherited.empty() ? 0 : 1; });
  }
  EXPECT_EQ(within, 4);
  be_started_anew();
}

TEST_F(WithinALease, WhoIsOutOfDescriptorsGetsNoLeaseWithAGap) {
  const auto held = take(store(), device_);
  ASSERT_TRUE(held->has_value());
  const Other within([&] {
    be_started_anew();
    const LeaseStore s = store();
    bool has_failed = false;
    for (rlim_t most = 4; most < 64; ++most) {
      rlimit limit{};
      if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
      limit.rlim_cur = most;
      if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
      const auto one = take(s, device_);
      has_failed = has_failed || !one;
      if (!one || !*one) continue;
      // The locks of the level above, its own, and the grounds of both.
      if (!(*one)->warnings().empty() || (*one)->descriptors().size() != 5) return false;
    }
    return has_failed && take(s, device_)->has_value();
  });
}

class RepairedLease : public WithinALease, public ::testing::WithParamInterface<bool> {
 protected:
  /// As under WSL and in some sandboxes, where the kernel has no file of the device.
  void SetUp() override {
    if (!GetParam()) device_.kernel_file.clear();
  }
};
INSTANTIATE_TEST_SUITE_P(WithTheKernelsFileAndWithout, RepairedLease, ::testing::Bool());

TEST_P(RepairedLease, ThrowsNobodyOut) {
  auto held = take(store(), device_);
  ASSERT_TRUE(held->has_value());
  const pid_t command = ::fork();
  if (command == 0) {
    be_started_anew();
    const LeaseStore s = store();
    while (!std::filesystem::exists(dir_ / "repaired")) ::usleep(1000);
    const auto own = s.inspect({device_}).own;
    ::_exit(own.size() == 1 && take(s, device_)->has_value() ? 0 : 1);
  }
  std::filesystem::remove(lock_file());
  EXPECT_THAT((*held)->repair(), ElementsAre(HasSubstr("made and locked again")));
  put(dir_ / "repaired", "");
  int status = 1;
  ::waitpid(command, &status, 0);
  EXPECT_EQ(status, 0) << "it is told that somebody else holds what it inherited";
  const Other outsider([&] {
    (*held)->abandon();
    be_started_anew();
    return store().inspect({device_}).own.empty() && !take(store(), device_)->has_value();
  });
}

TEST_F(WithinALease, WhatAnotherContainerTookMeanwhileIsNotOnesOwn) {
  auto held = take(store(), device_);
  ASSERT_TRUE(held->has_value());
  std::filesystem::remove(lock_file());
  const Other container([&] {
    static std::optional<HeldLeases> kept;
    (*held)->abandon();
    auto theirs = take(store(), inside_);
    if (theirs && *theirs) kept = std::move(**theirs);
    return kept.has_value();
  });
  const Other command([&] {
    be_started_anew();
    return store().inspect({device_}).own.empty() && !take(store(), device_)->has_value();
  });
}

TEST_F(WithinALease, WithinALeaseOfALeaseCommandsKeepApartToo) {
  const auto held = take(store(), device_);
  ASSERT_TRUE(held->has_value());
  const Other within([&] {
    if (!take_within()) return false;
    const pid_t deeper = ::fork();
    if (deeper == 0) {
      be_started_anew();
      const LeaseStore s = store();
      const auto one = take(s, device_);
      const pid_t sibling = ::fork();
      if (sibling == 0) {
        // Of the level below: it inherited the lock of `one`.
        ::_exit(take_within() ? 0 : 1);
      }
      int status = 1;
      ::waitpid(sibling, &status, 0);
      ::_exit(one->has_value() && status == 0 && !take(s, device_)->has_value() ? 0 : 1);
    }
    int status = 1;
    ::waitpid(deeper, &status, 0);
    return status == 0;
  });
}

TEST_F(WithinALease, WhoTookTheLeaseStartedWhatOthersHaveAdoptedSince) {
  const auto held = take(store(), device_);
  ASSERT_TRUE(held->has_value());
  const auto told = dir_ / "told";
  const pid_t between = ::fork();
  if (between == 0) {
    const pid_t parent = ::getpid();
    if (::fork() == 0) {
      while (::getppid() == parent) ::usleep(1000);
      be_started_anew();
      store().inspect({device_});
      const auto line = own_ancestors();
      put(told, fmt::format("{} {}", std::ranges::count(line, Pid{::getppid()}), std::ranges::count(line, Pid{test_})));
    }
    ::_exit(0);
  }
  ::waitpid(between, nullptr, 0);
  EXPECT_TRUE(eventually(kSoon, [&] { return read_file(told).value_or("").ends_with(" 1"); }))
      << read_file(told).value_or("nothing");
}

TEST_F(WithinALease, TheInitOfAContainerIsOneOfThoseWhoStartedItWhereItHoldsTheLease) {
  const pid_t outside = ::fork();
  if (outside == 0) {
    if (::unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) ::_exit(77);
    const pid_t init = ::fork();
    if (init == 0) {
      if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) ::_exit(77);
      if (::mount("proc", "/proc", "proc", 0, nullptr) != 0) ::_exit(77);
      const auto knows_init = [&] {
        const pid_t command = ::fork();
        if (command == 0) {
          be_started_anew();
          store().inspect({device_});
          ::_exit(std::ranges::count(own_ancestors(), Pid{1}) == 1 ? 0 : 1);
        }
        int status = 0;
        ::waitpid(command, &status, 0);
        return status == 0;
      };
      const bool before = knows_init();
      const auto held = take(store(), device_);
      ::_exit(!before && held->has_value() && knows_init() ? 0 : 1);
    }
    int status = 0;
    ::waitpid(init, &status, 0);
    ::_exit(WEXITSTATUS(status));
  }
  int status = 0;
  ::waitpid(outside, &status, 0);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs the right to make a container";
  EXPECT_EQ(status, 0);
}

TEST_F(WithinALease, NobodyElseKeepsCommandsOutOfALeaseTheyBelongTo) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become two users";
  const auto held = take(store(), device_);
  ASSERT_TRUE(held->has_value());
  const auto planted = leases_ / "within-GPU-aaaa.lock";
  const Other stranger([&] {
    const int fd = become_nobody() ? ::open(planted.c_str(), O_CREAT | O_RDWR, 0600) : -1;
    return fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  });
  Other first([&] { return take_within(); });
  const Other second([&] { return !take_within(); });
  first.end();
  const Other third([&] { return take_within(); });
}

}  // namespace
}  // namespace gpuwarden::lease
