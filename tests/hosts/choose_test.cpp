// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/hosts/choose.hpp"

#include <gmock/gmock.h>

#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::hosts {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ChooseHosts : public ::testing::Test {
 protected:
  ChooseHosts() {
    for (int i = 0; i < 3; ++i) {
      readings_.push_back(std::make_shared<telemetry::Reading>());
      readings_.back()->snapshot = testing::fleet(4);
      nodes_.push_back({.name = named_[i].name, .reading = readings_.back()});
    }
  }
  Result<ChosenHosts> choose(std::uint32_t count) const { return choose_hosts(named_, nodes_, {.count = count}); }
  void lease(int node, int gpu) {
    readings_[node]->leases.push_back({.uuid = readings_[node]->snapshot.gpus[gpu].gpu.uuid, .holders = {}});
  }

  std::vector<Host> named_{{"a", {}}, {"b", {}}, {"c", {}}};
  std::vector<std::shared_ptr<telemetry::Reading>> readings_;
  std::vector<cluster::Node> nodes_;
};

TEST_F(ChooseHosts, AsFewOfThemAsHaveSoManyFree) {
  lease(0, 0);
  const auto chosen = choose(6);
  ASSERT_THAT(chosen, testing::IsOk());
  EXPECT_THAT(chosen->hosts, ElementsAre(Host{"a", 3}, Host{"b", 3}));
  EXPECT_THAT(chosen->left_out, IsEmpty());
  EXPECT_THAT(choose(3)->hosts, ElementsAre(Host{"a", 3})) << "b and c stay whole";
}

TEST_F(ChooseHosts, HostsThatDoNotAnswerAndUnfitGpusAreLeftOut) {
  nodes_[0].problem = Error{ErrorCode::unavailable, "no route to host", ""};
  nodes_[1].leases_problem = Error{ErrorCode::permission_denied, "its leases cannot be read", ""};
  nodes_[2].health.push_back({.uuid = readings_[2]->snapshot.gpus[1].gpu.uuid, .state = facts::HealthState::error});
  EXPECT_THAT(choose(3)->hosts, ElementsAre(Host{"c", 3}));
  EXPECT_THAT(choose(3)->left_out, ElementsAre("a: no route to host", "b: its leases cannot be read"));
  const auto refused = choose(4);
  EXPECT_EQ(refused.error().code, ErrorCode::unsatisfied);
  EXPECT_THAT(refused.error().message, HasSubstr("only 3 of the 4 requested GPUs are available"));
  EXPECT_THAT(refused.error().message, HasSubstr("a: no route to host"));
}

}  // namespace
}  // namespace gpuwarden::hosts
