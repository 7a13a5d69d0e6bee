// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/chart.hpp"

#include "gpuwarden/planning/catalog.hpp"
#include "gpuwarden/planning/emit.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::planning {
namespace {

using gpuwarden::testing::FailsWith;
using gpuwarden::testing::IsOkAnd;
using ::testing::HasSubstr;
using ::testing::StartsWith;

PlanAnswer plan(const char* task = "train") {
  const ModelShape model = find_model("llama-3.1-8b").value();
  return answer({.work = {.model = model, .settings = settings_for(model, task).value()},
                 .gpus = gpus_named("8xh100").value(),
                 .cpus = 64})
      .value();
}

TEST(MemoryChart, HasAColumnForEachMomentWhoseHighestIsThePeak) {
  const PlanAnswer answer = plan();
  const MemoryChart chart = chart_of(answer);
  ASSERT_EQ(chart.columns.size(), answer.best().estimate.moment_count);
  std::size_t highest = 0;
  double most = 0;
  for (std::size_t i = 0; i < chart.columns.size(); ++i) {
    double sum = 0;
    for (const ChartPart& part : chart.columns[i].parts) sum += part.gib;
    if (sum > most) highest = i;
    most = std::max(most, sum);
  }
  EXPECT_TRUE(chart.columns[highest].peak);
  EXPECT_NEAR(most, answer.best().estimate.expected() / kBytesPerGiB, 0.01);
  EXPECT_LT(most, chart.capacity_gib);
}

TEST(MemoryChart, IsDrawnByTheEndingOfItsFile) {
  const MemoryChart chart{.title = "a <b> & c", .columns = {{.label = "peak", .parts = {{"weights", 3}}}}};
  EXPECT_THAT(draw_chart(chart, "x.SVG"), IsOkAnd(StartsWith("<svg ")));
  const auto page = draw_chart(chart, "x.html");
  EXPECT_THAT(page, IsOkAnd(StartsWith("<!DOCTYPE html>")));
  EXPECT_THAT(page.value(), HasSubstr("a &lt;b&gt; &amp; c"));
  EXPECT_THAT(page.value(), HasSubstr("<td>weights</td><td>3.00</td>"));
  EXPECT_THAT(draw_chart(chart, "x.png"), FailsWith(ErrorCode::invalid_argument, HasSubstr("'x.png' ends neither")));
}

TEST(LaunchOf, TakesWhatThePlanKnows) {
  const Launch launch = launch_of(plan("lora"));
  EXPECT_EQ(launch.cpus_per_gpu, 8U);
  EXPECT_TRUE(launch.ampere);
  EXPECT_EQ(launch.job_name, "meta-llama/Llama-3.1-8B");
  EXPECT_FALSE(launch.adapter_modules.empty());
  EXPECT_EQ(launch.program, "train.py");
}

}  // namespace
}  // namespace gpuwarden::planning
