// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/lease/lease_store.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "gpuwarden/base/file.hpp"
#include "lease/kernel_locks.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::lease {
namespace {

using namespace gpuwarden::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Uuid kA("GPU-aaaa");
const Uuid kB("GPU-bbbb");

class Leases : public ::testing::Test {
 protected:
  LeaseStore store(const std::string& run = "r1") const {
    facts::LeaseHolder self{Pid{::getpid()}, "ada", run, "python train.py", std::chrono::system_clock::time_point{}};
    auto opened = LeaseStore::open({.directory = dir_ / "leases", .self = self}, system_clock());
    EXPECT_THAT(opened, IsOk());
    return *opened;
  }
  static Result<std::optional<HeldLeases>> take(const LeaseStore& store, const std::vector<Uuid>& uuids,
                                                bool shared = false) {
    std::vector<Device> devices;
    for (const Uuid& uuid : uuids) devices.push_back({uuid, {}});
    return store.claim(devices, [&](const Situation&) -> Result<Choice> { return Choice{devices, shared}; });
  }
  static std::vector<Uuid> leased(const LeaseStore& store) {
    std::vector<Uuid> result;
    const auto situation = store.inspect({});
    for (const auto& lease : situation.leases) result.push_back(lease.uuid);
    return result;
  }
  TempDir dir_;
};

TEST_F(Leases, ALeaseIsSeenAndGivenBack) {
  const LeaseStore s = store();
  {
    const auto held = take(s, {kA});
    ASSERT_THAT(held, IsOk());
    ASSERT_TRUE(held->has_value());
    const auto situation = s.inspect({});
    EXPECT_FALSE(situation.problem);
    ASSERT_EQ(situation.leases.size(), 1U);
    EXPECT_EQ(situation.leases[0].uuid, kA);
    EXPECT_FALSE(situation.leases[0].shared);
    ASSERT_EQ(situation.leases[0].holders.size(), 1U);
    EXPECT_EQ(situation.leases[0].holders[0].user, user_name(::geteuid()));
    EXPECT_EQ(situation.leases[0].holders[0].pid, Pid{::getpid()});
    EXPECT_EQ(situation.leases[0].holders[0].command, "python train.py");
    EXPECT_FALSE(take(s, {kA})->has_value()) << "a second holder";
    EXPECT_FALSE(take(s, {kB, kA})->has_value()) << "half of it is taken";
    EXPECT_TRUE(take(s, {kB})->has_value()) << "nothing was kept of the failed claim";
  }
  EXPECT_TRUE(leased(s).empty());
  EXPECT_TRUE(take(s, {kA})->has_value());
}

TEST_F(Leases, SharersShareAndKeepExclusiveHoldersOut) {
  const LeaseStore s = store("r1");
  const LeaseStore other = store("r2");
  const auto one = take(s, {kA}, true);
  const auto two = take(other, {kA}, true);
  ASSERT_TRUE(one->has_value() && two->has_value());
  EXPECT_FALSE(take(s, {kA})->has_value());
  const auto situation = s.inspect({});
  EXPECT_TRUE(situation.leases[0].shared);
  ASSERT_EQ(situation.leases[0].holders.size(), 1U) << "both are this process";
  EXPECT_EQ(situation.leases[0].holders[0].pid, Pid{::getpid()});
}

TEST_F(Leases, AKilledHolderLosesItsLeaseAndItsRecordGoes) {
  const LeaseStore s = store();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto held = take(s, {kA});
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) ::pause();
  }
  for (int i = 0; i < 5000 && leased(s).empty(); ++i) ::usleep(2000);
  EXPECT_FALSE(take(s, {kA})->has_value());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(leased(s).empty());
  EXPECT_FALSE(std::filesystem::exists(dir_ / "leases/GPU-aaaa@r1.json"));
}

TEST_F(Leases, ARankThatInheritedTheLockKeepsItWhenTheLauncherDies) {
  const LeaseStore s = store();
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    auto held = take(s, {kA});
    if (::fork() == 0) {
      char c = 0;
      ::close(pipe[1]);
      [[maybe_unused]] const auto waited = ::read(pipe[0], &c, 1);  // until the test closes its end
      ::_exit(0);
    }
    ::_exit(0);
  }
  ::waitpid(launcher, nullptr, 0);
  EXPECT_THAT(leased(s), ElementsAre(kA));
  ::close(pipe[0]);
  ::close(pipe[1]);
  for (int i = 0; i < 2000 && !leased(s).empty(); ++i) ::usleep(2000);
  EXPECT_TRUE(leased(s).empty());
}

TEST_F(Leases, ManyClaimersNeverHoldOneGpuTogether) {
  const std::vector<Uuid> gpus{Uuid("GPU-0"), Uuid("GPU-1"), Uuid("GPU-2"), Uuid("GPU-3")};
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) {
    const pid_t child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    const LeaseStore s = store("r" + std::to_string(i));
    int wins = 0;
    for (int round = 0; round < 2000 && wins < 8; ++round) {
      auto held = s.claim({}, [&](const Situation& situation) -> Result<Choice> {
        for (const Uuid& gpu : gpus) {
          if (std::ranges::find(situation.leases, gpu, &facts::Lease::uuid) == situation.leases.end())
            return Choice{{{gpu, {}}}, false};
        }
        return Choice{};
      });
      if (!held) ::_exit(2);
      if (!*held) continue;
      const std::string marker = (dir_ / (*held)->devices()[0].value).string();
      const int fd = ::open(marker.c_str(), O_CREAT | O_EXCL, 0600);
      if (fd < 0) ::_exit(3);
      ::close(fd);
      ::usleep(300);
      ::unlink(marker.c_str());
      ++wins;
    }
    ::_exit(wins == 8 ? 0 : 4);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  EXPECT_TRUE(leased(store()).empty());
}

TEST_F(Leases, TheLineIsInTheOrderOfComing) {
  const LeaseStore s = store();
  auto four = s.queue(4, {kA, kB});
  auto one = s.queue(1, {kB});
  ASSERT_THAT(four, IsOk());
  ASSERT_THAT(one, IsOk());
  auto waiting = s.inspect({}).waiting;
  ASSERT_EQ(waiting.size(), 2U);
  EXPECT_EQ(waiting[0].id, four->id());
  EXPECT_EQ(waiting[0].number, 1U);
  EXPECT_EQ(waiting[0].wants, 4U);
  EXPECT_THAT(waiting[0].candidates, ElementsAre(kA, kB));
  EXPECT_EQ(waiting[0].owner.pid, Pid{::getpid()});
  EXPECT_EQ(waiting[1].id, one->id());
  EXPECT_EQ(waiting[1].number, 2U);
  *four = Ticket();
  waiting = s.inspect({}).waiting;
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_EQ(waiting[0].id, one->id());
}

TEST_F(Leases, OnesOwnWaitingRequestsAreOrderedByPriority) {
  const LeaseStore s = store();
  const auto low = s.queue(1, {kA}, {}, -5);
  const auto first = s.queue(2, {kA});
  const auto high = s.queue(3, {kA}, {}, 7);
  const auto second = s.queue(4, {kA});
  for (const Names names : {Names::told, Names::left_out}) {
    std::vector<std::string> order;
    for (const auto& ticket : s.inspect({}, names).waiting) order.push_back(ticket.id);
    EXPECT_THAT(order, ElementsAre(high->id(), first->id(), second->id(), low->id()));
  }
}

TEST_F(Leases, OneOfSeveralCanBeGivenBackAndOthersJoined) {
  const LeaseStore s = store();
  auto both = take(s, {kA, kB});
  ASSERT_TRUE(both->has_value());
  HeldLeases& held = **both;
  held.give_back(kA);
  held.give_back(Uuid("GPU-unknown"));
  EXPECT_THAT(held.devices(), ElementsAre(kB));
  auto again = take(s, {kA});
  ASSERT_TRUE(again->has_value());
  held.join(std::move(**again));
  EXPECT_THAT(held.devices(), ElementsAre(kB, kA));
  EXPECT_FALSE(take(s, {kA})->has_value());
  EXPECT_FALSE(take(s, {kB})->has_value());
  HeldLeases none;
  none.join(std::move(held));
  EXPECT_THAT(none.devices(), ElementsAre(kB, kA));
  none.give_back(kB);
  EXPECT_TRUE(take(s, {kB})->has_value());
}

TEST_F(Leases, ADeadWaiterLeavesTheLine) {
  const LeaseStore s = store();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto ticket = s.queue(1, {kA});
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(s.inspect({}).waiting.empty());
}

TEST_F(Leases, FilesAreOpenToAllWhateverTheUmask) {
  const mode_t before = ::umask(077);
  const LeaseStore s = store();
  const auto held = take(s, {kA});
  ::umask(before);
  struct stat info{};
  ASSERT_EQ(::stat((dir_ / "leases").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 01777U);
  ASSERT_EQ(::stat((dir_ / "leases/GPU-aaaa.lock").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0666U);
  ASSERT_EQ(::stat((dir_ / "leases/GPU-aaaa@r1.json").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644U);
}

TEST_F(Leases, AnotherUserIsKeptOutAndCanClaimAfterwards) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become two users";
  std::filesystem::permissions(dir_.path(), std::filesystem::perms(0755));
  const LeaseStore s = store();
  auto held = std::make_optional(take(s, {kA}));
  const auto as_nobody = [&] {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(5);
      const auto mine = take(s, {kA});
      ::_exit(!mine ? 4 : mine->has_value() ? 1 : 0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(as_nobody(), 0) << "held by the first user";
  held.reset();
  EXPECT_EQ(as_nobody(), 1) << "free, although the file is root's";
}

TEST_F(Leases, AnUnusableDirectorySaysWhatToDo) {
  put(dir_ / "file", "x");
  const auto opened = LeaseStore::open({.directory = dir_ / "file", .directory_required = true}, system_clock());
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::permission_denied);
  EXPECT_THAT(opened.error().hint, HasSubstr("GPUWARDEN_LEASE_DIR"));
  ASSERT_EQ(::symlink("/etc/passwd", (dir_ / "leases-link").c_str()), 0);
  std::filesystem::create_directories(dir_ / "leases");
  ASSERT_EQ(::symlink("/etc/hostname", (dir_ / "leases/GPU-aaaa.lock").c_str()), 0);
  EXPECT_THAT(take(store(), {kA}), FailsWith(ErrorCode::permission_denied, ::testing::_)) << "links are not followed";
  EXPECT_THAT(take(store(), {Uuid("GPU-../../x")}), FailsWith(ErrorCode::invalid_argument, ::testing::_));
}

}  // namespace
}  // namespace gpuwarden::lease
