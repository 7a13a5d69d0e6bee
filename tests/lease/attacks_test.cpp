// SPDX-License-Identifier: Apache-2.0
// Other users, other containers, and what they can do to a lease.
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/lease/lease_store.hpp"
#include "lease/kernel_locks.hpp"
#include "lease/two_containers.hpp"
#include "support/fake_clock.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::lease {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Attacks : public TwoContainers {};

TEST_F(Attacks, RemovingTheLockFileTakesNothing) {
  const LeaseStore s = store();
  const auto held = take(s, device_);
  ASSERT_TRUE(held->has_value());
  EXPECT_THAT((*held)->warnings(), IsEmpty());
  EXPECT_EQ((*held)->descriptors().size(), 3U) << "two locks, and the ground of claims within it";
  std::filesystem::remove(lock_file());
  EXPECT_FALSE(take(s, device_)->has_value());
  const auto leases = s.inspect({device_}).leases;
  ASSERT_EQ(leases.size(), 1U) << "seen though the directory does not know it";
  EXPECT_EQ(leases[0].holders.at(0).pid, Pid{::getpid()});
}

TEST_F(Attacks, RemovingTheWholeDirectoryTakesNothing) {
  const auto held = take(store(), device_);
  ASSERT_TRUE(held->has_value());
  std::filesystem::remove_all(leases_);
  EXPECT_FALSE(take(store(), device_)->has_value());
}

TEST_F(Attacks, ARemovedLockFileIsMadeAndLockedAgain) {
  auto held = take(store(), device_);
  EXPECT_THAT((*held)->repair(), IsEmpty());
  std::filesystem::remove(lock_file());
  EXPECT_THAT((*held)->repair(), ElementsAre(HasSubstr("made and locked again")));
  EXPECT_FALSE(take(store(), inside_)->has_value());
  EXPECT_THAT((*held)->repair(), IsEmpty());
  std::filesystem::remove(lock_file());
  const auto other = take(store(), inside_);
  ASSERT_TRUE(other->has_value()) << "the other container was faster";
  EXPECT_THAT((*held)->repair(), ElementsAre(HasSubstr("another container may have taken the GPU")));
}

TEST_F(Attacks, ContainersThatShareTheDirectoryKeepEachOtherOut) {
  const auto held = take(store(), device_);
  ASSERT_TRUE(held->has_value());
  EXPECT_FALSE(take(store(), inside_)->has_value());
  EXPECT_EQ(store().inspect({inside_}).leases.size(), 1U);
}

TEST_F(Attacks, WithoutTheDirectoryTheKernelsFileDecidesAndItIsSaid) {
  put(dir_ / "file", "");
  const auto alone = open({.directory = dir_ / "file/leases"});
  ASSERT_THAT(alone, IsOk());
  const auto held = take(*alone, device_);
  ASSERT_TRUE(held->has_value());
  EXPECT_THAT((*held)->warnings(), ElementsAre(HasSubstr("not reserved against other containers")));
  EXPECT_FALSE(take(store(), device_)->has_value()) << "who has the directory is kept out by the kernel's file";
  EXPECT_EQ(alone->inspect({device_}).leases.size(), 1U);
  EXPECT_THAT(alone->queue(1, {device_.uuid}), FailsWith(ErrorCode::permission_denied, HasSubstr("lease directory")));
}

TEST_F(Attacks, WithoutTheKernelsFileTheDirectoryDecidesAndItIsSaid) {
  for (const std::filesystem::path& missing : {std::filesystem::path(), dir_ / "no/vendor", dir_ / "sys"}) {
    const auto held = take(store(), {device_.uuid, missing});
    ASSERT_TRUE(held->has_value());
    EXPECT_THAT((*held)->warnings(),
                ElementsAre(AllOf(HasSubstr("GPU-aaaa: reserved through the lease directory"), HasSubstr("alone"))));
    EXPECT_FALSE(take(store(), device_)->has_value());
  }
}

TEST_F(Attacks, WithNeitherNothingIsLeased) {
  put(dir_ / "file", "");
  const auto alone = open({.directory = dir_ / "file/leases"});
  EXPECT_THAT(take(*alone, {device_.uuid, {}}), FailsWith(ErrorCode::permission_denied, HasSubstr("lease directory")));
}

TEST_F(Attacks, ADirectoryThatMayNotBeWrittenIsOneThatCannotBeUsed) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everything";
  std::filesystem::create_directory(leases_);
  std::filesystem::permissions(leases_, std::filesystem::perms(0555));
  const auto held = take(store(), device_);
  ASSERT_TRUE(held->has_value());
  EXPECT_THAT((*held)->warnings(), ElementsAre(HasSubstr("not reserved against other containers")));
}

TEST_F(Attacks, AGateThatIsHeldForEverEndsTheWaitAndNamesWhoHoldsIt) {
  const auto held = take(store(), device_);
  const Device shared{Uuid("GPU-bbbb"), {}};
  const auto sharing = take(store(), shared, true);
  const Other other([&] { return lock_for_ever(leases_ / "gate.lock"); });
  const auto before = clock_.now();
  EXPECT_THAT(take(store(), {Uuid("GPU-cccc"), {}}),
              FailsWith(ErrorCode::timed_out, AllOf(HasSubstr("timed out after 5"), HasSubstr(user_name(::geteuid())),
                                                    HasSubstr(fmt::format("pid {}", other.pid().value)))));
  EXPECT_LT(clock_.now() - before, std::chrono::seconds(6));
  const auto seen = store().inspect({device_});
  ASSERT_TRUE(seen.problem);
  EXPECT_EQ(seen.problem->code, ErrorCode::timed_out);
  ASSERT_EQ(seen.leases.size(), 2U) << "what can be known without the gate";
  EXPECT_FALSE(seen.leases[0].shared);
  EXPECT_TRUE(seen.leases[1].shared);
}

TEST_F(Attacks, AStopEndsTheWaitAtTheGate) {
  const LeaseStore s = store();
  ASSERT_TRUE(take(s, device_)->has_value());
  const Other other([&] { return lock_for_ever(leases_ / "gate.lock"); });
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THAT(s.claim(
                  {}, [](const Situation&) -> Result<Choice> { return Choice{}; }, stop.get_token()),
              FailsWith(ErrorCode::interrupted, HasSubstr("interrupted")));
}

TEST_F(Attacks, AForgedTicketHasItsOwnersNameAndItsTrueAge) {
  const LeaseStore s = store();
  const auto honest = s.queue(1, {device_.uuid});
  ASSERT_THAT(honest, IsOk());
  const auto forged = leases_ / "queue/00000000000000000000-1.ticket";
  put(forged, R"({"number":0,"owner":{"pid":1,"user":"king","run_id":"","command":"x","since_unix_ms":0},)"
              R"("wants":1,"candidates":["GPU-aaaa"]})");
  const std::array<timespec, 2> long_ago{{{1, 0}, {1, 0}}};
  ASSERT_EQ(::utimensat(AT_FDCWD, forged.c_str(), long_ago.data(), 0), 0);
  EXPECT_EQ(s.inspect({}).waiting.size(), 1U) << "nobody holds it";
  put(forged, R"({"number":0,"owner":{"pid":1,"user":"king","run_id":"","command":"x","since_unix_ms":0},)"
              R"("wants":1,"candidates":["GPU-aaaa"]})");
  ASSERT_EQ(::utimensat(AT_FDCWD, forged.c_str(), long_ago.data(), 0), 0);
  const Other other([&] { return lock_for_ever(forged); });
  const auto waiting = s.inspect({}).waiting;
  ASSERT_EQ(waiting.size(), 2U);
  EXPECT_EQ(waiting[0].id, honest->id()) << "it came first";
  EXPECT_EQ(waiting[1].number, 2U);
  EXPECT_EQ(waiting[1].owner.user, user_name(::geteuid()));
  EXPECT_EQ(waiting[1].owner.pid, other.pid());
}

TEST_F(Attacks, TheRankThatInheritedTheLockIsNamedWhenItsLauncherIsDead) {
  const LeaseStore s = store();
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    auto self = StoreOptions{.directory = leases_};
    self.self = {Pid{::getpid()}, "", "r7", "launcher", system_clock().wall_now()};
    auto held = take(*LeaseStore::open(self, clock_), device_);
    const pid_t rank = ::fork();
    if (rank == 0) {
      for (;;) ::pause();
    }
    [[maybe_unused]] const auto told = ::write(pipe[1], &rank, sizeof rank);
    ::_exit(held && *held ? 0 : 1);
  }
  pid_t rank = 0;
  ASSERT_EQ(::read(pipe[0], &rank, sizeof rank), static_cast<ssize_t>(sizeof rank));
  ::waitpid(launcher, nullptr, 0);
  const auto leases = s.inspect({device_}).leases;
  ::kill(rank, SIGKILL);
  ::close(pipe[0]);
  ::close(pipe[1]);
  ASSERT_EQ(leases.size(), 1U);
  ASSERT_EQ(leases[0].holders.size(), 1U);
  EXPECT_EQ(leases[0].holders[0].pid, Pid{rank});
  EXPECT_EQ(leases[0].holders[0].run_id, "r7");
  EXPECT_TRUE(eventually(kSoon, [&] { return s.inspect({device_}).leases.empty(); }));
}

TEST_F(Attacks, AHolderThatIsHiddenIsNotGuessed) {
  const auto held = take(store(), device_);
  ASSERT_TRUE(held->has_value());
  const auto blind = open({.directory = leases_, .proc_root = dir_ / "no-proc"});
  const auto leases = blind->inspect({device_}).leases;
  ASSERT_EQ(leases.size(), 1U);
  EXPECT_THAT(leases[0].holders, IsEmpty()) << "the record is not believed";
}

TEST_F(Attacks, ANumberThatBelongsToAnotherProcessByNowIsNotTheHolder) {
  const auto held = take(store(), device_);
  ASSERT_TRUE(held->has_value());
  const UniqueFd fd(::open(device_.kernel_file.c_str(), O_RDONLY | O_CLOEXEC));
  const auto key = LockTable("/proc").key_of(fd);
  ASSERT_TRUE(key);
  const auto proc = dir_ / "proc";
  put(proc / "locks",
      fmt::format("1: FLOCK  ADVISORY  WRITE 77 {:02x}:{:02x}:{} 0 EOF\n", key->major, key->minor, key->inode));
  put(proc / "77/status", "Name:\tsleep\nState:\tS (sleeping)\nUid:\t7\t7\t7\t7\n");
  std::filesystem::create_directories(proc / "77/fd");
  const auto looking = open({.directory = leases_, .proc_root = proc});
  EXPECT_THAT(looking->inspect({device_}).leases.at(0).holders, IsEmpty()) << "77 has the file not even open";
  std::filesystem::remove(proc / "77/fd");
  const auto leases = looking->inspect({device_}).leases;
  ASSERT_EQ(leases.at(0).holders.size(), 1U) << "its descriptors are hidden: the kernel's list is believed";
  EXPECT_EQ(leases[0].holders[0].pid, Pid{77});
  EXPECT_EQ(leases[0].holders[0].command, "sleep") << "the record is another user's";
  put(proc / "77/status", "Name:\tsleep\nState:\tZ (zombie)\nUid:\t7\t7\t7\t7\n");
  EXPECT_THAT(looking->inspect({device_}).leases.at(0).holders, IsEmpty());
}

TEST_F(Attacks, TwoGpusOfOneUuidAreRefused) {
  const Device twin{device_.uuid, inside_.kernel_file};
  const auto claimed = store().claim(
      {device_, twin}, [&](const Situation&) -> Result<Choice> { return Choice{{device_, twin}, false}; });
  EXPECT_THAT(claimed, FailsWith(ErrorCode::unavailable, HasSubstr("2 GPUs have the same UUID GPU-aaaa")));
}

TEST_F(Attacks, SimulatedLeasesAreToldBesideTheReal) {
  const auto simulated = open({.directory = leases_, .prefix = kSimulatedPrefix});
  const auto held = take(*simulated, device_);
  EXPECT_THAT(store().inspect({}).leases, IsEmpty());
  ASSERT_EQ(store().simulated().leases.size(), 1U);
  EXPECT_EQ(store().simulated().leases[0].uuid, device_.uuid);
  EXPECT_THAT(simulated->simulated().leases, IsEmpty());
}

/// Needs root, to become two users.
class SecondUser : public Attacks {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root to become two users";
  }
};

TEST_F(SecondUser, WhoMadeTheLockFileCannotTakeTheGpuByRemovingIt) {
  ASSERT_THAT(LeaseStore::open({.directory = leases_}, clock_), IsOk());
  Other maker([&] { return become_nobody() && take(store(), device_)->has_value(); });
  maker.end();
  struct stat info{};
  ASSERT_EQ(::stat(lock_file().c_str(), &info), 0);
  ASSERT_EQ(info.st_uid, kNobody);
  const auto held = take(store(), device_);
  ASSERT_TRUE(held->has_value());
  const Other thief([&] {
    return become_nobody() && ::unlink(lock_file().c_str()) == 0 && !take(store(), device_)->has_value() &&
           !take(store(), {device_.uuid, device_.kernel_file})->has_value();
  });
}

TEST_F(SecondUser, ATicketThatAnotherUserHoldsIsNoTicket) {
  const LeaseStore s = store();
  const auto mine = s.queue(1, {device_.uuid});
  const auto stolen = leases_ / "queue/00000000000000000001-1.ticket";
  std::filesystem::copy_file(leases_ / "queue" / mine->id(), stolen);
  const Other thief([&] { return become_nobody() && lock_for_ever(stolen); });
  EXPECT_EQ(s.inspect({}).waiting.size(), 1U) << "root's file, nobody's lock";
}

TEST_F(SecondUser, PriorityOvertakesNobodyElse) {
  const LeaseStore s = store();
  const auto low = s.queue(1, {device_.uuid});
  const Other nobody([&] {
    static std::optional<Ticket> kept;
    if (!become_nobody()) return false;
    auto ticket = store().queue(2, {device_.uuid}, {}, kMostPriority);
    if (ticket) kept = std::move(*ticket);
    return kept.has_value();
  });
  const auto high = s.queue(3, {device_.uuid}, {}, 9);
  std::vector<std::uint32_t> wants;
  for (const auto& ticket : s.inspect({}).waiting) wants.push_back(ticket.wants);
  EXPECT_THAT(wants, ElementsAre(3, 2, 1)) << "root's two change places around nobody's";
}

TEST_F(SecondUser, AnotherUsersHolderIsNamedByTheKernelNotByItsRecord) {
  ASSERT_THAT(LeaseStore::open({.directory = leases_}, clock_), IsOk());
  const Other holder([&] {
    auto options = StoreOptions{.directory = leases_};
    options.self = {Pid{1}, "root", "r", "innocent", {}};
    static std::optional<HeldLeases> kept;
    kept = become_nobody() ? std::move(*take(*LeaseStore::open(options, clock_), device_)) : std::nullopt;
    return kept.has_value();
  });
  const auto leases = store().inspect({device_}).leases;
  ASSERT_EQ(leases.at(0).holders.size(), 1U);
  EXPECT_EQ(leases[0].holders[0].user, user_name(kNobody));
  EXPECT_EQ(leases[0].holders[0].pid, holder.pid());
}

TEST(KernelLocks, ReadsTheKernelsLines) {
  const auto lock = parse_lock("12: FLOCK  ADVISORY  WRITE 16300 00:1b:4777 0 EOF");
  ASSERT_TRUE(lock);
  EXPECT_EQ(lock->pid, Pid{16300});
  EXPECT_EQ(lock->file, (FileKey{0, 27, 4777}));
  for (const char* line : {"", "1: POSIX  ADVISORY  WRITE 1 00:1b:4777 0 EOF", "1: -> FLOCK  ADVISORY  WRITE 1 0:1:2 0",
                           "1: FLOCK  ADVISORY  WRITE x 00:1b:4777 0 EOF", "1: FLOCK  ADVISORY  WRITE 1 00:4777 0 EOF"})
    EXPECT_FALSE(parse_lock(line)) << line;
}

TEST(KernelLocks, AFileIsKnownByTheNumbersThatTheKernelLists) {
  const TempDir dir;
  put(dir / "file", "");
  const UniqueFd fd(::open((dir / "file").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(fd.get(), LOCK_EX), 0);
  const auto holders = LockTable("/proc").holders_of(fd);
  ASSERT_EQ(holders.size(), 1U);
  EXPECT_EQ(holders[0].pid, Pid{::getpid()});
  EXPECT_EQ(holders[0].uid, ::geteuid());
}

TEST(KernelLocks, TheKernelsOwnFileOfADeviceIsLockedLikeAnyOther) {
  const auto devices = list_directory("/sys/bus/pci/devices");
  if (devices.empty()) GTEST_SKIP() << "no PCI device in /sys";
  const TempDir dir;
  FakeClock clock;
  const Device device{Uuid("GPU-aaaa"), devices[0] / "vendor"};
  const auto take = [&](const char* folder) {
    const auto store = LeaseStore::open({.directory = dir / folder}, clock);
    return store->claim({device}, [&](const Situation&) -> Result<Choice> { return Choice{{device}, false}; });
  };
  const auto held = take("one");
  ASSERT_TRUE(held->has_value());
  EXPECT_THAT((*held)->warnings(), IsEmpty());
  EXPECT_FALSE(take("two")->has_value()) << "though the directories differ";
}

}  // namespace
}  // namespace gpuwarden::lease
