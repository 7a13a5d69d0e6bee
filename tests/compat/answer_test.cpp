// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/compat/answer.hpp"

#include <algorithm>

#include "gpuwarden/compat/question.hpp"
#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::compat {
namespace {

using knowledge::Knowledge;
using knowledge::RunsOn;
using knowledge::WheelFit;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const Knowledge& known() {
  static const Knowledge knowledge = Knowledge::built_in();
  return knowledge;
}

Place place(const std::string& gpus, const std::string& driver) {
  Place place{.gpus = {}, .driver = {}, .origin = "what was named"};
  if (!gpus.empty()) place.gpus = gpus_named({gpus}, known()).value();
  if (!driver.empty()) place.driver = Version::parse(driver);
  place.named = true;
  return place;
}

constexpr auto kWhen = std::chrono::sys_days(std::chrono::year(2026) / 11 / 21);

class Compatibility : public ::testing::Test {
 protected:
  Asked at(const std::string& gpus, const std::string& driver) {
    place_ = place(gpus, driver);
    return {known(), place_, kWhen};
  }

 private:
  Place place_;
};

RunsOn how(const MachineAnswer& answer, const Version& cuda) {
  const auto row = std::ranges::find(answer.toolkits, cuda, &ToolkitRow::cuda);
  EXPECT_NE(row, answer.toolkits.end());
  return row == answer.toolkits.end() ? RunsOn::not_at_all : row->runs.value_or(RunsOn::not_at_all);
}

TEST_F(Compatibility, ToolkitsRunOnADriverInOneOfFourWays) {
  const MachineAnswer answer = answer_machine(at("H100", "550.54.15"));
  EXPECT_TRUE(answer.positive);
  EXPECT_EQ(how(answer, {12, 4}), RunsOn::natively);
  EXPECT_EQ(how(answer, {12, 8}), RunsOn::by_minor_version);
  EXPECT_EQ(how(answer, {13, 0}), RunsOn::by_forward_compatibility);
  EXPECT_EQ(how(answer_machine(at("RTX 4090", "550.54.15")), {13, 0}), RunsOn::not_at_all) << "not for consumers' GPUs";
  EXPECT_EQ(answer_machine(at("H100", "")).toolkits[0].runs, std::nullopt) << "an unknown driver is not judged";
}

TEST_F(Compatibility, ADriverThatDoesNotKnowTheGpuIsAnObstacleWithAWayOut) {
  const MachineAnswer answer = answer_machine(at("RTX 5090", "550.54.15"));
  EXPECT_FALSE(answer.positive);
  ASSERT_THAT(answer.obstacles, SizeIs(1));
  EXPECT_THAT(answer.obstacles[0].why, HasSubstr("branch 570"));
  EXPECT_THAT(answer.torch, IsEmpty()) << "nothing runs";
  ASSERT_TRUE(answer.recommended);
  EXPECT_EQ(answer.recommended->driver, Version{580});
}

TEST_F(Compatibility, NothingToJudgeIsNoAnswer) {
  const MachineAnswer answer = answer_machine(at("", ""));
  EXPECT_TRUE(answer.nothing_to_judge);
  EXPECT_FALSE(answer.positive);
}

TEST_F(Compatibility, AToolkitIsJudgedForDriverAndGpus) {
  const CudaAnswer fits = answer_cuda(at("A100", "535.104.05"), {12, 8});
  EXPECT_TRUE(fits.positive);
  EXPECT_EQ(fits.minor, (Version{525, 60, 13}));
  ASSERT_TRUE(fits.here);
  EXPECT_EQ(fits.here->runs, RunsOn::by_minor_version);
  EXPECT_EQ(fits.here->builds(), true);
  const CudaAnswer left = answer_cuda(at("V100", "580.65.06"), {13, 0});
  EXPECT_FALSE(left.positive) << "CUDA 13 has left Volta";
  EXPECT_EQ(left.here->builds(), false);
  EXPECT_TRUE(answer_cuda(at("", "580.65.06"), {13, 9}).newer_than_known);
}

TEST_F(Compatibility, AToolkitNamesTheFrameworksBuiltWithIt) {
  const CudaAnswer answer = answer_cuda(at("", ""), {12, 4});
  EXPECT_THAT(answer.torch, Contains("2.5.1+cu124"));
  EXPECT_THAT(answer.vllm, ElementsAre("0.7.0 to 0.7.3", "0.8.0 to 0.8.5"));
  EXPECT_THAT(answer_cuda(at("", ""), {9, 2}).vllm, IsEmpty()) << "before vLLM";
}

TEST_F(Compatibility, AWheelRunsWhereItHasCodeForTheGpu) {
  const TorchAnswer good = answer_torch(at("H100", "535.104.05"), {"torch", "2.5.1", "cu124"});
  ASSERT_TRUE(good.chosen);
  EXPECT_EQ(good.wheels[*good.chosen].build.build, "cu124");
  EXPECT_EQ(good.wheels[*good.chosen].fit, WheelFit::runs);
  EXPECT_FALSE(good.instead);
  const TorchAnswer bad = answer_torch(at("RTX 5090", "570.86.16"), {"torch", "2.5.1", {}});
  EXPECT_FALSE(bad.positive);
  ASSERT_TRUE(bad.instead);
  EXPECT_NE(bad.instead->torch, nullptr);
  EXPECT_EQ(answer_torch(at("H100", "570"), {"torch", "2.5.1", "cu999"}).missing_build, "cu999");
  EXPECT_FALSE(answer_torch(at("", ""), {"torch", "2.5.1", {}}).wheels[0].fit) << "no place is known";
}

TEST_F(Compatibility, VllmIsJudgedByItsPins) {
  const VllmAnswer fits = answer_vllm(at("RTX 5090", "570.86.16"), "0.9");
  EXPECT_TRUE(fits.positive);
  EXPECT_EQ(fits.obstacle, "");
  const VllmAnswer old = answer_vllm(at("GTX 1080 Ti", "570.86.16"), "0.9");
  EXPECT_FALSE(old.positive);
  EXPECT_THAT(old.obstacle.value_or(""), HasSubstr("compute capability 6.1"));
}

TEST_F(Compatibility, AGpuThatIsNotKnownIsAnsweredByItsGenerationOrRefusedWithTheNearest) {
  const auto gpu = answer_gpu(at("", ""), "RTX 5090");
  ASSERT_TRUE(gpu && std::holds_alternative<GpuAnswer>(*gpu));
  EXPECT_EQ(std::get<GpuAnswer>(*gpu).needs.minimum, Version{570});
  const auto typo = answer_gpu(at("", ""), "RTX 4O90");
  ASSERT_FALSE(typo);
  EXPECT_EQ(typo.error().code, ErrorCode::not_found);
  EXPECT_THAT(typo.error().hint, HasSubstr("RTX 4090"));
}

TEST_F(Compatibility, ADriverThatDoesNotServeTheGpuIsToldAndTheFrameworksAreForOneThatDoes) {
  const auto gpu = answer_gpu(at("V100", "590.44.01"), "V100");
  const Frameworks& found = std::get<GpuAnswer>(gpu.value()).frameworks;
  EXPECT_EQ(found.not_served_by, (Version{590, 44, 1}));
  EXPECT_FALSE(found.too_old);
  EXPECT_FALSE(found.driver);
  EXPECT_NE(found.newest_torch, nullptr);
}

TEST_F(Compatibility, AJobIsHeldByAsManyGpusAsThePlaceHas) {
  const Asked asked = at("H100", "");
  const JobAnswer one = answer_job(asked, {.training = true, .parameters = 70e9});
  EXPECT_FALSE(one.here);
  EXPECT_FALSE(one.does_not_fit) << "named GPUs are candidates, not all that there is";
  const facts::Snapshot machine = testing::fleet(1);
  const Place own = place_of(machine, known());
  const JobAnswer here = answer_job({known(), own, kWhen}, {.training = true, .parameters = 405e9});
  EXPECT_TRUE(here.does_not_fit);
  EXPECT_FALSE(here.positive);
}

TEST_F(Compatibility, TheMatrixJudgesEveryGpuOfThePlaceOnce) {
  const MatrixAnswer answer = answer_matrix(at("H100 PCIe,RTX 5090", "535.104.05"), Version{12, 4}, "");
  ASSERT_THAT(answer.rows, SizeIs(2));
  EXPECT_EQ(answer.rows[0].standing, knowledge::DriverStanding::below_recommended);
  EXPECT_EQ(answer.rows[1].standing, knowledge::DriverStanding::below_minimum);
  EXPECT_FALSE(answer.positive);
}

TEST(CompatPlace, IsReadFromAMachinesFacts) {
  facts::Snapshot machine = testing::fleet(8);
  machine.driver_version = "550.54.15";
  machine.simulated = true;
  machine.fleet = "h100x8";
  const Place place = place_of(machine, known());
  ASSERT_THAT(place.gpus, SizeIs(1));
  EXPECT_EQ(place.gpus[0].count, 8);
  EXPECT_EQ(place.driver, (Version{550, 54, 15}));
  EXPECT_THAT(place.architectures(), ElementsAre(90));
  EXPECT_EQ(place.origin, "h100x8");
  EXPECT_TRUE(place.simulated);
}

TEST(CompatQuestion, IsReadInManySpellings) {
  for (const char* text : {"cu128", "cuda 12.8", "cuda==12.8", "cuda12.8"}) {
    const auto question = parse_question(known(), text);
    ASSERT_TRUE(question) << text;
    EXPECT_EQ(question->cuda, (Version{12, 8})) << text;
    EXPECT_EQ(question->kind, "cuda");
  }
  EXPECT_EQ(parse_question(known(), "xid 79")->xid, 79);
  EXPECT_EQ(parse_question(known(), "pytorch 2.5.1")->kind, "package");
  EXPECT_EQ(parse_question(known(), "cudnn")->kind, "component");
  EXPECT_EQ(parse_question(known(), "RTX 5090")->gpu, "RTX 5090");
  EXPECT_EQ(parse_question(known(), "train llama-3-8b")->kind, "job");
  EXPECT_FALSE(parse_question(known(), "xid many"));
  EXPECT_FALSE(parse_question(known(), "torch==new"));
}

}  // namespace
}  // namespace gpuwarden::compat
