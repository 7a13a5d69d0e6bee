// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/placement/select.hpp"
#include "gpuwarden/placement/ways_to_fit.hpp"
#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::placement {
namespace {

using namespace gpuwarden::testing;
using ::testing::HasSubstr;

class DisabledGpus : public ::testing::Test {
 protected:
  DisabledGpus() { snapshot_.taken_at = std::chrono::system_clock::time_point(std::chrono::hours(24 * 10)); }
  Decision choose(const Request& request) const {
    auto decision = select(request, {snapshot_, leases_, spoken_for_, {}, disabled_});
    EXPECT_THAT(decision, IsOk());
    return decision.value_or(Decision{});
  }
  void disable(const Uuid& uuid) {
    disabled_.push_back(
        {uuid, "fan is loud", "root", true, std::chrono::system_clock::time_point(std::chrono::hours(24 * 7))});
  }

  facts::Snapshot snapshot_ = fleet(2);
  std::vector<facts::Lease> leases_;
  std::vector<Uuid> spoken_for_;
  std::vector<facts::Disabling> disabled_;
};

TEST_F(DisabledGpus, AreNotChosen) {
  disable(snapshot_.gpus[0].gpu.uuid);
  const Decision decision = choose({});
  ASSERT_TRUE(decision.satisfied);
  EXPECT_EQ(decision.selected[0].index, GpuIndex{1});
  EXPECT_EQ(decision.verdicts[0].kind, Verdict::Kind::disabled);
  EXPECT_EQ(decision.verdicts[0].reason, "disabled: fan is loud (by root, 3 d ago)");
  EXPECT_EQ(to_string(decision.verdicts[0].kind), "disabled");
  EXPECT_EQ(ways_to_enable(decision), "") << "the request is met";
}

TEST_F(DisabledGpus, AreRefusedWhereTheyAreNamedAndWaitingDoesNotHelp) {
  disable(snapshot_.gpus[1].gpu.uuid);
  Request request;
  request.gpu_ids = {{"1"}};
  const Decision decision = choose(request);
  EXPECT_FALSE(decision.satisfied);
  EXPECT_FALSE(decision.may_come_true);
  EXPECT_THAT(decision.missing, HasSubstr("GPU 1: disabled: fan is loud (by root, 3 d ago)"));
  EXPECT_EQ(ways_to_enable(decision), "gpuwarden enable 1 puts it back into use");
  EXPECT_EQ(ways_to_fit(request, {snapshot_, leases_, spoken_for_, {}, disabled_}, decision),
            "gpuwarden enable 1 puts it back into use");
}

TEST_F(DisabledGpus, MeansTheirInstancesToo) {
  snapshot_ = mig_fleet();
  disable(snapshot_.gpus[0].gpu.uuid);
  Request request;
  request.mig = true;
  EXPECT_FALSE(choose(request).satisfied);
}

TEST_F(DisabledGpus, AnInstanceAloneMayBeDisabled) {
  snapshot_ = mig_fleet();
  disable(snapshot_.gpus[0].mig_devices[0].uuid);
  Request request;
  request.mig = true;
  const Decision decision = choose(request);
  ASSERT_TRUE(decision.satisfied);
  EXPECT_NE(decision.selected[0].uuid, snapshot_.gpus[0].mig_devices[0].uuid);
}

}  // namespace
}  // namespace gpuwarden::placement
