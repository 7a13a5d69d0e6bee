// SPDX-License-Identifier: Apache-2.0
// Other processes, users and containers that meet at one lease directory.
#pragma once

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <functional>
#include <optional>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/lease/lease_store.hpp"
#include "support/fake_clock.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::lease {

using namespace gpuwarden::testing;

inline constexpr unsigned kNobody = 65534;

/// A process that does something to a lock and then waits to be killed.
class Other {
 public:
  explicit Other(const std::function<bool()>& act) {
    std::array<int, 2> pipe{};
    EXPECT_EQ(::pipe(pipe.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const char done = act() ? 'y' : 'n';
      [[maybe_unused]] const auto told = ::write(pipe[1], &done, 1);
      for (;;) ::pause();
    }
    char answer = 0;
    EXPECT_EQ(::read(pipe[0], &answer, 1), 1);
    EXPECT_EQ(answer, 'y');
    ::close(pipe[0]);
    ::close(pipe[1]);
  }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;
  ~Other() { end(); }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  Pid pid() const { return Pid{pid_}; }

 private:
  pid_t pid_ = 0;
};

inline bool lock_for_ever(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  return fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) == 0;
}

inline bool become_nobody() { return ::setgroups(0, nullptr) == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0; }

/// Two views of one GPU, and a lease directory.
class TwoContainers : public ::testing::Test {
 protected:
  TwoContainers() {
    std::filesystem::permissions(dir_.path(), std::filesystem::perms(0755));
    put(device_.kernel_file, "0x10de\n");
    put(inside_.kernel_file, "0x10de\n");
  }
  Result<LeaseStore> open(StoreOptions options) const {
    options.self = {Pid{::getpid()}, "whoever", "r1", "python train.py", system_clock().wall_now()};
    return LeaseStore::open(std::move(options), clock_);
  }
  LeaseStore store() const {
    auto opened = open({.directory = leases_});
    EXPECT_THAT(opened, IsOk());
    return *opened;
  }
  static Result<std::optional<HeldLeases>> take(const LeaseStore& store, const Device& device, bool shared = false) {
    return store.claim({device}, [&](const Situation&) -> Result<Choice> { return Choice{{device}, shared}; });
  }
  std::filesystem::path lock_file() const { return leases_ / "GPU-aaaa.lock"; }

  TempDir dir_;
  std::filesystem::path leases_ = dir_ / "leases";
  Device device_{Uuid("GPU-aaaa"), dir_ / "sys/vendor"};
  /// The same GPU as another container sees it: with a /sys of its own.
  Device inside_{Uuid("GPU-aaaa"), dir_ / "other-sys/vendor"};
  mutable FakeClock clock_;
};

}  // namespace gpuwarden::lease
