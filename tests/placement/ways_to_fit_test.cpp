// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/placement/ways_to_fit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuwarden/planning/catalog.hpp"
#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::placement {
namespace {

using namespace gpuwarden::testing;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Request asking(const std::string& model, const std::string& task) {
  const auto shape = planning::find_model(model).value();
  Request request;
  request.work = planning::Workload{.model = shape, .settings = planning::settings_for(shape, task).value()};
  return request;
}

/// What a user of `snapshot` is told.
std::string told(const Request& request, const facts::Snapshot& snapshot) {
  const std::vector<facts::Lease> leases;
  const std::vector<Uuid> spoken_for;
  const Inputs inputs{snapshot, leases, spoken_for, {}};
  const auto decision = select(request, inputs);
  EXPECT_THAT(decision, IsOk());
  return decision ? ways_to_fit(request, inputs, *decision) : "";
}

TEST(WaysToFit, AreNamedCheapestFirstWithWhatEachTakes) {
  const std::string text = told(asking("llama-3.1-70b", "train"), fleet(1));
  EXPECT_THAT(text, StartsWith("what would make it fit, cheapest first:\n  "));
  EXPECT_THAT(text, HasSubstr("GiB of each)"));
}

TEST(WaysToFit, AreSilentWhereNothingHasToChange) {
  EXPECT_EQ(told(asking("gpt2", "train"), fleet(1)), "") << "it fits";
  EXPECT_EQ(told(Request{.count = 3}, fleet(1)), "") << "no model was named";
  facts::Snapshot busy = fleet(1);
  busy.gpus[0].sample.memory_used = 79_GiB;
  busy.gpus[0].sample.memory_free = 1_GiB;
  busy.gpus[0].processes = {facts::GpuProcess{.pid = Pid{100}, .compute = true}};
  EXPECT_EQ(told(asking("llama-3.1-8b", "inference"), busy), "") << "waiting is enough";
}

TEST(WaysToFit, AreNotAboutTheModelWhereTooManyGpusAreAskedFor) {
  Request request = asking("gpt2", "train");
  request.count = 4;
  EXPECT_EQ(told(request, fleet(2)), "");
}

TEST(WaysToFit, OfAnInstanceAreWholeGpus) {
  Request request = asking("llama-3.1-70b", "serve");
  request.mig = true;
  EXPECT_THAT(told(request, mig_fleet()), HasSubstr("whole GPUs can share one"));
}

}  // namespace
}  // namespace gpuwarden::placement
