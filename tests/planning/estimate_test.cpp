// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/estimate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "gpuwarden/planning/catalog.hpp"
#include "planning/shapes.hpp"

namespace gpuwarden::planning {
namespace {

using testing::kTestGiB;
using testing::llama3_70b;
using testing::llama3_8b;
using testing::mistral_7b;
using testing::mixtral_8x7b;

/// fms-acceleration's runs: 4,096 tokens, checkpointing, LoRA of rank 16 on attention's four matrices. Those with large
/// micro-batches were made with transformers 4.45.2 (scripts/benchmarks/refs/requirements_liger.txt).
Settings fms_settings(Task task, std::uint32_t micro_batch) {
  Settings settings;
  settings.task = task;
  settings.framework = Framework::transformers_legacy;
  settings.sequence = 4096;
  settings.micro_batch = micro_batch;
  settings.fused_kernels = true;
  settings.loss = LossKernel::triton;
  settings.adapters.targets = {.query = true, .key = true, .value = true, .output = true};
  return settings;
}

double allocated(const ModelShape& model, const Settings& settings) {
  const Result<Estimate> result = estimate(model, settings);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? result->allocated : 0;
}

MomentKind peak_of(const ModelShape& model, const Settings& settings) {
  const Result<Estimate> result = estimate(model, settings);
  EXPECT_TRUE(result);
  return result ? result->peak_moment().kind : MomentKind::sharding;
}

// The measured bytes below are fms-acceleration's published ones (scripts/benchmarks/refs, A100 80 GB).

TEST(Estimate, FullTrainingInBf16PeaksInTheOptimizersStepAtTenBytesAParameter) {
  Settings settings = fms_settings(Task::full_training, 4);
  settings.precision = Precision::bf16;
  EXPECT_NEAR(allocated(mistral_7b(), settings) / 72434837504.0, 1, 0.002);
  EXPECT_EQ(peak_of(mistral_7b(), settings), MomentKind::optimizer_step);
  settings.step = OptimizerStep::fused;
  EXPECT_LT(allocated(mistral_7b(), settings), 62e9);
}

TEST(Estimate, ShardedMixedPrecisionTakesTwentyBytesAParameterOverTheRanks) {
  Settings settings = fms_settings(Task::full_training, 4);
  settings.parallel = {.data = 4, .sharding = Sharding::fsdp1};
  EXPECT_NEAR(allocated(mistral_7b(), settings) / 36226152448.0, 1, 0.002);
  settings.micro_batch = 16;
  EXPECT_NEAR(allocated(mistral_7b(), settings) / 57299466752.0, 1, 0.005);
  EXPECT_EQ(peak_of(mistral_7b(), settings), MomentKind::loss);
}

TEST(Estimate, StoredLogitsAreTheLoRAPeakOfALargeVocabulary) {
  Settings settings = fms_settings(Task::adapters, 4);
  EXPECT_NEAR(allocated(llama3_8b(), settings) / 37644015616.0, 1, 0.005);
  EXPECT_EQ(peak_of(llama3_8b(), settings), MomentKind::loss);
  settings.loss = LossKernel::fused_linear;
  EXPECT_NEAR(allocated(llama3_8b(), settings) / 24.9059e9, 1, 0.005);
  EXPECT_EQ(peak_of(llama3_8b(), settings), MomentKind::first_backward);
}

TEST(Estimate, ShardedAdaptersPeakInTheLastLayersBackwardSinceInputsAreHeld) {
  Settings settings = fms_settings(Task::adapters, 8);
  settings.parallel = {.data = 2, .sharding = Sharding::fsdp1};
  EXPECT_NEAR(allocated(mistral_7b(), settings) / 34.1090e9, 1, 0.005);
  EXPECT_EQ(peak_of(mistral_7b(), settings), MomentKind::last_backward);
}

TEST(Estimate, FourBitWeightsOfExpertsAreCountedWithTheirConstants) {
  Settings settings = fms_settings(Task::adapters, 8);
  settings.framework = Framework::transformers;
  settings.quantization = Quantization::nf4_double;
  EXPECT_NEAR(allocated(mixtral_8x7b(), settings) / 44280442880.0, 1, 0.01);
}

TEST(Estimate, InferenceIsWeightsAndCache) {
  ModelShape qwen = llama3_8b();
  qwen.family = "qwen3";
  qwen.layers = 36;
  qwen.intermediate = 12288;
  qwen.vocab = 151936;
  qwen.qk_norm = QkNorm::per_head;
  Settings settings;
  settings.task = Task::inference;
  settings.prompt = 30720;
  settings.sequence = 32768;
  // Qwen's documentation: 20,267 MiB.
  EXPECT_NEAR(allocated(qwen, settings) / (20267.0 * 1024 * 1024), 1, 0.002);
}

TEST(Estimate, EveryMomentIsAffineInTheMicroBatch) {
  for (const Task task : {Task::full_training, Task::adapters}) {
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      Settings settings = fms_settings(task, 1);
      settings.recompute = recompute;
      std::array<Estimate, 3> at;
      for (std::uint32_t i = 0; i < 3; ++i) {
        settings.micro_batch = i + 1;
        at[i] = *estimate(llama3_8b(), settings);
      }
      for (std::size_t m = 0; m < at[0].moment_count; ++m) {
        const double first = at[1].moments[m].total() - at[0].moments[m].total();
        const double second = at[2].moments[m].total() - at[1].moments[m].total();
        EXPECT_NEAR(first, second, 1 + 1e-9 * std::abs(second));
      }
    }
  }
}

TEST(Estimate, MoreOfAnythingThatSavesMemoryNeverCostsMore) {
  Settings settings = fms_settings(Task::full_training, 2);
  settings.recompute = Recompute::none;
  const double none = allocated(llama3_8b(), settings);
  settings.recompute = Recompute::selective;
  const double selective = allocated(llama3_8b(), settings);
  settings.recompute = Recompute::full;
  const double full = allocated(llama3_8b(), settings);
  EXPECT_GE(none, selective);
  EXPECT_GE(selective, full);
  double before = 1e30;
  for (const std::uint32_t ranks : {2U, 4U, 8U, 64U}) {
    settings.parallel = {.data = ranks, .sharding = Sharding::fsdp2};
    const double now = allocated(llama3_8b(), settings);
    EXPECT_LT(now, before);
    before = now;
  }
}

TEST(Estimate, TensorAndPipelineParallelismDivideTheStates) {
  Settings settings;
  settings.precision = Precision::master_weights;
  settings.framework = Framework::megatron;
  settings.sequence = 4096;
  const double whole = allocated(llama3_70b(), settings);
  settings.parallel.tensor = 8;
  const double eighth = allocated(llama3_70b(), settings);
  EXPECT_NEAR(eighth / whole, 1.0 / 8, 0.02);
  settings.parallel.pipeline = 4;
  settings.accumulation = 16;
  const double stage = allocated(llama3_70b(), settings);
  EXPECT_LT(stage, eighth / 3);
}

TEST(Estimate, OffloadedStatesNeedTheHostsMemory) {
  Settings settings;
  const Estimate here = *estimate(llama3_8b(), settings);
  settings.parallel.offload = Offload::optimizer;
  const Estimate there = *estimate(llama3_8b(), settings);
  EXPECT_EQ(here.host, 0);
  EXPECT_GT(there.host, 4 * 8.03e9);
  EXPECT_LT(there.allocated, here.allocated);
}

TEST(Estimate, DeepSpeedKeepsMastersOfWhatItShards) {
  // Qwen's README: 7B in full on two GPUs through ZeRO-3, 139.2 GB together at 256 tokens, context and all.
  ModelShape qwen = llama3_8b();
  qwen.kv_heads = 32;
  qwen.intermediate = 11008;
  qwen.vocab = 151936;
  Settings settings;
  settings.sequence = 256;
  settings.parallel = {.data = 2, .sharding = Sharding::zero3};
  const double each = estimate(qwen, settings)->expected();
  EXPECT_NEAR(2 * each / 139.2e9, 1, 0.08);
  settings.parallel = {.data = 8, .sharding = Sharding::zero1};
  EXPECT_GT(allocated(llama3_8b(), settings), 5.4 * 8.03e9);  // 2 + 2 + 12 / 8 bytes
}

TEST(Estimate, AccelerateTrainsFp32WeightsUnderBothKindsOfFsdp) {
  Settings settings;
  settings.parallel = {.data = 4, .sharding = Sharding::fsdp2};
  const double low = allocated(llama3_8b(), settings);
  settings.precision = Precision::mixed;
  EXPECT_EQ(allocated(llama3_8b(), settings), low);
  settings.precision = Precision::mixed_low;
  settings.framework = Framework::torchtitan;
  EXPECT_LT(allocated(llama3_8b(), settings), 0.7 * low);
}

TEST(Estimate, DataParallelReductionKeepsASecondCopyOfTheGradients) {
  Settings settings;
  const double alone = allocated(llama3_8b(), settings);
  settings.parallel.data = 8;
  EXPECT_NEAR(allocated(llama3_8b(), settings) - alone, 2 * figures_of(llama3_8b()).total, 1);
  settings.framework = Framework::megatron;
  const double eight = allocated(llama3_8b(), settings);
  settings.parallel.data = 1;
  EXPECT_EQ(allocated(llama3_8b(), settings), eight);
}

TEST(Estimate, OffloadingTakesTheStageThatKnowsIt) {
  // DeepSpeed's estimate_zero2_model_states_mem_needs: 2 bytes a parameter on the GPU, 16 on the host.
  const double parameters = figures_of(llama3_8b()).total;
  Settings settings;
  settings.parallel.offload = Offload::optimizer;
  const Estimate two = *estimate(llama3_8b(), settings);
  EXPECT_NEAR(two.host / parameters, 16, 1e-9);
  EXPECT_NEAR(two.peak_moment().at(Use::weights) / parameters, 2, 1e-9);
  EXPECT_EQ(two.peak_moment().at(Use::optimizer_states), 0);
  settings.parallel = {.data = 4, .sharding = Sharding::zero1, .offload = Offload::optimizer};
  EXPECT_NEAR(estimate(llama3_8b(), settings)->host / parameters, 4, 1e-9);
  settings.parallel = {.offload = Offload::all};
  const Estimate three = *estimate(llama3_8b(), settings);
  EXPECT_NEAR(three.host / parameters, 18, 1e-9);
  EXPECT_EQ(three.peak_moment().at(Use::weights), 0);
  EXPECT_GT(three.peak_moment().at(Use::unsharded_layers), 0);
  settings.parallel = {.data = 4, .offload = Offload::optimizer};
  EXPECT_EQ(estimate(llama3_8b(), settings).error().code, ErrorCode::invalid_argument);
}

TEST(Estimate, Mxfp4ShrinksTheExpertsAlone) {
  // 4.25 bits for each weight of the experts: openai/gpt-oss-20b's files have 13.76 GB.
  const ModelShape model = find_model("openai/gpt-oss-20b").value();
  EXPECT_EQ(model.quantization, "mxfp4");
  Settings settings;
  settings.task = Task::inference;
  settings.sequence = 1;
  settings.quantization = Quantization::mxfp4;
  EXPECT_NEAR(estimate(model, settings)->moments[0].at(Use::weights) / 13.76e9, 1, 0.01);
}

TEST(Estimate, EightBitOptimizersKeepEmbeddingsInThirtyTwo) {
  Settings settings;
  settings.precision = Precision::bf16;
  settings.step = OptimizerStep::fused;
  const double full = allocated(llama3_8b(), settings);
  settings.optimizer = Optimizer::adamw_8bit;
  const double less = full - allocated(llama3_8b(), settings);
  EXPECT_GT(less, 1.0 * 8.03e9);
  EXPECT_LT(less, 1.97 * 8.03e9);
}

TEST(Estimate, IsFiniteAndNeverNegativeWhateverTheSettings) {
  std::mt19937 random(7);
  const auto below = [&](std::uint32_t n) { return std::uniform_int_distribution<std::uint32_t>(0, n - 1)(random); };
  std::size_t answered = 0;
  for (int i = 0; i < 4000; ++i) {
    ModelShape model = below(2) == 0 ? llama3_8b() : mixtral_8x7b();
    if (below(3) == 0) model.norm = NormKind::layer_norm;
    if (below(3) == 0) model.gated_mlp = false;
    if (below(3) == 0) model.tied_embeddings = true;
    Settings s;
    s.task = static_cast<Task>(below(4));
    s.precision = static_cast<Precision>(below(6));
    s.optimizer = static_cast<Optimizer>(below(6));
    s.step = static_cast<OptimizerStep>(below(3));
    s.recompute = static_cast<Recompute>(below(4));
    s.attention = static_cast<Attention>(below(2));
    s.loss = static_cast<LossKernel>(below(5));
    s.framework = static_cast<Framework>(below(6));
    s.quantization = static_cast<Quantization>(below(6));
    s.varied_lengths = below(2) == 0;
    s.micro_batch = 1 + below(64);
    s.accumulation = 1 + below(8);
    s.prompt = below(s.sequence + 1);
    s.parallel = {.data = 1U << below(8), .tensor = 1U << below(4), .pipeline = 1U << below(4)};
    s.parallel.sharding = static_cast<Sharding>(below(6));
    s.parallel.offload = static_cast<Offload>(below(3));
    const ModelFigures figures = figures_of(model);
    const Result<Estimate> result = estimate(figures, s);
    if (!result) continue;
    ++answered;
    ASSERT_TRUE(std::isfinite(result->high())) << i;
    ASSERT_GE(result->reserve, 0) << i;
    ASSERT_GT(result->allocated, 0) << i;
    for (std::size_t m = 0; m < result->moment_count; ++m) {
      for (const double bytes : result->moments[m].uses) ASSERT_GE(bytes, 0) << i;
    }
    double sum = 0;
    for (const ExplainedUse& line : explain(figures, s, *result)) sum += line.bytes;
    ASSERT_NEAR(sum / result->expected(), 1, 1e-9) << i;
  }
  EXPECT_GT(answered, 2000U);
}

TEST(Estimate, RefusesSettingsThatMakeNoSense) {
  Settings settings;
  settings.micro_batch = 0;
  EXPECT_EQ(estimate(llama3_8b(), settings).error().message, "micro-batch is 0");
  settings = {};
  settings.quantization = Quantization::nf4;
  EXPECT_TRUE(estimate(llama3_8b(), settings).error().message.contains("cannot be trained"));
  settings = {};
  settings.task = Task::inference;
  settings.prompt = settings.sequence + 1;
  EXPECT_FALSE(estimate(llama3_8b(), settings));
}

TEST(Estimate, ExplainsThePeakLineByLineWithASourceForEach) {
  for (const Task task : {Task::full_training, Task::adapters, Task::inference}) {
    const Settings settings = fms_settings(task, 4);
    const ModelFigures model = figures_of(mistral_7b());
    const Estimate result = *estimate(model, settings);
    double sum = 0;
    for (const ExplainedUse& line : explain(model, settings, result)) {
      sum += line.bytes;
      EXPECT_FALSE(line.formula.empty()) << line.name;
      EXPECT_FALSE(line.source.empty()) << line.name;
    }
    EXPECT_NEAR(sum, result.expected(), 1);
  }
}

TEST(Estimate, LowExpectedAndHighAreInThatOrder) {
  const Estimate result = *estimate(mistral_7b(), fms_settings(Task::full_training, 8));
  EXPECT_LT(result.low(), result.expected());
  EXPECT_LT(result.expected(), result.high());
}

TEST(Estimate, RangesAreAsWideAsTheirMechanismIsUncertain) {
  const auto width = [](const ModelShape& model, const Settings& settings) {
    const Estimate result = *estimate(model, settings);
    return (result.high() - result.context - result.communication - result.reserve - result.more_bytes) /
           result.allocated;
  };
  Settings plain = fms_settings(Task::full_training, 1);
  Settings offloaded = plain;
  offloaded.parallel.data = 2;
  offloaded.parallel.sharding = Sharding::fsdp2;
  offloaded.parallel.offload = Offload::all;
  EXPECT_LT(width(mistral_7b(), plain), width(testing::mixtral_8x7b(), plain));
  EXPECT_GT(width(mistral_7b(), offloaded), 2);
  Settings packed;
  packed.task = Task::inference;
  const double whole = width(mistral_7b(), packed);
  packed.quantization = Quantization::nf4;
  EXPECT_GT(width(mistral_7b(), packed), whole);
}

TEST(Estimate, OfInferenceTheHighEndHasAWholePromptsLogits) {
  Settings settings;
  settings.task = Task::inference;
  settings.sequence = 4096;
  settings.prompt = 1024;
  EXPECT_EQ(estimate(mistral_7b(), settings)->more_bytes, 6.0 * 32000 * 1024);
  settings.task = Task::serving;
  EXPECT_EQ(estimate(mistral_7b(), settings)->more_bytes, 0);
}

TEST(Explain, TellsWindowsAndFormats) {
  ModelShape windowed = mistral_7b();
  windowed.sliding_window = 1024;
  windowed.sliding_layers = 24;
  Settings settings;
  settings.task = Task::inference;
  settings.sequence = 8192;
  settings.quantization = Quantization::hqq;
  const ModelFigures model = figures_of(windowed);
  const auto lines = explain(model, settings, *estimate(model, settings));
  const auto line = [&](std::string_view name) { return *std::ranges::find(lines, name, &ExplainedUse::name); };
  EXPECT_TRUE(line("kv_cache").formula.contains("24 layers see 1024 tokens")) << line("kv_cache").formula;
  EXPECT_TRUE(line("weights").formula.contains("4 bit + 4 B for 64")) << line("weights").formula;
  EXPECT_TRUE(line("weights").source.contains("HQQ"));
}

TEST(Judge, TellsFitsTightAndDoesNotFitApart) {
  Estimate result;
  result.allocated = 50 * kTestGiB;
  result.uncertainty = 0.1;
  EXPECT_EQ(judge(result, {Bytes(80ULL << 30U)}), Fit::fits);
  EXPECT_EQ(judge(result, {Bytes(52ULL << 30U)}), Fit::tight);
  EXPECT_EQ(judge(result, {Bytes(49ULL << 30U)}), Fit::does_not_fit);
}

TEST(ExpertParallelism, WithinTensorRanksLeavesAGpuAsManyBytes) {
  const ModelFigures model = figures_of(find_model("mixtral-8x7b").value());
  const auto weights = [&](Parallelism parallel) {
    Settings settings{.task = Task::serving};
    settings.parallel = parallel;
    return estimate(model, settings)->peak_moment().at(Use::weights);
  };
  const double alone = weights({.tensor = 2});
  EXPECT_NEAR(weights({.tensor = 2, .expert = 2}), alone, 1) << "vLLM's --enable-expert-parallel";
  EXPECT_NEAR(2 * alone, 2 * model.total, 0.02 * model.total);
  // Each of eight ranks has one of eight experts, whole.
  Settings training{.task = Task::full_training, .precision = Precision::bf16};
  training.parallel = {.data = 4, .tensor = 2, .expert = 8};
  const double spread = estimate(model, training)->peak_moment().at(Use::weights);
  EXPECT_GT(8 * spread, 2 * model.total) << "together they hold the model";
  training.parallel = {.data = 4, .tensor = 2, .expert = 4};
  EXPECT_NEAR(estimate(model, training)->peak_moment().at(Use::weights), spread, 1) << "halves of twice as many";
}

}  // namespace
}  // namespace gpuwarden::planning
