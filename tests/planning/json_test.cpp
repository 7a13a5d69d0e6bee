// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/json.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/planning/catalog.hpp"
#include "gpuwarden/planning/gpus.hpp"

namespace gpuwarden::planning {
namespace {

using ::testing::SizeIs;
using Json = nlohmann::json;

PlanAnswer lora_plan() {
  const auto model = find_model("llama-3.1-8b");
  const auto settings = settings_for(*model, "lora");
  return *answer({.work = {.model = *model, .settings = *settings}, .gpus = *gpus_named("2xh100")});
}

TEST(PlanJson, HasTheAnswersFigures) {
  const PlanAnswer answer = lora_plan();
  const Json json =
      Json::parse(to_json(answer, {.simulated = true, .gpus_from = "--gpus", .gpu_notes = {"a note"}}).dump());
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["simulated"], true);
  EXPECT_EQ(json["model"]["name"], answer.request.work.model.name);
  EXPECT_EQ(json["model"]["parameters"], answer.count.total);
  EXPECT_EQ(json["gpus"]["count"], 2);
  EXPECT_EQ(json["gpus"]["from"], "--gpus");
  EXPECT_EQ(json["gpus"]["notes"][0], "a note");
  EXPECT_EQ(json["gpus"]["usable_bytes"], answer.request.gpus.usable.value);
  EXPECT_EQ(json["per_gpu"]["peak_moment"], to_string(answer.best().estimate.peak_moment().kind));
  ASSERT_THAT(json["strategies"], SizeIs(answer.search.candidates.size()));
  EXPECT_EQ(json["strategies"][answer.chosen]["name"], answer.best().name);
  ASSERT_TRUE(answer.fits);
  EXPECT_EQ(json["recommended"]["settings"], to_json(answer.best().settings));
  EXPECT_EQ(json["serving"], nullptr);
}

TEST(PlanJson, TheSettingsAreThoseThatWereGiven) {
  const PlanAnswer answer = lora_plan();
  const Settings& settings = answer.best().settings;
  const Json json = Json::parse(to_json(settings).dump());
  EXPECT_EQ(json["task"], to_string(settings.task));
  EXPECT_EQ(json["precision"], to_string(settings.precision));
  EXPECT_EQ(json["micro_batch"], settings.micro_batch);
  EXPECT_EQ(json["lora_rank"], settings.adapters.rank);
  EXPECT_EQ(json["data_parallel"], settings.parallel.data);
}

}  // namespace
}  // namespace gpuwarden::planning
