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
using ::testing::Not;
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

const MemoryChart kSmall{
    .title = "small",
    .capacity_gib = 10,
    .columns = {{.label = "forward", .parts = {{"weights", 3}, {"activations", 1}}},
                {.label = "backward", .parts = {{"weights", 3}, {"nothing", 0}, {"gradients", 2}}, .peak = true}}};

TEST(MemoryChart, HasTheGpusMemoryAsALineAcrossWhereItIsKnown) {
  const std::string picture = chart_svg(kSmall);
  EXPECT_THAT(picture, HasSubstr(R"(<line x1="70.0" x2="640.0" y1="95.9" y2="95.9" stroke="#cc0000")"));
  EXPECT_THAT(picture, HasSubstr(">GPU: 10.0 GiB</text>"));
  MemoryChart unknown = kSmall;
  unknown.capacity_gib = 0;
  EXPECT_THAT(chart_svg(unknown), Not(HasSubstr("#cc0000")));
}

TEST(MemoryChart, HasALegendOfEachPartOnce) {
  const std::string picture = chart_svg(kSmall);
  for (const char* entry : {R"(<text x="684.0" y="81.0" font-size="12">weights</text>)",
                            R"(<text x="684.0" y="103.0" font-size="12">activations</text>)",
                            R"(<text x="684.0" y="125.0" font-size="12">gradients</text>)",
                            R"(<rect x="664.0" y="114.0" width="12" height="12" fill="#228833"/>)"})
    EXPECT_THAT(picture, HasSubstr(entry));
  EXPECT_THAT(picture, Not(HasSubstr("nothing")));
}

TEST(MemoryChart, HasThePeakInBold) {
  const std::string picture = chart_svg(kSmall);
  EXPECT_THAT(picture, HasSubstr(R"(font-weight="bold">backward</text>)"));
  EXPECT_THAT(picture, HasSubstr(R"(font-weight="bold">5.0</text>)"));
  EXPECT_THAT(picture, HasSubstr(R"(font-size="12">4.0</text>)"));
  EXPECT_THAT(picture, HasSubstr(R"(font-size="12">forward</text>)"));
}

TEST(LaunchOf, TakesWhatThePlanKnows) {
  const Launch launch = launch_of(plan("lora"));
  EXPECT_EQ(launch.cpus_per_gpu, 8U);
  EXPECT_TRUE(launch.ampere);
  EXPECT_EQ(launch.job_name, "meta-llama/Llama-3.1-8B");
  EXPECT_FALSE(launch.adapter_modules.empty());
  EXPECT_EQ(launch.gpus_per_node, 8U);
}

TEST(LaunchOf, SharesANodesCpusAndHostMemoryAmongTheGpusOnIt) {
  PlanAnswer answer = plan();
  answer.search.candidates[answer.chosen].estimate.host = 1e9;
  struct Row {
    std::uint32_t gpus_per_node;
    std::uint32_t cpus_per_gpu;
    std::uint64_t host_bytes;
  };
  for (const auto& [gpus_per_node, cpus_per_gpu, host_bytes] :
       {Row{4, 16, 4'000'000'000}, Row{8, 8, 8'000'000'000}, Row{16, 4, 8'000'000'000}, Row{0, 8, 8'000'000'000}}) {
    answer.request.gpus_per_node = gpus_per_node;
    const Launch launch = launch_of(answer);
    EXPECT_EQ(launch.gpus_per_node, gpus_per_node);
    EXPECT_EQ(launch.cpus_per_gpu, cpus_per_gpu) << gpus_per_node;
    EXPECT_EQ(launch.host_memory_per_node, Bytes(host_bytes)) << gpus_per_node;
  }
}

}  // namespace
}  // namespace gpuwarden::planning
