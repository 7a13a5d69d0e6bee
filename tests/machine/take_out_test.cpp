// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/take_out.hpp"

#include "gpuwarden/facts/use.hpp"
#include "machine/simulated.hpp"
#include "support/fake_clock.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::machine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::IsOk;
using ::testing::SizeIs;

class TakenOutOfUse : public testing::Machines {
 protected:
  Result<Machine> open(const std::string& sudo_user = "") {
    Options all = options();
    all.environment["GPUWARDEN_STATE_DIR"] = (dir_ / "state").string();
    if (!sudo_user.empty()) all.environment["SUDO_USER"] = sudo_user;
    return Machine::open(Simulated{"h100x8"}, all);
  }
  testing::FakeClock clock_;
};

TEST_F(TakenOutOfUse, AreTheGpusOfTheseNamesUntilTheyArePutBack) {
  const auto machine = open("ada");
  ASSERT_THAT(machine, IsOk());
  const auto taken = take_out(*machine, {"1-2"}, "fan is loud", clock_);
  ASSERT_THAT(taken, IsOk());
  ASSERT_THAT(taken->gpus.gpus, SizeIs(2));
  const Uuid first = taken->gpus.gpus[0].gpu.uuid;
  const Uuid second = taken->gpus.gpus[1].gpu.uuid;
  const auto* const word = facts::find_disabling(taken->now.disabled, first);
  ASSERT_NE(word, nullptr);
  EXPECT_EQ(word->reason, "fan is loud");
  EXPECT_EQ(word->by, "ada with sudo");

  const auto one = put_back(*machine, {"1"}, "", clock_);
  ASSERT_THAT(one, IsOk());
  EXPECT_THAT(one->gpus, ElementsAre(first));
  EXPECT_THAT(one->before, SizeIs(2));
  EXPECT_THAT(one->enabled.disabled, ElementsAre(first));
  EXPECT_THAT(one->now.disabled, SizeIs(1));

  const auto rest = put_back(*machine, {"all"}, "", clock_);
  ASSERT_THAT(rest, IsOk());
  EXPECT_THAT(rest->gpus, ElementsAre(second));
  EXPECT_THAT(rest->now.disabled, IsEmpty());
}

TEST_F(TakenOutOfUse, AllMeansEveryGpuEitherWay) {
  const auto machine = open();
  ASSERT_THAT(machine, IsOk());
  const auto taken = take_out(*machine, {"all"}, "the room is too warm", clock_);
  ASSERT_THAT(taken, IsOk());
  EXPECT_THAT(taken->gpus.gpus, SizeIs(8));
  EXPECT_THAT(taken->now.disabled, SizeIs(8));
  const auto back = put_back(*machine, {"all"}, "", clock_);
  ASSERT_THAT(back, IsOk());
  EXPECT_THAT(back->gpus, SizeIs(8));
  EXPECT_THAT(back->now.disabled, IsEmpty());
}

TEST_F(TakenOutOfUse, WhatIsWrongWithThemIsAcceptedUntilAReset) {
  const auto machine = open();
  ASSERT_THAT(machine, IsOk());
  ASSERT_THAT(machine->simulator()->call({{"op", "fault"}, {"gpu", 3}, {"fault", "ecc_uncorrected=1"}}), IsOk());
  const auto back = put_back(*machine, {"all"}, "it must do", clock_);
  ASSERT_THAT(back, IsOk());
  ASSERT_THAT(back->enabled.accepted, SizeIs(1));
  EXPECT_EQ(back->enabled.accepted[0].reason, "it must do");
  EXPECT_FALSE(back->enabled.accepted[0].causes.empty());
  EXPECT_TRUE(back->enabled.accepted[0].mark.energy_millijoules) << "the counters of now: a reset ends it";
  EXPECT_THAT(back->now.disabled, IsEmpty());
  EXPECT_THAT(back->now.accepted, SizeIs(1));
}

TEST_F(TakenOutOfUse, NothingIsChangedByNamesThatFitNone) {
  const auto machine = open();
  ASSERT_THAT(machine, IsOk());
  EXPECT_EQ(take_out(*machine, {"9"}, "gone", clock_).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(take_out(*machine, {}, "gone", clock_).error().message, "no GPU is named");
  EXPECT_EQ(put_back(*machine, {}, "", clock_).error().message, "no GPU is named");
  EXPECT_FALSE(take_out(*machine, {"1"}, "", clock_)) << "without a reason";
  EXPECT_THAT(machine->disablings().read()->disabled, IsEmpty());
}

}  // namespace
}  // namespace gpuwarden::machine
