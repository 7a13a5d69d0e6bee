// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/out_of_use.hpp"

#include "support/fake_clock.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::machine {
namespace {

using namespace gpuwarden::testing;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class OutOfUse : public ::testing::Test {
 protected:
  OutOfUse() { reader_.sys_root = reader_.driver_proc_root = dir_ / "none"; }

  /// As a monitor that judged and has ended.
  void judge(const std::string& reason) const {
    facts::Health health;
    health.uuid = gpu_;
    health.state = facts::HealthState::error;
    health.since = clock_.wall_now();
    health.reason = reason;
    health.causes = {{"xid", reason, "reset it", true}};
    lease::HealthPublisher publisher(health_places(environment_, reader_), "gpuwarden serve", 1s);
    EXPECT_THAT(publisher.publish(std::vector{health}, clock_.wall_now(), clock_.now()), IsOk());
  }
  std::vector<facts::Disabling> now() const {
    auto view = out_of_use(environment_, reader_, clock_.wall_now());
    EXPECT_THAT(view, IsOk());
    return view ? view->disabled : std::vector<facts::Disabling>{};
  }

  TempDir dir_;
  FakeClock clock_;
  Uuid gpu_{"GPU-a"};
  Environment environment_{{"GPUWARDEN_STATE_DIR", (dir_ / "state").string()}};
  probe::ReaderOptions reader_;
};

TEST_F(OutOfUse, AJudgedGpuIsOutOfUseUntilItIsEnabledAndAgainForSomethingNew) {
  judge("Xid 48");
  ASSERT_THAT(now(), SizeIs(1));
  EXPECT_EQ(now()[0].reason, "judged unfit: Xid 48");
  clock_.advance(1s);
  const auto enabled = enable(environment_, reader_, {.gpus = {gpu_}, .reason = "it is fine", .by = "ann"}, clock_);
  ASSERT_THAT(enabled, IsOk());
  EXPECT_THAT(enabled->disabled, IsEmpty());
  ASSERT_THAT(enabled->accepted, SizeIs(1));
  EXPECT_EQ(enabled->accepted[0].causes.at(0).reason, "Xid 48");
  EXPECT_THAT(now(), IsEmpty());
  clock_.advance(1s);
  judge("Xid 119");
  EXPECT_THAT(now(), SizeIs(1));
}

TEST_F(OutOfUse, APersonsWordComesFirstAndBothAreUndone) {
  judge("Xid 48");
  const lease::Disablings disablings(lease::disabling_places(environment_));
  ASSERT_THAT(disablings.disable({gpu_}, "fan is loud", "ann", clock_), IsOk());
  ASSERT_THAT(now(), SizeIs(1));
  EXPECT_EQ(now()[0].reason, "fan is loud");
  clock_.advance(1s);
  const auto enabled = enable(environment_, reader_, {.gpus = {gpu_}, .reason = "", .by = ""}, clock_);
  ASSERT_THAT(enabled, IsOk());
  EXPECT_THAT(enabled->disabled, ElementsAre(gpu_));
  ASSERT_THAT(enabled->accepted, SizeIs(1));
  EXPECT_FALSE(enabled->accepted[0].by.empty()) << "the caller's own name";
  EXPECT_THAT(now(), IsEmpty());
}

TEST_F(OutOfUse, AnotherGpuStaysWhatItIs) {
  judge("Xid 48");
  const auto enabled = enable(environment_, reader_, {.gpus = {Uuid("GPU-b")}, .reason = "", .by = ""}, clock_);
  ASSERT_THAT(enabled, IsOk());
  EXPECT_THAT(enabled->accepted, IsEmpty());
  EXPECT_THAT(now(), SizeIs(1));
}

}  // namespace
}  // namespace gpuwarden::machine
