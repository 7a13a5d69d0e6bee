// SPDX-License-Identifier: Apache-2.0
// Nothing of a job survives it, though one of its supervisors is killed while it tries: fugitive.cpp.
#include <fcntl.h>

#include <array>
#include <thread>

#include "launch/jobs.hpp"

namespace gpuwarden::launch {
namespace {

constexpr int kAtOnce = 20;
constexpr int kRounds = 10;

struct Attempt {
  Team team;
  std::string mark;
  std::filesystem::path up;
  UniqueFd lease;  ///< the read end of a pipe whose write end the job holds, as it would a lock
};

class Escape : public Jobs, public ::testing::WithParamInterface<int> {
 protected:
  Attempt begin(int number) {
    Attempt attempt;
    JobSpec spec = shell("");
    attempt.mark = "fugitive-of-" + spec.run_id;
    attempt.up = dir_ / ("up-" + std::to_string(number));
    spec.argv = {GPUWARDEN_FUGITIVE, "3", attempt.mark, attempt.up.string()};
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    attempt.lease.reset(ends[0]);
    const UniqueFd held(::fcntl(ends[1], F_DUPFD, 0));
    ::close(ends[1]);
    spec.held_descriptors = {held.get()};
    spec.control_group = number % 2 == 0;
    attempt.team.launcher = launch(spec);
    return attempt;
  }

  /// Every third loses its launcher, its outer guardian, its inner guardian.
  static void strike(Attempt& attempt, int number) {
    EXPECT_TRUE(soon([&] { return std::filesystem::exists(attempt.up); }));
    attempt.team.guardians = guardians_below(attempt.team.launcher);
    ASSERT_EQ(attempt.team.guardians.size(), 2U);
    const std::array<pid_t, 3> supervisors{attempt.team.launcher, attempt.team.guardians[0], attempt.team.guardians[1]};
    ::kill(supervisors[static_cast<std::size_t>(number) % 3], SIGKILL);
  }

  static void expect_nothing_left(const Attempt& attempt, int number) {
    if (number % 3 != 0) ::kill(attempt.team.launcher, SIGTERM);
    EXPECT_EQ(wait_for(attempt.team.launcher), number % 3 == 0 ? 128 + SIGKILL : 128 + SIGTERM);
    // The lease is free when the last process that holds it is gone; those that closed it have gone before.
    char byte = 0;
    EXPECT_EQ(::read(attempt.lease.get(), &byte, 1), 0);
    EXPECT_EQ(count_marked(attempt.mark), 0) << "after the death of supervisor " << number % 3;
  }

  static int count_marked(const std::string& mark) {
    int count = 0;
    for (const pid_t pid : all_pids()) {
      const auto words = read_file("/proc/" + std::to_string(pid) + "/cmdline");
      if (words && words->starts_with("hiding") && words->contains(mark)) ++count;
    }
    return count;
  }
};

/// In parts, so that none takes long.
TEST_P(Escape, NothingOfAJobSurvivesWhileOneOfItsSupervisorsIsKilled) {
  std::vector<Attempt> attempts;
  const int first = GetParam() * kAtOnce;
  for (int i = 0; i < kAtOnce; ++i) attempts.push_back(begin(first + i));
  for (int i = 0; i < kAtOnce; ++i) strike(attempts[static_cast<std::size_t>(i)], first + i);
  for (int i = 0; i < kAtOnce; ++i) expect_nothing_left(attempts[static_cast<std::size_t>(i)], first + i);
}

INSTANTIATE_TEST_SUITE_P(TwoHundred, Escape, ::testing::Range(0, kRounds));

}  // namespace
}  // namespace gpuwarden::launch
