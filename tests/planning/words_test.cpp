// SPDX-License-Identifier: Apache-2.0
// Spellings of published tables, and what they mean.
#include "planner/words.hpp"

#include <gtest/gtest.h>

#include "planner/models.hpp"

namespace gpuwarden::bench {
namespace {

using namespace planning;

TEST(Words, TasksAreToldByWhatTheyTrain) {
  for (const char* word : {"full", "pretrain", "Full fine-tuning", "SFT", "finetune"})
    EXPECT_EQ(task_of({.task = lower(word)}), Task::full_training) << word;
  for (const char* word : {"lora", "QLoRA", "adapter_v2", "DoRA", "prompt tuning"})
    EXPECT_EQ(task_of({.task = lower(word)}), Task::adapters) << word;
  EXPECT_EQ(task_of({.task = "inference"}), Task::inference);
  EXPECT_EQ(task_of({.task = "serving"}), Task::serving);
  EXPECT_EQ(task_of({.peft = "lora r=8"}), Task::adapters);
  EXPECT_EQ(task_of({}), Task::full_training);
}

TEST(Words, PrecisionsInTheSpellingsOfSeveralTools) {
  const auto precision = [](const char* text) { return precision_of({.precision = lower(text)}); };
  for (const char* text : {"fp32", "FP32", "float32", "32-true", "tf32"})
    EXPECT_EQ(precision(text), Precision::fp32) << text;
  for (const char* text : {"bf16", "bfloat16", "pure bf16", "bf16-true", "BF16 true", ""})
    EXPECT_EQ(precision(text), Precision::bf16) << text;
  for (const char* text : {"fp16", "float16", "16-true", "fp16 (DeepSpeed amp)"})
    EXPECT_EQ(precision(text), Precision::fp16) << text;
  for (const char* text : {"amp-bf16 over bfloat16", "bf16 autocast"})
    EXPECT_EQ(precision(text), Precision::mixed_low) << text;
  for (const char* text : {"fp32 params, bf16 FSDP2 mixed", "bf16-mixed", "16-mixed"})
    EXPECT_EQ(precision(text), Precision::mixed) << text;
}

TEST(Words, EightBitProductsAreTrainingsAlone) {
  EXPECT_EQ(fp8_of({.task = "pretrain", .precision = "fp32 params, bf16 mixed + float8"}), Fp8::matrices);
  EXPECT_EQ(fp8_of({.task = "pretrain", .precision = "float8 (fp8 all-gather)"}), Fp8::gathered);
  EXPECT_EQ(fp8_of({.task = "inference", .precision = "fp8"}), Fp8::none);
  EXPECT_EQ(fp8_of({.task = "full", .precision = "bf16"}), Fp8::none);
}

TEST(Words, OptimizersAndTheirSteps) {
  const auto optimizer = [](const char* text) { return optimizer_of({.optimizer = lower(text)}); };
  for (const char* text : {"PagedAdamW8bit", "AdamW 8-bit", "adamw_bnb_8bit"})
    EXPECT_EQ(optimizer(text), Optimizer::adamw_8bit) << text;
  EXPECT_EQ(optimizer("Adafactor"), Optimizer::adafactor);
  EXPECT_EQ(optimizer("Lion"), Optimizer::lion);
  EXPECT_EQ(optimizer("SGD"), Optimizer::sgd);
  EXPECT_EQ(optimizer("SGD momentum 0.9"), Optimizer::sgd_momentum);
  for (const char* text : {"AdamW (HF Trainer adamw_torch)", "Adam distributed optimizer", "something new", ""})
    EXPECT_EQ(optimizer(text), Optimizer::adamw) << text;
  EXPECT_EQ(step_of({.optimizer = "adamw_torch_fused"}), OptimizerStep::fused);
  EXPECT_EQ(step_of({.optimizer = "adamw in backward"}), OptimizerStep::in_backward);
  EXPECT_EQ(step_of({.optimizer = "adamw"}), OptimizerStep::foreach);
}

TEST(Words, QuantizationIsInItsColumnOrInTheModelsName) {
  const auto quant = [](const char* text) { return quantization_of({.task = "qlora", .quant = lower(text)}); };
  EXPECT_EQ(quant("nf4"), Quantization::nf4);
  EXPECT_EQ(quant("NF4+dq"), Quantization::nf4_double);
  EXPECT_EQ(quant("4bit"), Quantization::nf4);
  EXPECT_EQ(quant("GPTQ-int4"), Quantization::int4);
  EXPECT_EQ(quant("AWQ-INT4"), Quantization::int4);
  EXPECT_EQ(quant("GPTQ-Int8"), Quantization::int8);
  EXPECT_EQ(quant("FP8"), Quantization::fp8);
  EXPECT_EQ(quant("mxfp4"), Quantization::mxfp4);
  EXPECT_EQ(quant("int8 KV"), Quantization::none) << "the cache, not the weights";
  EXPECT_EQ(quant(""), Quantization::none);
  EXPECT_EQ(quantization_of({.task = "inference", .model = "llama-3.1-405b-fp8"}), Quantization::fp8);
  EXPECT_EQ(quantization_of({.task = "lora", .model = "mistral-7b-gptq"}), Quantization::int4);
  EXPECT_EQ(quantization_of({.task = "full", .model = "mistral-7b-gptq"}), Quantization::none);
}

TEST(Words, RecomputationIsFullSelectiveOrNone) {
  const auto recompute = [](const char* text) { return recompute_of({.recompute = lower(text)}); };
  for (const char* text : {"full (gradient_checkpointing)", "yes", "True", "activation checkpointing", "uniform"})
    EXPECT_EQ(recompute(text), Recompute::full) << text;
  for (const char* text : {"none", "", "no", "off", "False", "without checkpointing"})
    EXPECT_EQ(recompute(text), Recompute::none) << text;
  EXPECT_EQ(recompute("selective (per-op SAC)"), Recompute::selective);
  EXPECT_EQ(recompute("full + CPU offload of activations"), Recompute::full_offloaded);
  EXPECT_EQ(recompute("full (non-reentrant)"), Recompute::full);
}

TEST(Words, AttentionAndLossKernels) {
  EXPECT_EQ(attention_of({.attention = "eager"}), Attention::eager);
  EXPECT_EQ(attention_of({.attention = "flash_attention_2"}), Attention::flash);
  EXPECT_EQ(attention_of({.attention = "torch sdpa"}), Attention::flash);
  EXPECT_EQ(attention_of({}), Attention::flash);
  EXPECT_EQ(loss_of({.loss = "liger fused"}), LossKernel::fused_linear);
  EXPECT_EQ(loss_of({.loss = "foak triton ce"}), LossKernel::triton);
  EXPECT_EQ(loss_of({.loss = "chunked ce"}), LossKernel::chunked);
  EXPECT_EQ(loss_of({.loss = "a kernel of tomorrow"}), LossKernel::standard);
}

TEST(Words, DegreesStandBehindTheirWord) {
  EXPECT_EQ(degree("tp8 pp1 vpp2", "tp"), 8U);
  EXPECT_EQ(degree("fsdp 32, tp = 4", "tp"), 4U);
  EXPECT_EQ(degree("tp8 pp4 vpp2", "pp"), 4U) << "vpp is another word";
  EXPECT_EQ(degree("single", "tp"), 1U);
  EXPECT_EQ(degree("tp", "tp"), 1U);
}

Parallelism spread(const char* text, std::uint32_t gpus, const char* offload = "") {
  return parallelism_of({.parallelism = lower(text), .offload = lower(offload)}, gpus);
}

TEST(Words, ParallelismFromAnySpellingOfItsKind) {
  for (const char* text : {"DeepSpeed ZeRO-3", "zero3", "ZeRO stage 3", "deepspeed stage-3"})
    EXPECT_EQ(spread(text, 4).sharding, Sharding::zero3) << text;
  for (const char* text : {"FSDP FULL_SHARD x2", "fsdp", "Fully Sharded Data Parallel", "HSDP"})
    EXPECT_EQ(spread(text, 2).sharding, Sharding::fsdp1) << text;
  for (const char* text : {"FSDP2 x8", "fully_shard", "FSDP v2"})
    EXPECT_EQ(spread(text, 8).sharding, Sharding::fsdp2) << text;
  EXPECT_EQ(spread("DDP", 4).sharding, Sharding::none);
  EXPECT_EQ(spread("DDP", 4).data, 4U);
  const Parallelism titan = spread("FSDP2 8 x TP 8 x PP 8 (Interleaved 1F1B)", 512);
  EXPECT_EQ(titan.data, 8U);
  EXPECT_EQ(titan.tensor, 8U);
  EXPECT_EQ(titan.pipeline, 8U);
  EXPECT_EQ(titan.virtual_stages, 2U);
  const Parallelism unsaid = spread("FSDP2 32 x TP 8", 0);
  EXPECT_EQ(unsaid.gpus(), 256U);
  EXPECT_EQ(spread("device_map MP x2", 2).layer_stages, 2U);
}

TEST(Words, OffloadingGoesThroughDeepSpeedUnlessFsdpIsNamed) {
  EXPECT_EQ(spread("DDP", 2).offload, Offload::none);
  EXPECT_EQ(spread("single", 1, "DeepSpeed CPU").offload, Offload::all);
  EXPECT_EQ(spread("single", 1, "DeepSpeed CPU").sharding, Sharding::zero3);
  EXPECT_EQ(spread("ZeRO-2", 2, "cpu").offload, Offload::optimizer);
  EXPECT_EQ(spread("ZeRO-3", 2, "optimizer").offload, Offload::optimizer);
  EXPECT_EQ(spread("FSDP2", 2, "CPUOffload").sharding, Sharding::fsdp2);
}

TEST(Words, AdaptersByTheNamesOfTheirMatrices) {
  const auto targets = [](const char* text) { return adapters_of({.peft = lower(text)}).targets; };
  const AdapterTargets attention{.query = true, .key = true, .value = true, .output = true};
  EXPECT_EQ(targets("lora r=16 q,k,v,o"), attention);
  EXPECT_EQ(targets("q_proj k_proj v_proj o_proj"), attention);
  AdapterTargets all = attention;
  all.gate = all.up = all.down = true;
  EXPECT_EQ(targets("q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj"), all);
  EXPECT_EQ(targets("lora r=8 query,key,value,projection,mlp,head"), all);
  EXPECT_EQ(targets("lora r=32 query,value"), AdapterTargets{});
  EXPECT_EQ(targets("nothing known"), AdapterTargets{});
  EXPECT_TRUE(targets("lora r=8 DEFAULT (attn qkv)").joint_qkv);
  EXPECT_TRUE(targets("lora r=8 ALL (all linear)").down);
  const Adapters stated = adapters_of({.peft = "lora r=8 q,v; trainable 4,194,304"});
  EXPECT_EQ(stated.rank, 8U);
  EXPECT_EQ(stated.stated_parameters, 4194304U);
  EXPECT_EQ(adapters_of({.peft = "rank=64 q,v"}).rank, 64U);
  EXPECT_TRUE(adapters_of({.peft = "lora r=64 c_attn + trainable embed+lm_head"}).embeddings_trained);
}

TEST(ModelNamed, SpellingsOfKnownModelsAreTheCatalogues) {
  const auto named = [](const char* name) {
    const Result<ModelShape> model = model_named(name, 0);
    return model ? model->name : model.error().message;
  };
  EXPECT_EQ(named("Llama 2 13 B"), "meta-llama/Llama-2-13b-hf");
  EXPECT_EQ(named("meta-llama/LLAMA-2-13B"), "meta-llama/Llama-2-13b-hf");
  EXPECT_EQ(named("qwen-14b-chat (2*A100)"), "Qwen/Qwen-14B");
  EXPECT_EQ(named("Llama-2-70B-GPTQ"), "meta-llama/Llama-2-70b-hf");
  EXPECT_EQ(named("a run with Qwen3-30B-A3B in it"), "Qwen/Qwen3-30B-A3B");
  EXPECT_FALSE(model_named("nobody knows", 0));
}

TEST(ModelNamed, AKnownNameOfAnotherSizeIsAGuessOfThatSize) {
  const Result<ModelShape> model = model_named("mistral-next-70b", 70e9);
  ASSERT_TRUE(model);
  EXPECT_TRUE(model->estimated);
}

}  // namespace
}  // namespace gpuwarden::bench
