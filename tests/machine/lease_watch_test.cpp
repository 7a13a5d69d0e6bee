// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/lease_watch.hpp"

#include "machine/simulated.hpp"
#include "support/fake_clock.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::machine {
namespace {

using namespace std::chrono_literals;

class LeaseWatchTest : public testing::Machines {
 protected:
  void SetUp() override {
    auto opened = Machine::open(Simulated{"h100x8"}, options());
    ASSERT_TRUE(opened) << opened.error().message;
    machine_.emplace(std::move(*opened));
    snapshot_ = machine_->read({.processes = false});
    ASSERT_EQ(snapshot_.gpus.size(), 8U);
  }
  /// Leases a GPU, for as long as what comes back lives.
  std::optional<lease::HeldLeases> lease_gpu(std::size_t gpu) {
    auto store = machine_->open_leases("a-run", "train");
    EXPECT_TRUE(store);
    const auto devices = machine_->lease_devices(snapshot_);
    auto held = store->claim(
        devices,
        [&](const lease::Situation&) -> Result<lease::Choice> { return lease::Choice{.devices = {devices[gpu]}}; }, {});
    EXPECT_TRUE(held && *held);
    return held ? std::move(*held) : std::nullopt;
  }

  std::optional<Machine> machine_;
  facts::Snapshot snapshot_;
  testing::FakeClock clock_;
};

TEST_F(LeaseWatchTest, WhoHasLeasedWhatIsSeenAtOnceAndSoIsTheEndOfIt) {
  const auto look = watch_leases(*machine_, 1h, clock_);
  EXPECT_TRUE(look(snapshot_).empty());
  auto held = lease_gpu(3);
  for (int i = 0; i < 2; ++i) {
    const auto leases = look(snapshot_);
    ASSERT_EQ(leases.size(), 1U);
    EXPECT_EQ(leases[0].uuid, snapshot_.gpus[3].gpu.uuid);
    ASSERT_EQ(leases[0].holders.size(), 1U) << "a glance in between keeps the names";
    EXPECT_EQ(leases[0].holders[0].run_id, "a-run");
  }
  const auto another = lease_gpu(5);
  const auto both = look(snapshot_);
  ASSERT_EQ(both.size(), 2U) << "another lease asks for names, whatever the pace";
  for (const facts::Lease& lease : both) EXPECT_FALSE(lease.holders.empty());
  held.reset();
  ASSERT_EQ(look(snapshot_).size(), 1U);
  EXPECT_EQ(look(snapshot_)[0].uuid, snapshot_.gpus[5].gpu.uuid);
}

TEST_F(LeaseWatchTest, ACaptureHasNone) {
  const auto captured = Machine::open(Captured{snapshot_, "a file"}, options());
  ASSERT_TRUE(captured);
  const auto held = lease_gpu(3);
  EXPECT_TRUE(watch_leases(*captured, 1h, clock_)(snapshot_).empty());
}

}  // namespace
}  // namespace gpuwarden::machine
