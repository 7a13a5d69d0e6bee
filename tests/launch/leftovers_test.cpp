// SPDX-License-Identifier: Apache-2.0
// What is left of a run is told by the leases within which it was started, whatever its environment says.
#include "gpuwarden/launch/leftovers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "gpuwarden/lease/lease_store.hpp"
#include "launch/record.hpp"
#include "lease/inherited.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::IsOk;

/// A program without an environment, which has inherited what this process has open.
class Sleeper {
 public:
  Sleeper() : pid_(::fork()) {
    if (pid_ != 0) return;
    const char* const nothing[] = {nullptr};
    ::execle("/bin/sleep", "sleep", "600", nullptr, nothing);
    ::_exit(120);
  }
  ~Sleeper() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  Pid pid() const { return Pid{pid_}; }

 private:
  pid_t pid_;
};

class LeftoversOfLeases : public ::testing::Test {
 protected:
  ~LeftoversOfLeases() override { lease::forget_inherited_locks(); }
  lease::HeldLeases claim() {
    // As in a program that was started with what is open here.
    lease::forget_inherited_locks();
    const auto store = lease::LeaseStore::open({.directory = dir_.path()}, system_clock());
    const auto one = [](const lease::Situation&) -> Result<lease::Choice> {
      return lease::Choice{{{Uuid("GPU-1"), {}}}};
    };
    auto held = store->claim({}, one);
    EXPECT_TRUE(held && *held);
    return std::move(**held);
  }
  /// The run's record, whose lock nobody holds any more.
  void lose(const std::string& run, const lease::HeldLeases& held) const {
    EXPECT_TRUE(RunRecord::make(dir_.path(), run, {}, held.descriptors()));
  }
  std::vector<Pid> left_of(const std::string& run) const {
    for (const Leftover& one : find_leftovers(dir_.path())) {
      if (one.run_id == run) return one.processes;
    }
    return {};
  }
  testing::TempDir dir_;
};

TEST_F(LeftoversOfLeases, AreTheProcessesOfTheInnerRunAlone) {
  const lease::HeldLeases outer = claim();
  lose("outer", outer);
  const Sleeper beside;
  const lease::HeldLeases inner = claim();
  const Sleeper left;
  lose("inner", inner);
  EXPECT_TRUE(testing::eventually(testing::kSoon, [&] { return left_of("inner") == std::vector{left.pid()}; }));
  EXPECT_THAT(left_of("outer"), ElementsAre(beside.pid(), left.pid())) << "what the inner run left is the outer's too";
}

TEST_F(LeftoversOfLeases, AreEnded) {
  const lease::HeldLeases held = claim();
  const Sleeper left;
  lose("lost", held);
  ASSERT_TRUE(testing::eventually(testing::kSoon, [&] { return left_of("lost") == std::vector{left.pid()}; }));
  const auto ended = end_leftover(dir_.path(), "lost", system_clock());
  ASSERT_THAT(ended, IsOk());
  EXPECT_THAT(*ended, ElementsAre(left.pid()));
  EXPECT_THAT(left_of("lost"), IsEmpty());
}

}  // namespace
}  // namespace gpuwarden::launch
