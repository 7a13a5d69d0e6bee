// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/placement/json.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/planning/catalog.hpp"
#include "support/fleet_builder.hpp"

namespace gpuwarden::placement {
namespace {

using namespace gpuwarden::testing;
using ::testing::SizeIs;
using Json = nlohmann::json;

class PlacementJson : public ::testing::Test {
 protected:
  Json json_of(const Request& request) {
    const Inputs inputs{snapshot_, leases_, spoken_for_, {}};
    decision_ = select(request, inputs).value();
    return Json::parse(to_json(decision_, request, inputs).dump());
  }

  facts::Snapshot snapshot_ = fleet(3);
  std::vector<facts::Lease> leases_;
  std::vector<Uuid> spoken_for_;
  Decision decision_;
};

TEST_F(PlacementJson, NamesEveryGpuOnceWithItsReason) {
  Request request;
  request.count = 2;
  const Json json = json_of(request);
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["satisfied"], true);
  EXPECT_EQ(json["device"], "cuda");
  EXPECT_EQ(json["cuda_visible_devices"], cuda_visible_devices(decision_));
  ASSERT_THAT(json["selected"], SizeIs(2));
  EXPECT_EQ(json["selected"][0]["uuid"], decision_.selected[0].uuid.value);
  EXPECT_EQ(json["selected"][0]["mig"], nullptr);
  ASSERT_THAT(json["rejected"], SizeIs(1));
  EXPECT_EQ(json["rejected"][0]["index"], 2);
  EXPECT_EQ(json["model"], nullptr);
  EXPECT_EQ(json["strategy"], nullptr);
}

TEST_F(PlacementJson, WhatIsNotSatisfiedHasNoDevicesAndSaysWhatIsMissing) {
  Request request;
  request.count = 9;
  snapshot_.simulated = true;
  const Json json = json_of(request);
  EXPECT_EQ(json["simulated"], true);
  EXPECT_EQ(json["satisfied"], false);
  EXPECT_EQ(json["cuda_visible_devices"], nullptr);
  EXPECT_EQ(json["missing"], decision_.missing);
  EXPECT_NE(decision_.missing, "");
}

TEST_F(PlacementJson, AModelHasItsFitAndWhereItDoesNotFitTheWaysOut) {
  const auto shape = planning::find_model("llama-3.1-8b").value();
  Request request;
  request.work = planning::Workload{.model = shape, .settings = planning::settings_for(shape, "inference").value()};
  const Json fits = json_of(request);
  ASSERT_TRUE(decision_.model);
  EXPECT_EQ(fits["model"]["name"], decision_.model->model);
  EXPECT_EQ(fits["model"]["gpus"], decision_.model->gpus);
  EXPECT_EQ(fits["model"]["needed_free_bytes"], decision_.model->needed.value);
  EXPECT_EQ(fits["model"]["changes"], Json::array());
  const auto large = planning::find_model("llama-3.1-405b").value();
  request.work = planning::Workload{.model = large, .settings = planning::settings_for(large, "train").value()};
  const Json misfit = json_of(request);
  EXPECT_EQ(misfit["satisfied"], false);
  EXPECT_EQ(misfit["model"]["verdict"], "does_not_fit");
}

}  // namespace
}  // namespace gpuwarden::placement
