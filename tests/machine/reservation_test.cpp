// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/reservation.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <thread>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/lease/line.hpp"
#include "lease/inherited.hpp"
#include "support/fake_clock.hpp"
#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::machine {
namespace {

using namespace gpuwarden::testing;
using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Reservations : public ::testing::Test {
 protected:
  Reservations() : snapshot_(fleet(2)) {
    for (const auto& device : lease_devices(snapshot_, dir_ / "sys", dir_ / "proc"))
      put(device.kernel_file, "0x10de\n");
  }
  lease::LeaseStore store(const std::string& run = "r1") { return store_at(clock_, run); }
  lease::LeaseStore store_at(Clock& clock, const std::string& run) {
    facts::LeaseHolder self{Pid{::getpid()}, "", run, "python train.py", system_clock().wall_now()};
    auto opened = lease::LeaseStore::open({.directory = dir_ / "leases", .self = self}, clock);
    EXPECT_THAT(opened, IsOk());
    return *opened;
  }
  GpuSource source(const lease::LeaseStore* leases) {
    return {.read =
                [this](const probe::ReadRequest&) {
                  ++readings_;
                  return snapshot_;
                },
            .leases = leases,
            .sys_root = dir_ / "sys",
            .proc_root = dir_ / "proc"};
  }
  Result<Reservation> make(const ReservationRequest& request, const std::stop_token& stop = {}) {
    const auto leases = store();
    return Reservation::make(request, source(&leases), clock_, stop);
  }
  static ReservationRequest gpus(std::uint32_t count) {
    ReservationRequest request;
    request.gpus.count = count;
    return request;
  }
  static ReservationRequest waiting(std::uint32_t count, std::chrono::milliseconds wait) {
    ReservationRequest request = gpus(count);
    request.wait = wait;
    return request;
  }

  TempDir dir_;
  facts::Snapshot snapshot_;
  FakeClock clock_;
  int readings_ = 0;
};

TEST_F(Reservations, HoldsWhatItChoseAndFreesItself) {
  {
    const auto both = make(gpus(2));
    ASSERT_THAT(both, IsOk());
    EXPECT_TRUE(both->decision().satisfied);
    EXPECT_EQ(both->devices().size(), 2U);
    EXPECT_EQ(both->descriptors().size(), 6U) << "of each two locks, and the ground of claims within it";
    EXPECT_THAT(both->warnings(), IsEmpty());
    EXPECT_THAT(make(gpus(1)), FailsWith(ErrorCode::unsatisfied, HasSubstr("leased by")));
  }
  EXPECT_THAT(make(gpus(2)), IsOk());
}

TEST_F(Reservations, AskingHoldsNothing) {
  ReservationRequest asking = gpus(2);
  asking.hold = false;
  const auto asked = make(asking);
  ASSERT_THAT(asked, IsOk());
  EXPECT_TRUE(asked->decision().satisfied);
  EXPECT_THAT(asked->devices(), IsEmpty());
  const auto held = make(gpus(1));
  ASSERT_THAT(held, IsOk());
  const auto refused = make(asking);
  ASSERT_THAT(refused, IsOk()) << "no is an answer";
  EXPECT_FALSE(refused->decision().satisfied);
}

TEST_F(Reservations, WhatWasChosenFromHasWhatTheEnvironmentHides) {
  ReservationRequest request = gpus(1);
  request.hold = false;
  request.visibility.cuda_visible_devices = "1";
  const auto one = make(request);
  ASSERT_THAT(one, IsOk());
  const placement::Inputs inputs = one->inputs();
  EXPECT_EQ(&inputs.snapshot, &one->snapshot());
  EXPECT_EQ(inputs.visibility.cuda_visible_devices, "1");
  const auto again = placement::select(request.gpus, inputs);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->selected, one->decision().selected);
}

TEST_F(Reservations, LoadThatHasEndedIsWaitedOutAndOtherLoadIsNot) {
  for (auto& record : snapshot_.gpus) record.sample.utilization_gpu = Percent(60);
  const auto leases = store();
  GpuSource busy = source(&leases);
  EXPECT_THAT(Reservation::make(gpus(2), busy, clock_), FailsWith(ErrorCode::unsatisfied, HasSubstr("busy (60 %")));
  const auto start = clock_.now();
  busy.read = [&](const probe::ReadRequest&) {
    facts::Snapshot now = snapshot_;
    for (auto& record : now.gpus) record.sample.utilization_gpu = Percent(clock_.now() - start < 900ms ? 60 : 0);
    return now;
  };
  EXPECT_THAT(Reservation::make(gpus(2), busy, clock_), IsOk()) << "drivers report the past second";
  ReservationRequest at_once = gpus(2);
  at_once.looks_again = false;
  const auto asked = clock_.now();
  EXPECT_THAT(Reservation::make(at_once, source(&leases), clock_),
              FailsWith(ErrorCode::unsatisfied, HasSubstr("busy")));
  EXPECT_EQ(clock_.now(), asked) << "whose ranks run has no time for it";
  for (auto& record : snapshot_.gpus) record.processes->emplace_back().compute = true;
  const int before = readings_;
  EXPECT_THAT(Reservation::make(gpus(2), source(&leases), clock_),
              FailsWith(ErrorCode::unsatisfied, HasSubstr("in use")));
  EXPECT_EQ(readings_, before + 1) << "who is seen there is not waited for";
}

TEST_F(Reservations, AsManyAsThereAreMeansThoseTooWhoseLoadHasEnded) {
  const auto start = clock_.now();
  const auto leases = store();
  GpuSource half = source(&leases);
  half.read = [&](const probe::ReadRequest&) {
    facts::Snapshot now = snapshot_;
    now.gpus[1].sample.utilization_gpu = Percent(clock_.now() - start < 500ms ? 60 : 0);
    return now;
  };
  ReservationRequest elastic = gpus(2);
  elastic.least = 1;
  const auto both = Reservation::make(elastic, half, clock_);
  ASSERT_THAT(both, IsOk());
  EXPECT_EQ(both->devices().size(), 2U);
}

/// As of somebody with another lease directory: the kernel's files alone tell of him.
TEST_F(Reservations, AWaitEndsInTimeWhereOthersTakeTheGpusWhoseLoadWasWaitedOut) {
  for (auto& record : snapshot_.gpus) record.sample.utilization_gpu = Percent(60);
  const auto leases = store();
  const auto elsewhere = lease::LeaseStore::open({.directory = dir_ / "elsewhere"}, clock_);
  ASSERT_THAT(elsewhere, IsOk());
  const auto devices = lease_devices(snapshot_, dir_ / "sys", dir_ / "proc");
  std::optional<lease::HeldLeases> taken;
  GpuSource busy = source(&leases);
  busy.disabled = [&](const facts::Snapshot&) -> Result<std::vector<facts::Disabling>> {
    if (taken) return std::vector<facts::Disabling>{};
    auto held = elsewhere->claim(devices, [&](const auto&) { return lease::Choice{devices, false}; });
    if (held && *held) taken = std::move(**held);
    return std::vector<facts::Disabling>{};
  };
  const auto start = clock_.now();
  EXPECT_THAT(Reservation::make(waiting(1, 5s), busy, clock_),
              FailsWith(ErrorCode::timed_out, HasSubstr("timed out after 5.0 s")));
  EXPECT_TRUE(taken.has_value());
  EXPECT_LT(clock_.now() - start, 6s);
}

TEST_F(Reservations, SharersShare) {
  ReservationRequest shared = gpus(1);
  shared.gpus.shared = true;
  shared.gpus.gpu_ids = {{"0"}};
  shared.gpus.count.reset();
  const auto one = make(shared);
  const auto two = make(shared);
  ASSERT_THAT(one, IsOk());
  ASSERT_THAT(two, IsOk());
  shared.gpus.shared = false;
  EXPECT_THAT(make(shared), FailsWith(ErrorCode::unsatisfied, HasSubstr("leased by")));
}

TEST_F(Reservations, AWaitThatIsOverSaysHowLongItWas) {
  const auto held = make(gpus(2));
  ASSERT_THAT(held, IsOk());
  EXPECT_THAT(make(waiting(1, 1h)), FailsWith(ErrorCode::timed_out, HasSubstr("timed out after 1 h")));
  EXPECT_TRUE(store().inspect({}).waiting.empty()) << "its place in line is given up";
}

TEST_F(Reservations, WaitsUntilTheGpusAreGivenBack) {
  std::optional<Reservation> held = std::move(*make(gpus(2)));
  // Threads wait for each other's locks in earnest: a fake clock's patience is over before the other one runs.
  const auto leases = store_at(system_clock(), "r2");
  std::jthread giver([&] {
    EXPECT_TRUE(eventually(kSoon, [&] { return !leases.inspect({}).waiting.empty(); }));
    held.reset();
  });
  const auto got = Reservation::make(waiting(2, std::chrono::milliseconds::max()), source(&leases), system_clock());
  ASSERT_THAT(got, IsOk());
  EXPECT_EQ(got->devices().size(), 2U);
}

/// What a process that this one starts says of its request, and of why it was refused.
std::string told_in_child(const std::function<Result<Reservation>()>& request) {
  std::array<int, 2> pipe{};
  EXPECT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto made = request();
    const std::string text = made ? "granted" : made.error().message + "; " + made.error().hint;
    [[maybe_unused]] const auto told = ::write(pipe[1], text.data(), text.size());
    ::_exit(0);
  }
  ::close(pipe[1]);
  std::string text = read_descriptor(pipe[0], "pipe").value_or("");
  ::close(pipe[0]);
  ::waitpid(child, nullptr, 0);
  return text;
}

TEST_F(Reservations, OnlyALeaseOfOnesOwnThatAloneIsInTheWayIsToldOf) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    ReservationRequest second;
    second.gpus.gpu_ids.push_back({"1"});
    const auto held = make(second);
    [[maybe_unused]] const auto told = ::write(pipe[1], held ? "y" : "n", 1);
    for (;;) ::pause();
  }
  char answer = 0;
  ASSERT_EQ(::read(pipe[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  const auto own = make(gpus(1));
  ASSERT_THAT(own, IsOk());
  const auto asked_for = [&](const std::vector<std::string>& ids) {
    return told_in_child([&] {
      ReservationRequest request;
      for (const std::string& id : ids) request.gpus.gpu_ids.push_back({id});
      return make(request);
    });
  };
  EXPECT_THAT(asked_for({"0"}), HasSubstr("did not inherit its lock"));
  EXPECT_THAT(asked_for({"1"}), AllOf(HasSubstr("leased by"), Not(HasSubstr("did not inherit"))));
  EXPECT_THAT(asked_for(std::vector<std::string>{"0", "1"}),
              AllOf(HasSubstr("leased by"), Not(HasSubstr("did not inherit"))));
  ::kill(stranger, SIGKILL);
  ::waitpid(stranger, nullptr, 0);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_F(Reservations, WhoStartedThisProcessIsAStrangerOnGpusThatItsLeaseDoesNotHold) {
  facts::GpuProcess process;
  process.pid = Pid{::getpid()};
  process.compute = true;
  process.memory = 2_GiB;
  for (facts::GpuRecord& record : snapshot_.gpus) record.processes = {process};
  ReservationRequest first;
  first.gpus.gpu_ids.push_back({"0"});
  first.gpus.allow_busy = true;
  const auto own = make(first);
  ASSERT_THAT(own, IsOk());
  const auto asked_for = [&](std::uint32_t count) {
    return told_in_child([&] {
      lease::forget_inherited_locks();
      return make(gpus(count));
    });
  };
  EXPECT_EQ(asked_for(1), "granted");
  EXPECT_THAT(asked_for(2), Not(HasSubstr("granted")));
}

TEST_F(Reservations, AStopEndsAWaitAtOnce) {
  const auto held = make(gpus(2));
  const auto leases = store_at(system_clock(), "r2");
  std::stop_source stop;
  std::jthread stopper([&] {
    EXPECT_TRUE(eventually(kSoon, [&] { return !leases.inspect({}).waiting.empty(); }));
    stop.request_stop();
  });
  EXPECT_THAT(Reservation::make(waiting(1, 24h), source(&leases), system_clock(), stop.get_token()),
              FailsWith(ErrorCode::interrupted, HasSubstr("interrupted while waiting for GPUs")));
  EXPECT_THAT(make(waiting(1, 24h), stop.get_token()), FailsWith(ErrorCode::interrupted, HasSubstr("interrupted")));
}

TEST_F(Reservations, WhatCannotComeTrueIsNotWaitedFor) {
  EXPECT_THAT(make(waiting(3, 1h)), FailsWith(ErrorCode::unsatisfied, HasSubstr("2")));
  EXPECT_EQ(readings_, 1);
}

TEST_F(Reservations, TheHintIsTheCallers) {
  const auto leases = store();
  auto from = source(&leases);
  from.advise = [](const placement::Decision& decision, const facts::Snapshot& snapshot) {
    return fmt::format("{} of {}", decision.wanted, snapshot.gpus.size());
  };
  const auto refused = Reservation::make(gpus(3), from, clock_);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().hint, "3 of 2");
}

TEST_F(Reservations, TwinsEndTheClaimInsteadOfTurningRound) {
  snapshot_.gpus[1].gpu.uuid = snapshot_.gpus[0].gpu.uuid;
  EXPECT_FALSE(make(gpus(2)).has_value());
  EXPECT_LE(readings_, 2);
}

TEST_F(Reservations, AClaimThatIsLostAgainAndAgainEnds) {
  // Two GPUs at one address: the second can never be locked.
  snapshot_.gpus[1].gpu.pci_bus_id = snapshot_.gpus[0].gpu.pci_bus_id;
  EXPECT_THAT(make(gpus(2)), FailsWith(ErrorCode::unsatisfied, HasSubstr("while they were being claimed")));
  EXPECT_LT(readings_, 100);
  EXPECT_THAT(make(waiting(2, 5s)), FailsWith(ErrorCode::timed_out, HasSubstr("while they were being claimed")));
}

TEST_F(Reservations, WhoWaitsAndNeverGoesKeepsNobodyOut) {
  const auto leases = store("r2");
  std::vector<Uuid> all;
  for (const auto& record : snapshot_.gpus) all.push_back(record.gpu.uuid);
  const auto forged = leases.queue(1, all);
  ASSERT_THAT(forged, IsOk());
  const auto start = clock_.now();
  EXPECT_THAT(make(gpus(1)), IsOk()) << "without --wait, too";
  EXPECT_GE(clock_.now() - start, lease::kTurn);
  EXPECT_LT(clock_.now() - start, 2 * lease::kTurn);
  EXPECT_THAT(make(waiting(2, 5min)), IsOk());
}

TEST_F(Reservations, ACaptureHasNoLeasesAndDoesNotChange) {
  auto from = source(nullptr);
  from.captured = true;
  ReservationRequest asking = waiting(3, 1h);
  asking.hold = false;
  EXPECT_THAT(Reservation::make(asking, from, clock_), FailsWith(ErrorCode::unsatisfied, HasSubstr("2")));
  EXPECT_EQ(readings_, 1);
  EXPECT_THAT(Reservation::make(gpus(1), from, clock_), FailsWith(ErrorCode::invalid_argument, HasSubstr("reserved")));
}

TEST_F(Reservations, TheCpuNeedsNothing) {
  ReservationRequest cpu;
  cpu.gpus.force_cpu = true;
  const auto got = make(cpu);
  ASSERT_THAT(got, IsOk());
  EXPECT_TRUE(got->decision().cpu);
  EXPECT_EQ(readings_, 0);
  EXPECT_TRUE(Reservation::of_cpu().decision().satisfied);
}

}  // namespace
}  // namespace gpuwarden::machine
