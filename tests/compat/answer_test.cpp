// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/compat/answer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "compat/tables.hpp"
#include "gpuwarden/compat/question.hpp"
#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::compat {
namespace {

using knowledge::RunsOn;
using knowledge::WheelFit;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

Place place(const std::string& gpus, const std::string& driver) {
  Place place{.gpus = {}, .driver = {}, .origin = "what was named"};
  if (!gpus.empty()) place.gpus = gpus_named({gpus}, tables()).value();
  if (!driver.empty()) place.driver = Version::parse(driver);
  place.named = true;
  return place;
}

class Compatibility : public ::testing::Test {
 protected:
  Asked at(const std::string& gpus, const std::string& driver) {
    place_ = place(gpus, driver);
    return {tables(), place_, kToday};
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
  EXPECT_THAT(answer.obstacles[0].why, HasSubstr("570.86.16 or newer is needed"));
  EXPECT_THAT(answer.torch, IsEmpty()) << "nothing runs";
  ASSERT_TRUE(answer.recommended);
  EXPECT_EQ(answer.recommended->driver, Version{580});
}

TEST_F(Compatibility, AWheelRunsOnlyWhereTheDriverKnowsTheGpuToo) {
  const TorchAnswer any = answer_torch(at("H100", "470"), {"torch", {}, {}});
  EXPECT_FALSE(any.positive);
  ASSERT_TRUE(any.obstacle);
  EXPECT_THAT(any.obstacle->why, HasSubstr("branch 520 or newer is needed"));
  const TorchAnswer one = answer_torch(at("H100", "470"), {"torch", "2.7.1", "cu118"});
  EXPECT_FALSE(one.positive);
  ASSERT_TRUE(one.chosen);
  EXPECT_EQ(one.wheels[*one.chosen].fit, WheelFit::driver_not_for_gpu);
  EXPECT_EQ(answer_torch(at("V100", "590"), {"torch", "2.5.1", "cu124"}).wheels[0].fit, WheelFit::driver_not_for_gpu)
      << "nor where it has left it";
  EXPECT_FALSE(answer_vllm(at("H100", "470"), "0.2.1").positive);
  EXPECT_FALSE(answer_component(at("H100", "470"), "llama.cpp", "").value().positive);
}

TEST_F(Compatibility, AReleaseFromBeforeTheGpuHasNoKernelsForItOrIsNotJudged) {
  const auto at_5090 = [&](const char* name, const char* version) {
    return answer_component(at("RTX 5090", ""), name, version).value();
  };
  for (const auto& [name, version] :
       {std::pair("triton", "3.1"), std::pair("triton", "2.1.0"), std::pair("flash-attn", "2.5.8"),
        std::pair("xformers", "0.0.22"), std::pair("xformers", "0.0.32"), std::pair("cudnn", "9.0")}) {
    const ComponentAnswer old = at_5090(name, version);
    EXPECT_FALSE(old.positive) << name;
    EXPECT_THAT(old.obstacle.value_or(""), HasSubstr("has compute capability 12.0")) << name;
  }
  for (const auto& [name, version] :
       {std::pair("triton", "3.3.0"), std::pair("flash-attn", "2.8.3"), std::pair("xformers", "0.0.33")})
    EXPECT_EQ(at_5090(name, version).obstacle, "") << name;
  for (const auto& [name, version] : {std::pair("tensorflow", "2.15"), std::pair("tensorflow", "2.10"),
                                      std::pair("cudnn", "8.9"), std::pair("tensorflow", "2.14")}) {
    const ComponentAnswer older = at_5090(name, version);
    EXPECT_THAT(older.not_judged, HasSubstr("older than the generation of NVIDIA GeForce RTX 5090")) << name;
    EXPECT_TRUE(older.positive) << "not judged is no no";
    EXPECT_FALSE(older.obstacle);
  }
}

TEST_F(Compatibility, ATableThatSpeaksOfTheGpuIsJudgedBy) {
  EXPECT_EQ(answer_component(at("V100", ""), "cudnn", "9.10").value().obstacle, "");
  EXPECT_EQ(answer_component(at("RTX 3090", ""), "tensorflow", "2.10").value().obstacle, "");
  const ComponentAnswer left = answer_component(at("V100", ""), "cudnn", "9.11").value();
  EXPECT_FALSE(left.positive);
  EXPECT_THAT(left.obstacle.value_or(""), HasSubstr("has compute capability 7.0"));
  EXPECT_FALSE(answer_component(at("H100", "470"), "cudnn", "9.0").value().positive) << "the driver does not know it";
  const ComponentAnswer unknown = answer_component(at("V100", ""), "cudnn", "1.0").value();
  EXPECT_FALSE(unknown.positive);
  EXPECT_EQ(unknown.not_judged, "") << "there is nothing to judge";
  EXPECT_TRUE(answer_component(at("V100", ""), "nccl", "").value().positive);
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
  ASSERT_EQ(good.companions.size(), 3U);
  EXPECT_EQ(good.companions[0]->version, "0.20") << "torchvision";
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
  EXPECT_EQ(std::get<GpuAnswer>(*gpu).needs.minimum, (Version{570, 86, 16}));
  const auto typo = answer_gpu(at("", ""), "RTX 4O90");
  ASSERT_FALSE(typo);
  EXPECT_EQ(typo.error().code, ErrorCode::not_found);
  EXPECT_THAT(typo.error().hint, HasSubstr("RTX 4090"));
}

TEST_F(Compatibility, APackageThatIsWrittenOtherwiseIsOffered) {
  for (const auto& [word, meant] :
       {std::pair("torhc", "torch"), std::pair("flashattention", "flash-attention"), std::pair("jax[cuda13]", "jax"),
        std::pair("torch>=2.4", "torch==2.4"), std::pair("pytroch~=2.5", "pytorch==2.5"), std::pair("vlm", "vllm")}) {
    const auto refused = answer_gpu(at("", ""), word);
    ASSERT_FALSE(refused) << word;
    EXPECT_EQ(refused.error().hint, fmt::format("did you mean '{}'?", meant));
  }
  EXPECT_THAT(parse_question(tables(), "pytroch==2.5").error().hint, HasSubstr("'pytorch==2.5'"));
  for (const char* word : {"Voodoo 2", "xy", "", "a100-17gb"})
    EXPECT_THAT(doctor::nearest_package(word), IsEmpty()) << word;
}

TEST_F(Compatibility, APackageWithoutAVersionIsTheNewestThatTheDriverRuns) {
  const auto asked = [&](const char* driver) {
    return answer_component(at("H100", driver), "onnxruntime-gpu", "").value();
  };
  EXPECT_EQ(asked("550.54.15").needs->cuda, Version{12});
  EXPECT_TRUE(asked("550.54.15").positive);
  EXPECT_EQ(asked("580.82.07").needs->cuda, Version{13});
  const auto old = answer_component(at("V100", "580.82.07"), "tensorrt", "").value();
  EXPECT_TRUE(old.positive) << "the newest that has code for it";
  EXPECT_EQ(old.needs->first.major, 10);
}

TEST_F(Compatibility, PackagesThatPeopleInstallAreKnown) {
  for (const char* word : {"transformers",
                           "accelerate",
                           "peft",
                           "diffusers",
                           "onnxruntime-gpu",
                           "tensorrt",
                           "tensorflow",
                           "jax",
                           "cupy",
                           "vllm",
                           "sglang",
                           "xformers",
                           "flash-attn",
                           "bitsandbytes",
                           "deepspeed",
                           "triton",
                           "torchvision",
                           "torchaudio",
                           "faiss-gpu",
                           "numba",
                           "cudf",
                           "rapids",
                           "ctranslate2",
                           "llama-cpp-python",
                           "paddlepaddle-gpu",
                           "mxnet",
                           "lightgbm",
                           "xgboost",
                           "nccl",
                           "cudnn"})
    EXPECT_TRUE(parse_question(tables(), word)) << word;
}

TEST_F(Compatibility, AGpuIsFoundByTheNameThatPeopleType) {
  for (const auto& [name, model] :
       {std::pair("4090", "NVIDIA GeForce RTX 4090"), std::pair("H100", "NVIDIA H100 80GB HBM3"),
        std::pair("gh200", "NVIDIA GH200 480GB"), std::pair("Jetson AGX Orin", "Orin (nvgpu)")}) {
    EXPECT_EQ(place(name, "").gpus[0].name, model);
    EXPECT_EQ(std::get<GpuAnswer>(answer_gpu(at("", ""), name).value()).model->name, model);
  }
  EXPECT_THAT(place("rtx4090", "").gpus[0].meant, SizeIs(1)) << "a whole name means no other";
  EXPECT_GE(place("H100", "").gpus[0].meant.size(), 4U);
}

TEST_F(Compatibility, AnotherMakersGpuIsRefusedByTheMakersName) {
  constexpr std::string_view kRefusal = "gpuwarden judges NVIDIA GPUs only; MI300X is AMD's";
  EXPECT_EQ(answer_gpu(at("", ""), "MI300X").error().message, kRefusal);
  EXPECT_EQ(gpus_named({"H100, MI300X"}, tables()).error().message, kRefusal);
  EXPECT_THAT(gpus_named({"RTX 4O90"}, tables()).error().hint, HasSubstr("RTX 4090"));
}

TEST_F(Compatibility, ADriverThatDoesNotServeTheGpuIsToldAndTheFrameworksAreForOneThatDoes) {
  const auto gpu = answer_gpu(at("V100", "590.44.01"), "V100");
  const Frameworks& found = std::get<GpuAnswer>(gpu.value()).frameworks;
  EXPECT_EQ(found.not_served_by, (Version{590, 44, 1}));
  EXPECT_FALSE(found.too_old);
  EXPECT_FALSE(found.driver);
  EXPECT_NE(found.newest_torch, nullptr);
}

planning::Workload job_of(std::string_view purpose) {
  const auto read = doctor::parse_purpose(purpose);
  EXPECT_TRUE(read && read->work) << purpose;
  return *read->work;
}

TEST_F(Compatibility, APostReleaseOfVllmIsInstalledAsItself) {
  EXPECT_EQ(answer_vllm(at("A100", "550.54.15"), "0.8.5.post1").command, "pip install vllm==0.8.5.post1");
  EXPECT_EQ(answer_vllm(at("A100", "550.54.15"), "0.8.5.post1+cu121").command, "pip install vllm==0.8.5.post1");
  EXPECT_EQ(answer_vllm(at("A100", "550.54.15"), "0.8").command, "pip install vllm==0.8.0");
}

TEST_F(Compatibility, AJobIsHeldByAsManyGpusAsThePlaceHas) {
  const Asked asked = at("H100", "");
  const JobAnswer one = answer_job(asked, job_of("train llama-3-70b"));
  EXPECT_FALSE(one.here);
  EXPECT_FALSE(one.does_not_fit) << "named GPUs are candidates, not all that there is";
  const facts::Snapshot machine = testing::fleet(1);
  const Place own = place_of(machine, tables());
  const JobAnswer here = answer_job({tables(), own, kToday}, job_of("train llama-3.1-405b"));
  EXPECT_TRUE(here.does_not_fit);
  EXPECT_FALSE(here.positive);
}

TEST_F(Compatibility, WhatTheNewestSoftwareHasLeftHoldsAJobAllTheSame) {
  for (const auto& [gpu, job] :
       {std::pair{"Tesla V100-SXM2-32GB", "serve llama-3-8b"}, {"Tesla P100-PCIE-16GB", "serve llama-3.2-1b"}}) {
    Place machine{.gpus = {{gpu, std::nullopt, tables().model(gpu), 4}}, .driver = {}, .origin = ""};
    ASSERT_NE(machine.gpus[0].model, nullptr) << gpu;
    const JobAnswer own = answer_job({tables(), machine, kToday}, job_of(job));
    ASSERT_TRUE(own.here) << gpu;
    EXPECT_EQ(own.here->present, 4U);
    EXPECT_TRUE(own.positive) << gpu;
    ASSERT_EQ(own.ranking.size(), 1U) << gpu;
    EXPECT_THAT(own.ranking[0].remark, HasSubstr("older PyTorch")) << gpu;
    const JobAnswer all = answer_job(at("", ""), job_of(job));
    EXPECT_EQ(std::ranges::find(all.ranking, machine.gpus[0].model, &Suggestion::model), all.ranking.end())
        << gpu << " is nothing to buy";
  }
}

TEST_F(Compatibility, FewestGpusThenTheRateDecide) {
  const Asked asked = at("", "");
  const JobAnswer training = answer_job(asked, job_of("train llama-3-8b"));
  ASSERT_GT(training.ranking.size(), 5U);
  EXPECT_NEAR(training.parameters, 8.03e9, 1e7);
  EXPECT_GT(training.bytes_needed, 8 * training.parameters);
  EXPECT_EQ(training.ranking[0].gpus, 1U);
  for (std::size_t i = 1; i < training.ranking.size(); ++i) {
    EXPECT_LE(training.ranking[i - 1].gpus, training.ranking[i].gpus);
    EXPECT_NE(training.ranking[i].model->architecture, "Volta") << "left by the newest toolkit";
  }
  const JobAnswer serving = answer_job(at("L4,L40S", ""), job_of("serve llama-3-8b"));
  ASSERT_THAT(serving.ranking, SizeIs(2));
  EXPECT_EQ(serving.ranking[0].model->name, "NVIDIA L40S") << "one of either holds it; its memory is faster";
  EXPECT_THAT(serving.rule, HasSubstr("Meta-Llama-3-8B, 8.03 billion parameters, 8192 tokens a request"));
  EXPECT_THAT(answer_job(at("RTX 4090", ""), job_of("train llama-3.1-405b")).ranking, IsEmpty());
}

TEST_F(Compatibility, TheModelsOwnShapeCountsAndNotTheLastNumberOfItsName) {
  const JobAnswer sparse = answer_job(at("H100 80GB HBM3", ""), job_of("serve qwen3-235b-a22b"));
  ASSERT_THAT(sparse.ranking, SizeIs(1));
  EXPECT_EQ(sparse.ranking[0].gpus, 8U) << "22 billion are active, 235 are held";
  const JobAnswer packed = answer_job(at("H100 80GB HBM3", ""), job_of("serve gpt-oss-120b"));
  EXPECT_EQ(packed.ranking[0].gpus, 2U) << "its weights are stored in 4 bits";
  EXPECT_NEAR(answer_job(at("H100", ""), job_of("train foo-30b-a3b")).parameters, 30e9, 1e9)
      << "no model that is known";
}

TEST_F(Compatibility, TheMatrixJudgesEveryGpuOfThePlaceOnce) {
  const MatrixAnswer answer = answer_matrix(at("H100 PCIe,RTX 5090", "535.104.05"), Version{12, 4}, "");
  ASSERT_THAT(answer.rows, SizeIs(2));
  EXPECT_EQ(answer.rows[0].standing, knowledge::DriverStanding::below_recommended);
  EXPECT_EQ(answer.rows[1].standing, knowledge::DriverStanding::below_minimum);
  EXPECT_FALSE(answer.positive);
}

TEST_F(Compatibility, TheMatrixNamesNoDriverWhereThatCudaHasLeftTheGpu) {
  const MatrixAnswer answer = answer_matrix(at("V100 32GB,T4", "580.65.06"), Version{13, 0}, "");
  EXPECT_FALSE(answer.positive);
  ASSERT_GE(answer.rows.size(), 2U);
  EXPECT_TRUE(answer.rows.front().dropped);
  EXPECT_FALSE(answer.rows.front().needs.required);
  EXPECT_FALSE(answer.rows.front().needs.optimal);
  EXPECT_FALSE(answer.rows.front().standing);
  EXPECT_FALSE(answer.rows.back().dropped);
  EXPECT_EQ(answer.rows.back().needs.required, Version{580});
  EXPECT_FALSE(answer_matrix(at("V100 32GB", ""), Version{12, 9}, "").rows[0].dropped) << "its last";
  EXPECT_FALSE(answer_matrix(at("RTX 5090", ""), Version{12, 4}, "").rows[0].dropped) << "older than the GPU: by PTX";
  EXPECT_FALSE(answer_matrix(at("V100 32GB", ""), {}, "").rows[0].dropped) << "the newest PyTorch that has it";
}

TEST_F(Compatibility, AWheelWithoutTheGpuNeedsNothing) {
  for (const char* version : {"2.5.1", "2.5.0", "2.99.0"}) {
    const TorchAnswer answer = answer_torch(at("Tesla K80", "390.77"), {"torch", version, "cpu"});
    EXPECT_TRUE(answer.positive) << version;
    EXPECT_FALSE(answer.uses_gpu);
    EXPECT_FALSE(answer.min_driver);
    EXPECT_FALSE(answer.instead);
    EXPECT_FALSE(answer.chosen);
  }
  EXPECT_FALSE(answer_torch(at("", ""), {"torch", "2.5.1", "cpu.cxx11.abi"}).uses_gpu);
  EXPECT_TRUE(answer_torch(at("", ""), {"torch", "2.5.1", {}}).uses_gpu);
  EXPECT_TRUE(answer_torch(at("", ""), {"torch", "2.5.1", "cpufoo"}).uses_gpu) << "no such build";
}

TEST_F(Compatibility, ADateIsThatOfThePatchThatIsAskedFor) {
  EXPECT_EQ(answer_torch(at("", ""), {"torch", "2.9.1", {}}).wheels[0].build.released, "2025-11");
  EXPECT_EQ(answer_torch(at("", ""), {"torch", "2.9.0", {}}).wheels[0].build.released, "");
  EXPECT_EQ(answer_torch(at("", ""), {"torch", "2.8.1", {}}).wheels[0].build.released, "");
  EXPECT_EQ(answer_torch(at("", ""), {"torch", "2.9", {}}).wheels[0].build.released, "2025-11");
}

TEST_F(Compatibility, MissingKernelsAreToldBeforeAnOldDriver) {
  const TorchAnswer both = answer_torch(at("V100", "550.54.15"), {"torch", "2.11.0", "cu130"});
  EXPECT_EQ(both.wheels[*both.chosen].fit, WheelFit::no_code_for_gpu) << "a newer driver would not help";
  const VllmAnswer vllm = answer_vllm(at("V100", "470.82.01"), "0.25.0");
  EXPECT_THAT(vllm.obstacle.value_or(""), HasSubstr("compute capability 7.0"));
  const VllmAnswer blackwell = answer_vllm(at("RTX 5090", "470.82.01"), "0.7.3");
  EXPECT_THAT(blackwell.obstacle.value_or(""), HasSubstr("has no code for the GPU"));
}

ComponentAnswer component(const Asked& asked, const std::string& name, const std::string& version = "") {
  return answer_component(asked, name, version).value();
}

TEST_F(Compatibility, APackageIsJudgedByTheGpu) {
  const ComponentAnswer turing = component(at("T4", ""), "flash-attn");
  EXPECT_FALSE(turing.positive);
  EXPECT_EQ(turing.obstacle, "Tesla T4 has compute capability 7.5");
  EXPECT_EQ(turing.needs->min_capability, 80);
  EXPECT_THAT(turing.sources, Contains(HasSubstr("as of ")));
  EXPECT_EQ(component(at("A100", ""), "flash-attn").obstacle, "");
  EXPECT_EQ(component(at("H100", ""), "flash-attn-3").obstacle, "");
  EXPECT_FALSE(component(at("A100", ""), "flash-attn-3").positive);
  EXPECT_FALSE(component(at("B200", ""), "flash-attn-3").positive) << "for Hopper alone";
  EXPECT_EQ(component(at("B200", ""), "flash-attn-4").obstacle, "");
  EXPECT_FALSE(component(at("RTX 5090", ""), "flash-attn-4").positive);
  EXPECT_FALSE(component(at("M40", ""), "bitsandbytes", "0.48").positive);
  EXPECT_EQ(component(at("M40", ""), "bitsandbytes").needs->last, (Version{0, 47, 99})) << "the newest that runs";
  EXPECT_FALSE(component(at("V100", ""), "xformers", "0.0.31").positive);
  EXPECT_FALSE(component(at("T4", ""), "triton", "3.2").positive);
  EXPECT_EQ(component(at("T4", ""), "triton", "2.1").obstacle, "");
  EXPECT_FALSE(component(at("K80", ""), "jax").positive);
  EXPECT_EQ(component(at("K80", ""), "tensorflow").needs->last, (Version{2, 14, 99})) << "the last with CUDA 11";
  EXPECT_FALSE(component(at("K80", ""), "tensorflow", "2.15").positive);
  EXPECT_THAT(component(at("A100", "470.82.01"), "jax").obstacle.value_or(""), HasSubstr("older than 525.60.13"));
}

TEST_F(Compatibility, APackageOfWhichNoFigureIsKnownIsNotJudged) {
  const ComponentAnswer prose = component(at("T4", ""), "cudnn");
  EXPECT_TRUE(prose.positive);
  EXPECT_FALSE(prose.obstacle);
  EXPECT_THAT(prose.not_judged, HasSubstr("is not in this knowledge base"));
  EXPECT_THAT(component(at("T4", ""), "deepspeed").not_judged, HasSubstr("its PyTorch serves"));
  EXPECT_THAT(component(at("T4", ""), "transformers").not_judged, HasSubstr("gpuwarden compat torch"));
  EXPECT_THAT(component(at("T4", ""), "lightgbm").not_judged, HasSubstr("for which GPUs it has code"));
  EXPECT_THAT(component(at("Orin", ""), "bitsandbytes").not_judged, HasSubstr("JetPack"));
  EXPECT_TRUE(component(at("", ""), "flash-attn").not_judged.empty()) << "no place";
  const ComponentAnswer old = component(at("T4", ""), "bitsandbytes", "0.30");
  EXPECT_FALSE(old.known);
  EXPECT_FALSE(old.positive);
  EXPECT_TRUE(old.not_judged.empty()) << "there is nothing to judge";
  EXPECT_FALSE(answer_component(at("T4", ""), "voodoo", ""));
}

}  // namespace
}  // namespace gpuwarden::compat
